//! How a command ends. Must not know of exit codes.

use std::io;

/// How a command ended when nothing went wrong on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Exit code 0.
    Success,
    /// Held, failed, false, findings: exit code 1.
    Negative,
    /// Exit code 3.
    TimedOut,
    /// Of `status`: neither completed and Ready nor held: exit code 3.
    Undecided,
}

/// Why a command could not answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// What the user gave cannot be used: exit code 2.
    #[error(transparent)]
    Input(anyhow::Error),
    /// A cluster, a file system or the network did not do what was asked: exit code 4.
    #[error(transparent)]
    Environment(anyhow::Error),
}

impl From<io::Error> for Failure {
    /// Of reads and writes that have no better context: the standard streams.
    fn from(error: io::Error) -> Self {
        Self::Environment(anyhow::Error::new(error).context("writing to standard output"))
    }
}

pub type Result<T = Outcome> = std::result::Result<T, Failure>;
