//! When a view has reached its end, judged by the status of the objects alone. Must not know where they come from.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use stagegate_api::Phase;

use crate::args::Goal;
use crate::commands::Outcome;
use crate::view::{Rollout, Rollouts};

/// What is waited for.
pub enum Until {
    /// Each of these is in this phase, or one ends in another.
    Goal { goal: Goal, names: BTreeSet<String> },
    /// Each of these is completed: what the playground waits for, unless it is told otherwise.
    #[cfg(feature = "playground")]
    Completed { names: BTreeSet<String> },
    /// Nothing but Ctrl-C.
    Interrupted,
}

/// Why it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Reached(Phase),
    /// One has completed or failed, and that was not the goal.
    Otherwise(Phase),
    TimedOut,
    Interrupted,
}

impl Until {
    pub fn reached(&self, rollouts: &Rollouts) -> ControlFlow<Ended> {
        let (wished, names) = match self {
            Self::Goal { goal, names } => (phase(*goal), names),
            #[cfg(feature = "playground")]
            Self::Completed { names } => (Phase::Completed, names),
            Self::Interrupted => return ControlFlow::Continue(()),
        };
        let phases: Vec<_> = names
            .iter()
            .map(|name| rollouts.get(name).and_then(current_phase))
            .collect();
        if phases.iter().all(|phase| *phase == Some(wished)) {
            return ControlFlow::Break(Ended::Reached(wished));
        }
        let final_phase = |phase: &Phase| matches!(phase, Phase::Completed | Phase::Failed);
        match phases
            .into_iter()
            .flatten()
            .filter(final_phase)
            .find(|phase| *phase != wished)
        {
            Some(other) => ControlFlow::Break(Ended::Otherwise(other)),
            None => ControlFlow::Continue(()),
        }
    }
}

impl Ended {
    /// As it stands in the summary of `-o json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reached(phase) | Self::Otherwise(phase) => phase.as_str(),
            Self::TimedOut => "TimedOut",
            Self::Interrupted => "Interrupted",
        }
    }

    pub fn outcome(self, until: &Until) -> Outcome {
        match (self, until) {
            (Self::Reached(_), _) => Outcome::Success,
            (Self::Otherwise(_), _) | (Self::Interrupted, Until::Goal { .. }) => Outcome::Negative,
            (Self::TimedOut, _) => Outcome::TimedOut,
            (Self::Interrupted, _) => Outcome::Success,
        }
    }
}

fn phase(goal: Goal) -> Phase {
    match goal {
        Goal::Completed => Phase::Completed,
        Goal::Holding => Phase::Holding,
        Goal::Failed => Phase::Failed,
    }
}

/// The phase, if it is about the spec as it is now. What is completed but not Ready is not at its goal, as for `status`.
fn current_phase(rollout: &Rollout) -> Option<Phase> {
    let phase = rollout.phase.filter(|_| !rollout.is_outdated())?;
    (phase != Phase::Completed || rollout.is_ready).then_some(phase)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::rollout::Versions;

    fn rollouts(phases: &[(&str, Phase, i64)]) -> Rollouts {
        let rollout = |(name, phase, observed): &(&str, Phase, i64)| {
            let rollout = Rollout {
                name: (*name).to_owned(),
                phase: Some(*phase),
                is_ready: *phase == Phase::Completed,
                versions: Versions {
                    generation: Some(2),
                    observed: Some(*observed),
                    has_status: true,
                },
                ..Rollout::default()
            };
            (rollout.name.clone(), rollout)
        };
        phases.iter().map(rollout).collect()
    }

    fn goal(goal: Goal) -> Until {
        Until::Goal {
            goal,
            names: BTreeSet::from(["a".to_owned(), "b".to_owned()]),
        }
    }

    #[test]
    fn every_applied_policy_must_be_there_and_no_other_counts() {
        let completed = rollouts(&[
            ("a", Phase::Completed, 2),
            ("b", Phase::Completed, 2),
            ("c", Phase::Failed, 2),
        ]);
        assert_eq!(
            goal(Goal::Completed).reached(&completed),
            ControlFlow::Break(Ended::Reached(Phase::Completed))
        );
        let one = rollouts(&[("a", Phase::Completed, 2)]);
        assert_eq!(goal(Goal::Completed).reached(&one), ControlFlow::Continue(()));
    }

    #[test]
    fn a_phase_of_an_older_generation_does_not_count() {
        let stale = rollouts(&[("a", Phase::Completed, 2), ("b", Phase::Completed, 1)]);
        assert_eq!(goal(Goal::Completed).reached(&stale), ControlFlow::Continue(()));
    }

    #[test]
    fn a_completed_policy_that_is_not_ready_is_waited_for() {
        let mut completed = rollouts(&[("a", Phase::Completed, 2), ("b", Phase::Completed, 2)]);
        completed.get_mut("b").unwrap().is_ready = false;
        assert_eq!(goal(Goal::Completed).reached(&completed), ControlFlow::Continue(()));
    }

    #[test]
    fn a_final_phase_that_is_not_the_wished_one_ends_it_in_vain() {
        let failed = rollouts(&[("a", Phase::Failed, 2), ("b", Phase::Holding, 2)]);
        assert_eq!(
            goal(Goal::Completed).reached(&failed),
            ControlFlow::Break(Ended::Otherwise(Phase::Failed))
        );
        let held = rollouts(&[("a", Phase::Completed, 2), ("b", Phase::Holding, 2)]);
        assert_eq!(goal(Goal::Completed).reached(&held), ControlFlow::Continue(()));
        assert_eq!(
            goal(Goal::Holding).reached(&held),
            ControlFlow::Break(Ended::Otherwise(Phase::Completed))
        );
    }

    #[test]
    fn a_stalled_policy_is_waited_for_as_somebody_may_put_it_right() {
        let stalled = rollouts(&[("a", Phase::Completed, 2), ("b", Phase::Stalled, 2)]);
        assert_eq!(goal(Goal::Completed).reached(&stalled), ControlFlow::Continue(()));
    }
}
