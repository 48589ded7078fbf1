//! What the process did so far, as numbers that only grow. Must not influence anything.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Expressions evaluated; answers from the cache do not count.
    pub evaluations: u64,
    /// Expressions compiled.
    pub compilations: u64,
    /// Reconciles begun, of all controllers.
    pub reconciles: u64,
    /// Reconciles that ended in an error and were put off.
    pub failures: u64,
    /// Writes that the API server accepted.
    pub writes: u64,
    /// Writes refused because the object had moved on.
    pub conflicts: u64,
    /// Watches that were begun anew with a list, the first time included.
    pub lists: u64,
}

/// The live numbers.
#[derive(Debug, Default)]
pub struct Live {
    evaluations: AtomicU64,
    compilations: AtomicU64,
    reconciles: AtomicU64,
    failures: AtomicU64,
    writes: AtomicU64,
    conflicts: AtomicU64,
    lists: AtomicU64,
}

impl Live {
    pub fn evaluation(&self) {
        self.evaluations.fetch_add(1, Relaxed);
    }

    pub fn compilation(&self) {
        self.compilations.fetch_add(1, Relaxed);
    }

    pub fn reconcile(&self) {
        self.reconciles.fetch_add(1, Relaxed);
    }

    pub fn failure(&self) {
        self.failures.fetch_add(1, Relaxed);
    }

    pub fn write(&self) {
        self.writes.fetch_add(1, Relaxed);
    }

    pub fn conflict(&self) {
        self.conflicts.fetch_add(1, Relaxed);
    }

    pub fn list(&self) {
        self.lists.fetch_add(1, Relaxed);
    }

    pub fn snapshot(&self) -> Counters {
        Counters {
            evaluations: self.evaluations.load(Relaxed),
            compilations: self.compilations.load(Relaxed),
            reconciles: self.reconciles.load(Relaxed),
            failures: self.failures.load(Relaxed),
            writes: self.writes.load(Relaxed),
            conflicts: self.conflicts.load(Relaxed),
            lists: self.lists.load(Relaxed),
        }
    }
}
