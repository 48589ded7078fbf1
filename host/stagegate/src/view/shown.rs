//! What the live view shows, and when.

use std::time::Duration;

use jiff::Timestamp;

use super::rollout::Rollout;
use super::text::{seconds, span};

/// What the times of a view count from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// The start of the view: in the playground, rollouts begin with it.
    #[default]
    FromStart,
    /// The beginning of each rollout, by its status.
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
    /// The time that a change of the rollout is shown with.
    pub(super) fn of(self, rollout: &Rollout) -> Elapsed {
        match self.counting {
            Counting::FromStart => Elapsed::Precise(self.elapsed),
            Counting::FromRollout => Elapsed::Whole(rollout.since_beginning(self.now)),
        }
    }

    /// The same for the state of the rollout as a whole: that of a completed one no longer grows.
    pub(super) fn of_rollout(self, rollout: &Rollout) -> Elapsed {
        match self.counting {
            Counting::FromStart => Elapsed::Precise(self.elapsed),
            Counting::FromRollout => Elapsed::Whole(rollout.duration(self.now)),
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
