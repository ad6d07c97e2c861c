#!/usr/bin/env bash
# Runs .ci/run in a fresh clone with empty caches: what a new machine would see. Shows missing install steps.
set -euo pipefail

top=$(git rev-parse --show-toplevel)
work=$(mktemp -d "${TMPDIR:-/tmp}/capi-version-guard-cold.XXXXXX")
# Go makes its module cache read-only.
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

git clone --quiet "$top" "$work/clone"
mkdir -p "$work/cargo"
# Which registries are used is the machine's business, not a cache.
for file in config.toml config credentials.toml; do
  if [[ -f ${CARGO_HOME:-$HOME/.cargo}/$file ]]; then
    cp "${CARGO_HOME:-$HOME/.cargo}/$file" "$work/cargo/"
  fi
done
cd "$work/clone"
env -u CARGO_TARGET_DIR CARGO_HOME="$work/cargo" XDG_CACHE_HOME="$work/cache" GOPATH="$work/go" GOCACHE="$work/go-build" \
  CI=true bash .ci/run </dev/null
