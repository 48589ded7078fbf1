//! What can go wrong with a list or a watch, and how many such things came in a row. Must not wait or repeat anything.

use std::time::Duration;

use kube::core::Status;
use thiserror::Error;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::bounds::ANSWER_MAX;

/// First pause after something went wrong; doubled by each further one in a row.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// Longest pause: four of them pass before an error that a new list cures is cured, so within 30 s.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// So many refusals in a row end a position: it may be what the server refuses.
const REFUSALS_MAX: u32 = 3;
/// Longer apart, two troubles do not belong together.
const STREAK_GAP_MAX: Duration = Duration::from_secs(60);

/// Why a list or a watch did not go on.
#[derive(Debug, Error)]
pub enum WatchError {
    #[error("listing")]
    List(#[source] kube::Error),
    #[error("beginning to watch")]
    Begin(#[source] kube::Error),
    /// The connection broke; nothing is lost, as the position is known.
    #[error("reading the watch")]
    Broken(#[source] kube::Error),
    /// An event that is not understood: its content is lost.
    #[error("reading an event")]
    Unreadable(#[source] kube::Error),
    /// The server ends this watch; events may be lost.
    #[error("the server ended the watch: {} {}: {}", .0.code, .0.reason, .0.message)]
    EndedByServer(Box<Status>),
    #[error("no answer within {} s", ANSWER_MAX.as_secs())]
    NoAnswer,
    /// Nothing is lost, but a server that ends every watch at once must not be asked without pause.
    #[error("the watch ended after {} ms", .after.as_millis())]
    Short { after: Duration },
    #[error("the list has no resourceVersion")]
    NoVersion,
    #[error("a list of version {of} went on at version {then}")]
    Torn { of: String, then: String },
    #[error("the API server answered from an older state: version {listed}, but {seen} was seen before")]
    Older { listed: u64, seen: u64 },
}

impl WatchError {
    pub fn is_code(&self, code: u16) -> bool {
        self.status().is_some_and(|status| status.code == code)
    }

    /// Only a new list tells what the watch did not.
    pub fn loses_events(&self) -> bool {
        matches!(self, Self::Unreadable(_) | Self::EndedByServer(_)) || self.is_code(410)
    }

    /// The server's own words where it has answered.
    pub fn cause(&self) -> String {
        match (self.status(), std::error::Error::source(self)) {
            (Some(status), _) => format!("{} {}: {}", status.code, status.reason, status.message),
            (None, Some(source)) => format!("{self}: {source}"),
            (None, None) => self.to_string(),
        }
    }

    pub fn report(
        &self,
        kind: &str,
        Following {
            in_row,
            is_missing_still,
        }: Following,
    ) {
        match self {
            _ if is_missing_still => {}
            _ if self.is_code(404) => info!(
                kind,
                "the API server does not know this kind yet: waiting for its CustomResourceDefinition"
            ),
            _ if self.is_code(410) => debug!(kind, "the watch is too old: listing anew"),
            Self::Short { .. } if in_row < REFUSALS_MAX => debug!(kind, in_row, "{self}"),
            _ => warn!(kind, in_row, error = self.cause(), "watch failed"),
        }
    }

    fn status(&self) -> Option<&Status> {
        match self {
            Self::List(kube::Error::Api(status))
            | Self::Begin(kube::Error::Api(status))
            | Self::Broken(kube::Error::Api(status))
            | Self::EndedByServer(status) => Some(status),
            _ => None,
        }
    }
}

/// How a trouble follows those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Following {
    pub in_row: u32,
    /// The kind is not known to the server, and was not known to it before.
    pub is_missing_still: bool,
}

/// Troubles in a row: a quiet watch says nothing, so a time without trouble ends the row too.
#[derive(Debug, Default)]
pub struct FailureStreak {
    count: u32,
    refusals: u32,
    last: Option<Instant>,
    is_missing: bool,
}

impl FailureStreak {
    pub fn add(&mut self, trouble: &WatchError) -> Following {
        let now = Instant::now();
        if self.last.is_some_and(|last| now.duration_since(last) > STREAK_GAP_MAX) {
            self.end();
        }
        self.last = Some(now);
        self.count = self.count.saturating_add(1);
        if matches!(trouble, WatchError::Begin(_) | WatchError::NoAnswer) {
            self.refusals = self.refusals.saturating_add(1);
        }
        let was_missing = std::mem::replace(&mut self.is_missing, trouble.is_code(404));
        Following {
            in_row: self.count,
            is_missing_still: was_missing && self.is_missing,
        }
    }

    /// A watch held.
    pub fn end(&mut self) {
        (self.count, self.refusals, self.is_missing) = (0, 0, false);
    }

    /// The position was refused too often; counts anew.
    pub fn gives_up_position(&mut self) -> bool {
        let is_enough = self.refusals >= REFUSALS_MAX;
        if is_enough {
            self.refusals = 0;
        }
        is_enough
    }

    pub fn pause(&self) -> Duration {
        let doublings = self.count.saturating_sub(1).min(10);
        (PAUSE_FIRST * 2u32.pow(doublings)).min(PAUSE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube::core::Status;

    use super::{FailureStreak, WatchError};

    #[test]
    fn a_kind_that_goes_away_is_told_once_whatever_went_wrong_before() {
        let missing = || {
            WatchError::List(kube::Error::Api(
                Status::failure("gone", "NotFound").with_code(404).boxed(),
            ))
        };
        let short = WatchError::Short { after: Duration::ZERO };
        let mut row = FailureStreak::default();
        let troubles = [&short, &missing(), &missing(), &short, &missing()];
        let is_still = troubles.map(|trouble| row.add(trouble).is_missing_still);
        assert_eq!(is_still, [false, false, true, false, false]);
        row.end();
        assert!(!row.add(&missing()).is_missing_still);
    }
}
