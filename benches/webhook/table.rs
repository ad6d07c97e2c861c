//! The table of figures, with targets beside them.

use crate::markdown;

/// One figure, its target, and whether it is met.
struct Row {
    what: String,
    figure: String,
    target: String,
    met: Option<bool>,
}

/// Collects rows and prints them aligned, as Markdown.
#[derive(Default)]
pub struct Table(Vec<Row>);

impl Table {
    /// A figure with an upper bound.
    pub fn at_most(&mut self, what: impl Into<String>, figure: f64, bound: f64, unit: &str) {
        let (figure_text, target) = (format!("{figure:.2}{unit}"), format!("<= {bound}{unit}"));
        self.0.push(Row { what: what.into(), figure: figure_text, target, met: Some(figure <= bound) });
    }

    /// A figure without a target.
    pub fn plain(&mut self, what: impl Into<String>, figure: impl Into<String>) {
        self.0.push(Row { what: what.into(), figure: figure.into(), target: String::new(), met: None });
    }

    /// Prints all rows.
    pub fn print(&self) {
        let head = ["measured", "figure", "target", "met"].map(ToOwned::to_owned);
        let rows = self.0.iter().map(|row| {
            let met = row.met.map_or("", |met| if met { "yes" } else { "no" });
            [&row.what, &row.figure, &row.target, met].map(|text: &str| text.to_owned())
        });
        let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
        println!("\n{}", markdown::table(&rows));
    }
}

/// The value below which `share` of the sorted `values` lie.
pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    let at = ((sorted.len() as f64 * share) as usize).min(sorted.len() - 1);
    sorted[at]
}

/// Sorts and gives back p50 and p99.
pub fn p50_p99(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    (percentile(&values, 0.5), percentile(&values, 0.99))
}
