//! The promise in numbers: what we admit, the installed Cluster API can carry out; what we deny, it could not.
//!
//! Random sequences of user writes and of what providers do run against the real Cluster API manager, with this project's
//! webhook beside its own. Behind an admitted write no Cluster may be stuck when the providers are healthy and nobody writes any
//! more (else it is a *trap*). A denied write is tried in a twin namespace that is not guarded: if Cluster API takes it and
//! carries it out, it was a *false denial*. See docs/promise.md.
//!
//! `make test` runs the sequences that are named in tests/cases/promise and some seeds; `make promise` runs more.
#![allow(missing_docs, reason = "nobody depends on a test")]

mod generate;
mod oracle;
#[path = "../support/random.rs"]
mod random;
mod run;
mod sequence;
#[path = "../stack/mod.rs"]
mod stack;
#[path = "../e2e/capi/system/mod.rs"]
mod system;
mod tally;
mod verdicts;

use std::{env, process::ExitCode, sync::Arc};

use anyhow::{Context, Result};
use futures::{StreamExt, stream};

use crate::{
    oracle::Report,
    system::{
        System,
        manager::{self, Options, Release},
        network,
    },
    tally::Kept,
    verdicts::Verdicts,
};

/// Sequences under way at once.
const PARALLEL: usize = 20;

/// After so many sequences everything is started anew, so that what they leave behind does not pile up.
const BATCH: usize = 200;

fn main() -> ExitCode {
    // RUST_LOG=promise=debug tells every step.
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    run_all().unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run_all() -> Result<ExitCode> {
    let number = |name: &str| -> Result<Option<u64>> {
        let Ok(text) = env::var(name) else { return Ok(None) };
        text.parse().map(Some).with_context(|| format!("{name} is no number: {text}"))
    };
    let count = number("PROMISE_SEQUENCES")?.unwrap_or(20);
    let seed = number("PROMISE_SEED")?.unwrap_or(1);
    let version = env::var("PROMISE_CAPI")
        .map_or(manager::NEWEST.to_owned(), |version| format!("v{}", version.trim_start_matches('v')));
    // Both builds need the network.
    let release = Release::build(&version)?;
    stack::control_plane::programs()?;
    if !network::is_own() {
        return network::run_inside();
    }
    let mut kept = Kept::open(&version)?;
    let seeds: Vec<_> = (seed..seed + count).collect();
    for runtime_sdk in [true, false] {
        let todo: Vec<_> = seeds
            .iter()
            .copied()
            .filter(|seed| (seed % 2 == 0) == runtime_sdk)
            .filter(|seed| !kept.reports.contains_key(&(*seed, runtime_sdk)))
            .collect();
        for batch in todo.chunks(BATCH) {
            for (seed, report) in run_batch(&release, runtime_sdk, batch)? {
                for fault in &report.traps {
                    println!("seed {seed}: TRAP {} {}", fault.why, serde_json::to_string(&fault.sequence)?);
                }
                for fault in &report.false_denials {
                    println!("seed {seed}: FALSE DENIAL {} {}", fault.why, serde_json::to_string(&fault.sequence)?);
                }
                kept.add(seed, runtime_sdk, report)?;
            }
        }
    }
    let mine = kept.reports.iter().filter(|((at, _), _)| seeds.contains(at)).map(|(_, report)| report);
    let (sequences, all) = tally::sum(mine);
    println!("{}", tally::table(sequences, &all));
    let kept_promise = all.traps.is_empty() && all.false_denials.is_empty();
    Ok(if kept_promise { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the sequences of some seeds on a fresh system.
fn run_batch(release: &Release, runtime_sdk: bool, seeds: &[u64]) -> Result<Vec<(u64, Report)>> {
    let directory = stack::directory("promise")?;
    let config = (!runtime_sdk).then_some("runtimeSDK: false\n");
    let system = Arc::new(System::start(directory.path(), release, Options { runtime_sdk }, config)?);
    let verdicts = Verdicts::of(system.webhook.log());
    let start = std::time::Instant::now();
    let reports = system.handle.block_on(async {
        stream::iter(seeds.iter().copied())
            .map(async |seed| {
                let sequence = generate::sequence(seed);
                let report = oracle::judge(&system, &verdicts, &format!("s{seed}"), &sequence).await;
                let report = report.with_context(|| {
                    format!("seed {seed}: {}", serde_json::to_string(&sequence).unwrap_or_default())
                })?;
                eprintln!("seed {seed}: {} writes, {:.1} s", report.writes, report.seconds);
                anyhow::Ok((seed, report))
            })
            .buffer_unordered(PARALLEL)
            .collect::<Vec<_>>()
            .await
    });
    eprintln!("{} sequences in {:.1} s", seeds.len(), start.elapsed().as_secs_f32());
    let reports: Result<Vec<_>> = reports.into_iter().collect();
    if reports.is_err() {
        eprintln!("logs: {}", directory.keep().display());
    }
    reports
}
