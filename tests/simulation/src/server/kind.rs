//! The objects of one kind and every version that they have had: what reads, writes and watches of the kind are made of.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use stagegate_api::{Binding, BindingPolicy, CombinedStatus, StagedBindingPolicy, StatusCollector};
use stagegate_decide::precondition::Precondition;

/// What can be stored.
pub trait Stored: Clone + PartialEq {
    fn meta(&self) -> &ObjectMeta;
    fn meta_mut(&mut self) -> &mut ObjectMeta;
    /// Whether both have the same spec, so that the generation stays.
    fn has_spec_of(&self, other: &Self) -> bool;
}

macro_rules! stored {
    ($($kind:ident),*) => {
        $(impl Stored for $kind {
            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }

            fn has_spec_of(&self, other: &Self) -> bool {
                self.spec == other.spec
            }
        })*
    };
}

stored!(Binding, BindingPolicy, StagedBindingPolicy, StatusCollector);

impl Stored for CombinedStatus {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn has_spec_of(&self, other: &Self) -> bool {
        self.results == other.results
    }
}

/// Why a write was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    NotFound,
    Exists,
    /// It is another object, or another version of it.
    Conflict,
}

/// The numbers that one server hands out, and its time.
#[derive(Clone, Debug)]
pub struct Counter {
    pub version: u64,
    uids: u64,
    pub now: Timestamp,
}

impl Counter {
    pub const fn new(now: Timestamp) -> Self {
        Self {
            version: 0,
            uids: 0,
            now,
        }
    }

    fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    fn next_uid(&mut self) -> String {
        self.uids += 1;
        format!("uid-{}", self.uids)
    }

    /// Kubernetes stores whole seconds.
    pub fn time(&self) -> Time {
        Time(Timestamp::from_second(self.now.as_second()).unwrap_or(self.now))
    }
}

/// One version of one object; `after` is empty where it was removed.
#[derive(Clone, Debug)]
pub struct Entry<T> {
    pub version: u64,
    /// When it was stored or removed.
    pub at: Timestamp,
    pub key: String,
    pub after: Option<Arc<T>>,
}

/// All objects of a kind by name, or by `namespace/name`.
#[derive(Clone, Debug)]
pub struct Kind<T> {
    objects: BTreeMap<String, Arc<T>>,
    log: Vec<Entry<T>>,
}

impl<T> Default for Kind<T> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            log: Vec::new(),
        }
    }
}

impl<T: Stored> Kind<T> {
    pub fn get(&self, key: &str) -> Option<&Arc<T>> {
        self.objects.get(key)
    }

    pub fn all(&self) -> impl Iterator<Item = (&String, &Arc<T>)> {
        self.objects.iter()
    }

    pub fn log(&self) -> &[Entry<T>] {
        &self.log
    }

    /// # Errors
    /// One of this name is there.
    pub fn create(&mut self, counter: &mut Counter, mut object: T) -> Result<Arc<T>, Refused> {
        let key = key_of(object.meta());
        if self.objects.contains_key(&key) {
            return Err(Refused::Exists);
        }
        let uid = counter.next_uid();
        let time = counter.time();
        let meta = object.meta_mut();
        meta.uid = Some(uid);
        meta.generation = Some(1);
        meta.creation_timestamp = Some(time);
        Ok(self.put(counter, key, object))
    }

    /// What makes no difference makes no version.
    ///
    /// # Errors
    /// It is not there, or not as the precondition says.
    pub fn update(
        &mut self,
        counter: &mut Counter,
        (key, precondition): (&str, Option<&Precondition>),
        change: impl FnOnce(&mut T),
    ) -> Result<Arc<T>, Refused> {
        let current = self.required(key, precondition)?;
        let mut next = T::clone(current);
        change(&mut next);
        if next == **current {
            return Ok(current.clone());
        }
        if !next.has_spec_of(current) {
            let generation = current.meta().generation.unwrap_or_default();
            next.meta_mut().generation = Some(generation + 1);
        }
        let is_released = next.meta().deletion_timestamp.is_some() && finalizers(next.meta()).is_empty();
        if is_released {
            self.remove(counter, key);
            return Ok(Arc::new(next));
        }
        Ok(self.put(counter, key.to_owned(), next))
    }

    /// An object with finalizers stays until the last one is taken off.
    ///
    /// # Errors
    /// See [`Kind::update`].
    pub fn delete(
        &mut self,
        counter: &mut Counter,
        (key, precondition): (&str, Option<&Precondition>),
    ) -> Result<(), Refused> {
        let current = self.required(key, precondition)?;
        if finalizers(current.meta()).is_empty() {
            self.remove(counter, key);
            return Ok(());
        }
        let mut next = T::clone(current);
        if next.meta().deletion_timestamp.is_none() {
            next.meta_mut().deletion_timestamp = Some(counter.time());
            self.put(counter, key.to_owned(), next);
        }
        Ok(())
    }

    fn required(&self, key: &str, precondition: Option<&Precondition>) -> Result<&Arc<T>, Refused> {
        let current = self.objects.get(key).ok_or(Refused::NotFound)?;
        let is_it = |precondition: &Precondition| {
            current.meta().uid.as_deref() == Some(precondition.uid.as_str())
                && current.meta().resource_version.as_deref() == Some(precondition.resource_version.as_str())
        };
        if precondition.is_none_or(is_it) {
            Ok(current)
        } else {
            Err(Refused::Conflict)
        }
    }

    fn put(&mut self, counter: &mut Counter, key: String, mut object: T) -> Arc<T> {
        object.meta_mut().resource_version = Some(counter.next_version());
        let object = Arc::new(object);
        self.objects.insert(key.clone(), object.clone());
        self.log.push(Entry {
            version: counter.version,
            at: counter.now,
            key,
            after: Some(object.clone()),
        });
        object
    }

    fn remove(&mut self, counter: &mut Counter, key: &str) {
        if self.objects.remove(key).is_some() {
            counter.version += 1;
            self.log.push(Entry {
                version: counter.version,
                at: counter.now,
                key: key.to_owned(),
                after: None,
            });
        }
    }
}

pub fn key_of(meta: &ObjectMeta) -> String {
    let name = meta.name.as_deref().unwrap_or_default();
    match &meta.namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

pub fn uid_of(meta: &ObjectMeta) -> &str {
    meta.uid.as_deref().unwrap_or_default()
}

pub fn version_of(meta: &ObjectMeta) -> &str {
    meta.resource_version.as_deref().unwrap_or_default()
}

fn finalizers(meta: &ObjectMeta) -> &[String] {
    meta.finalizers.as_deref().unwrap_or_default()
}
