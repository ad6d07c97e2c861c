//! The promise, read as a story: the real Cluster API upgrades Clusters hop by hop, with this project's webhook beside its own.
//!
//! Everything is real but the machines: see `system/providers.rs` for what is simulated. It runs in a network namespace that
//! has only `lo`. If it cannot be set up, or a program cannot be built, the test fails.
#![allow(missing_docs, reason = "nobody depends on a test")]

mod chain;
mod clients;
mod deletion;
mod gitops;
mod history;
mod restore;
#[path = "../../stack/mod.rs"]
mod stack;
mod story;
mod system;

use std::{process::ExitCode, sync::Arc};

use anyhow::Result;
use libtest_mimic::{Arguments, Failed, Trial};

use crate::{
    stack::{
        directory,
        install::{self, Replica, Role},
        trials,
        webhook::Webhook,
    },
    story::WITNESSED,
    system::{
        EXEMPT, System,
        extension::Extension,
        manager::{self, Options, Release},
        network,
    },
};

/// What all tests share.
struct World {
    /// A second replica of this project's webhook, which is asked about every write.
    witness: Webhook,
    system: System,
    extension: Extension,
}

type Test = (&'static str, fn(&World) -> Result<()>);

const TESTS: &[Test] = &[
    ("a Cluster climbs from v1.30 to v1.33 hop by hop", chain::three_hops),
    ("workers step when the skew needs it, from v1.30 to v1.35", chain::five_hops_with_workers),
    ("clients of v1beta1 and v1beta2 get the same verdicts in the same words", clients::same_verdicts),
    ("a settled Cluster moves elsewhere", restore::settled_cluster_moves),
    ("a Cluster moves elsewhere in the middle of a chain", restore::cluster_moves_in_the_middle_of_a_chain),
    ("a backup is restored with the Clusters before their classes", restore::clusters_before_classes),
    ("the same backup without the webhook locks its Cluster", restore::clusters_before_classes_unguarded),
    ("manifests are applied again to a settled Cluster", gitops::settled),
    ("manifests are applied again to a Cluster in the middle of a chain", gitops::in_the_middle_of_a_chain),
    ("manifests are applied again to a Cluster in a trap", gitops::trapped),
    ("manifests are applied again to a Cluster outside of its class's list", gitops::unlisted),
    ("Clusters are deleted in every state, with the webhook as without it", deletion::every_state),
];

fn main() -> ExitCode {
    trials::exit(run_all())
}

fn run_all() -> Result<ExitCode> {
    let mut arguments = Arguments::from_args();
    // More than there are cores: most of a test's time is waiting for controllers.
    arguments.test_threads.get_or_insert(6);
    if arguments.list {
        return Ok(trials::list(&arguments, TESTS.iter().map(|(name, _)| (*name).to_owned())));
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
    let mut witness = Webhook::new("witness", &system.control_plane, None)?;
    witness.start(&system.control_plane)?;
    let role = Role::Witness { user: EXEMPT, label: WITNESSED };
    install::webhook_configurations(&system.control_plane, &[Replica { port: witness.port, role }])?;
    let world = Arc::new(World { witness, system, extension });
    let trials = TESTS.iter().map(|(name, test)| {
        let world = Arc::clone(&world);
        Trial::test(*name, move || test(&world).map_err(|error| Failed::from(format!("{error:#}"))))
    });
    Ok(trials::run(&arguments, trials, directory))
}
