//! Which key is to be looked at when. Knows nothing of what a key stands for, and runs nothing.
//!
//! Invariants: a key is handed out to one caller at a time; a key that was added while handed out is handed out again
//! afterwards; a due time only ever moves forward to an earlier one, so a debounce counts from the first change.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// First delay after a failure; doubled by each further one.
const BACK_OFF_FIRST: Duration = Duration::from_millis(5);
/// Longest delay after a failure.
const BACK_OFF_MAX: Duration = Duration::from_secs(60);
/// An event brings a failing key back before its back-off is over, as it may be the cure; but not sooner than this.
const BACK_OFF_FLOOR_MAX: Duration = Duration::from_secs(1);

/// How handling a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Well; to be looked at again after the time, if one is given, also without an event.
    Done { wake_in: Option<Duration> },
    /// Not well: to be tried again after a back-off.
    Failed,
}

/// A keyed queue with due times.
#[derive(Debug)]
pub struct Queue<K> {
    state: Mutex<State<K>>,
    changed: Notify,
    debounce: Duration,
}

#[derive(Debug)]
struct State<K> {
    due: HashMap<K, Instant>,
    /// The same, in order of time.
    order: BTreeSet<(Instant, K)>,
    running: HashMap<K, Option<Instant>>,
    failing: HashMap<K, Failing>,
}

#[derive(Clone, Copy, Debug)]
struct Failing {
    times: u32,
    not_before: Instant,
}

impl<K: Clone + Debug + Eq + Hash + Ord> Queue<K> {
    /// `debounce`: how long after the first change a key becomes due; zero for at once.
    pub fn new(debounce: Duration) -> Self {
        let state = State {
            due: HashMap::new(),
            order: BTreeSet::new(),
            running: HashMap::new(),
            failing: HashMap::new(),
        };
        Self {
            state: Mutex::new(state),
            changed: Notify::new(),
            debounce,
        }
    }

    /// Something about the key has changed.
    pub fn add(&self, key: K) {
        self.add_in(key, self.debounce);
    }

    /// The key is to be looked at in `delay`, or earlier if it is due earlier already.
    pub fn add_in(&self, key: K, delay: Duration) {
        let now = Instant::now();
        let mut state = self.lock();
        let mut at = now + delay;
        if let Some(failing) = state.failing.get(&key) {
            at = at.max(failing.not_before);
        }
        if let Some(again) = state.running.get_mut(&key) {
            *again = Some(again.map_or(at, |earlier| earlier.min(at)));
            return;
        }
        state.schedule(key, at);
        drop(state);
        self.changed.notify_one();
    }

    /// Failures so far say nothing of what comes: a key that waits for the end of its back-off is due again.
    pub fn forget_failures(&self) {
        let now = Instant::now();
        let mut state = self.lock();
        let failed: Vec<K> = state.failing.drain().map(|(key, _)| key).collect();
        for key in failed {
            if state.due.contains_key(&key) {
                state.schedule(key, now);
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    /// The next key that is due; waits for one. The caller owes a call of [`Self::end`].
    pub async fn next(&self) -> K {
        loop {
            let changed = self.changed.notified();
            let wait_until = {
                let mut state = self.lock();
                let first = state.order.first().cloned();
                match first {
                    Some((at, key)) if at <= Instant::now() => {
                        state.order.pop_first();
                        state.due.remove(&key);
                        state.running.insert(key.clone(), None);
                        return key;
                    }
                    Some((at, _)) => Some(at),
                    None => None,
                }
            };
            match wait_until {
                Some(at) => {
                    tokio::select! { () = changed => {}, () = tokio::time::sleep_until(at) => {} }
                }
                None => changed.await,
            }
        }
    }

    /// The key that [`Self::next`] gave has been handled.
    pub fn end(&self, key: &K, ended: Ended) {
        let now = Instant::now();
        let mut state = self.lock();
        let mut at = state.running.remove(key).flatten();
        match ended {
            Ended::Done { wake_in } => {
                state.failing.remove(key);
                let wake_at = wake_in.map(|delay| now + delay);
                at = [at, wake_at].into_iter().flatten().min();
            }
            Ended::Failed => {
                let times = state.failing.get(key).map_or(0, |failing| failing.times) + 1;
                let delay = back_off(times);
                let failing = Failing {
                    times,
                    not_before: now + delay.min(BACK_OFF_FLOOR_MAX),
                };
                state.failing.insert(key.clone(), failing);
                let retry_at = now + delay;
                at = Some(at.map_or(retry_at, |event_at| event_at.max(failing.not_before).min(retry_at)));
            }
        }
        if let Some(at) = at {
            state.schedule(key.clone(), at);
        }
        drop(state);
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        // No code that can panic runs under the lock, so a poisoned one still holds a consistent state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash + Ord> State<K> {
    fn schedule(&mut self, key: K, at: Instant) {
        if let Some(&earlier) = self.due.get(&key) {
            if earlier <= at {
                return;
            }
            self.order.remove(&(earlier, key.clone()));
        }
        self.due.insert(key.clone(), at);
        self.order.insert((at, key));
    }
}

fn back_off(times: u32) -> Duration {
    let doublings = times.saturating_sub(1).min(16);
    (BACK_OFF_FIRST * 2u32.pow(doublings)).min(BACK_OFF_MAX)
}
