//! The last resort against events that a server never sent: from time to time the kind's metadata is listed beside the
//! running watch, and compared with the store at the moment when the watch has come to the list's version. Must not
//! change the store: a difference is mended by a new list.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use kube::Resource;
use tokio::time::Instant;

use super::list::Listed;
use crate::order::order;
use crate::store::{ObjectId, Store, Version};

/// From one list of a kind to the next, however long the comparison takes: what is withheld just after one is on the next.
const EVERY: Duration = Duration::from_secs(7 * 60);
/// So that not all kinds are listed at once, each waits up to so much longer, by the hash of its name.
const SPREAD: Duration = Duration::from_secs(60);
/// A watch that has not come to the list's version by then is compared as it is. Bookmarks come every minute. The three
/// together leave half a minute of ten for the list.
const WAIT_MAX: Duration = Duration::from_secs(90);
/// After a list that was not answered, or that came from an older state.
const AGAIN: Duration = Duration::from_secs(30);

/// When to look, and what was found when looking last.
pub struct Audit {
    every: Duration,
    due: Instant,
    pending: Option<Pending>,
}

struct Pending {
    listed_at: Instant,
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

    /// Everything was just listed.
    pub fn begin_anew(&mut self) {
        self.pending = None;
        self.due = Instant::now() + self.every;
    }

    /// The list that was wanted did not come.
    pub fn put_off(&mut self) {
        self.due = Instant::now() + AGAIN;
    }

    /// When something has to be done though no event comes.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// At the due time: whether a list is wanted; otherwise the one that waits is to be compared now.
    pub fn wants_list(&self) -> bool {
        self.pending.is_none()
    }

    /// The list that was wanted, asked for at `asked_at`.
    pub fn listed(&mut self, list: Listed<(ObjectId, Version)>, asked_at: Instant) {
        self.pending = Some(Pending {
            listed_at: asked_at,
            version: order(&list.position.version),
            objects: list.objects.into_iter().collect(),
        });
        self.due = Instant::now() + WAIT_MAX;
    }

    /// Whether the watch is past the list's version with an event of `next`, which was not applied yet.
    pub fn is_ripe(&self, next: Option<u64>) -> bool {
        let of = self.pending.as_ref().and_then(|pending| pending.version);
        of.zip(next).is_some_and(|(of, next)| next > of)
    }

    /// Whether the store is what the list says; ends the comparison.
    pub fn agrees<T: Resource>(&mut self, store: &Store<T>) -> bool {
        let Some(pending) = self.pending.take() else {
            return true;
        };
        self.due = pending.listed_at + self.every;
        store.is_of(&pending.objects)
    }
}
