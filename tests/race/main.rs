//! How often two writes that exclude each other are both admitted: a real etcd, two API servers, three replicas of the
//! webhook whose watches are held back, and writers that race. docs/consistency.md says what the figures mean.
//!
//! Admission sees two objects and guards the write of one, so in mode `cache` this is expected. `make race` measures it
//! and prints the table; without `RACE_PAIRS` one small cell is run, which must find violations: a measurement that
//! cannot find them would say nothing with its zeros.

mod load;
#[path = "../support/markdown.rs"]
mod markdown;
mod objects;
#[path = "../support/random.rs"]
mod random;
mod replay;
mod sleeper;
#[path = "../stack/mod.rs"]
mod stack;
mod table;
mod world;

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, ensure};

use crate::{
    load::{Done, Outcome, Request},
    replay::{Change, Commit},
    table::Row,
    world::World,
};

/// How far a cell's watches lag, and how long the other webhook sleeps at most.
#[derive(Clone, Copy)]
struct Cell {
    delay: Duration,
    sleep: Duration,
}

const DELAYS: [Duration; 3] = [Duration::ZERO, Duration::from_millis(200), Duration::from_secs(2)];
const SLEEPS: [Duration; 2] = [Duration::ZERO, Duration::from_millis(500)];

#[test]
fn a_watch_that_lags_lets_writes_pass_each_other() {
    let directory = stack::directory("race").unwrap();
    let setting = |name: &str| {
        std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}")))
    };
    let seed = setting("RACE_SEED").unwrap_or(1);
    let run = || match setting("RACE_PAIRS") {
        Some(pairs) => measure(directory.path(), pairs, seed),
        None => has_power(directory.path(), seed),
    };
    if let Err(error) = run() {
        panic!("{error:#}\nlogs: {}", directory.keep().display());
    }
}

/// The whole table.
fn measure(directory: &std::path::Path, pairs: u64, seed: u64) -> Result<()> {
    let mut measurement = Measurement::start(directory, seed)?;
    let cells = DELAYS.iter().flat_map(|delay| SLEEPS.map(|sleep| Cell { delay: *delay, sleep }));
    let rows = cells.map(|cell| measurement.cell(cell, usize::try_from(pairs)?)).collect::<Result<Vec<_>>>()?;
    table::print(&rows);
    Ok(())
}

/// One cell that must find what it looks for.
fn has_power(directory: &std::path::Path, seed: u64) -> Result<()> {
    let cell = Cell { delay: Duration::from_secs(1), sleep: Duration::ZERO };
    let row = Measurement::start(directory, seed)?.cell(cell, 40)?;
    println!("{row:?}");
    ensure!(row.violations() > 0, "watches lag by a second, and no violation was found: {row:?}");
    ensure!(row.denied > 0, "no racing write was denied: {row:?}");
    ensure!(row.false_denials == 0, "false denials: {row:?}");
    Ok(())
}

/// The system, and what was committed in it so far.
struct Measurement {
    world: World,
    runtime: tokio::runtime::Runtime,
    history: Vec<Commit>,
    next_revision: u64,
    seed: u64,
}

impl Measurement {
    fn start(directory: &std::path::Path, seed: u64) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { world: World::start(directory, seed)?, runtime, history: Vec::new(), next_revision: 1, seed })
    }

    fn cell(&mut self, cell: Cell, pairs: usize) -> Result<Row> {
        self.world.delay_watches(cell.delay);
        self.world.sleeper.sleep_up_to(cell.sleep);
        let (first, marks) = (self.next_revision, self.world.marks());
        let started = std::time::Instant::now();
        let etcd = self.world.etcd();
        let done = self
            .runtime
            .block_on(async { load::run(&self.world.clients().await?, etcd, cell.delay, pairs, self.seed).await })?;
        let took = started.elapsed();
        for event in etcd.events(replay::PREFIX, first)? {
            self.next_revision = event.revision + 1;
            self.history.extend(replay::commit(&event)?);
        }
        let mut row = Row { delay: cell.delay, sleep: cell.sleep, took, ..Row::default() };
        self.count(&done, first, &mut row)?;
        row.verdicts(self.world.verdicts_since(&marks)?);
        Ok(row)
    }

    fn count(&self, done: &Done, first: u64, row: &mut Row) -> Result<()> {
        row.pairs = done.pairs.len();
        for pair in &done.pairs {
            let outcomes = pair.map(|place| &done.requests[place].outcome);
            if outcomes.iter().all(|outcome| matches!(outcome, Outcome::Admitted(_))) {
                row.admitted += 1;
            } else if outcomes.iter().any(|outcome| matches!(outcome, Outcome::Denied(_))) {
                row.denied += 1;
            } else {
                row.no_verdict += 1;
            }
        }
        let by_revision: BTreeMap<u64, &Request> = done
            .requests
            .iter()
            .filter_map(|request| match request.outcome {
                Outcome::Admitted(Some(revision)) => Some((revision, request)),
                _ => None,
            })
            .collect();
        let violations = replay::violations(&self.history);
        let mut clusters = 0;
        for violation in violations.iter().filter(|violation| violation.commit.revision >= first) {
            let revision = violation.commit.revision;
            let request = by_revision.get(&revision).with_context(|| format!("nobody wrote revision {revision}"))?;
            *row.by_operation.entry(request.operation).or_default() += 1;
            match violation.commit.change {
                Change::Cluster(..) => row.by_cluster_writes += 1,
                Change::Class(..) => row.by_class_writes += 1,
            }
            clusters += violation.clusters.len();
        }
        // Two roads to the same figure: what was answered, and what etcd holds.
        ensure!(
            clusters == row.admitted,
            "{} racing pairs were admitted, and {clusters} Clusters got outside of their classes' lists",
            row.admitted
        );
        let denied: Vec<_> = done
            .requests
            .iter()
            .filter_map(|request| match &request.outcome {
                Outcome::Denied(text) => Some((request.asked.clone(), text)),
                _ => None,
            })
            .collect();
        let (asked, texts): (Vec<_>, Vec<_>) = denied.into_iter().unzip();
        row.denials = asked.len();
        let legal = replay::legal_throughout(&self.history, &asked);
        for (_, (asked, text)) in legal.iter().zip(asked.iter().zip(texts)).filter(|(legal, _)| **legal) {
            row.false_denials += 1;
            println!("false denial between revisions {} and {}: {text}", asked.from, asked.to);
        }
        let errors = done.requests.iter().filter_map(|request| match &request.outcome {
            Outcome::NoVerdict(text) => Some(text),
            _ => None,
        });
        for text in errors {
            row.errors += 1;
            if row.errors <= 3 {
                println!("no verdict: {text}");
            }
        }
        Ok(())
    }
}
