//! The two ways a user or an orchestrator asks the process to end.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Failure, Result};

/// SIGINT and SIGTERM, caught from the making of this on.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// # Errors
    /// When the system does not let signals be caught.
    pub fn catch() -> Result<Self> {
        let caught = |kind| signal(kind).context("catching signals").map_err(Failure::Environment);
        Ok(Self {
            interrupt: caught(SignalKind::interrupt())?,
            terminate: caught(SignalKind::terminate())?,
        })
    }

    /// Waits for the next of either.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
