#!/usr/bin/env bash
# The mutation check: does a test notice every small change of version.rs, planner/ and rules/? What to mutate, and which
# survivors are explained, stands in .cargo/mutants.toml. It takes hours; stopped, it goes on where it was.
#
# Usage: mutants.sh [arguments of cargo mutants, such as -f src/version.rs]
set -euo pipefail

program=$("$(dirname "${BASH_SOURCE[0]}")/cargo-tool.sh" cargo-mutants 27.1.0)
# Each mutant is built and thrown away, so nobody needs it to be debuggable.
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0
exec "$program" mutants --iterate --output target --colors never "$@"
