//! A moment from which a term counts, by a clock that also runs while the machine sleeps. Must not tell the time of day.
//!
//! `Instant` stands still while a machine is suspended, and the lease of the one who sleeps expires for all others.

use std::time::Duration;

use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub struct Moment {
    awake: Instant,
    /// Since the machine was started, its sleep counted.
    since_boot: Duration,
}

impl Moment {
    pub fn now() -> Self {
        Self {
            awake: Instant::now(),
            since_boot: since_boot(),
        }
    }

    pub fn elapsed(self) -> Duration {
        self.until(Self::now())
    }

    /// The longer of the two: neither clock goes fast.
    fn until(self, later: Self) -> Duration {
        let awake = later.awake.saturating_duration_since(self.awake);
        awake.max(later.since_boot.saturating_sub(self.since_boot))
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

#[cfg(target_os = "linux")]
fn since_boot() -> Duration {
    use rustix::time::{ClockId, clock_gettime};

    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

/// Elsewhere nobody asks: a process that slept is stopped by fencing tokens and preconditions alone.
#[cfg(not(target_os = "linux"))]
fn since_boot() -> Duration {
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
        let later = |awake_s: u64, all_s: u64| Moment {
            awake: sent.awake + Duration::from_secs(awake_s),
            since_boot: sent.since_boot + Duration::from_secs(all_s),
        };
        assert_eq!(term.left_at(later(1, 1)), Duration::from_secs(9));
        assert_eq!(term.left_at(later(1, 9)), Duration::from_secs(1));
        assert_eq!(term.left_at(later(1, 60)), Duration::ZERO);
        assert_eq!(term.left_at(later(60, 1)), Duration::ZERO);
    }
}
