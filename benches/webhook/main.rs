//! `make bench`: what a review costs, as ratios against a server that judges nothing.
//!
//! Machines differ and are noisy, so every figure is measured beside its baseline, request by request or second by
//! second, in one run: an actix TLS handler of the same settings that reads the whole body and answers fixed bytes. Targets
//! are printed, never asserted. `cargo bench --bench webhook -- reviews users connections fleet` runs some parts only.
#![allow(missing_docs, dead_code, reason = "nobody depends on a bench, and it uses a part of the tests' modules")]

#[path = "../../tests/support/markdown.rs"]
mod markdown;
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

fn main() {
    let _awake = process::keep_awake().unwrap();
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
