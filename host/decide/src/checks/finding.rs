//! One answer about a stage: an outcome, a reason word, and a sentence. Must not know how it was found.

use jiff::Timestamp;
use stagegate_api::Outcome;

use crate::checks::reason::Reason;
use stagegate_api::printable::printable_cut;

/// The longest message that goes into a condition or a check; the API server takes 32 KiB, a reader does not.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// What stands in the way, or that nothing does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub outcome: Outcome,
    pub reason: Reason,
    pub message: String,
    /// When this may change without an event.
    pub wake_at: Option<Timestamp>,
    /// Only because this process has just started: nothing new is known, so status stays as it is.
    pub is_restart: bool,
}

impl Finding {
    /// A proof is missing.
    pub fn unknown(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(Outcome::Unknown, reason, message.into())
    }

    /// The evidence is complete, and a check says no.
    pub fn hold(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(Outcome::Hold, reason, message.into())
    }

    /// A gate says that this attempt will never pass.
    pub fn fail(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(Outcome::Fail, reason, message.into())
    }

    pub fn pass(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(Outcome::Pass, reason, message.into())
    }

    pub fn is_pass(&self) -> bool {
        self.outcome == Outcome::Pass
    }

    #[must_use]
    pub fn wake_at(mut self, at: Timestamp) -> Self {
        self.wake_at = Some(at);
        self
    }

    #[must_use]
    pub fn after_restart(mut self) -> Self {
        self.is_restart = true;
        self
    }

    /// Makes the message printable: conditions, checks and Events bring it to terminals, and it may quote text of clusters,
    /// objects, guests and users.
    fn new(outcome: Outcome, reason: Reason, message: String) -> Self {
        Self {
            outcome,
            reason,
            message: printable_cut(&message, MESSAGE_CHARS_MAX),
            wake_at: None,
            is_restart: false,
        }
    }
}
