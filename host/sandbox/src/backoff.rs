//! Doubling delays after failures, in real time. Must not sleep.

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);

/// How often something has failed in a row, and when it may be tried again.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    delay: Duration,
    until: Instant,
}

impl Backoff {
    /// After the first failure: 1 s.
    pub fn first(now: Instant) -> Self {
        Self {
            delay: FIRST,
            until: now + FIRST,
        }
    }

    /// After one more failure: twice as long, at most 5 min.
    pub fn longer(self, now: Instant) -> Self {
        let delay = (self.delay * 2).min(LONGEST);
        Self {
            delay,
            until: now + delay,
        }
    }

    /// How long there still is to wait; `None`: it may be tried.
    pub fn remaining(&self, now: Instant) -> Option<Duration> {
        self.until.checked_duration_since(now).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_five_minutes() {
        let now = Instant::now();
        let mut backoff = Backoff::first(now);
        let mut delays = vec![backoff.delay.as_secs()];
        for _ in 0..10 {
            backoff = backoff.longer(now);
            delays.push(backoff.delay.as_secs());
        }
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    }

    #[test]
    fn a_try_is_due_when_the_delay_is_over_and_not_before() {
        let now = Instant::now();
        let backoff = Backoff::first(now).longer(now);
        assert_eq!(backoff.remaining(now), Some(Duration::from_secs(2)));
        assert!(backoff.remaining(now + Duration::from_millis(1_999)).is_some());
        assert_eq!(backoff.remaining(now + Duration::from_secs(2)), None);
    }
}
