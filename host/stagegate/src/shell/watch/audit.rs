//! The last resort against events that a server never sent: from time to time the kind's metadata is listed beside the
//! running watch, and compared with the store at the moment when the watch has come to the list's version. Must not
//! change the store: a difference is mended by a new list.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use kube::Resource;
use kube::core::metadata::PartialObjectMeta;
use tokio::time::Instant;

use super::list::Listed;
use super::version::order;
use crate::shell::store::{ObjectId, Store, Version};

/// Pause between two comparisons of one kind.
const EVERY: Duration = Duration::from_secs(7 * 60);
/// So that not all kinds are listed at once, each pauses up to so much longer, by the hash of its name.
const SPREAD: Duration = Duration::from_secs(60);
/// A watch that has not come to the list's version by then is compared as it is. Bookmarks come every minute.
const WAIT_MAX: Duration = Duration::from_secs(90);

/// When to look, and what was found when looking last.
pub struct Audit {
    every: Duration,
    due: Instant,
    pending: Option<Pending>,
}

struct Pending {
    version: Option<u64>,
    objects: BTreeMap<ObjectId, Version>,
}

impl Audit {
    pub fn of(kind: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        kind.hash(&mut hasher);
        let share = Duration::from_millis(hasher.finish() % SPREAD.as_millis() as u64);
        let every = EVERY + share;
        Self {
            every,
            due: Instant::now() + every,
            pending: None,
        }
    }

    /// Everything was just listed, or compared.
    pub fn begin_anew(&mut self) {
        self.pending = None;
        self.due = Instant::now() + self.every;
    }

    /// When something has to be done though no event comes.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// At the due time: whether a list is wanted; otherwise the one that waits is to be compared now.
    pub fn wants_list(&self) -> bool {
        self.pending.is_none()
    }

    pub fn listed<T>(&mut self, list: Listed<PartialObjectMeta<T>>) {
        let objects = list.objects.iter().map(|object| {
            let metadata = &object.metadata;
            (ObjectId::of(metadata), Version::of(metadata))
        });
        self.pending = Some(Pending {
            version: order(&list.position.version),
            objects: objects.collect(),
        });
        self.due = Instant::now() + WAIT_MAX;
    }

    /// Whether the watch is past the list's version with an event of `next`, which was not taken in yet.
    pub fn is_ripe(&self, next: Option<u64>) -> bool {
        let of = self.pending.as_ref().and_then(|pending| pending.version);
        of.zip(next).is_some_and(|(of, next)| next > of)
    }

    /// Whether the store is what the list says; ends the comparison.
    pub fn agrees<T: Resource>(&mut self, store: &Store<T>) -> bool {
        let agrees = self
            .pending
            .take()
            .is_none_or(|pending| pending.objects == store.versions());
        self.begin_anew();
        agrees
    }
}
