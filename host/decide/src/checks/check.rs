//! The checks of a stage, by the names that status gives them. Must not evaluate any.

use stagegate_api::CheckStatus;

/// A check that a stage has once. Gates have the names of their entries in the spec, see
/// [`CheckedGate::check_name`](super::spec::CheckedGate::check_name).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    Filter,
    Evidence,
    Health,
    Condition,
    Soak,
}

impl Check {
    const ALL: [Self; 5] = [Self::Filter, Self::Evidence, Self::Health, Self::Condition, Self::Soak];

    /// As status has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Evidence => "evidence",
            Self::Health => "health",
            Self::Condition => "condition",
            Self::Soak => "soak",
        }
    }

    /// The check of this name; `None`: it is a gate's.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|check| check.as_str() == name)
    }

    /// Whether an answer is this check's.
    pub fn is_of(self, status: &CheckStatus) -> bool {
        status.name == self.as_str()
    }

    /// Its last answer.
    pub fn last(self, checks: &[CheckStatus]) -> Option<&CheckStatus> {
        checks.iter().find(|status| self.is_of(status))
    }
}
