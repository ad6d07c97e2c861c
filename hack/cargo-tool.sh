#!/usr/bin/env bash
# Installs a cargo tool once per machine into the user's cache directory, and prints the path of its program.
#
# Usage: cargo-tool.sh <crate> <version>
set -euo pipefail

crate=${1:?usage: cargo-tool.sh <crate> <version>}
version=${2:?usage: cargo-tool.sh <crate> <version>}
root=${XDG_CACHE_HOME:-$HOME/.cache}/capi-version-guard/$crate-$version
if [[ ! -x $root/bin/$crate ]]; then
  echo "cargo-tool.sh: building $crate $version; the first time takes some minutes ..." >&2
  # Not into this package's target directory, where it would rebuild half of it.
  CARGO_TARGET_DIR=$root/target cargo install "$crate" --quiet --locked --version "$version" --root "$root" >&2
  rm -rf "$root/target"
fi
echo "$root/bin/$crate"
