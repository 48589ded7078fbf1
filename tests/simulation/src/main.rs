//! `make simulate`: runs seeds on all processors until the time is over or enough was decided, and prints which rules were broken and
//! what was reached.
//!
//! `SEED=<n>` runs one seed and prints its trace; `FIRST=<n>` is the seed to begin with, `SIMULATE_S=<n>` the time in seconds,
//! `STEPS=<n>` the number of decisions, instead of a time. For the first seed that breaks a rule it prints the smallest script
//! found that still breaks it, the trace of that script, and the fatal decision as a case file. Exit code 1 if a rule was broken.

#![allow(clippy::print_stdout, reason = "what it prints is its result")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use stagegate_simulation::coverage::Coverage;
use stagegate_simulation::many;
use stagegate_simulation::oracle::Violation;
use stagegate_simulation::run::{Outcome, run};
use stagegate_simulation::script::Script;
use stagegate_simulation::shrink::smallest;

/// The maximum number of characters printed about a broken rule.
const TOLD_CHARS: usize = 100;
/// The maximum number of seeds named for one way of breaking a rule.
const SEEDS_MAX: usize = 8;

/// When to stop.
#[derive(Clone, Copy)]
enum Budget {
    Time(Duration),
    Decisions(u64),
}

fn main() -> ExitCode {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let budget = match number("STEPS") {
        Some(steps) => Budget::Decisions(steps),
        None => Budget::Time(Duration::from_secs(number("SIMULATE_S").unwrap_or(60))),
    };
    match number("SEED") {
        Some(seed) => one(seed),
        None => run_many(number("FIRST").unwrap_or(1), budget),
    }
}

fn one(seed: u64) -> ExitCode {
    let outcome = run(&Script::drawn(seed), true);
    for line in &outcome.trace {
        println!("{line}");
    }
    match outcome.violation {
        Some(violation) => {
            println!("seed {seed} breaks the rule {}: {}", violation.rule, violation.text);
            println!("{}", smallest(seed, violation.rule));
            ExitCode::FAILURE
        }
        None => {
            println!("seed {seed} breaks no rule");
            ExitCode::SUCCESS
        }
    }
}

/// What all seeds together have shown.
#[derive(Default)]
struct Found {
    decisions: u64,
    writes: u64,
    broken: BTreeMap<String, BTreeSet<u64>>,
    coverage: Coverage,
    /// The first seed that broke a rule, and the rule.
    worst: Option<(u64, &'static str)>,
}

impl Found {
    fn add(&mut self, seed: u64, outcome: &Outcome) {
        self.decisions += outcome.counts.decisions;
        self.writes += outcome.counts.writes;
        self.coverage.add(&outcome.coverage);
        if let Some(violation) = &outcome.violation {
            println!("seed {seed} breaks the rule {}", kind(violation));
            self.broken.entry(kind(violation)).or_default().insert(seed);
            let found = (seed, violation.rule);
            self.worst = Some(self.worst.map_or(found, |worst| worst.min(found)));
        }
    }
}

fn run_many(first: u64, budget: Budget) -> ExitCode {
    let begun = Instant::now();
    let is_over = |decisions: u64| match budget {
        Budget::Time(limit) => begun.elapsed() >= limit,
        Budget::Decisions(limit) => decisions >= limit,
    };
    let found = Mutex::new(Found::default());
    let end = many::seeds(first, is_over, |seed, outcome| {
        found.lock().unwrap_or_else(PoisonError::into_inner).add(seed, outcome);
    });
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let took = begun.elapsed().as_secs_f64();
    let speed = f64::from(u32::try_from(found.decisions).unwrap_or(u32::MAX)) / took;
    println!(
        "seeds {first} to {}: {} decisions and {} writes in {took:.0} s, {speed:.0} decisions a second on {} processors",
        end - 1,
        found.decisions,
        found.writes,
        many::at_once()
    );
    tell_coverage(&found.coverage);
    if let Some((seed, rule)) = found.worst {
        println!("{}", smallest(seed, rule));
    }
    for (kind, seeds) in &found.broken {
        let named: Vec<String> = seeds.iter().take(SEEDS_MAX).map(u64::to_string).collect();
        println!("{kind}: {} seeds, first {}", seeds.len(), named.join(", "));
    }
    println!(
        "{} of {} seeds break a rule",
        found.broken.values().map(BTreeSet::len).sum::<usize>(),
        end - first
    );
    ExitCode::from(u8::from(!found.broken.is_empty()))
}

fn tell_coverage(coverage: &Coverage) {
    println!("\nReached:");
    for (reached, count) in coverage.counts() {
        println!("{count:>9} {reached}");
    }
    println!("\nNever reached:");
    for reached in coverage.missing() {
        println!("          {reached}");
    }
}

/// The rule; of one about an end, also what status said last.
fn kind(violation: &Violation) -> String {
    let said = violation
        .text
        .rsplit_once("well: ")
        .or_else(|| violation.text.rsplit_once("vain: "));
    let reason = said.map(|(_, said)| said.split(':').next().unwrap_or_default());
    let text = reason.unwrap_or(&violation.text);
    format!(
        "{}: {}",
        violation.rule,
        text.chars().take(TOLD_CHARS).collect::<String>()
    )
}
