//! Cluster API's own functions against ours: random cases, every answer compared. docs/fidelity.md says what and how.
//!
//! `FIDELITY_CASES` sets the number of plans per release (`make fidelity CASES=1000000`), `FIDELITY_PAIRS` that of
//! admissions, `FIDELITY_SEED` the seed. The oracles are built by `tests/oracle/build.sh`; if that fails, the test fails.

#[path = "../support/oracle.rs"]
mod oracle;

mod ask;
mod plans;
mod random;
mod table;
mod versions;
mod webhooks;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}")))
}
