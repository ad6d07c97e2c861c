//! The promise in numbers: what we admit, the installed Cluster API can carry out; what we deny, it could not.
//!
//! Random sequences of user writes and of what providers do run against the real Cluster API manager, with this project's
//! webhook beside its own. Behind an admitted write no Cluster may be stuck when the providers are healthy and nobody writes any
//! more (else it is a *trap*). A denied write is tried in a twin namespace that is not guarded: if Cluster API takes it and
//! carries it out, it was a *false denial*. See docs/promise.md.
//!
//! PROMISE_WITHOUT=<rule> switches a rule of ours off, PROMISE_PRINT=1 shows the sequences of the seeds and runs none.
//!
//! `make test` runs the sequences that are named in tests/cases/promise and some seeds; `make promise` runs more.
#![allow(missing_docs, reason = "nobody depends on a test")]

mod fixed;
mod generate;
#[path = "../support/markdown.rs"]
mod markdown;
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

use std::{env, ops::Range, pin::pin, process::ExitCode};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, stream};
use tempfile::TempDir;

use crate::{
    oracle::Report,
    sequence::Sequence,
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
    stack::trials::exit(run_all())
}

fn run_all() -> Result<ExitCode> {
    let number = |name: &str| -> Result<Option<u64>> {
        let Ok(text) = env::var(name) else { return Ok(None) };
        text.parse().map(Some).with_context(|| format!("{name} is no number: {text}"))
    };
    let count = number("PROMISE_SEQUENCES")?;
    ensure!(count != Some(0), "PROMISE_SEQUENCES is 0: nothing would be tried");
    let seed = number("PROMISE_SEED")?.unwrap_or(1);
    let end =
        seed.checked_add(count.unwrap_or(1)).context("PROMISE_SEED and PROMISE_SEQUENCES are too large together")?;
    if env::var_os("PROMISE_PRINT").is_some() {
        for seed in seed..end {
            println!("{seed} {}", serde_json::to_string(&generate::sequence(seed))?);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let newest = || manager::NEWEST.to_owned();
    let version =
        env::var("PROMISE_CAPI").map_or_else(|_| newest(), |version| format!("v{}", version.trim_start_matches('v')));
    // Both builds need the network.
    let release = Release::build(&version)?;
    stack::control_plane::programs()?;
    if !network::is_own() {
        return network::run_inside();
    }
    let off = env::var("PROMISE_WITHOUT").ok();
    match count {
        Some(_) => many(&release, seed..end, off),
        None => fixed::run(&release),
    }
}

/// `make promise`: the sequences of `seeds`, but for those that this build has run already.
fn many(release: &Release, seeds: Range<u64>, off: Option<String>) -> Result<ExitCode> {
    let without = off.as_ref().map(|rule| format!("-without-{rule}")).unwrap_or_default();
    let mut kept = Kept::open(&format!("{}{without}", release.version))?;
    for runtime_sdk in [true, false] {
        let mine = seeds.clone().filter(|seed| (seed % 2 == 0) == runtime_sdk);
        let todo: Vec<_> = mine.filter(|seed| !kept.reports.contains_key(seed)).collect();
        for batch in todo.chunks(BATCH) {
            let system = Guarded::start(release, Setting { runtime_sdk, off: off.clone(), told: None })?;
            system.run_seeds(batch, |seed, report| {
                eprintln!("seed {seed}: {} writes in {:.1} s", report.writes, report.seconds);
                kept.add(seed, report)
            })?;
        }
    }
    let (sequences, all) = tally::sum(seeds.filter_map(|seed| kept.reports.get(&seed)));
    for (what, faults) in [("trap", &all.traps), ("false denial", &all.false_denials)] {
        for fault in faults {
            println!("{what}: {}\n  {}\n", fault.why, serde_json::to_string(&fault.sequence)?);
        }
    }
    println!("{}", tally::tables(sequences, &all));
    Ok(if all.traps.is_empty() && all.false_denials.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How the system is set up.
#[derive(Clone)]
struct Setting {
    /// The gate of the manager, which our configuration says too.
    runtime_sdk: bool,
    /// A rule of ours that is switched off.
    off: Option<String>,
    /// The release that we are told, if it is not the one that runs.
    told: Option<&'static str>,
}

impl Default for Setting {
    fn default() -> Self {
        Self { runtime_sdk: true, off: None, told: None }
    }
}

/// The running system, and what our webhook says in it.
struct Guarded {
    system: System,
    verdicts: Verdicts,
    directory: Option<TempDir>,
}

impl Guarded {
    fn start(release: &Release, setting: Setting) -> Result<Self> {
        let directory = stack::directory("promise")?;
        let mut config = format!("runtimeSDK: {}\n", setting.runtime_sdk);
        if let Some(rule) = setting.off {
            config += &format!("rules:\n  {rule}: off\n");
        }
        let args = setting.told.map(|told| format!("--cluster-api-version={told}"));
        let options = Options { runtime_sdk: setting.runtime_sdk };
        let system = System::start(directory.path(), release, options, Some(&config), args.into_iter().collect())?;
        let verdicts = Verdicts::of(system.webhook.log());
        Ok(Self { system, verdicts, directory: Some(directory) })
    }

    /// Runs the sequences of `seeds`, some at once, and hands each report out as it comes.
    fn run_seeds(self, seeds: &[u64], report: impl FnMut(u64, Report) -> Result<()>) -> Result<()> {
        self.run_all(seeds.iter().map(|seed| (*seed, generate::sequence(*seed))), report)
    }

    /// Runs sequences, some at once, and hands each report out as it comes.
    fn run_all(
        mut self,
        sequences: impl IntoIterator<Item = (u64, Sequence)>,
        mut report: impl FnMut(u64, Report) -> Result<()>,
    ) -> Result<()> {
        let done = self.system.handle.clone().block_on(async {
            let sequences = stream::iter(sequences).map(async |(number, sequence)| {
                let report = oracle::judge(&self.system, &self.verdicts, &format!("s{number}"), &sequence).await;
                let text = || format!("sequence {number}: {}", serde_json::to_string(&sequence).unwrap_or_default());
                anyhow::Ok((number, report.with_context(text)?))
            });
            let mut reports = pin!(sequences.buffer_unordered(PARALLEL));
            while let Some(done) = reports.next().await {
                let (number, done) = done?;
                report(number, done)?;
            }
            anyhow::Ok(())
        });
        if done.is_err() {
            self.keep_logs();
        }
        done
    }

    fn keep_logs(&mut self) {
        if let Some(directory) = self.directory.take() {
            eprintln!("logs: {}", directory.keep().display());
        }
    }
}
