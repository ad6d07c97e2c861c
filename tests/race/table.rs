//! The figures of each cell, as a table in Markdown.

use std::{collections::BTreeMap, time::Duration};

use crate::{markdown, stack::webhook::VerdictLine};

/// What one cell gave.
#[derive(Debug, Default)]
pub struct Row {
    pub delay: Duration,
    pub sleep: Duration,
    pub took: Duration,
    pub pairs: usize,
    /// Pairs of which both writes were admitted.
    pub admitted: usize,
    /// Pairs of which a write was denied.
    pub denied: usize,
    /// The others: an error in place of a verdict.
    pub no_verdict: usize,
    /// Commits that broke the invariant.
    pub by_cluster_writes: usize,
    pub by_class_writes: usize,
    pub by_operation: BTreeMap<&'static str, usize>,
    /// Of all requests, not only of the racing ones.
    pub denials: usize,
    pub false_denials: usize,
    pub errors: usize,
    /// How long verdicts took inside of the webhook.
    pub p50: Duration,
    pub p99: Duration,
    /// The share of verdicts that needed a quorum read.
    pub live: f64,
}

impl Row {
    pub fn violations(&self) -> usize {
        self.by_cluster_writes + self.by_class_writes
    }

    /// Takes over what the replicas' logs say.
    pub fn verdicts(&mut self, verdicts: Vec<VerdictLine>) {
        let live = verdicts.iter().filter(|verdict| verdict.basis == "live").count();
        self.live = live as f64 / verdicts.len().max(1) as f64;
        let mut times: Vec<_> = verdicts.iter().map(|verdict| verdict.microseconds).collect();
        times.sort_unstable();
        let at =
            |share: usize| times.get(times.len() * share / 100).copied().map_or(Duration::ZERO, Duration::from_micros);
        (self.p50, self.p99) = (at(50), at(99));
    }

    fn cells(&self) -> [String; 14] {
        let milliseconds = |duration: Duration| format!("{} ms", duration.as_millis());
        let per_thousand = 1000.0 * self.violations() as f64 / self.pairs.max(1) as f64;
        [
            milliseconds(self.delay),
            if self.sleep.is_zero() { "none".to_owned() } else { format!("0 to {}", milliseconds(self.sleep)) },
            self.pairs.to_string(),
            self.admitted.to_string(),
            self.denied.to_string(),
            self.no_verdict.to_string(),
            self.violations().to_string(),
            self.by_cluster_writes.to_string(),
            self.by_class_writes.to_string(),
            format!("{per_thousand:.0}"),
            self.denials.to_string(),
            self.false_denials.to_string(),
            format!("{:.0} %", 100.0 * self.live),
            format!("{:.1} / {:.1} ms", self.p50.as_secs_f64() * 1e3, self.p99.as_secs_f64() * 1e3),
        ]
    }
}

const HEAD: [&str; 14] = [
    "watches late by",
    "sleep hook",
    "racing pairs",
    "both admitted",
    "one denied",
    "no verdict",
    "violations",
    "by Cluster",
    "by class",
    "per 1,000 pairs",
    "all denials",
    "false denials",
    "live",
    "verdict p50 / p99",
];

/// Prints the table, and which writes the violations were.
pub fn print(rows: &[Row]) {
    let lines: Vec<_> = std::iter::once(HEAD.map(str::to_owned)).chain(rows.iter().map(Row::cells)).collect();
    println!("\n{}", markdown::table(&lines));
    let mut by_operation = BTreeMap::<_, usize>::new();
    for (operation, count) in rows.iter().flat_map(|row| &row.by_operation) {
        *by_operation.entry(operation).or_default() += count;
    }
    println!("The write whose commit broke the invariant, over all rows:");
    for (operation, count) in by_operation {
        println!("  {count:>5}  {operation}");
    }
    let took: Duration = rows.iter().map(|row| row.took).sum();
    let errors: usize = rows.iter().map(|row| row.errors).sum();
    println!("Requests without a verdict, preparations included: {errors}. The load took {} s.", took.as_secs());
}
