#!/usr/bin/env bash
# Builds the oracle of one release of Cluster API, once per machine, and prints the path of the program.
#
# Usage: build.sh <release>   (one of the module files beside this script, such as v1.14.2)
#
# To follow a new release: put its module file here (<release>.mod and .sum, made by
# `go get sigs.k8s.io/cluster-api@<release> && go mod tidy`), and name it in tests/fidelity.rs.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here"
say() { echo "build.sh: $*" >&2; }
release=${1:?usage: build.sh <release>}
[[ -f $release.mod ]] || { say "there is no $release.mod; known are: $(ls -- *.mod | grep -v '^go.mod$' | sed 's/.mod$//' | xargs)"; exit 2; }

key=$(cat main.go build.sh "$release.mod" "$release.sum" | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/capi-version-guard/oracle
program=$cache/$release-$key
if [[ ! -x $program ]]; then
  command -v go >/dev/null || {
    say "Go is needed to build Cluster API's own functions for the tests, and it is not on the PATH; install it from https://go.dev/dl"
    exit 1
  }
  mkdir -p "$cache"
  # Two test runs at the same time build once.
  exec 9>"$cache/lock-$release"
  flock 9
  if [[ ! -x $program ]]; then
    say "building the oracle of Cluster API $release; the first time takes some minutes ..."
    # -mod=mod may rewrite the module file; the one here stays as it is.
    work=$(mktemp -d "$cache/build.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    cp main.go go.mod "$work"
    cp "$release.mod" "$work/release.mod"
    cp "$release.sum" "$work/release.sum"
    (cd "$work" && CGO_ENABLED=0 go build -mod=mod -modfile=release.mod -trimpath -ldflags=-s -o program .)
    mv "$work/program" "$program"
  fi
fi
echo "$program"
