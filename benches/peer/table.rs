//! The table: ours, theirs, and how many times better ours is, with goals beside it.

use crate::markdown;

/// One figure of both.
struct Row {
    what: String,
    ours: String,
    theirs: String,
    ratio: String,
    goal: String,
    met: &'static str,
}

/// Collects rows and prints them aligned, as Markdown.
#[derive(Default)]
pub struct Table(Vec<Row>);

/// Which of two figures is the better one.
#[derive(Clone, Copy)]
pub enum Better {
    /// Such as a time.
    Less,
    /// Such as a rate.
    More,
}

impl Table {
    /// A figure of both, in `unit`; if there is a goal, ours is to be so many times better.
    pub fn row(
        &mut self,
        what: impl Into<String>,
        ours: f64,
        theirs: f64,
        unit: &str,
        better: Better,
        goal: Option<f64>,
    ) {
        let ratio = match better {
            Better::Less => theirs / ours,
            Better::More => ours / theirs,
        };
        self.0.push(Row {
            what: what.into(),
            ours: with(ours, unit),
            theirs: with(theirs, unit),
            ratio: with(ratio, "x"),
            goal: goal.map(|goal| format!(">= {goal}x")).unwrap_or_default(),
            met: goal.map_or("", |goal| if ratio >= goal { "yes" } else { "no" }),
        });
    }

    /// Prints all rows.
    pub fn print(&self) {
        let head = ["measured", "ours", "Cluster API's", "ours is better by", "goal", "met"].map(ToOwned::to_owned);
        let rows = self.0.iter().map(|row| {
            [&row.what, &row.ours, &row.theirs, &row.ratio, &row.goal, row.met].map(|text: &str| text.to_owned())
        });
        let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
        println!("\n{}", markdown::table(&rows));
    }
}

/// Three digits are enough.
pub fn with(figure: f64, unit: &str) -> String {
    let decimals = match figure {
        0.0..1.0 => 3,
        1.0..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    format!("{figure:.decimals$}{unit}")
}
