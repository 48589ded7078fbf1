//! Two hosts on one server, both at work and without any lease, in every order of their writes that is tried: whatever one
//! holds back, sees late, or leaves behind when it dies, each stage is placed once for each attempt, only after the stage
//! before it really runs, and the end is the one that a single host comes to.

mod alone;
mod case;
mod choosers;
mod run;

use alone::Alone;
use case::Case;
use choosers::{Chance, Orders};
use run::{Run, run};

use crate::harness::seeded::{Seeded, is_replay, seeds};

/// What went wrong in which case; and how much was done in all.
#[derive(Default)]
struct Tally {
    cases: usize,
    most_writes: usize,
    most_conflicts: usize,
    failures: Vec<String>,
}

impl Tally {
    fn add(&mut self, (name, case): (&str, &Case), run: Result<Run, String>, alone: &mut Alone) {
        self.cases += 1;
        let (wrongs, story) = match run {
            Err(panic) => (vec![panic], Vec::new()),
            Ok(run) => {
                self.most_writes = self.most_writes.max(run.log.len());
                self.most_conflicts = self.most_conflicts.max(run.conflicts());
                (alone.judge(case, &run), run.story())
            }
        };
        if !wrongs.is_empty() {
            let (wrongs, story) = (wrongs.join("\n  "), story.join("\n    "));
            self.failures.push(format!("{name}: {case:?}\n  {wrongs}\n    {story}"));
        }
    }

    fn end(self, matrix: &str) {
        crate::tell(&format!(
            "{matrix}: {} cases, {} failed; at most {} writes and {} conflicts in one",
            self.cases,
            self.failures.len(),
            self.most_writes,
            self.most_conflicts
        ));
        assert!(
            self.failures.is_empty(),
            "{} of {} cases failed:\n{}",
            self.failures.len(),
            self.cases,
            self.failures.join("\n")
        );
    }
}

fn seeded(matrix: &str, count: u64, case_of: impl Fn(&mut Seeded) -> Case) {
    let (mut tally, mut alone) = (Tally::default(), Alone::default());
    for seed in seeds(count) {
        let mut chance = Seeded::new(seed);
        let case = case_of(&mut chance);
        let name = format!("STAGEGATE_SEED={seed}");
        tally.add((&name, &case), run(&case, Chance::new(chance)), &mut alone);
    }
    tally.end(matrix);
}

#[test]
fn in_every_order_of_writes_that_both_hosts_have_waiting_each_stage_is_placed_once() {
    if is_replay() {
        return;
    }
    const LENGTH: usize = 6;
    let (mut tally, mut alone) = (Tally::default(), Alone::default());
    for window in [0..LENGTH, LENGTH..2 * LENGTH] {
        for bits in 0..1 << LENGTH {
            let chooser = Orders::new(bits, window.clone());
            let name = format!("orders {bits:0LENGTH$b} of decisions {window:?}");
            tally.add(
                (&name, &Case::UNDISTURBED),
                run(&Case::UNDISTURBED, chooser),
                &mut alone,
            );
        }
    }
    tally.end("two hosts, all orders of their first writes");
}

#[test]
fn whatever_is_held_back_or_seen_late_each_stage_is_placed_once() {
    seeded("two hosts, held back and late", 80, Case::calm);
}

#[test]
fn whichever_host_dies_and_whatever_is_edited_each_attempt_is_placed_once() {
    seeded("two hosts, killed and edited", 80, Case::upset);
}

#[test]
fn whatever_two_hosts_do_in_a_release_each_stage_gets_version_2_in_its_turn() {
    seeded("two hosts, a release", 40, Case::of_release);
}

#[test]
fn the_same_seed_gives_the_same_writes_in_the_same_order() {
    for (seed, case_of) in [
        (1, Case::calm as fn(&mut Seeded) -> Case),
        (2, Case::calm),
        (3, Case::upset),
        (4, Case::upset),
    ] {
        let story = || {
            let mut chance = Seeded::new(seed);
            let case = case_of(&mut chance);
            run(&case, Chance::new(chance)).unwrap().story()
        };
        let first = story();
        assert!(first.len() > 10, "only {} writes", first.len());
        assert_eq!(first, story(), "seed {seed}");
    }
}
