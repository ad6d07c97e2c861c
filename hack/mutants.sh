#!/usr/bin/env bash
# The mutation check: does a test notice every small change of version.rs, planner/ and rules/? What to mutate, and which
# survivors are explained, stands in .cargo/mutants.toml. It takes hours; stopped, it goes on where it was.
#
# Usage: mutants.sh [arguments of cargo mutants, such as -f src/version.rs]
set -euo pipefail

version=27.1.0
root=${XDG_CACHE_HOME:-$HOME/.cache}/capi-version-guard/cargo-mutants-$version
if [[ ! -x $root/bin/cargo-mutants ]]; then
  echo "mutants.sh: building cargo-mutants $version; the first time takes some minutes ..." >&2
  CARGO_TARGET_DIR=$root/target cargo install cargo-mutants --quiet --locked --version "$version" --root "$root"
  rm -rf "$root/target"
fi
# Each mutant is built and thrown away, so nobody needs it to be debuggable.
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0
exec "$root/bin/cargo-mutants" mutants --iterate --output target --colors never "$@"
