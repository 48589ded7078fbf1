//! How a table is printed. Must not measure.

use stagegate_cluster_tests::bench::figures::{number, optional, verdict};

pub struct Row {
    pub what: String,
    pub figure: f64,
    /// Of what the figure is compared with.
    pub other: Option<f64>,
    /// At most.
    pub goal: Option<f64>,
}

impl Row {
    pub fn new(what: impl Into<String>, figure: f64) -> Row {
        Row {
            what: what.into(),
            figure,
            other: None,
            goal: None,
        }
    }

    pub fn goal(self, goal: impl Into<Option<f64>>) -> Row {
        Row {
            goal: goal.into(),
            ..self
        }
    }

    pub fn beside(self, other: f64) -> Row {
        Row {
            other: Some(other),
            ..self
        }
    }
}

/// `other` is the heading of what the figures are compared with.
pub fn print(title: &str, other: &str, rows: &[Row]) {
    println!("\n{title}");
    println!("{:<74} {:>10} {other:>10} {:>10}", "", "stagegate", "goal");
    for row in rows {
        println!(
            "{:<74} {:>10} {:>10} {:>10} {}",
            row.what,
            number(row.figure),
            row.other.map_or(String::new(), number),
            optional(row.goal),
            verdict(row.figure, row.goal)
        );
    }
}
