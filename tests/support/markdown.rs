//! Tables of figures, aligned, as docs/ can hold them.

/// Rows of cells in Markdown, the first row of which is the head. The first column reads from the left.
pub fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let widths: [usize; N] =
        std::array::from_fn(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0));
    let line = |row: &[String; N]| {
        let cell = |at: usize| {
            let width = widths[at];
            if at == 0 { format!("{:<width$}", row[at]) } else { format!("{:>width$}", row[at]) }
        };
        format!("| {} |\n", (0..N).map(cell).collect::<Vec<_>>().join(" | "))
    };
    let rule = (0..N).map(|at| format!("{}{}", "-".repeat(widths[at] + 1), if at == 0 { "-" } else { ":" }));
    let rule = format!("|{}|\n", rule.collect::<Vec<_>>().join("|"));
    let mut lines = rows.iter().map(line);
    lines.next().unwrap_or_default() + &rule + &lines.collect::<String>()
}
