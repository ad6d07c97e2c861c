//! The promise, read as a story: the real Cluster API upgrades Clusters hop by hop, with this project's webhook beside its own.
//!
//! Everything is real but the machines: see `system/providers.rs` for what is simulated. It runs in a network namespace that
//! has only `lo`. If it cannot be set up, or a program cannot be built, the test fails.
#![allow(missing_docs, reason = "nobody depends on a test")]

mod chain;
#[path = "../../stack/mod.rs"]
mod stack;
mod system;

use std::{process::ExitCode, sync::Arc};

use anyhow::Result;
use libtest_mimic::{Arguments, Failed, Trial};

use crate::{
    stack::directory,
    system::{
        System,
        extension::Extension,
        manager::{self, Options, Release},
        network,
    },
};

/// What all tests share.
struct World {
    system: System,
    extension: Extension,
}

type Test = (&'static str, fn(&World) -> Result<()>);

const TESTS: &[Test] = &[
    ("a Cluster climbs from v1.30 to v1.33 hop by hop", chain::three_hops),
    ("workers step when the skew needs it, from v1.30 to v1.35", chain::five_hops_with_workers),
];

fn main() -> ExitCode {
    run_all().unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run_all() -> Result<ExitCode> {
    let arguments = Arguments::from_args();
    if arguments.list {
        let trials = TESTS.iter().map(|(name, _)| Trial::test(*name, || Ok(())));
        return Ok(libtest_mimic::run(&arguments, trials.collect()).exit_code());
    }
    // Both builds need the network.
    let release = Release::build(manager::NEWEST)?;
    stack::control_plane::programs()?;
    if !network::is_own() {
        return network::run_inside();
    }
    let directory = directory("capi")?;
    let system = System::start(directory.path(), &release, Options { runtime_sdk: true }, None, Vec::new())?;
    let extension = Extension::start(&system.control_plane)?;
    let world = Arc::new(World { system, extension });
    let trials = TESTS.iter().map(|(name, test)| {
        let world = Arc::clone(&world);
        Trial::test(*name, move || test(&world).map_err(|error| Failed::from(format!("{error:#}"))))
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    if conclusion.has_failed() {
        eprintln!("logs: {}", directory.keep().display());
    }
    Ok(conclusion.exit_code())
}
