//! The table of figures, with targets beside them.

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
        let head =
            Row { what: "measured".to_owned(), figure: "figure".to_owned(), target: "target".to_owned(), met: None };
        let width = |of: fn(&Row) -> &String| self.0.iter().chain([&head]).map(|row| of(row).len()).max().unwrap_or(0);
        let widths = (width(|row| &row.what), width(|row| &row.figure), width(|row| &row.target));
        let line = |row: &Row, met: &str| {
            println!(
                "| {:<what$} | {:>figure$} | {:<target$} | {met:<3} |",
                row.what,
                row.figure,
                row.target,
                what = widths.0,
                figure = widths.1,
                target = widths.2
            );
        };
        println!();
        line(&head, "met");
        println!("|{:-<1$}|", "", widths.0 + 2 + 1 + widths.1 + 2 + 1 + widths.2 + 2 + 1 + 5);
        for row in &self.0 {
            line(
                row,
                match row.met {
                    Some(true) => "yes",
                    Some(false) => "no",
                    None => "",
                },
            );
        }
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
