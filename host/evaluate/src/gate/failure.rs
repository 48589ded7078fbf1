//! Every way in which a gate can have no verdict. None of them is ever a pass.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::text::sentence;

/// What went wrong, and a sentence about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub kind: FailureKind,
    /// At most [`super::FAILURE_CHARS_MAX`] characters, of which a guest may have chosen some: printable ones only.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum FailureKind {
    // The module cannot be used.
    /// Neither a component nor a core module.
    NotWasm,
    /// A core module; gates are components.
    CoreModule,
    /// A component that exports no gate, or wants what no gate gets.
    OtherWorld,
    /// A gate of a version of the interface that this host does not know.
    OtherVersion,
    /// More than [`super::limits::COMPONENT_BYTES_MAX`].
    TooLarge,
    /// It does not compile: the compiler said so, or panicked.
    NotCompiled,
    // One call went wrong.
    /// The guest stopped itself: a panic, an out-of-bounds access, `unreachable`.
    Trapped,
    /// A call, or compiling.
    TimedOut,
    /// Memory, table, stack, handles or instances.
    LimitExceeded,
    /// The request is larger than [`super::limits::REQUEST_BYTES_MAX`].
    RequestTooLarge,
    AnswerTooLarge,
    /// The answer is not a verdict: a reason that is empty, JSON that does not fit.
    AnswerInvalid,
    /// The guest said that it could not judge.
    GuestError,
    // This side.
    /// The child process ended or answered nonsense.
    SandboxBroken,
    /// The artifact is not one that this engine wrote.
    ArtifactRefused,
    /// The artifact is not there any more: the component has to be compiled again.
    NotLoaded,
}

impl FailureKind {
    /// Whether the same input fails the same way: the machine had no part in it.
    pub const fn is_lasting(self) -> bool {
        !matches!(
            self,
            Self::TimedOut | Self::SandboxBroken | Self::ArtifactRefused | Self::NotLoaded
        )
    }
}

impl Failure {
    /// Cuts the message and replaces what cannot be printed on one line.
    pub fn new(kind: FailureKind, message: impl fmt::Display) -> Self {
        Self {
            kind,
            message: sentence(message),
        }
    }
}
