//! What may happen to two hosts beside each other: how late one sees things, when one dies, how the policy is edited. Must
//! not say what is to come of it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::schedule::{After, Setting, Upset};
use crate::harness::seeded::Seeded;
use crate::harness::{policy, staged};

/// What is done to the policy meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edit {
    None,
    Pause,
    /// Another plan.
    Clause,
    /// Another attempt of the active stage.
    Selectors,
    ClauseThenPause,
    SelectorsThenPause,
}

/// What the hosts do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rollout {
    /// The workload moves from stage to stage.
    Moves,
    /// It spreads.
    Spreads,
    /// Version 1 is in all stages, which are held, and version 2 goes through them.
    Release,
}

#[derive(Clone, Debug)]
pub struct Case {
    pub hosts: usize,
    pub rollout: Rollout,
    pub reads_wait: bool,
    pub last_is_late: Duration,
    pub edit: Edit,
    /// Both after so many writes.
    pub edit_after: usize,
    pub pause_after: usize,
    pub paused_for: Duration,
    pub kill: Option<(After, Upset)>,
    /// Milliseconds into a second at which the world begins.
    pub phase_ms: i64,
}

impl Case {
    pub const UNDISTURBED: Case = Case {
        hosts: 2,
        rollout: Rollout::Moves,
        reads_wait: false,
        last_is_late: Duration::ZERO,
        edit: Edit::None,
        edit_after: 3,
        pause_after: 3,
        paused_for: Duration::from_secs(10),
        kill: None,
        phase_ms: 0,
    };

    /// Nothing but the order of requests, held back ones among them, and an old view.
    pub fn calm(chance: &mut Seeded) -> Case {
        let late_ms = if chance.percent(40) { chance.below(8_000) } else { 0 };
        Case {
            rollout: if chance.percent(25) {
                Rollout::Spreads
            } else {
                Rollout::Moves
            },
            reads_wait: chance.percent(25),
            last_is_late: Duration::from_millis(late_ms),
            phase_ms: i64::try_from(chance.below(1_000)).unwrap(),
            ..Case::UNDISTURBED
        }
    }

    pub fn upset(chance: &mut Seeded) -> Case {
        let calm = Self::calm(chance);
        let edits = [
            Edit::None,
            Edit::Pause,
            Edit::Clause,
            Edit::Selectors,
            Edit::ClauseThenPause,
            Edit::SelectorsThenPause,
        ];
        let writes = |chance: &mut Seeded, bound| usize::try_from(chance.below(bound)).unwrap();
        let edit_after = 1 + writes(chance, 24);
        let kill = chance.percent(60).then(|| {
            let upset = Upset::Kill {
                host: usize::from(chance.percent(50)),
                loses_requests: chance.percent(50),
                starts_in: Duration::from_millis(chance.below(20_000)),
            };
            (After::Writes(1 + writes(chance, 24)), upset)
        });
        Case {
            edit: *chance.pick(&edits),
            edit_after,
            pause_after: edit_after + writes(chance, 5),
            paused_for: Duration::from_millis(chance.below(60_000)),
            kill,
            ..calm
        }
    }

    /// The same of a release. Its clauses stay as they are: a state that is wanted back makes versions.
    pub fn of_release(chance: &mut Seeded) -> Case {
        let upset = Self::upset(chance);
        let edits = [Edit::None, Edit::Pause, Edit::Selectors, Edit::SelectorsThenPause];
        Case {
            rollout: Rollout::Release,
            edit: *chance.pick(&edits),
            ..upset
        }
    }

    pub fn policy(&self) -> String {
        match self.rollout {
            Rollout::Moves => policy("web"),
            Rollout::Spreads => policy("web").replacen("spec:\n", "spec:\n  previousStages: Keep\n", 1),
            Rollout::Release => staged("web"),
        }
    }

    /// How many stages have the workload in the end.
    pub fn open(&self) -> usize {
        if self.rollout == Rollout::Moves { 1 } else { 3 }
    }

    fn upsets(&self) -> Vec<(After, Upset)> {
        let mut upsets = Vec::from_iter(self.kill.clone());
        if let Some(patch) = self.edit.patch() {
            upsets.push((After::Writes(self.edit_after), Upset::Edit { patch, then: None }));
        }
        if matches!(
            self.edit,
            Edit::Pause | Edit::ClauseThenPause | Edit::SelectorsThenPause
        ) {
            let paused = |paused: bool| json!({"spec": {"paused": paused}});
            let upset = Upset::Edit {
                patch: paused(true),
                then: Some((self.paused_for, paused(false))),
            };
            upsets.push((After::Writes(self.pause_after), upset));
        }
        upsets
    }

    pub fn setting(&self) -> Setting {
        Setting {
            hosts: self.hosts,
            reads_wait: self.reads_wait,
            last_is_late: self.last_is_late,
            policy: "web".to_owned(),
            upsets: self.upsets(),
        }
    }
}

impl Edit {
    fn patch(self) -> Option<Value> {
        let mut policy: Value = serde_saphyr::from_str(&policy("web")).unwrap();
        let mut spec = policy["spec"].take();
        match self {
            Edit::None | Edit::Pause => return None,
            Edit::Clause | Edit::ClauseThenPause => spec["downsync"][0]["wantSingletonReportedState"] = json!(true),
            Edit::Selectors | Edit::SelectorsThenPause => {
                for stage in spec["stages"].as_array_mut().unwrap() {
                    let selectors = stage["clusterSelectors"].as_array_mut().unwrap();
                    selectors.push(json!({"matchLabels": {"env": "nowhere"}}));
                }
            }
        }
        Some(json!({"spec": spec}))
    }
}
