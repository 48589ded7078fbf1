//! Everything that may happen around a rollout, tried exhaustively: each matrix is a table or a product of tables, one
//! runner, and a count. Must not test one thing only: that is a scenario.
//!
//! `STAGEGATE_BUDGET=<factor>` makes random parts longer; `STAGEGATE_SEED=<n>` runs the one seed that a failure named.

mod crash;
mod edits;

use std::fmt::Write as _;
use std::io::Write as _;

/// Runs one case in a runtime of its own, whose time jumps to what is waited for.
pub fn in_virtual_time<T>(case: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(case)
}

/// What became of a matrix's cases: all failures are told, and how many cases there were.
pub struct Outcomes {
    matrix: String,
    cases: usize,
    failures: Vec<String>,
}

impl Outcomes {
    pub fn new(matrix: impl Into<String>) -> Self {
        Self {
            matrix: matrix.into(),
            cases: 0,
            failures: Vec::new(),
        }
    }

    pub fn add(&mut self, case: impl FnOnce() -> String, outcome: impl FnOnce() -> Result<(), String>) {
        self.cases += 1;
        if let Err(failure) = outcome() {
            self.failures.push(format!("{}: {failure}", case()));
        }
    }

    /// Prints the count past the test harness, which keeps what a test that passes prints.
    pub fn end(self) {
        let Self {
            matrix,
            cases,
            failures,
        } = self;
        let _told = writeln!(std::io::stderr(), "{matrix}: {cases} cases, {} failed", failures.len());
        let mut text = String::new();
        for failure in failures.iter().take(20) {
            let _written = writeln!(text, "- {failure}");
        }
        assert!(
            failures.is_empty(),
            "{matrix}: {} of {cases} cases failed\n{text}",
            failures.len()
        );
        assert!(cases > 0, "{matrix}: no cases");
    }
}
