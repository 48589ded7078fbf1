//! What the task that drives the clusters and its owner both hold, each part behind a lock of its own. Must not wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use stagegate_clock::SharedClock;
use tokio::sync::Notify;

use super::fleet::{Fleet, ObjectInCluster};
use super::settings::Settings;
use crate::time::later;

/// What the task and its owner both hold.
pub(super) struct Shared {
    clock: SharedClock,
    pub(super) settings: Settings,
    late: Mutex<BTreeMap<String, u64>>,
    /// Bindings that have lost a carrier and have not been looked at since.
    carriers_lost: Mutex<BTreeSet<String>>,
    fleet: Mutex<Fleet>,
    pub(super) wake: Notify,
}

impl Shared {
    pub(super) fn new(clock: SharedClock, settings: Settings) -> Shared {
        Shared {
            clock,
            settings,
            late: Mutex::default(),
            carriers_lost: Mutex::default(),
            fleet: Mutex::default(),
            wake: Notify::new(),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn fleet(&self) -> MutexGuard<'_, Fleet> {
        lock(&self.fleet)
    }

    /// From now on, changes of this Binding take `delay_ms` to reach the clusters.
    pub(super) fn delay_hand_over(&self, binding: &str, delay_ms: u64) {
        lock(&self.late).insert(binding.to_owned(), delay_ms);
    }

    /// Takes a carrier away; whether it was there.
    pub(super) fn lose_carrier(&self, binding: &str, place: &ObjectInCluster) -> bool {
        let is_lost = self.fleet().lose_carrier(binding, place, self.now());
        if is_lost {
            lock(&self.carriers_lost).insert(binding.to_owned());
            self.wake.notify_one();
        }
        is_lost
    }

    /// The Bindings that have lost a carrier since the last call.
    pub(super) fn take_lost_carriers(&self) -> BTreeSet<String> {
        std::mem::take(&mut lock(&self.carriers_lost))
    }

    /// When a change of this Binding that was seen now reaches the clusters.
    pub(super) fn hand_over_at(&self, binding: &str) -> Timestamp {
        let delay_ms = lock(&self.late)
            .get(binding)
            .copied()
            .unwrap_or(self.settings.transport_delay_ms);
        later(self.now(), delay_ms)
    }
}

/// No code panics while it holds one of these locks; if it ever did, the data would still be whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
