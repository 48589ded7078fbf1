//! The last known objects of one kind, and who wants to hear of a change. Must not fetch or judge anything.
//!
//! Invariants: a list replaces the whole content at once, so a reader never sees half of one; an object that does not
//! decode is an entry like any other; nobody is told anything twice that is the same version.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use kube::core::ObjectMeta;
use kube::{Resource, ResourceExt as _};
use tokio::sync::watch;
use tokio::time::Instant;

use super::watch::order_of;

/// Namespace (none for cluster-scoped kinds) and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    pub namespace: Option<String>,
    pub name: String,
}

impl ObjectId {
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self {
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }

    pub fn cluster_scoped(name: impl Into<String>) -> Self {
        Self {
            namespace: None,
            name: name.into(),
        }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Which state of which object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

impl Version {
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self {
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
        }
    }
}

/// One object before and after; at least one of the two is there.
#[derive(Debug)]
pub struct Change<'a, T> {
    pub id: &'a ObjectId,
    pub before: Option<&'a Arc<T>>,
    pub after: Option<&'a Arc<T>>,
}

impl<'a, T> Change<'a, T> {
    /// Both sides that exist: what an index has to look at.
    pub fn sides(&self) -> impl Iterator<Item = &'a Arc<T>> {
        self.before.into_iter().chain(self.after)
    }
}

type Listener<T> = Box<dyn Fn(&Change<'_, T>) + Send + Sync>;

/// All objects of one kind.
pub struct Store<T> {
    objects: RwLock<BTreeMap<ObjectId, Arc<T>>>,
    /// Held while a change is taken in and told, so that changes are told in order.
    listeners: Mutex<Vec<Listener<T>>>,
    listing: watch::Sender<Listing>,
    /// The newest version that a list, an event or a bookmark of this kind told of.
    seen: AtomicU64,
}

/// Whether the kind is known as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listing {
    /// Never so far; `cause` is the last error, if there was one.
    Missing { cause: Option<String> },
    /// The last list was taken in at this time.
    At(Instant),
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self {
            objects: RwLock::default(),
            listeners: Mutex::default(),
            listing: watch::Sender::new(Listing::Missing { cause: None }),
            seen: AtomicU64::new(0),
        }
    }
}

impl<T> Store<T> {
    pub fn get(&self, id: &ObjectId) -> Option<Arc<T>> {
        self.objects
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(id)
            .cloned()
    }

    /// Of a cluster-scoped kind.
    pub fn named(&self, name: &str) -> Option<Arc<T>> {
        self.get(&ObjectId::cluster_scoped(name))
    }

    pub fn all(&self) -> Vec<Arc<T>> {
        self.objects
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .cloned()
            .collect()
    }

    /// Tells `listener` of every change from now on. Register before the watch begins: nothing is told afterwards that
    /// was known before. A listener is called under a lock: it must be quick and must not call back.
    pub fn listen(&self, listener: impl Fn(&Change<'_, T>) + Send + Sync + 'static) {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Box::new(listener));
    }

    /// When the kind was last listed as a whole: since then nothing that happened was missed. `None`: never, so an
    /// absent object says nothing.
    pub fn listed_at(&self) -> Option<Instant> {
        match *self.listing.borrow() {
            Listing::At(at) => Some(at),
            Listing::Missing { .. } => None,
        }
    }

    /// Told when a list comes in, and when the first one is refused for another cause than before.
    pub fn listing(&self) -> watch::Receiver<Listing> {
        self.listing.subscribe()
    }

    /// The newest version of the kind that is known here; 0: none. An answer to whatever is asked from now on that is
    /// older comes from a server that is behind.
    pub fn seen(&self) -> u64 {
        self.seen.load(SeqCst)
    }

    pub(super) fn see(&self, version: Option<u64>) {
        self.seen.fetch_max(version.unwrap_or_default(), SeqCst);
    }

    /// Versions begin anew.
    pub(super) fn forget_seen(&self) {
        self.seen.store(0, SeqCst);
    }

    /// Returns when the kind has been listed once as a whole. Any number of tasks may wait.
    pub async fn complete(&self) {
        let mut listing = self.listing.subscribe();
        // The sender lives as long as `self`, so waiting cannot fail.
        let _known = listing.wait_for(|listing| matches!(listing, Listing::At(_))).await;
    }
}

impl<T: Resource> Store<T> {
    /// Whether a newer state of the object than `read` was known when `seen` was asked for, before it was read. What
    /// came since may rightly be newer.
    pub fn knew_newer(&self, read: &T, seen: u64) -> bool {
        let known = self.get(&ObjectId::of(read.meta())).and_then(|known| order_of(&*known));
        let newer = known.zip(order_of(read)).is_some_and(|(known, read)| read < known);
        newer && known.is_some_and(|known| known <= seen)
    }

    pub(super) fn versions(&self) -> BTreeMap<ObjectId, Version> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        let versions = objects
            .iter()
            .map(|(id, object)| (id.clone(), Version::of(object.meta())));
        versions.collect()
    }

    pub(super) fn put(&self, object: T) {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let id = ObjectId::of(object.meta());
        let after = Arc::new(object);
        let before = self
            .objects
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id.clone(), after.clone());
        tell(&listeners, &id, before.as_ref(), Some(&after));
    }

    pub(super) fn remove(&self, object: &T) {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let id = ObjectId::of(object.meta());
        let before = self.objects.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
        tell(&listeners, &id, before.as_ref(), None);
    }

    /// The kind as a list gave it; what the list does not hold is gone.
    pub(super) fn replace(&self, objects: Vec<T>) {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let listed: BTreeMap<ObjectId, Arc<T>> = objects
            .into_iter()
            .map(|object| (ObjectId::of(object.meta()), Arc::new(object)))
            .collect();
        let before = {
            let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *objects, listed.clone())
        };
        for (id, gone) in before.iter().filter(|(id, _)| !listed.contains_key(*id)) {
            tell(&listeners, id, Some(gone), None);
        }
        for (id, after) in &listed {
            tell(&listeners, id, before.get(id), Some(after));
        }
        self.listing.send_replace(Listing::At(Instant::now()));
    }

    /// A watch could not go on. What was listed once stays: a later list mends it.
    pub(super) fn trouble(&self, error: String) {
        let missing = Listing::Missing { cause: Some(error) };
        self.listing.send_if_modified(|listing| {
            let is_new = matches!(listing, Listing::Missing { .. }) && *listing != missing;
            if is_new {
                *listing = missing;
            }
            is_new
        });
    }
}

fn tell<T: Resource>(listeners: &[Listener<T>], id: &ObjectId, before: Option<&Arc<T>>, after: Option<&Arc<T>>) {
    let unchanged = match (before, after) {
        (None, None) => true,
        (Some(before), Some(after)) => {
            before.uid() == after.uid() && before.resource_version() == after.resource_version()
        }
        _ => false,
    };
    if unchanged {
        return;
    }
    let change = Change { id, before, after };
    for listener in listeners {
        listener(&change);
    }
}
