//! Why a write was not sent, or its answer not waited for. Must not know what decides whether a process may write.

use thiserror::Error;

/// A write that was not sent, or whose answer was not waited for.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum WriteBlocked {
    #[error("not sent: this process may not write now")]
    Unsent,
    /// Nobody knows whether it took place.
    #[error("given up: this process may not write any more")]
    GivenUp,
}
