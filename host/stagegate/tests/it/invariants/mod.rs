//! What must hold of every run, whatever happened in it, read from the log of commits and from the truth of the clusters
//! and never from what the host believes. Must not drive anything.
//!
//! The rules are named as in [`RULES`]. A rule that a scenario breaks on purpose (a user who wipes status, say) is waived
//! there by name, with the reason.

mod admitted;
mod placements;
mod promotions;
mod replay;
mod words;

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use stagegate_embedded::Commit;
use stagegate_embedded::clusters::Truth;

use replay::Replay;

/// The rules, and what each says of every prefix of the log.
pub const RULES: &[(&str, &str)] = &[
    (
        "justified",
        "a stage is placed only when status, as it announces that, says of every stage before it that it has passed, or that all its checks pass in its placement",
    ),
    (
        "one-active",
        "a stage is opened only while no later one is open at the same revision",
    ),
    (
        "no-skip",
        "within a revision the active stage moves on by one, and never back",
    ),
    (
        "revision",
        "nothing is placed for another generation of the policy than the newest that status has told of",
    ),
    (
        "own",
        "every update and delete is of an object of this policy's, conditional on its uid and resourceVersion",
    ),
    (
        "reach",
        "a cluster is given the workload only while an open placement selects it",
    ),
    (
        "covered",
        "an open placement is removed only under Remove, and while a later one is open at the policy's revision",
    ),
    (
        "once",
        "a placement is opened at most once for a revision, stage and attempt",
    ),
    (
        "gate",
        "a gate's pass is recorded only with the digest of a component that its ConfigMap held",
    ),
    (
        "admitted",
        "a cluster of a held stage runs only versions that the list of a Binding that names it has admitted, unless status says that its delivery is unproven",
    ),
    ("quiet", "no object is written to and fro without anybody else's doing"),
    (
        "stop",
        "nothing is placed or removed once status has told of a pause or a deletion",
    ),
    (
        "intent",
        "a placement is told of in status before it is made, and no stage is called active that was never open",
    ),
    ("explains", "a status that stands for a minute says what is missing"),
    (
        "promotion",
        "no stage is placed while, in truth, a cluster of the stage before does not fare well on the revision's objects",
    ),
    (
        "healthy",
        "where a stage's health is required, no later stage is placed and it is not called passed as the last one while, in truth, one of its clusters does not run the current version healthily",
    ),
];

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub rule: &'static str,
    pub version: u64,
    pub at: Timestamp,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "[{}] at {} (commit {}): {}",
            self.rule, self.at, self.version, self.what
        )
    }
}

/// What happened in one world.
pub struct Run<'a> {
    pub commits: &'a [Commit],
    pub truth: &'a Truth,
    /// When a host ran, by start and end.
    pub host_ran: &'a [(Timestamp, Option<Timestamp>)],
    pub ended_at: Timestamp,
    /// How long news of a cluster may take to be a row of a CombinedStatus.
    pub news_take: SignedDuration,
}

/// All violations, in the order of the log, and how often each rule had something to look at.
pub fn check(run: &Run<'_>) -> (Vec<Violation>, BTreeMap<&'static str, usize>) {
    let mut found = Found::default();
    let mut replay = Replay::default();
    let mut reach = promotions::Reach::default();
    for commit in run.commits {
        let commit = replay::Seen::of(commit);
        placements::check(&replay, &commit, &mut found);
        promotions::check(run, &replay, &commit, &mut found);
        promotions::check_completion(run, &replay, &commit, &mut found);
        words::check(run, &replay, &commit, &mut found);
        replay.take(&commit);
        reach.take(&replay, &commit);
    }
    reach.check(run, &mut found);
    admitted::check(run, &mut found);
    words::check_waiting(run, &mut found);
    (found.violations, found.looked)
}

#[derive(Default)]
struct Found {
    violations: Vec<Violation>,
    looked: BTreeMap<&'static str, usize>,
}

impl Found {
    /// The commit that a rule looks at, by version and time.
    fn at(&mut self, (version, at): (u64, Timestamp)) -> Asked<'_> {
        Asked {
            found: self,
            version,
            at,
        }
    }
}

struct Asked<'a> {
    found: &'a mut Found,
    version: u64,
    at: Timestamp,
}

impl Asked<'_> {
    /// Notes that the rule was asked, and whether it held.
    fn holds(self, rule: &'static str, holds: bool, what: impl FnOnce() -> String) {
        debug_assert!(RULES.iter().any(|(known, _)| *known == rule));
        *self.found.looked.entry(rule).or_default() += 1;
        if !holds {
            self.found.violations.push(Violation {
                rule,
                version: self.version,
                at: self.at,
                what: what(),
            });
        }
    }
}
