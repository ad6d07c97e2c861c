// The releases' own module files are chosen by -modfile; see build.sh.
module capi-version-guard.io/oracle
