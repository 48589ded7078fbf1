//! Instants and waits. There is no clock here: every time is given.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The end of a wait. Times in status may be anybody's: one that is out of range never comes.
pub fn after(start: Timestamp, wait: SignedDuration) -> Timestamp {
    start.checked_add(wait).unwrap_or(Timestamp::MAX)
}

/// The later of two times, where the first may be absent.
pub fn later(a: Option<Timestamp>, b: Timestamp) -> Timestamp {
    a.map_or(b, |a| a.max(b))
}

/// A time from which something counts. Kubernetes stores whole seconds, so it is rounded up: no wait is cut short by being stored.
pub fn round_up_to_second(now: Timestamp) -> Time {
    let second = if now.subsec_nanosecond() > 0 {
        now.as_second().saturating_add(1)
    } else {
        now.as_second()
    };
    Time(Timestamp::from_second(second).unwrap_or(now))
}
