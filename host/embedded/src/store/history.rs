//! The bounded log of one resource's changes. Watchers keep a cursor into it; one that falls out of it has to list
//! anew.

use std::collections::VecDeque;
use std::sync::Arc;

use super::revision::Revision;

/// How many changes of a resource are kept, and how many bytes of objects with them.
const KEPT_CHANGES: usize = 8192;
const KEPT_BYTES: usize = 128 * 1024 * 1024;

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
    /// Of all kept new states.
    bytes: usize,
    /// Changes up to and including this version are forgotten.
    forgotten: u64,
}

impl History {
    pub fn push(&mut self, change: Change) {
        self.bytes += change.after.size_bytes();
        self.changes.push_back(change);
        // The newest change stays, however large it is: whoever is up to date must not be sent away.
        while self.changes.len() > KEPT_CHANGES || self.bytes > KEPT_BYTES && self.changes.len() > 1 {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.changes.pop_front() {
            self.bytes -= oldest.after.size_bytes();
            self.forgotten = oldest.version;
        }
    }

    /// Forgets everything up to `version`.
    pub fn forget(&mut self, version: u64) {
        while self.changes.front().is_some_and(|change| change.version <= version) {
            self.forget_oldest();
        }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::{Change, History, KEPT_BYTES, KEPT_CHANGES};
    use crate::kinds::builtin;
    use crate::store::Revision;

    /// A history of `count` changes of an object with that much text.
    fn history(count: u64, text_bytes: usize) -> History {
        let kind = &builtin::kinds()[1];
        let object = json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(text_bytes)}});
        let after = Arc::new(Revision::render(kind, &object, 1));
        let mut history = History::default();
        for version in 1..=count {
            history.push(Change {
                version,
                before: None,
                after: after.clone(),
                removed: false,
            });
        }
        history
    }

    #[test]
    fn only_the_newest_changes_are_kept() {
        let most = KEPT_CHANGES as u64;
        assert_eq!(
            history(most, 1).since(0, usize::MAX).map(|changes| changes.len()),
            Some(KEPT_CHANGES)
        );
        let longer = history(most + 1, 1);
        assert!(longer.since(0, 1).is_none());
        assert_eq!(
            longer.since(1, usize::MAX).map(|changes| changes.len()),
            Some(KEPT_CHANGES)
        );
    }

    #[test]
    fn large_objects_are_kept_for_fewer_changes() {
        // One object is a little larger than its text, so that one change fewer fits.
        let large = history(40, KEPT_BYTES / 32);
        assert!(large.since(8, 1).is_none());
        assert_eq!(large.since(9, usize::MAX).map(|changes| changes.len()), Some(31));
    }
}
