#!/usr/bin/env bash
# Runs cargo-deny, which it installs once per machine into the user's cache directory.
set -euo pipefail

version=0.20.2
root=${XDG_CACHE_HOME:-$HOME/.cache}/capi-version-guard/cargo-deny-$version
if [[ ! -x $root/bin/cargo-deny ]]; then
  echo "cargo-deny.sh: building cargo-deny $version; the first time takes some minutes ..." >&2
  # Not into this package's target directory, where it would rebuild half of it.
  CARGO_TARGET_DIR=$root/target cargo install cargo-deny --quiet --locked --version "$version" --root "$root"
  rm -rf "$root/target"
fi
exec "$root/bin/cargo-deny" "$@"
