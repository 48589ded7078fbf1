//! Everything that may happen around a rollout, tried exhaustively: each matrix is a table or a product of tables, one
//! runner, and a count. It runs all its cases, each in a world of its own, and then fails with all that failed. Must not
//! test one thing only: that is a scenario.
//!
//! `STAGEGATE_BUDGET=<factor>` makes what can be longer longer; `STAGEGATE_SEED=<n>` runs the one seed that a failure named.

mod adoption;
mod crash;
mod edits;
mod evidence;
mod hosts;
mod releases;

use std::any::Any;
use std::fmt::Write as _;
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;

use crate::harness::World;
use crate::invariants::RULES;

/// Runs one case in a runtime of its own, whose time jumps to what is waited for.
pub fn in_virtual_time<T>(case: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(case)
}

/// The rules that were broken, as this case's failure.
pub fn broken(world: &mut World) -> Result<(), String> {
    let (violations, _) = world.violations();
    for (rule, _) in RULES {
        world.waive(rule, "they were looked at here, and are told with the case");
    }
    let lines: Vec<String> = violations.iter().take(3).map(ToString::to_string).collect();
    if lines.is_empty() {
        Ok(())
    } else {
        Err(lines.join("; "))
    }
}

/// What became of the cases.
pub struct Matrix {
    name: String,
    cases: usize,
    failures: Vec<String>,
}

impl Matrix {
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            cases: 0,
            failures: Vec::new(),
        }
    }

    /// Takes down how a case ended.
    pub fn add(&mut self, case: impl FnOnce() -> String, outcome: Result<(), String>) {
        self.cases += 1;
        if let Err(failure) = outcome {
            self.failures.push(format!("{}: {failure}", case()));
        }
    }

    /// Runs one case to its end. What it panics with is kept for [`Self::end`].
    pub async fn run(&mut self, case: &str, running: impl Future<Output = ()>) {
        let outcome = AssertUnwindSafe(running).catch_unwind().await;
        self.add(|| case.to_owned(), outcome.map_err(|panic| text_of(&*panic)));
    }

    /// Tells the count.
    ///
    /// # Panics
    /// With everything that failed.
    pub fn end(self) {
        let Self { name, cases, failures } = self;
        crate::tell(&format!("{name}: {cases} cases, {} failed", failures.len()));
        let mut text = String::new();
        for failure in &failures {
            let _written = writeln!(text, "- {failure}");
        }
        assert!(
            failures.is_empty(),
            "{name}: {} of {cases} cases failed\n{text}",
            failures.len()
        );
        assert!(cases > 0, "{name} has no cases");
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "a panic without words".to_owned())
}
