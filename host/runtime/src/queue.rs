//! Which key is to be looked at when. Knows nothing of what a key stands for, and runs nothing.
//!
//! Invariants: a key is handed out to one caller at a time; a key that was added while handed out is handed out again
//! afterwards; a due time only ever moves forward to an earlier one, so a debounce counts from the first change.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::progress::Work;

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

/// How busy a queue is, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Keys that are due and not handed out.
    pub due: usize,
    /// How long the first of them has been due.
    pub oldest: Duration,
    /// How long keys have been due while a place was free for one and none was handed out.
    pub untaken: Duration,
    pub running: usize,
    /// How long the slowest of the running ones has not come a step further.
    pub longest_step: Duration,
    /// Keys that failed last time.
    pub failing: usize,
    /// Failures so far: each is followed by another try.
    pub retries: u64,
}

/// Whatever can be asked how busy it is.
pub trait Loaded: Send + Sync {
    fn load(&self) -> Load;
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
    running: HashMap<K, ActiveKey>,
    failing: HashMap<K, Failing>,
    retries: u64,
    /// Since keys are handed out.
    open: Option<Open>,
}

#[derive(Debug)]
struct ActiveKey {
    /// When it is due again by what came meanwhile.
    again: Option<Instant>,
    work: Arc<Work>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    /// Keys that are handed out at the same time.
    places: usize,
    last_taken: Instant,
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
            retries: 0,
            open: None,
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
        if let Some(running) = state.running.get_mut(&key) {
            running.again = Some(running.again.map_or(at, |earlier| earlier.min(at)));
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

    /// The next key that is due; waits for one. The caller must call [`Self::end`] afterwards.
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
                        let work = Arc::new(Work::caused_at(at));
                        state.running.insert(key.clone(), ActiveKey { again: None, work });
                        if let Some(open) = &mut state.open {
                            open.last_taken = Instant::now();
                        }
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
        let mut at = state.running.remove(key).and_then(|running| running.again);
        match ended {
            Ended::Done { wake_in } => {
                state.failing.remove(key);
                let wake_at = wake_in.map(|delay| now + delay);
                at = [at, wake_at].into_iter().flatten().min();
            }
            Ended::Failed => {
                state.retries += 1;
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

    /// From now on keys are handed out, this many at a time.
    pub fn open(&self, places: usize) {
        self.lock().open = Some(Open {
            places,
            last_taken: Instant::now(),
        });
    }

    /// From now on nobody takes any, and keys that wait are no sign of anything.
    pub fn close(&self) {
        self.lock().open = None;
    }

    /// The work on a key that is handed out.
    pub fn work(&self, key: &K) -> Option<Arc<Work>> {
        self.lock().running.get(key).map(|running| running.work.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        // No code that can panic runs under the lock, so a poisoned one still holds a consistent state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Debug + Eq + Hash + Ord + Send> Loaded for Queue<K> {
    fn load(&self) -> Load {
        let now = Instant::now();
        let state = self.lock();
        let mut due = state.order.iter().take_while(|(at, _)| *at <= now).peekable();
        let oldest = due.peek().map_or(Duration::ZERO, |(at, _)| now.duration_since(*at));
        let untaken = match state.open {
            Some(open) if state.running.len() < open.places => oldest.min(now.duration_since(open.last_taken)),
            _ => Duration::ZERO,
        };
        let steps = state.running.values().map(|running| running.work.last_step().elapsed());
        Load {
            due: due.count(),
            oldest,
            untaken,
            running: state.running.len(),
            longest_step: steps.max().unwrap_or_default(),
            failing: state.failing.len(),
            retries: state.retries,
        }
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
