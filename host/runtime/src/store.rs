//! The last known objects of one kind, and who wants to hear of a change. Must not fetch or judge anything.
//!
//! Objects of a kind of which there are many and each is asked for seldom are kept packed: decoded they take ten times as much.
//!
//! Invariants: a list replaces the whole content at once, so a reader never sees half of one; an object that does not
//! decode is an entry like any other; nobody is told anything twice that is the same version.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use kube::Resource;
use kube::core::ObjectMeta;
use tokio::sync::watch;
use tokio::time::Instant;

use super::order::{order, order_of};

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

    fn parts(&self) -> (Option<&str>, Option<&str>) {
        (self.uid.as_deref(), self.resource_version.as_deref())
    }
}

/// How the objects of a kind are packed.
#[derive(Debug)]
pub struct Packing<T> {
    /// `None`: it stays as it is.
    pub pack: fn(&T) -> Option<Arc<[u8]>>,
    /// The same object again.
    pub unpack: fn(&[u8]) -> T,
}

/// An object between two questions about it.
#[derive(Debug)]
pub enum Kept<T> {
    Whole(Arc<T>),
    Packed {
        version: Version,
        bytes: Arc<[u8]>,
        unpack: fn(&[u8]) -> T,
    },
}

impl<T> Kept<T> {
    pub fn object(&self) -> Arc<T> {
        match self {
            Self::Whole(object) => object.clone(),
            Self::Packed { bytes, unpack, .. } => Arc::new(unpack(bytes)),
        }
    }
}

impl<T: Resource> Kept<T> {
    /// Of which object, and which state of it.
    fn version(&self) -> (Option<&str>, Option<&str>) {
        match self {
            Self::Whole(object) => version_in(object.meta()),
            Self::Packed { version, .. } => version.parts(),
        }
    }
}

fn version_in(metadata: &ObjectMeta) -> (Option<&str>, Option<&str>) {
    (metadata.uid.as_deref(), metadata.resource_version.as_deref())
}

/// One object before and after; at least one of the two is there.
#[derive(Debug)]
pub struct Change<'a, T> {
    pub id: &'a ObjectId,
    pub before: Option<&'a Kept<T>>,
    pub after: Option<&'a Arc<T>>,
}

impl<T> Change<'_, T> {
    /// Unpacked each time.
    pub fn before(&self) -> Option<Arc<T>> {
        self.before.map(Kept::object)
    }

    /// Both sides that exist: what an index has to look at.
    pub fn sides(&self) -> impl Iterator<Item = Arc<T>> {
        self.before().into_iter().chain(self.after.cloned())
    }
}

type Listener<T> = Box<dyn Fn(&Change<'_, T>) + Send + Sync>;

/// All objects of one kind.
pub struct Store<T> {
    objects: RwLock<BTreeMap<ObjectId, Kept<T>>>,
    packing: OnceLock<Packing<T>>,
    /// Held while a change is applied and its listeners are notified, so that they are notified in order.
    listeners: Mutex<Vec<Listener<T>>>,
    listing: watch::Sender<Listing>,
    /// The newest version that a list, an event or a bookmark of this kind has reported.
    seen: AtomicU64,
}

/// Whether the kind is known as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listing {
    /// Never so far; `cause` is the last error, if there was one.
    Missing { cause: Option<String> },
    /// The last list was applied at this time.
    At(Instant),
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self {
            objects: RwLock::default(),
            packing: OnceLock::new(),
            listeners: Mutex::default(),
            listing: watch::Sender::new(Listing::Missing { cause: None }),
            seen: AtomicU64::new(0),
        }
    }
}

impl<T> Store<T> {
    /// From now on objects are packed. To be called before the first one is stored.
    pub fn pack(&self, packing: Packing<T>) {
        let _is_first = self.packing.set(packing);
    }

    pub fn get(&self, id: &ObjectId) -> Option<Arc<T>> {
        let (bytes, unpack) = {
            let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
            match objects.get(id)? {
                Kept::Whole(object) => return Some(object.clone()),
                Kept::Packed { bytes, unpack, .. } => (bytes.clone(), *unpack),
            }
        };
        // It may be long, and others want to read and write meanwhile.
        Some(Arc::new(unpack(&bytes)))
    }

    /// Of a cluster-scoped kind.
    pub fn named(&self, name: &str) -> Option<Arc<T>> {
        self.get(&ObjectId::cluster_scoped(name))
    }

    pub fn all(&self) -> Vec<Arc<T>> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects.values().map(Kept::object).collect()
    }

    /// Those of one namespace.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        let first = ObjectId {
            namespace: Some(namespace.to_owned()),
            name: String::new(),
        };
        let of_namespace = objects
            .range(first..)
            .take_while(|(id, _)| id.namespace.as_deref() == Some(namespace));
        of_namespace.map(|(_, kept)| kept.object()).collect()
    }

    pub fn ids(&self) -> Vec<ObjectId> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects.keys().cloned().collect()
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

    /// Notified when a list comes in, and when the first one is refused for another cause than before.
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
    /// The version of an object that is known here, where it orders anything.
    pub fn version_of(&self, id: &ObjectId) -> Option<u64> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        order(objects.get(id)?.version().1?)
    }

    /// Whether a newer state of the object than `read` was known when `seen` was asked for, before it was read. What
    /// came since may rightly be newer.
    pub fn knew_newer(&self, read: &T, seen: u64) -> bool {
        let known = self.version_of(&ObjectId::of(read.meta()));
        let newer = known.zip(order_of(read)).is_some_and(|(known, read)| read < known);
        newer && known.is_some_and(|known| known <= seen)
    }

    /// Whether these objects in these versions are all that is known here.
    pub(super) fn is_of(&self, versions: &BTreeMap<ObjectId, Version>) -> bool {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        let versions = versions.iter().map(|(id, version)| (id, version.parts()));
        objects.iter().map(|(id, kept)| (id, kept.version())).eq(versions)
    }

    /// As this store keeps it.
    pub(super) fn kept(&self, object: Arc<T>) -> Kept<T> {
        let packed = self
            .packing
            .get()
            .and_then(|packing| Some(((packing.pack)(&object)?, packing.unpack)));
        match packed {
            Some((bytes, unpack)) => Kept::Packed {
                version: Version::of(object.meta()),
                bytes,
                unpack,
            },
            None => Kept::Whole(object),
        }
    }

    pub(super) fn put(&self, object: T) {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let id = ObjectId::of(object.meta());
        let after = Arc::new(object);
        let kept = self.kept(after.clone());
        let before = self
            .objects
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id.clone(), kept);
        if before.as_ref().map(Kept::version) != Some(version_in(after.meta())) {
            tell(&listeners, &id, before.as_ref(), Some(&after));
        }
    }

    pub(super) fn remove(&self, object: &T) {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let id = ObjectId::of(object.meta());
        let before = self.objects.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
        if before.is_some() {
            tell(&listeners, &id, before.as_ref(), None);
        }
    }

    /// The kind as a list gave it; what the list does not hold is gone.
    pub(super) fn replace(&self, objects: Vec<(ObjectId, Kept<T>)>) {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let listed: BTreeMap<ObjectId, Kept<T>> = objects.into_iter().collect();
        let (before, changed, gone) = {
            let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
            let is_known =
                |(id, kept): &(&ObjectId, &Kept<T>)| objects.get(id).map(Kept::version) == Some(kept.version());
            let changed: Vec<ObjectId> = listed
                .iter()
                .filter(|kept| !is_known(kept))
                .map(|(id, _)| id.clone())
                .collect();
            let is_listed = |id: &&ObjectId| listed.contains_key(id);
            let gone: Vec<ObjectId> = objects.keys().filter(|id| !is_listed(id)).cloned().collect();
            (std::mem::replace(&mut *objects, listed), changed, gone)
        };
        for id in &gone {
            tell(&listeners, id, before.get(id), None);
        }
        for id in &changed {
            // Nobody else takes anything in while the listeners are held.
            if let Some(after) = self.get(id) {
                tell(&listeners, id, before.get(id), Some(&after));
            }
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

fn tell<T>(listeners: &[Listener<T>], id: &ObjectId, before: Option<&Kept<T>>, after: Option<&Arc<T>>) {
    let change = Change { id, before, after };
    for listener in listeners {
        listener(&change);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn config_map(name: &str, version: u32, value: &str) -> ConfigMap {
        let metadata = json!({"name": name, "uid": name, "resourceVersion": version.to_string()});
        serde_json::from_value(json!({"metadata": metadata, "data": {"value": value}})).unwrap()
    }

    fn value(object: &ConfigMap) -> String {
        object.data.as_ref().unwrap()["value"].clone()
    }

    /// Name, and the value before and after.
    type Notified = (String, Option<String>, Option<String>);

    fn store() -> (Store<ConfigMap>, Arc<Mutex<Vec<Notified>>>) {
        let store = Store::default();
        store.pack(Packing {
            pack: |object| serde_json::to_vec(object).ok().map(Arc::from),
            unpack: |bytes| serde_json::from_slice(bytes).unwrap(),
        });
        let notified: Arc<Mutex<Vec<Notified>>> = Arc::default();
        let telling = notified.clone();
        store.listen(move |change: &Change<'_, ConfigMap>| {
            let (before, after) = (change.before(), change.after);
            let notified = (
                change.id.name.clone(),
                before.as_deref().map(value),
                after.map(|after| value(after)),
            );
            telling.lock().unwrap().push(notified);
        });
        (store, notified)
    }

    #[test]
    fn packed_objects_are_told_and_given_as_they_were() {
        let (store, notified) = store();
        let kept = |object: ConfigMap| (ObjectId::of(object.meta()), store.kept(Arc::new(object)));
        let some = |text: &str| Some(text.to_owned());
        store.replace(vec![kept(config_map("a", 1, "one")), kept(config_map("b", 2, "two"))]);
        store.put(config_map("a", 1, "one"));
        store.put(config_map("a", 3, "three"));
        store.remove(&config_map("b", 4, "two"));
        store.replace(vec![
            kept(config_map("a", 3, "three")),
            kept(config_map("c", 5, "five")),
        ]);
        store.replace(vec![kept(config_map("c", 6, "six"))]);
        let expected = [
            ("a", None, some("one")),
            ("b", None, some("two")),
            ("a", some("one"), some("three")),
            ("b", some("two"), None),
            ("c", None, some("five")),
            ("a", some("three"), None),
            ("c", some("five"), some("six")),
        ];
        let expected = expected.map(|(name, before, after)| (name.to_owned(), before, after));
        assert_eq!(*notified.lock().unwrap(), expected);
        let id = ObjectId::cluster_scoped("c");
        assert_eq!(store.get(&id).as_deref(), Some(&config_map("c", 6, "six")));
        assert_eq!(store.version_of(&id), Some(6));
        let version = Version::of(config_map("c", 6, "six").meta());
        assert!(store.is_of(&[(id.clone(), version.clone())].into()));
        assert!(!store.is_of(&BTreeMap::new()));
        assert!(!store.is_of(&[(ObjectId::cluster_scoped("d"), version)].into()));
        assert!(store.knew_newer(&config_map("c", 5, "five"), 6) && !store.knew_newer(&config_map("c", 6, "six"), 6));
        assert_eq!(store.ids(), [id]);
    }
}
