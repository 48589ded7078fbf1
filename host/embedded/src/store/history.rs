//! The bounded log of one resource's changes. Watchers keep a cursor into it; one that falls out of it has to list anew.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Revision;

/// How many changes of a resource are kept.
pub const KEPT_CHANGES: usize = 8192;

/// One change of one object.
#[derive(Clone)]
pub struct Change {
    pub version: u64,
    pub before: Option<Arc<Revision>>,
    /// The new state; of a removed object its last one, at the version of the removal.
    pub after: Arc<Revision>,
    pub removed: bool,
}

#[derive(Default)]
pub struct History {
    changes: VecDeque<Change>,
    /// Changes up to and including this version are forgotten.
    forgotten: u64,
}

impl History {
    pub fn push(&mut self, change: Change) {
        if self.changes.len() == KEPT_CHANGES
            && let Some(oldest) = self.changes.pop_front()
        {
            self.forgotten = oldest.version;
        }
        self.changes.push_back(change);
    }

    /// Forgets everything up to `version`.
    pub fn forget(&mut self, version: u64) {
        let keep_from = self.changes.partition_point(|change| change.version <= version);
        self.changes.drain(..keep_from);
        self.forgotten = self.forgotten.max(version);
    }

    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Up to `limit` changes after `version`, oldest first; `None` when some of them are forgotten.
    pub fn since(&self, version: u64, limit: usize) -> Option<Vec<Change>> {
        if version < self.forgotten {
            return None;
        }
        let from = self.changes.partition_point(|change| change.version <= version);
        Some(self.changes.iter().skip(from).take(limit).cloned().collect())
    }
}
