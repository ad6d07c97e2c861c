//! `make test`: named sequences, some seeds, and whether all this would find a fault.

use std::{fs, path::Path, process::ExitCode};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;

use crate::{
    Guarded, PARALLEL, Setting, generate,
    run::{Denial, Rest, Run, replay},
    sequence::{Sequence, Step},
    system::manager::Release,
    tally,
};

/// Seeds that run whole, half of them with the gate `RuntimeSDK` on.
const SEEDS: [u64; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

/// With one of these rules switched off, the named sequences that it denies are found to be traps, and in the sequences of these
/// seeds traps are found too: the rule is needed, and a trap would be found.
const WITHOUT: [(&str, [u64; 5]); 2] =
    [("version-reachable", [6, 10, 20, 30, 40]), ("list-keeps-paths", [120, 208, 372, 402, 409])];

/// A webhook that is told this release denies what 1.14 can do: its planner has no plan within a minor.
const TOO_STRICT: &str = "v1.12.3";

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    steps: Vec<Step>,
    /// The rules of ours that deny the last write.
    denied: Vec<String>,
    /// What becomes of it where we do not guard.
    alone: Alone,
    /// Whether it would be denied by who takes the manager for [`TOO_STRICT`].
    #[serde(default, rename = "deniedTooStrictly")]
    denied_too_strictly: bool,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Alone {
    Refused,
    Stuck,
    Fine,
}

pub fn run(release: &Release) -> Result<ExitCode> {
    let cases = cases()?;
    for runtime_sdk in [true, false] {
        let mut system = Guarded::start(release, Setting { runtime_sdk, ..Setting::default() })?;
        if runtime_sdk {
            let done = system.system.handle.block_on(
                stream::iter(cases.iter().enumerate())
                    .map(async |(at, case)| {
                        check(&system, at, case).await.with_context(|| format!("{}: failed", case.name))?;
                        println!("{} ... ok", case.name);
                        anyhow::Ok(())
                    })
                    .buffer_unordered(PARALLEL)
                    .try_collect::<()>(),
            );
            if done.is_err() {
                system.keep_logs();
            }
            done?;
        }
        let seeds: Vec<_> = SEEDS.iter().copied().filter(|seed| (seed % 2 == 0) == runtime_sdk).collect();
        let mut reports = Vec::new();
        system.run_seeds(&seeds, |seed, report| {
            reports.push((seed, report));
            Ok(())
        })?;
        for (seed, report) in &reports {
            ensure!(report.traps.is_empty(), "seed {seed}: a trap: {}", serde_json::to_string_pretty(&report.traps)?);
            let denials = &report.false_denials;
            ensure!(denials.is_empty(), "seed {seed}: a false denial: {}", serde_json::to_string_pretty(denials)?);
        }
        let (count, all) = tally::sum(reports.iter().map(|(_, report)| report));
        println!("RuntimeSDK={runtime_sdk}\n{}", tally::tables(count, &all));
    }
    let named = |chosen: &dyn Fn(&Case) -> bool| -> Vec<Sequence> {
        let chosen = cases.iter().filter(|case| chosen(case));
        chosen.map(|case| Sequence { quiet: true, steps: case.steps.clone() }).collect()
    };
    for (rule, seeds) in WITHOUT {
        let sequences = named(&|case| case.denied == [rule] && case.alone == Alone::Stuck);
        let count = sequences.len();
        let setting = || Setting { off: Some(rule.to_owned()), ..Setting::default() };
        let traps = faults(release, setting(), sequences)?.0;
        ensure!(count > 0 && traps == count, "without {rule} {traps} of {count} named traps are found");
        let by_chance = faults(release, setting(), seeds.iter().map(|seed| generate::sequence(*seed)).collect())?.0;
        ensure!(by_chance > 0, "without {rule} no trap is found with the seeds {seeds:?}");
        println!("without {rule} ... {traps} named traps are found, and {by_chance} by the seeds {seeds:?}");
    }
    let strict = Setting { told: Some(TOO_STRICT), ..Setting::default() };
    let denials = faults(release, strict, named(&|case| case.denied_too_strictly))?.1;
    ensure!(denials > 0, "a webhook that takes the manager for {TOO_STRICT} is not found to deny too much");
    println!("told that {TOO_STRICT} runs ... {denials} false denials are found");
    Ok(ExitCode::SUCCESS)
}

/// How many traps and false denials the sequences find.
fn faults(release: &Release, setting: Setting, sequences: Vec<Sequence>) -> Result<(usize, usize)> {
    let mut found = (0, 0);
    Guarded::start(release, setting)?.run_all((0..).zip(sequences), |_, report| {
        found.0 += report.traps.len();
        found.1 += report.false_denials.len();
        Ok(())
    })?;
    Ok(found)
}

fn cases() -> Result<Vec<Case>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/promise");
    let mut all = Vec::new();
    for entry in fs::read_dir(&directory)? {
        let file = entry?.path();
        let text = fs::read_to_string(&file)?;
        let cases: Vec<Case> =
            serde_saphyr::from_str(&text).with_context(|| format!("failed to parse {}", file.display()))?;
        all.extend(cases);
    }
    ensure!(!all.is_empty(), "there are no cases in {}", directory.display());
    Ok(all)
}

async fn check(system: &Guarded, at: usize, case: &Case) -> Result<()> {
    let name = format!("n{at}");
    let mut run = Run::begin(&system.system, &system.verdicts, &name, true).await?;
    let (last, before) = case.steps.split_last().context("a case without steps")?;
    for step in before {
        let written = run.step(step).await?;
        ensure!(written.answer == Denial::Done, "{step:?}: {:?}", written.answer);
        run.rest().await?;
    }
    let taken = run.would_be_taken(last).await?;
    let written = run.step(last).await?;
    let ours: Vec<_> = written.ours.iter().cloned().collect();
    ensure!(ours == case.denied, "denied by {ours:?}: {:?}", written.answer);
    if case.denied.is_empty() {
        ensure!(written.answer == Denial::Done, "{:?}", written.answer);
        let rests = run.finish().await?;
        ensure!(rests.iter().all(|(_, rest)| rest.is_fine()), "admitted, but {rests:?}");
    }
    run.end().await?;
    let alone = match taken {
        Denial::Refused(_) => Alone::Refused,
        _ => {
            let sequence = Sequence { quiet: true, steps: case.steps.clone() };
            let rests = replay(&system.system, &system.verdicts, &format!("{name}-alone"), false, &sequence).await?;
            let stuck = rests.iter().any(|(_, rest)| matches!(rest, Rest::Stuck(_)));
            if stuck { Alone::Stuck } else { Alone::Fine }
        }
    };
    ensure!(alone == case.alone, "where we do not guard it is {alone:?}");
    Ok(())
}
