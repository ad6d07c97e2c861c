//! The way of a user: `kubectl patch`, with neither webhook installed, with each alone, and with both.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{
    figures::p50_p99,
    fleet::{self, World},
    installed, markdown,
    peer::Pair,
    stack::install::{self, Replica, Role},
    system::api,
};

const ROUNDS: usize = 2;
/// Of each kind, in a round.
const CLUSTER_PATCHES: usize = 15;
const CLASS_PATCHES: usize = 2;
/// Ours, theirs.
const INSTALLED: [[bool; 2]; 4] = [[false, false], [true, false], [false, true], [true, true]];

pub fn run(world: &World, pair: &Pair) -> Result<()> {
    let guard = Replica { port: world.webhook.port, role: Role::Guard };
    install::webhook_configurations(&world.control_plane, &[guard])?;
    let (ours, theirs): (Vec<_>, Vec<_>) =
        installed::all(world)?.into_iter().partition(|item| item["metadata"]["name"] == "capi-version-guard");
    ensure!(!ours.is_empty() && !theirs.is_empty(), "a side is not installed");
    let mut times: [[Vec<f64>; 2]; 4] = Default::default();
    // Each is patched once: the next version of a Cluster that is still on its way would be refused.
    let mut clusters =
        (1..world.clusters.min(fleet::ASKED_ABOUT)).filter(|n| n % fleet::VERSIONS + 1 < fleet::VERSIONS);
    for _ in 0..ROUNDS {
        for (wanted, times) in INSTALLED.iter().zip(&mut times) {
            install(world, &ours, &theirs, *wanted)?;
            pair.theirs.rest();
            for _ in 0..CLUSTER_PATCHES {
                let n = clusters.next().context("too few Clusters")?;
                let patch =
                    json!({"spec": {"topology": {"version": fleet::version(n % fleet::VERSIONS + 1)}}}).to_string();
                times[0].push(patched(world, "cluster", &fleet::namespace(n), &fleet::name(n), &patch)?);
            }
            for n in 0..CLASS_PATCHES {
                // One version more, then again as it was.
                let versions: Vec<_> = (0..=fleet::VERSIONS - n % 2).map(fleet::version).collect();
                let patch = json!({"spec": {"kubernetesVersions": versions}}).to_string();
                // Whoever changes a class gives the manager work to do with all its Clusters.
                pair.theirs.rest();
                times[1].push(patched(world, "clusterclass", &fleet::namespace(0), fleet::CLASS, &patch)?);
            }
        }
    }
    let mut rows =
        vec![["kubectl patch, median / slowest", "neither", "ours", "Cluster API's", "both"].map(ToOwned::to_owned)];
    for (at, what) in ["version of a Cluster", "list of their ClusterClass"].iter().enumerate() {
        let cell = |times: &[Vec<f64>; 2]| {
            let slowest = times[at].iter().copied().fold(0.0, f64::max);
            format!("{:.0} / {:.0} ms", p50_p99(times[at].clone()).0, slowest)
        };
        let [neither, ours, theirs, both] = times.each_ref().map(cell);
        rows.push([(*what).to_owned(), neither, ours, theirs, both]);
    }
    println!("\n{}", markdown::table(&rows));
    Ok(())
}

/// Runs `kubectl patch`; the milliseconds that it took.
fn patched(world: &World, kind: &str, namespace: &str, name: &str, patch: &str) -> Result<f64> {
    let start = Instant::now();
    world.control_plane.kubectl(&["patch", kind, name, "-n", namespace, "--type=merge", "-p", patch])?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

/// Leaves only what is wanted of ours and theirs, and waits until the API server knows.
fn install(world: &World, ours: &[Value], theirs: &[Value], wanted: [bool; 2]) -> Result<()> {
    for (configurations, wanted) in [ours, theirs].into_iter().zip(wanted) {
        installed::delete(world, configurations)?;
        if wanted {
            installed::create(world, configurations)?;
        }
    }
    let start = Instant::now();
    let mut in_a_row = 0;
    while in_a_row < 5 {
        let called = called(world)?;
        ensure!(start.elapsed() < Duration::from_secs(30), "{called:?} are called where {wanted:?} should be");
        in_a_row = if called == [wanted[0], wanted[1], wanted[1]] { in_a_row + 1 } else { 0 };
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Whether ours, their validating and their mutating webhook are called, seen by dry runs on which only one has a word.
fn called(world: &World) -> Result<[bool; 3]> {
    let dry_run = async |path: String, change: Value| world.api.merge(&format!("{path}?dryRun=All"), &change).await;
    let cluster = || api::cluster_path(&fleet::namespace(0), &fleet::name(0));
    world.runtime.block_on(async {
        // Cluster API takes a class without a list for one that allows everything, and says nothing.
        let class = api::class_path(&fleet::namespace(0), fleet::CLASS);
        let no_list = dry_run(class, json!({"spec": {"kubernetesVersions": null}})).await?;
        let ours = no_list.warnings.iter().any(|warning| warning.contains("list-removed"));
        // This project's webhook is not asked about annotations.
        let concurrency = json!({"metadata": {"annotations": {"topology.cluster.x-k8s.io/upgrade-concurrency": "0"}}});
        let validating = !dry_run(cluster(), concurrency).await?.is_ok();
        let without_v = json!({"spec": {"topology": {"version": fleet::version(0).trim_start_matches('v')}}});
        let defaulted = dry_run(cluster(), without_v).await?;
        let mutating = defaulted.body["spec"]["topology"]["version"] == json!(fleet::version(0));
        Ok([ours, validating, mutating])
    })
}
