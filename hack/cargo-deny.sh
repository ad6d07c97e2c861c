#!/usr/bin/env bash
# Runs cargo-deny.
set -euo pipefail

program=$("$(dirname "${BASH_SOURCE[0]}")/cargo-tool.sh" cargo-deny 0.20.2)
exec "$program" "$@"
