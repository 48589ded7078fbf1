//! The one clock of everything that runs in this process. Nothing else may read the time: a test that pauses tokio's
//! time then owns every timestamp and every delay.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

/// Says what time it is.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}

pub type SharedClock = Arc<dyn Clock>;

/// A wall-clock origin plus the time tokio has counted since: real time normally, virtual time under
/// `tokio::time::pause()`.
pub struct TokioClock {
    wall: Timestamp,
    origin: tokio::time::Instant,
}

impl TokioClock {
    /// A clock that shows `wall` now.
    pub fn starting_at(wall: Timestamp) -> Self {
        Self {
            wall,
            origin: tokio::time::Instant::now(),
        }
    }

    /// A clock that shows the machine's time now.
    pub fn starting_now() -> Self {
        Self::starting_at(Timestamp::now())
    }

    pub fn shared() -> SharedClock {
        Arc::new(Self::starting_now())
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.origin.elapsed()).unwrap_or(SignedDuration::MAX);
        self.wall.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }
}
