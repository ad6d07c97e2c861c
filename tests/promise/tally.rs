//! Sums of reports, kept on disk as they come, and the table of them.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::Write as _,
    path::PathBuf,
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::{
    markdown,
    oracle::{Denied, Report},
};

/// The reports of one release and one build of webhook and tests, a line for each sequence.
pub struct Kept {
    file: PathBuf,
    pub reports: BTreeMap<u64, Report>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    seed: u64,
    report: Report,
}

impl Kept {
    /// Those in target/promise of `release`. What another build found is not counted: a change may have mended it, or broken it.
    pub fn open(release: &str) -> Result<Self> {
        let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/promise");
        fs::create_dir_all(&directory)?;
        let mut builds = openssl::sha::Sha256::new();
        for program in [PathBuf::from(env!("CARGO_BIN_EXE_capi-version-guard")), std::env::current_exe()?] {
            builds.update(&fs::read(&program).with_context(|| format!("failed to read {}", program.display()))?);
        }
        let build: String = builds.finish()[..6].iter().map(|byte| format!("{byte:02x}")).collect();
        let file = directory.join(format!("{release}-{build}.jsonl"));
        let text = if file.exists() { fs::read_to_string(&file)? } else { String::new() };
        let mut reports = BTreeMap::new();
        // A line that a killed run did not finish is run again.
        for line in text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()) {
            reports.insert(line.seed, line.report);
        }
        Ok(Self { file, reports })
    }

    pub fn add(&mut self, seed: u64, report: Report) -> Result<()> {
        let mut file: File = OpenOptions::new().create(true).append(true).open(&self.file)?;
        let line = serde_json::to_string(&Line { seed, report: report.clone() })?;
        writeln!(file, "{line}")?;
        self.reports.insert(seed, report);
        Ok(())
    }
}

/// Adds reports up.
pub fn sum<'a>(reports: impl IntoIterator<Item = &'a Report>) -> (u32, Report) {
    let mut count = 0;
    let mut all = Report::default();
    for report in reports {
        count += 1;
        all.writes += report.writes;
        all.missed += report.missed;
        all.admitted += report.admitted;
        all.refused_by_cluster_api += report.refused_by_cluster_api;
        all.version_changes += report.version_changes;
        all.version_changes_admitted += report.version_changes_admitted;
        all.more_than_one_hop_admitted += report.more_than_one_hop_admitted;
        all.warned_traps += report.warned_traps;
        all.excused_traps += report.excused_traps;
        all.not_by_writes += report.not_by_writes;
        all.traps.extend(report.traps.iter().cloned());
        all.false_denials.extend(report.false_denials.iter().cloned());
        all.seconds += report.seconds;
        for (rule, denied) in &report.denied {
            let sum: &mut Denied = all.denied.entry(rule.clone()).or_default();
            sum.refused_too += denied.refused_too;
            sum.trapped += denied.trapped;
            sum.own_rule += denied.own_rule;
            sum.not_tried += denied.not_tried;
            sum.feasible += denied.feasible;
        }
    }
    (count, all)
}

/// The figures, as docs/promise.md shows them.
pub fn tables(count: u32, all: &Report) -> String {
    let share = |part: u32, of: u32| format!("{:.0} %", 100.0 * f64::from(part) / f64::from(of.max(1)));
    let figures = [
        ("counted", "figure".to_owned()),
        ("sequences", count.to_string()),
        ("writes", all.writes.to_string()),
        ("of them to what was not there, or was there already", all.missed.to_string()),
        ("admitted", all.admitted.to_string()),
        ("refused by Cluster API alone", all.refused_by_cluster_api.to_string()),
        ("version changes", all.version_changes.to_string()),
        ("of them admitted (floor: 30 %)", share(all.version_changes_admitted, all.version_changes)),
        (
            "of these by more than one minor (floor: 20 %)",
            share(all.more_than_one_hop_admitted, all.version_changes_admitted),
        ),
        ("traps: an admitted write, and a Cluster is stuck", all.traps.len().to_string()),
        ("the same, but a warning named it", all.warned_traps.to_string()),
        ("the same, after a user skipped checks or was warned of a missing class", all.excused_traps.to_string()),
        ("Clusters that a provider or a hand behind the topology trapped", all.not_by_writes.to_string()),
        ("false denials: a denied write that Cluster API takes and carries out", all.false_denials.len().to_string()),
    ];
    let figures = figures.map(|(what, figure)| [what.to_owned(), figure]);
    let head =
        ["rule", "denials", "Cluster API refuses too", "trapped", "at creation of class", "not tried", "feasible"];
    let mut rules = vec![head.map(str::to_owned)];
    for (rule, denied) in &all.denied {
        let Denied { refused_too, trapped, own_rule, not_tried, feasible } = denied;
        let total = refused_too + trapped + own_rule + not_tried + feasible;
        let counts = [total, *refused_too, *trapped, *own_rule, *not_tried, *feasible].map(|count| count.to_string());
        let [total, refused_too, trapped, own_rule, not_tried, feasible] = counts;
        rules.push([rule.clone(), total, refused_too, trapped, own_rule, not_tried, feasible]);
    }
    format!("{}\n{}", markdown::table(&figures), markdown::table(&rules))
}
