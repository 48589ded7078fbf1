//! The objects of one resource, as they are and as they were. Must not decide when one changes.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use tokio::sync::watch;

use super::history::History;
use super::place::Key;
use super::revision::Revision;
use crate::kinds::SharedKind;

/// All objects of one resource.
pub struct Collection {
    pub kind: SharedKind,
    pub(super) objects: BTreeMap<Key, Arc<Revision>>,
    pub history: History,
    /// The version of the last change here; dropped with the collection, which ends its watches.
    pub(super) tip: watch::Sender<u64>,
}

impl Collection {
    pub(super) fn new(kind: SharedKind, version: u64) -> Collection {
        Collection {
            kind,
            objects: BTreeMap::new(),
            history: History::default(),
            tip: watch::Sender::new(version),
        }
    }

    pub fn get(&self, key: &Key) -> Option<&Arc<Revision>> {
        self.objects.get(key)
    }

    pub fn tip(&self) -> watch::Receiver<u64> {
        self.tip.subscribe()
    }

    /// The objects after `from`, of one namespace or of all, by namespace and name.
    pub fn iter<'a>(
        &'a self,
        namespace: Option<&'a str>,
        from: Bound<&Key>,
    ) -> impl Iterator<Item = &'a Arc<Revision>> + use<'a> {
        let start = Key {
            namespace: namespace.unwrap_or_default().to_owned(),
            name: String::new(),
        };
        let from = match from {
            Bound::Unbounded => Bound::Included(start),
            bound => bound.cloned(),
        };
        self.objects
            .range((from, Bound::Unbounded))
            .map(|(_, revision)| revision)
            .take_while(move |revision| namespace.is_none_or(|wanted| revision.key.namespace == wanted))
    }

    /// All objects as they were at `version`, which must not lie in the future; `None` when that is forgotten.
    pub fn at(&self, version: u64) -> Option<Vec<Arc<Revision>>> {
        let mut objects = self.objects.clone();
        for change in self.history.since(version, usize::MAX)?.into_iter().rev() {
            match change.before {
                Some(before) => objects.insert(before.key.clone(), before),
                None => objects.remove(&change.after.key),
            };
        }
        Some(objects.into_values().collect())
    }
}
