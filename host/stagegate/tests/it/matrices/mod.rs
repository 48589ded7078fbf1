//! Tables of cases, each case a world of its own: what is done to a rollout, and what must come of it. A matrix runs them
//! all, says how many there were, and then fails with all that failed. Must not stop at the first.

mod evidence;
mod takeover;

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;

/// How many times more than usual is run: `STAGEGATE_BUDGET`.
pub fn budget() -> u32 {
    let given = std::env::var("STAGEGATE_BUDGET").ok();
    given.map_or(1, |given| given.parse().expect("STAGEGATE_BUDGET is a whole number"))
}

/// The cases of one table, as they were run.
pub struct Matrix {
    name: &'static str,
    cases: usize,
    failures: Vec<String>,
}

impl Matrix {
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            cases: 0,
            failures: Vec::new(),
        }
    }

    /// Runs one case to its end. What it panics with is kept for [`Self::end`].
    pub async fn run(&mut self, case: &str, running: impl Future<Output = ()>) {
        self.cases += 1;
        if let Err(panic) = AssertUnwindSafe(running).catch_unwind().await {
            self.failures.push(format!("{case}: {}", text_of(&*panic)));
        }
    }

    /// # Panics
    /// With everything that failed.
    pub fn end(self) {
        let Self { name, cases, failures } = self;
        println!("{name}: {cases} cases");
        assert!(cases > 0, "{name} has no cases");
        assert!(
            failures.is_empty(),
            "{name}: {} of {cases} cases failed\n\n{}",
            failures.len(),
            failures.join("\n\n")
        );
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "a panic without words".to_owned())
}
