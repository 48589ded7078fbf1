//! How one watch is, for those who ask: whether its kind was listed, when the server told something last, what is in its
//! way. Must not influence the watch.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::bounds::HELD;
use super::counts::WatchCounts;

/// Whether decisions wait for the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// No controller decides anything before it was listed.
    Always,
    /// Only what names it waits for it: ConfigMaps of gates, workload.
    WhenNamed,
}

/// One watch.
#[derive(Debug)]
pub struct Watched {
    /// For the log: the plural.
    name: String,
    label: &'static str,
    need: Need,
    counts: WatchCounts,
    state: Mutex<State>,
}

#[derive(Clone, Debug, Default)]
struct State {
    is_listed: bool,
    /// Since when a watch runs; none between two.
    running_since: Option<Instant>,
    last_event: Option<Instant>,
    trouble: Option<WatchFailure>,
}

#[derive(Clone, Debug)]
struct WatchFailure {
    since: Instant,
    cause: String,
}

/// What is wrong with a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchHealth {
    /// `cause`: why not, as far as it is known.
    NeverListed { cause: Option<String> },
    /// Once listed, but nothing new is known for so long.
    Behind { since: Duration, cause: String },
}

impl Watched {
    /// Of the kind with this name, counted below `label`.
    pub(crate) fn new(name: &str, label: &'static str, need: Need, counts: WatchCounts) -> Self {
        Self {
            name: name.to_owned(),
            label,
            need,
            counts,
            state: Mutex::default(),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub const fn label(&self) -> &'static str {
        self.label
    }

    pub const fn need(&self) -> Need {
        self.need
    }

    pub fn is_listed(&self) -> bool {
        self.state().is_listed
    }

    /// When a list, an event or a bookmark came last.
    pub fn last_event(&self) -> Option<Instant> {
        self.state().last_event
    }

    /// A trouble is over when the server has told something since, or when a watch has held.
    pub fn ailment(&self) -> Option<WatchHealth> {
        let state = self.state();
        if !state.is_listed {
            let cause = state.trouble.as_ref().map(|trouble| trouble.cause.clone());
            return Some(WatchHealth::NeverListed { cause });
        }
        let holds = state.running_since.is_some_and(|since| since.elapsed() >= HELD);
        let trouble = state.trouble.as_ref().filter(|_| !holds)?;
        Some(WatchHealth::Behind {
            since: trouble.since.elapsed(),
            cause: trouble.cause.clone(),
        })
    }

    pub(super) fn listing(&self) {
        self.counts.list(self.label);
    }

    /// A list alone ends no trouble: a server may list and refuse to be watched.
    pub(super) fn listed(&self) {
        let mut state = self.state();
        state.is_listed = true;
        state.last_event = Some(Instant::now());
    }

    pub(super) fn watching(&self) {
        self.counts.watch(self.label);
        self.state().running_since = Some(Instant::now());
    }

    pub(super) fn note_event(&self) {
        let mut state = self.state();
        state.last_event = Some(Instant::now());
        state.trouble = None;
    }

    /// The watch is over, well or not.
    pub(super) fn over(&self) {
        let mut state = self.state();
        if state.running_since.take().is_some_and(|since| since.elapsed() >= HELD) {
            state.trouble = None;
        }
    }

    pub(super) fn troubled(&self, cause: String) {
        let mut state = self.state();
        let since = state.trouble.take().map_or_else(Instant::now, |before| before.since);
        state.trouble = Some(WatchFailure { since, cause });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock, so a poisoned one is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
