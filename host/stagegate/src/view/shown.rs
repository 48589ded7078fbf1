//! What the live view shows, and when.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use stagegate_api::StagedBindingPolicy;

use super::text::{seconds, span};
use super::times;

/// The policies by name.
pub type Policies = BTreeMap<String, StagedBindingPolicy>;

/// What the times of a view count from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// The start of the view: in the playground, rollouts begin with it.
    #[default]
    FromStart,
    /// The beginning of each policy's rollout, by its status.
    FromRollout,
}

/// The time on both clocks of a view: since it began, and of the day.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub elapsed: Duration,
    pub now: Timestamp,
    pub counting: Counting,
}

impl Moment {
    /// The time that a change of the policy is shown with.
    pub(super) fn of(self, policy: &StagedBindingPolicy) -> Elapsed {
        match self.counting {
            Counting::FromStart => Elapsed::Precise(self.elapsed),
            Counting::FromRollout => Elapsed::Whole(times::since_beginning(policy, self.now)),
        }
    }

    /// The same for the state of the policy as a whole: that of a completed rollout no longer grows.
    pub(super) fn of_rollout(self, policy: &StagedBindingPolicy) -> Elapsed {
        match self.counting {
            Counting::FromStart => Elapsed::Precise(self.elapsed),
            Counting::FromRollout => Elapsed::Whole(times::duration(policy, self.now)),
        }
    }
}

/// A time that has passed, and how exactly it is known.
#[derive(Clone, Copy, Debug)]
pub enum Elapsed {
    /// Measured.
    Precise(Duration),
    /// From times in a status, which have whole seconds.
    Whole(Duration),
}

impl Elapsed {
    pub(super) const fn duration(self) -> Duration {
        match self {
            Self::Precise(duration) | Self::Whole(duration) => duration,
        }
    }

    pub(super) fn text(self) -> String {
        match self {
            Self::Precise(duration) => seconds(duration),
            Self::Whole(duration) => span(duration),
        }
    }
}
