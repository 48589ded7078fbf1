//! When a view has reached its end, judged by the policies' status alone. Must not know where the policies come from.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use stagegate_api::{Phase, StagedBindingPolicy};

use crate::args::Goal;
use crate::commands::Outcome;
use crate::view::{Policies, times};

/// What is waited for.
pub enum Until {
    /// Each of these policies is in this phase, or one ends in another.
    Goal { goal: Goal, policies: BTreeSet<String> },
    /// Each of these policies is completed: what the playground waits for, unless it is told otherwise.
    #[cfg(feature = "playground")]
    Completed { policies: BTreeSet<String> },
    /// Nothing but Ctrl-C.
    Interrupted,
}

/// Why it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Reached(Phase),
    /// A policy has completed or failed, and that was not the goal.
    Otherwise(Phase),
    TimedOut,
    Interrupted,
}

impl Until {
    pub fn reached(&self, policies: &Policies) -> ControlFlow<Ended> {
        let (wished, names) = match self {
            Self::Goal { goal, policies } => (phase(*goal), policies),
            #[cfg(feature = "playground")]
            Self::Completed { policies } => (Phase::Completed, policies),
            Self::Interrupted => return ControlFlow::Continue(()),
        };
        let phases: Vec<_> = names
            .iter()
            .map(|name| policies.get(name).and_then(current_phase))
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

/// The phase, if it is about the spec as it is now. A policy that is completed but not Ready is not at its goal, as for `status`.
fn current_phase(policy: &StagedBindingPolicy) -> Option<Phase> {
    let status = policy.status.as_ref()?;
    let is_current = status.observed_generation == policy.metadata.generation;
    let phase = status.phase.filter(|_| is_current)?;
    (phase != Phase::Completed || times::is_ready(status)).then_some(phase)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policies(phases: &[(&str, Phase, i64)]) -> Policies {
        let policy = |(name, phase, observed): &(&str, Phase, i64)| {
            let mut policy = StagedBindingPolicy::default();
            policy.metadata.name = Some((*name).to_owned());
            policy.metadata.generation = Some(2);
            let status = policy.status.insert(Default::default());
            (status.phase, status.observed_generation) = (Some(*phase), Some(*observed));
            let is_ready = if *phase == Phase::Completed { "True" } else { "False" };
            let ready = json!({"type": "Ready", "status": is_ready, "reason": "A", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"});
            status.conditions = vec![serde_json::from_value(ready).unwrap()];
            ((*name).to_owned(), policy)
        };
        phases.iter().map(policy).collect()
    }

    fn goal(goal: Goal) -> Until {
        Until::Goal {
            goal,
            policies: BTreeSet::from(["a".to_owned(), "b".to_owned()]),
        }
    }

    #[test]
    fn every_applied_policy_must_be_there_and_no_other_counts() {
        let completed = policies(&[
            ("a", Phase::Completed, 2),
            ("b", Phase::Completed, 2),
            ("c", Phase::Failed, 2),
        ]);
        assert_eq!(
            goal(Goal::Completed).reached(&completed),
            ControlFlow::Break(Ended::Reached(Phase::Completed))
        );
        let one = policies(&[("a", Phase::Completed, 2)]);
        assert_eq!(goal(Goal::Completed).reached(&one), ControlFlow::Continue(()));
    }

    #[test]
    fn a_phase_of_an_older_generation_does_not_count() {
        let stale = policies(&[("a", Phase::Completed, 2), ("b", Phase::Completed, 1)]);
        assert_eq!(goal(Goal::Completed).reached(&stale), ControlFlow::Continue(()));
    }

    #[test]
    fn a_completed_policy_that_is_not_ready_is_waited_for() {
        let mut completed = policies(&[("a", Phase::Completed, 2), ("b", Phase::Completed, 2)]);
        let status = completed.get_mut("b").and_then(|policy| policy.status.as_mut());
        status.unwrap().conditions[0].status = "False".to_owned();
        assert_eq!(goal(Goal::Completed).reached(&completed), ControlFlow::Continue(()));
    }

    #[test]
    fn a_final_phase_that_is_not_the_wished_one_ends_it_in_vain() {
        let failed = policies(&[("a", Phase::Failed, 2), ("b", Phase::Holding, 2)]);
        assert_eq!(
            goal(Goal::Completed).reached(&failed),
            ControlFlow::Break(Ended::Otherwise(Phase::Failed))
        );
        let held = policies(&[("a", Phase::Completed, 2), ("b", Phase::Holding, 2)]);
        assert_eq!(goal(Goal::Completed).reached(&held), ControlFlow::Continue(()));
        assert_eq!(
            goal(Goal::Holding).reached(&held),
            ControlFlow::Break(Ended::Otherwise(Phase::Completed))
        );
    }

    #[test]
    fn a_stalled_policy_is_waited_for_as_somebody_may_put_it_right() {
        let stalled = policies(&[("a", Phase::Completed, 2), ("b", Phase::Stalled, 2)]);
        assert_eq!(goal(Goal::Completed).reached(&stalled), ControlFlow::Continue(()));
    }
}
