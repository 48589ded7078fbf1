//! How far the work on one key has come, known to whatever runs in its task. Must not influence the work.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

tokio::task_local! {
    static WORK: Arc<Work>;
}

/// One key being handled.
#[derive(Debug)]
pub struct Work {
    caused_at: Instant,
    last_step: Mutex<Instant>,
}

impl Work {
    /// Begun now; `caused_at` is when the event or the wake-up came that led to it.
    pub fn caused_at(caused_at: Instant) -> Self {
        Self {
            caused_at,
            last_step: Mutex::new(Instant::now()),
        }
    }

    /// When something it waited for came last. Each such wait has a bound of its own, so work without steps is stuck.
    pub fn last_step(&self) -> Instant {
        *self.last_step.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `task` as this work.
    pub async fn run<T>(self: Arc<Self>, task: impl Future<Output = T>) -> T {
        WORK.scope(self, task).await
    }
}

/// Something that was waited for has come or was given up. Nothing happens outside of [`Work::run`].
pub fn step() {
    // Of what is not done for a key nobody asks how far it is.
    let _told = WORK.try_with(|work| {
        *work.last_step.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    });
}

/// How long ago the event came that this work answers.
pub fn since_cause() -> Option<Duration> {
    WORK.try_with(|work| work.caused_at.elapsed()).ok()
}
