//! Until when a plan may be carried out, what to do after one that came too late, and when something was by the shared clock. Must not know what
//! is in a plan.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use stagegate_clock::SharedClock;
use tokio::time::Instant;

/// First pause after a plan that came too late; doubled by each further one in a row.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// What the Event says from the second plan in a row on that came too late.
pub const NOTE: &str = "reading the evidence and asking the gates of this stage took longer than what was read may be used, more than once in \
                        a row, so the stage waits; give its gates shorter timeouts, use fewer of them, or see why the API server is slow";

/// The end of the time in which what was read may be used.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    end: Timestamp,
    worth: Duration,
    begun: Instant,
}

impl Deadline {
    /// Facts of this time, the first of which was asked for at `begun`, may be used until `not_after`.
    pub fn of(not_after: Timestamp, now: Timestamp, begun: Instant) -> Self {
        Self {
            end: not_after,
            worth: Duration::try_from(not_after.duration_since(now)).unwrap_or_default(),
            begun,
        }
    }

    /// The plan counts from the end of the reading. Its oldest part is older, and a clock that was set back meanwhile makes nothing younger.
    pub fn is_over(&self, clock: &SharedClock) -> bool {
        clock.now() >= self.end || self.begun.elapsed() >= self.worth
    }
}

/// How long to wait after so many plans in a row that came too late.
pub fn pause(late: u32) -> Duration {
    (PAUSE_MIN * 2u32.pow(late.saturating_sub(1).min(16))).min(PAUSE_MAX)
}

/// The time at which the shared clock would have shown `instant`.
pub fn ago(instant: Instant, now: Timestamp) -> Timestamp {
    let elapsed = SignedDuration::try_from(instant.elapsed()).unwrap_or(SignedDuration::MAX);
    now.checked_sub(elapsed).unwrap_or(Timestamp::MIN)
}
