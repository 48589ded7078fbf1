//! Runs of many seeds, as many at once as there are processors. Must not judge what comes of one.

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::run::{Outcome, run};
use crate::script::Script;

/// How many seeds are run at once.
#[must_use]
pub fn at_once() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Prints the seed of a run that panics.
struct PrintSeedOnPanic(u64);

impl Drop for PrintSeedOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("seed {0} panicked: SEED={0} make simulate runs it alone", self.0);
        }
    }
}

/// Runs `first` and the seeds after it and shows each outcome, until `is_over`, given the number of decisions so far, is true. Seeds that
/// have begun are finished. Returns the first seed that was not begun.
pub fn seeds(first: u64, is_over: impl Fn(u64) -> bool + Sync, show: impl Fn(u64, &Outcome) + Sync) -> u64 {
    let (next, decisions) = (AtomicU64::new(first), AtomicU64::new(0));
    let work = || {
        while !is_over(decisions.load(Ordering::Relaxed)) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let _printed = PrintSeedOnPanic(seed);
            let outcome = run(&Script::drawn(seed), false);
            decisions.fetch_add(outcome.counts.decisions, Ordering::Relaxed);
            show(seed, &outcome);
        }
    };
    thread::scope(|scope| {
        for _ in 0..at_once() {
            scope.spawn(work);
        }
    });
    next.into_inner()
}
