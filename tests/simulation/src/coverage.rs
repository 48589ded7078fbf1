//! What the runs have reached (reasons, states of stages, and pairs of an action and the moment at which it came), and what none
//! of them has reached. Must not change a run.

use std::collections::BTreeMap;
use std::fmt;

use stagegate_api::{Phase, StageState, StagedBindingPolicyStatus};
use stagegate_decide::staging::Reason;

use crate::script::Action;

/// What a policy was about when something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// Status says nothing yet.
    Unseen,
    /// A placement is being made, opened or changed.
    Placing,
    /// Its Binding is there, and does not count yet.
    Settling,
    /// Reports are missing, or are about an older version.
    Reporting,
    /// All has been reported, and not all is well.
    Holding,
    Soaking,
    Completed,
    /// Nothing moves until a person acts.
    Stalled,
}

impl Moment {
    pub const ALL: [Self; 8] = [
        Self::Unseen,
        Self::Placing,
        Self::Settling,
        Self::Reporting,
        Self::Holding,
        Self::Soaking,
        Self::Completed,
        Self::Stalled,
    ];

    #[must_use]
    pub fn of(status: Option<&StagedBindingPolicyStatus>) -> Self {
        let Some(status) = status else { return Self::Unseen };
        match (status.phase, status.reason.as_deref().unwrap_or_default()) {
            (None, _) => Self::Unseen,
            (Some(Phase::Completed), _) => Self::Completed,
            (Some(Phase::Stalled | Phase::Paused), _) => Self::Stalled,
            (Some(Phase::Holding), _) => Self::Holding,
            (_, "Soaking") => Self::Soaking,
            (_, "Opening" | "Placing" | "NameInUse" | "KubeStellarSilent" | "BindingPolicyNotSynced") => Self::Placing,
            (
                _,
                "BindingMissing" | "BindingNotOwned" | "Settling" | "BindingSetShrank" | "NoDestinations" | "NoObjects",
            ) => Self::Settling,
            _ => Self::Reporting,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reached {
    Reason(String),
    State(String),
    /// An action, and what the policy was about when it came.
    Pair(String, Moment),
}

impl fmt::Display for Reached {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reason(reason) => write!(to, "reason {reason}"),
            Self::State(state) => write!(to, "state {state}"),
            Self::Pair(action, moment) => write!(to, "{action} while {moment:?}"),
        }
    }
}

/// How often each was reached.
#[derive(Clone, Debug, Default)]
pub struct Coverage(BTreeMap<Reached, u64>);

impl Coverage {
    pub fn note(&mut self, reached: Reached) {
        *self.0.entry(reached).or_default() += 1;
    }

    pub fn add(&mut self, other: &Self) {
        for (reached, count) in &other.0 {
            *self.0.entry(reached.clone()).or_default() += count;
        }
    }

    pub fn counts(&self) -> impl Iterator<Item = (&Reached, u64)> {
        self.0.iter().map(|(reached, count)| (reached, *count))
    }

    /// Everything in the lists of reasons, states and actions that has not been reached.
    #[must_use]
    pub fn missing(&self) -> Vec<Reached> {
        let states = [
            StageState::Pending,
            StageState::Active,
            StageState::Passed,
            StageState::Outdated,
            StageState::Failed,
        ];
        let reasons = Reason::ALL.iter().filter(|reason| is_of_a_policy(**reason));
        let reasons = reasons.map(|reason| Reached::Reason(reason.as_str().to_owned()));
        let states = states.iter().map(|state| Reached::State(format!("{state:?}")));
        let pairs = Action::kinds()
            .into_iter()
            .flat_map(|action| Moment::ALL.map(|moment| Reached::Pair(action.clone(), moment)));
        let all = reasons.chain(states).chain(pairs);
        all.filter(|reached| !self.0.contains_key(reached)).collect()
    }
}

/// The other reasons stand in Events, conditions and checks alone, or are about gates, which no policy of this world has.
fn is_of_a_policy(reason: Reason) -> bool {
    use Reason::{
        Accepted, Complete, ConditionTrue, EditedAfterCompletion, Healthy, NoConflict, SecondController, Soaked,
        StageOpened, StagePassed,
    };
    let elsewhere = [
        Accepted,
        NoConflict,
        SecondController,
        StageOpened,
        StagePassed,
        EditedAfterCompletion,
        Complete,
        Healthy,
        ConditionTrue,
        Soaked,
    ];
    let is_of_gates = reason.as_str().starts_with("Gate") || reason == Reason::InvalidGateConfig;
    !is_of_gates && !elsewhere.contains(&reason)
}
