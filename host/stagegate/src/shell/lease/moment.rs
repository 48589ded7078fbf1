//! A moment from which a term counts, by a clock that also runs while the machine sleeps. Must not tell the time of day.
//!
//! `Instant` stands still while a machine is suspended, and the lease of the one who sleeps expires for all others.

use std::time::Duration;

use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub struct Moment {
    awake: Instant,
    /// What the machine had slept until then.
    slept: Duration,
}

impl Moment {
    pub fn now() -> Self {
        Self {
            awake: Instant::now(),
            slept: slept(),
        }
    }

    pub fn elapsed(self) -> Duration {
        self.until(Self::now())
    }

    fn until(self, later: Self) -> Duration {
        let awake = later.awake.saturating_duration_since(self.awake);
        awake.saturating_add(later.slept.saturating_sub(self.slept))
    }
}

/// The time for which writes may be sent after one that was answered had been.
#[derive(Clone, Copy, Debug)]
pub struct Term {
    pub from: Moment,
    pub length: Duration,
}

impl Term {
    /// Zero: it is over.
    pub fn left(self) -> Duration {
        self.left_at(Moment::now())
    }

    fn left_at(self, now: Moment) -> Duration {
        self.length.saturating_sub(self.from.until(now))
    }
}

/// Linux counts it in CLOCK_BOOTTIME and not in CLOCK_MONOTONIC. The two are read one after the other, so what they differ by
/// is a little more than that.
#[cfg(target_os = "linux")]
fn slept() -> Duration {
    use rustix::time::{ClockId, clock_gettime};

    let awake = Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default();
    let all = Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default();
    all.saturating_sub(awake)
}

/// Elsewhere nobody asks: a process that slept is stopped by stamps and preconditions alone.
#[cfg(not(target_os = "linux"))]
fn slept() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_while_the_machine_sleeps() {
        let sent = Moment::now();
        let length = Duration::from_secs(10);
        let term = Term { from: sent, length };
        let later = |awake_s: u64, slept_s: u64| Moment {
            awake: sent.awake + Duration::from_secs(awake_s),
            slept: sent.slept + Duration::from_secs(slept_s),
        };
        assert_eq!(term.left_at(later(1, 0)), Duration::from_secs(9));
        assert_eq!(term.left_at(later(1, 8)), Duration::from_secs(1));
        assert_eq!(term.left_at(later(1, 60)), Duration::ZERO);
    }
}
