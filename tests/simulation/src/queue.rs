//! What happens when: one line of events in virtual time. Must not know what an event does.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

/// Milliseconds since the world began.
pub type Millis = i64;

/// 2026-01-01T00:00:00Z.
const BEGINNING_SECONDS: i64 = 1_767_225_600;

/// A point of virtual time as all parts of the world write it.
#[must_use]
pub fn timestamp(at: Millis) -> Timestamp {
    let beginning = Timestamp::from_second(BEGINNING_SECONDS).unwrap_or(Timestamp::UNIX_EPOCH);
    beginning
        .checked_add(SignedDuration::from_millis(at))
        .unwrap_or(Timestamp::MAX)
}

/// The inverse of [`timestamp`].
#[must_use]
pub fn millis(time: Timestamp) -> Millis {
    i64::try_from(time.duration_since(timestamp(0)).as_millis()).unwrap_or_default()
}

/// Events of one time come in the order in which they were put in.
#[derive(Clone, Debug)]
pub struct Queue<E> {
    events: BTreeMap<(Millis, u64), E>,
    put: u64,
    now: Millis,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self {
            events: BTreeMap::new(),
            put: 0,
            now: 0,
        }
    }
}

impl<E> Queue<E> {
    #[must_use]
    pub const fn now(&self) -> Millis {
        self.now
    }

    pub fn after(&mut self, delay: Millis, event: E) {
        self.at(self.now.saturating_add(delay.max(0)), event);
    }

    /// Never in the past.
    pub fn at(&mut self, at: Millis, event: E) {
        self.put += 1;
        self.events.insert((at.max(self.now), self.put), event);
    }

    /// The next event, if it is due by then; the time moves to it.
    pub fn next_until(&mut self, end: Millis) -> Option<E> {
        let due = self.events.first_entry().filter(|entry| entry.key().0 <= end);
        let Some(entry) = due else {
            self.now = self.now.max(end);
            return None;
        };
        self.now = entry.key().0;
        Some(entry.remove())
    }
}
