//! `make bench-peer`: this project's webhook and Cluster API's own, on the same API server with the same 10,000 Clusters.
//!
//! What a webhook costs differs between machines, so both are asked in turn, call by call, in one run. Goals are printed,
//! never asserted. Both are processes of their own, so that their processor time and memory are their own; the manager's
//! hold its controllers too, which is why what it uses when nobody asks is measured and subtracted.
//!
//! All Clusters are paused, so that the manager has nothing to do but answer. The control planes are objects of a simulated
//! kind that nobody acts on.
#![allow(missing_docs, dead_code, reason = "nobody depends on a bench, and it uses a part of the tests' modules")]

#[path = "../webhook/client.rs"]
mod client;
#[path = "../webhook/table.rs"]
mod figures;
#[path = "../../tests/support/markdown.rs"]
mod markdown;
#[path = "../../tests/stack/mod.rs"]
mod stack;
#[path = "../../tests/e2e/capi/system/mod.rs"]
mod system;

mod calls;
mod fleet;
mod installed;
mod kubectl;
mod peer;
mod reviews;
mod table;

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::{
    fleet::World,
    peer::Pair,
    system::{
        manager::{NEWEST, Release},
        network,
    },
    table::Table,
};

/// Says what takes so long.
fn progress(what: &str) {
    eprintln!("bench-peer: {what} ...");
}

fn main() -> ExitCode {
    stack::trials::exit(run())
}

fn run() -> Result<ExitCode> {
    // Both builds need the network.
    let release = Release::build(NEWEST)?;
    stack::control_plane::programs()?;
    if !network::is_own() {
        return network::run_inside();
    }
    // A smaller fleet is for trying the bench.
    let clusters =
        std::env::var("CLUSTERS").map_or(Ok(10_000), |text| text.parse()).context("failed to parse CLUSTERS")?;
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let on = |part: &str| wanted.is_empty() || wanted.iter().any(|word| word == part);
    let directory = stack::directory("peer")?;
    let mut world = World::start(directory.path(), &release, clusters)?;
    let _awake = stack::process::keep_awake()?;
    let mut table = Table::default();
    progress("starting both webhooks, some times");
    let pair = Pair::start(&mut world, &mut table)?;
    if on("calls") {
        progress("calling both in turn");
        calls::run(&world, &pair, &mut table)?;
    }
    table.print();
    if on("kubectl") {
        progress("patching by kubectl");
        kubectl::run(&world, &pair)?;
    }
    Ok(ExitCode::SUCCESS)
}
