//! `make simulate`: runs seeds until the time is over, and prints which rules were broken, by which seed first, and what was reached.
//!
//! `SEED=<n>` runs one seed and prints its trace; `FIRST=<n>` is the seed to begin with, `SIMULATE_S=<n>` the time. Exit code 1 where
//! a rule was broken.

#![allow(clippy::print_stdout, reason = "what it prints is its result")]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use stagegate_simulation::oracle::Violation;
use stagegate_simulation::run::run;
use stagegate_simulation::script::Script;

/// Most characters of what is printed about a rule that was broken.
const TOLD_CHARS: usize = 100;

fn main() -> ExitCode {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("SEED") {
        Some(seed) => one(seed),
        None => many(
            number("FIRST").unwrap_or(1),
            Duration::from_secs(number("SIMULATE_S").unwrap_or(60)),
        ),
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
            ExitCode::FAILURE
        }
        None => {
            println!("seed {seed} breaks no rule");
            ExitCode::SUCCESS
        }
    }
}

fn many(first: u64, limit: Duration) -> ExitCode {
    let begun = Instant::now();
    let (mut decisions, mut writes, mut seed) = (0, 0, first);
    let mut broken: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut reached: BTreeMap<String, u64> = BTreeMap::new();
    while begun.elapsed() < limit {
        let outcome = run(&Script::drawn(seed), false);
        decisions += outcome.counts.decisions;
        writes += outcome.counts.writes;
        for (name, count) in outcome.reached {
            *reached.entry(name).or_default() += count;
        }
        if let Some(violation) = outcome.violation {
            broken.entry(kind(&violation)).or_insert((seed, 0)).1 += 1;
        }
        seed += 1;
    }
    let took = begun.elapsed().as_secs_f64();
    let speed = f64::from(u32::try_from(decisions).unwrap_or(u32::MAX)) / took;
    println!(
        "seeds {first} to {}: {decisions} decisions and {writes} writes in {took:.0} s, {speed:.0} decisions a second",
        seed - 1
    );
    for (kind, (seed, count)) in &broken {
        println!("{count:>6} times, first with seed {seed}: {kind}");
    }
    println!("reached:");
    for (name, count) in &reached {
        println!("{count:>9} {name}");
    }
    ExitCode::from(u8::from(!broken.is_empty()))
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
