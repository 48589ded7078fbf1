//! Verdicts that cannot be filled wrongly: a reason where one is due, times that are times, evidence that the host
//! keeps whole.

use std::fmt::Display;
use std::time::Duration;

use crate::Error;
use crate::bindings::stagegate::gate::types as wit;

/// Most characters of a reason. What is beyond is cut.
pub const REASON_CHARS_MAX: usize = 1_000;
/// Most pieces of evidence, and most characters of a piece's name and value. What is beyond is cut.
pub const PIECES_MAX: usize = 16;
/// Most characters of the name of a piece of evidence.
pub const PIECE_NAME_CHARS_MAX: usize = 64;
/// Most characters of its value.
pub const PIECE_VALUE_CHARS_MAX: usize = 128;

/// What a gate says of a stage. A gate that cannot say anything returns an [`Error`] instead.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Verdict {
    decision: wit::Decision,
    evidence: Vec<wit::EvidencePiece>,
}

impl Verdict {
    /// The stage is done as far as this gate is concerned, until evidence, config or gate change.
    pub fn pass() -> Self {
        Self::of(wit::Decision::Pass(wit::Pass { valid_for_ms: None }))
    }

    /// As [`Self::pass`], but not for longer than `valid_for` from the request's time on. In whole milliseconds,
    /// rounded down; no time at all is an error when the verdict is handed over.
    pub fn pass_for(valid_for: Duration) -> Self {
        let valid_for_ms = Some(u64::try_from(valid_for.as_millis()).unwrap_or(u64::MAX));
        Self::of(wit::Decision::Pass(wit::Pass { valid_for_ms }))
    }

    /// Not yet. The gate is asked again when something changes. An empty reason is an error when the verdict is handed
    /// over.
    pub fn hold(reason: impl Display) -> Self {
        let reason = cut(&reason, REASON_CHARS_MAX);
        Self::of(wit::Decision::Hold(wit::Hold {
            reason,
            retry_after_ms: None,
        }))
    }

    /// As [`Self::hold`], and the gate is asked again after `retry_after` although nothing has changed. In whole
    /// milliseconds, rounded up.
    pub fn hold_for(retry_after: Duration, reason: impl Display) -> Self {
        let reason = cut(&reason, REASON_CHARS_MAX);
        let retry_after_ms = retry_after.as_nanos().div_ceil(1_000_000).max(1);
        let retry_after_ms = Some(u64::try_from(retry_after_ms).unwrap_or(u64::MAX));
        Self::of(wit::Decision::Hold(wit::Hold { reason, retry_after_ms }))
    }

    /// Never in this attempt: the stage has failed until a human acts. An empty reason is an error when the verdict is
    /// handed over.
    pub fn fail(reason: impl Display) -> Self {
        let reason = cut(&reason, REASON_CHARS_MAX);
        Self::of(wit::Decision::Fail(wit::Fail { reason }))
    }

    /// A piece of what the verdict rests on, for the audit trail. A name that was used before gets the new value.
    pub fn evidence(mut self, name: impl Display, value: impl Display) -> Self {
        let name = cut(&name, PIECE_NAME_CHARS_MAX);
        let value = cut(&value, PIECE_VALUE_CHARS_MAX);
        if let Some(piece) = self.evidence.iter_mut().find(|piece| piece.name == name) {
            piece.value = value;
        } else if self.evidence.len() < PIECES_MAX {
            self.evidence.push(wit::EvidencePiece { name, value });
        }
        self
    }

    fn of(decision: wit::Decision) -> Self {
        Self {
            decision,
            evidence: Vec::new(),
        }
    }

    /// What the host gets: a verdict, or why it is none.
    pub(crate) fn hand_over(self) -> Result<wit::Verdict, Error> {
        let flaw = match &self.decision {
            wit::Decision::Pass(pass) if pass.valid_for_ms == Some(0) => Some("passed for no time at all"),
            wit::Decision::Hold(hold) if hold.reason.trim().is_empty() => Some("held without a reason"),
            wit::Decision::Fail(fail) if fail.reason.trim().is_empty() => Some("failed the stage without a reason"),
            _ if self.evidence.iter().any(|piece| piece.name.trim().is_empty()) => Some("gave evidence without a name"),
            _ => None,
        };
        match flaw {
            Some(flaw) => Err(Error::new(format_args!("the gate {flaw}"))),
            None => Ok(wit::Verdict {
                decision: self.decision,
                evidence: self.evidence,
            }),
        }
    }
}

/// At most `max` characters on one line; an ellipsis is the last one where some are missing.
fn cut(text: &dyn Display, max: usize) -> String {
    let mut text = text.to_string().replace(char::is_control, " ");
    if text.chars().nth(max).is_some() {
        let end = text.char_indices().nth(max - 1).map_or(text.len(), |(at, _)| at);
        text.truncate(end);
        text.push('…');
    }
    text
}
