//! `make bench`: what a review costs, as ratios against a server that judges nothing.
//!
//! Machines differ and are noisy, so every figure is measured beside its baseline, request by request or second by
//! second, in one run: an actix TLS handler of the same settings that reads the whole body and answers fixed bytes. Targets
//! are printed, never asserted. `cargo bench --bench webhook -- reviews users connections fleet` runs some parts only.
#![allow(missing_docs, dead_code, reason = "nobody depends on a bench, and it uses a part of the tests' modules")]

#[path = "../../tests/stack/mod.rs"]
mod stack;

mod baseline;
mod client;
mod fleet;
mod parts;
mod reviews;
mod table;

use stack::process;
use table::Table;

/// Keeps the processors from idling. On virtual machines it takes longer to wake an idle one than to answer a review, and
/// whether one idles between two requests turns on a few microseconds: that would be measured, not the servers. The
/// lowest priority leaves the time to whoever wants it.
fn keep_awake() -> Vec<process::Process> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let spin = ["-n", "19", "sh", "-c", "while :; do :; done"].map(ToOwned::to_owned);
    let log = std::env::temp_dir().join("capi-version-guard-bench.log");
    let one = |_| process::Process::start("a spinner", "nice".as_ref(), &spin, &[], &log).unwrap();
    (0..cores).map(one).collect()
}

fn main() {
    let _awake = keep_awake();
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let on = |part: &str| wanted.is_empty() || wanted.iter().any(|word| word == part);
    let mut table = Table::default();
    if on("reviews") || on("connections") {
        let ours = baseline::serve_ours(1_000);
        let fixed = baseline::serve_fixed();
        if on("reviews") {
            parts::reviews(&mut table, ours, fixed);
        }
        if on("connections") {
            parts::new_connections(&mut table, ours, fixed);
        }
    }
    if on("users") {
        parts::users(&mut table);
    }
    if on("fleet") {
        fleet::run(&mut table);
    }
    table.print();
}
