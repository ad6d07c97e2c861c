#!/usr/bin/env bash
# Builds an oracle of one release of Cluster API, once per machine, and prints the path of the program.
#
# Usage: build.sh <release> [<program>]
#   <release>  one of the module files beside this script, such as v1.14.2
#   <program>  planner (the default), or webhooks, whose package Cluster API exports from 1.14 on
#
# To follow a new release: put its module file here (<release>.mod and .sum, made by
# `go get sigs.k8s.io/cluster-api@<release> && go mod tidy`), and name it in tests/fidelity/plans.rs.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here"
say() { echo "build.sh: $*" >&2; }
release=${1:?usage: build.sh <release> [<program>]}
program=${2:-planner}
[[ -f $release.mod ]] || { say "there is no $release.mod; known are: $(ls -- *.mod | grep -v '^go.mod$' | sed 's/.mod$//' | xargs)"; exit 2; }
[[ -f $program/main.go ]] || { say "there is no program $program"; exit 2; }

key=$(cat lines.go "$program/main.go" build.sh "$release.mod" "$release.sum" | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/capi-version-guard/oracle
built=$cache/$release-$program-$key
if [[ ! -x $built ]]; then
  command -v go >/dev/null || {
    say "Go is needed to build Cluster API's own functions for the tests, and it is not on the PATH; install it from https://go.dev/dl"
    exit 1
  }
  mkdir -p "$cache"
  # Two test runs at the same time build once.
  exec 9>"$cache/lock-$release-$program"
  flock 9
  if [[ ! -x $built ]]; then
    say "building the $program oracle of Cluster API $release; the first time takes some minutes ..."
    # -mod=mod may rewrite the module file; the one here stays as it is.
    work=$(mktemp -d "$cache/build.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    cp lines.go "$program/main.go" go.mod "$work"
    cp "$release.mod" "$work/release.mod"
    cp "$release.sum" "$work/release.sum"
    (cd "$work" && CGO_ENABLED=0 go build -mod=mod -modfile=release.mod -trimpath -ldflags=-s -o program .)
    mv "$work/program" "$built"
  fi
fi
echo "$built"
