//! Counts by outcome, printed as a table that docs/fidelity.md can hold.

use std::collections::BTreeMap;

/// How often each outcome came up, in some columns.
#[derive(Clone, Debug, Default)]
pub struct Table(BTreeMap<String, Vec<u64>>);

impl Table {
    /// Counts an outcome.
    pub fn count(&mut self, outcome: &str, column: usize) {
        self.add(outcome, column, 1);
    }

    /// Names an outcome, which is then shown even if it never comes up.
    pub fn expect(&mut self, outcome: &str) {
        self.0.entry(outcome.to_owned()).or_default();
    }

    /// Counts what another table has counted.
    pub fn merge(&mut self, other: Self) {
        for (outcome, counts) in other.0 {
            for (column, count) in counts.into_iter().enumerate() {
                self.add(&outcome, column, count);
            }
        }
    }

    fn add(&mut self, outcome: &str, column: usize, count: u64) {
        if !self.0.contains_key(outcome) {
            self.expect(outcome);
        }
        let counts = self.0.get_mut(outcome).unwrap();
        counts.resize(counts.len().max(column + 1), 0);
        counts[column] += count;
    }

    /// The outcomes that came up less than `least` times in a column.
    pub fn rarer_than(&self, least: u64, column: usize) -> Vec<&str> {
        let rare = self.0.iter().filter(|(_, counts)| counts.get(column).copied().unwrap_or(0) < least);
        rare.map(|(outcome, _)| outcome.as_str()).collect()
    }

    /// Prints it as Markdown.
    pub fn print(&self, what: &str, columns: &[&str]) {
        let width = self.0.keys().map(String::len).chain([what.len()]).max().unwrap_or(0);
        let row = |first: &str, cells: &mut dyn Iterator<Item = String>| {
            println!("| {first:<width$} |{}", cells.map(|cell| format!(" {cell:>9} |")).collect::<String>());
        };
        row(what, &mut columns.iter().map(ToString::to_string));
        println!("|{:-<1$}|{2}", "", width + 2, "----------:|".repeat(columns.len()));
        for (outcome, counts) in &self.0 {
            row(outcome, &mut (0..columns.len()).map(|column| counts.get(column).copied().unwrap_or(0).to_string()));
        }
    }
}
