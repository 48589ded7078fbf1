//! Runs of stored and of new seeds.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use stagegate_simulation::many;
use stagegate_simulation::oracle::Violation;
use stagegate_simulation::run::run;
use stagegate_simulation::script::Script;
use stagegate_simulation::shrink::smallest;

/// As many runs as a test build makes in about a minute.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=1_200;
/// So many that break a rule are enough to look at.
const BROKEN_MAX: usize = 3;
/// For so long new seeds are tried where `SIMULATE_S` does not say.
const FRESH_S: u64 = 10;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [3, 131, 1_531] {
        let (first, second) = (run(&Script::drawn(seed), true), run(&Script::drawn(seed), true));
        assert!(first.trace.len() > 10, "seed {seed} is a run in which nothing happens");
        assert_eq!(first.trace, second.trace, "seed {seed}");
    }
}

#[test]
fn no_stored_seed_breaks_a_rule() {
    let (mut decisions, mut broken) = (0, Vec::new());
    for seed in SEEDS {
        let outcome = run(&Script::drawn(seed), false);
        decisions += outcome.counts.decisions;
        let violation = outcome.violation;
        broken.extend(violation.map(|violation| format!("seed {seed}: {}: {}", violation.rule, violation.text)));
        if broken.len() >= BROKEN_MAX {
            break;
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(decisions > 100_000, "only {decisions} decisions");
}

/// They are other ones each time; `FIRST` gives those of a run that failed.
#[test]
fn no_new_seed_breaks_a_rule() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    // Runs that start in different seconds try different seeds.
    let first = number("FIRST").unwrap_or(now.as_secs() * 100_000);
    let end = Instant::now() + Duration::from_secs(number("SIMULATE_S").unwrap_or(FRESH_S));
    let broken: Mutex<BTreeMap<u64, Violation>> = Mutex::default();
    let is_over = |_| Instant::now() >= end || !broken.lock().unwrap().is_empty();
    let seed = many::seeds(first, is_over, |seed, outcome| {
        if let Some(violation) = &outcome.violation {
            broken.lock().unwrap().insert(seed, violation.clone());
        }
    });
    if let Some((seed, violation)) = broken.into_inner().unwrap().pop_first() {
        panic!(
            "seed {seed} (FIRST={seed} tries it again): {}: {}\n{}",
            violation.rule,
            violation.text,
            smallest(seed, violation.rule)
        );
    }
    // Straight to the terminal: libtest hides what a green test prints by the macros.
    let told = writeln!(
        std::io::stderr(),
        "new seeds {first} to {}: none breaks a rule",
        seed - 1
    );
    assert!(told.is_ok(), "cannot write the seeds to standard error");
    assert!(seed > first, "no seed was tried");
}
