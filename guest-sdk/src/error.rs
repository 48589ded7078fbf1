//! Why a gate could not judge.

use std::fmt;

/// The gate could not judge: the outcome of the check is unknown, and the stage waits. Never a default, never a pass.
///
/// Any [`std::error::Error`] becomes one by `?`, with its causes.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    /// `message` says in lower case what was tried.
    pub fn new(message: impl fmt::Display) -> Self {
        Self(message.to_string())
    }
}

impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message = format!("{message}: {error}");
            cause = error.source();
        }
        Self(message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
