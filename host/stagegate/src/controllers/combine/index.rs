//! Which combinations an event touches. Must not hold objects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use kube::ResourceExt as _;
use stagegate_api::{Binding, BoundObject, CombinedStatusView, SourceRef, StatusCollector, WorkStatus, label};
use stagegate_decide::names::ObjectKey;
use stagegate_runtime::store::{Change, ObjectId};

use crate::controllers::kinds::Guarded;
use crate::controllers::objects::object_key;

/// What is brought up to date on its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The CombinedStatus of an object under a Binding.
    Combination { binding: String, object: ObjectKey },
    /// The condition of a Binding.
    Binding(String),
    /// The status of a StatusCollector.
    Collector(String),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Combination { binding, object } => write!(f, "{object} under binding {binding}"),
            Self::Binding(name) => write!(f, "binding {name}"),
            Self::Collector(name) => write!(f, "statuscollector {name}"),
        }
    }
}

/// A bound object as far as a combination depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bound {
    /// In which it is read.
    version: String,
    collectors: BTreeSet<String>,
    resource_version: String,
}

impl Bound {
    fn is_edited_alone(&self, before: &Self) -> bool {
        (&self.version, &self.collectors) == (&before.version, &before.collectors)
    }
}

#[derive(Debug, Default)]
pub struct Index {
    bound: BTreeMap<String, BTreeMap<ObjectKey, Bound>>,
    destinations: BTreeMap<String, BTreeSet<String>>,
    bindings_of: BTreeMap<ObjectKey, BTreeSet<String>>,
    /// Object → cluster → its WorkStatuses there; two for a moment, when an object changes hands.
    returned: BTreeMap<ObjectKey, BTreeMap<String, BTreeSet<ObjectId>>>,
    /// Binding name → its CombinedStatuses, and the object that each is about.
    combined: BTreeMap<String, BTreeMap<ObjectId, ObjectKey>>,
}

impl Index {
    /// Every Binding and every object under one.
    pub fn all(&self) -> Vec<Key> {
        let mut keys = Vec::new();
        for (binding, objects) in &self.bound {
            keys.push(Key::Binding(binding.clone()));
            keys.extend(objects.keys().map(|object| Key::Combination {
                binding: binding.clone(),
                object: object.clone(),
            }));
        }
        keys
    }

    /// Objects that came, went or changed collectors; all when the clusters changed. Not those that were only edited:
    /// KubeStellar combines anew when a cluster answers, and not before. An edited one that has no CombinedStatus
    /// is touched, too: it may have been deleted and created again.
    pub fn binding(&mut self, change: &Change<'_, Guarded<Binding>>) -> Vec<Key> {
        let name = &change.id.name;
        let binding = change.after.and_then(|guarded| guarded.object());
        let after: BTreeMap<ObjectKey, Bound> = binding.map(bound_objects).unwrap_or_default();
        let clusters: BTreeSet<String> = binding.map(clusters).unwrap_or_default();
        let before = self.bound.insert(name.clone(), after.clone()).unwrap_or_default();
        let moved = self
            .destinations
            .insert(name.clone(), clusters.clone())
            .unwrap_or_default()
            != clusters;
        let owner = |guarded: &Arc<Guarded<Binding>>| guarded.owner_references().to_vec();
        let renewed = change.before().as_ref().map(owner) != change.after.map(owner);
        let mut touched = BTreeSet::from([Key::Binding(name.clone())]);
        let combined: BTreeSet<ObjectKey> = self
            .combined
            .get(name)
            .into_iter()
            .flatten()
            .map(|(_, of)| of.clone())
            .collect();
        for object in before.keys().chain(after.keys()) {
            let is_same = match (before.get(object), after.get(object)) {
                (Some(before), Some(after)) if after.is_edited_alone(before) => {
                    after == before || after.collectors.is_empty() || combined.contains(object)
                }
                _ => false,
            };
            if moved || renewed || !is_same {
                touched.insert(Key::Combination {
                    binding: name.clone(),
                    object: object.clone(),
                });
            }
        }
        for object in before.keys().filter(|object| !after.contains_key(*object)) {
            remove(&mut self.bindings_of, object, name);
        }
        for object in after.into_keys() {
            self.bindings_of.entry(object).or_default().insert(name.clone());
        }
        if change.after.is_none() {
            self.bound.remove(name);
            self.destinations.remove(name);
        }
        touched.into_iter().collect()
    }

    /// Every combination that the collector is part of, when its spec changed, came or went.
    pub fn collector(&mut self, change: &Change<'_, Guarded<StatusCollector>>) -> Vec<Key> {
        let name = &change.id.name;
        let spec = |guarded: &Arc<Guarded<StatusCollector>>| guarded.object().map(|it| it.spec.clone());
        let mut touched = vec![Key::Collector(name.clone())];
        if change.before().as_ref().map(spec) == change.after.map(spec) {
            return touched;
        }
        for (binding, objects) in &self.bound {
            let mut named = false;
            for object in objects
                .iter()
                .filter(|(_, bound)| bound.collectors.contains(name))
                .map(|(key, _)| key)
            {
                named = true;
                touched.push(Key::Combination {
                    binding: binding.clone(),
                    object: object.clone(),
                });
            }
            if named {
                touched.push(Key::Binding(binding.clone()));
            }
        }
        touched
    }

    pub fn work_status(&mut self, change: &Change<'_, Guarded<WorkStatus>>) -> Vec<Key> {
        let cluster = change.id.namespace.clone().unwrap_or_default();
        let object = |guarded: &Arc<Guarded<WorkStatus>>| {
            let source = &guarded.object()?.spec.source_ref;
            is_whole(source).then(|| source_key(source))
        };
        let (before, after) = (change.before().as_ref().and_then(object), change.after.and_then(object));
        if let Some(object) = &before
            && let Some(clusters) = self.returned.get_mut(object)
        {
            remove(clusters, &cluster, change.id);
            if clusters.is_empty() {
                self.returned.remove(object);
            }
        }
        if let Some(object) = &after {
            let clusters = self.returned.entry(object.clone()).or_default();
            clusters.entry(cluster.clone()).or_default().insert(change.id.clone());
        }
        let objects: BTreeSet<ObjectKey> = before.into_iter().chain(after).collect();
        let mut touched = Vec::new();
        for object in objects {
            for binding in self.bindings_of.get(&object).into_iter().flatten() {
                if self
                    .destinations
                    .get(binding)
                    .is_some_and(|clusters| clusters.contains(&cluster))
                {
                    touched.push(Key::Combination {
                        binding: binding.clone(),
                        object: object.clone(),
                    });
                }
            }
        }
        touched
    }

    /// One that somebody else took away is made again; our own writes touch nothing.
    pub fn combined(&mut self, change: &Change<'_, Guarded<CombinedStatusView>>) -> Vec<Key> {
        let label = |guarded: &Arc<Guarded<CombinedStatusView>>, name| guarded.labels().get(name).cloned();
        let of = |guarded: &Arc<Guarded<CombinedStatusView>>| {
            let object = ObjectKey {
                group: label(guarded, label::API_GROUP)?,
                resource: label(guarded, label::RESOURCE)?,
                namespace: label(guarded, label::NAMESPACE).filter(|namespace| !namespace.is_empty()),
                name: label(guarded, label::NAME)?,
            };
            Some((label(guarded, label::BINDING_POLICY)?, object))
        };
        let before = change.before().as_ref().and_then(of);
        if let Some((binding, _)) = &before
            && let Some(known) = self.combined.get_mut(binding)
        {
            known.remove(change.id);
            if known.is_empty() {
                self.combined.remove(binding);
            }
        }
        if let Some(after) = change.after {
            if let Some((binding, object)) = of(after) {
                self.combined
                    .entry(binding)
                    .or_default()
                    .insert(change.id.clone(), object);
            }
            return Vec::new();
        }
        let key = before.map(|(binding, object)| Key::Combination { binding, object });
        key.into_iter().collect()
    }

    /// The object's WorkStatus in each cluster.
    pub fn returned(&self, object: &ObjectKey) -> Vec<(String, ObjectId)> {
        let clusters = self.returned.get(object).into_iter().flatten();
        clusters
            .filter_map(|(cluster, ids)| Some((cluster.clone(), ids.first()?.clone())))
            .collect()
    }

    /// The CombinedStatuses of the Binding.
    pub fn combined_of(&self, binding: &str) -> Vec<ObjectId> {
        let known = self.combined.get(binding).into_iter().flatten();
        known.map(|(id, _)| id.clone()).collect()
    }
}

fn bound_objects(binding: &Binding) -> BTreeMap<ObjectKey, Bound> {
    let objects = binding.spec.workload.objects();
    let bound = |object: &BoundObject| Bound {
        version: object.version.clone(),
        collectors: object.status_collectors.iter().cloned().collect(),
        resource_version: object.resource_version.clone(),
    };
    objects.map(|object| (object_key(object), bound(object))).collect()
}

fn clusters(binding: &Binding) -> BTreeSet<String> {
    binding
        .spec
        .destinations
        .iter()
        .map(|destination| destination.cluster_id.clone())
        .collect()
}

/// KubeStellar's reader leaves a WorkStatus aside that does not say whose it is.
fn is_whole(source: &SourceRef) -> bool {
    // The group of core objects is empty.
    [&source.version, &source.resource, &source.kind, &source.name]
        .iter()
        .all(|part| !part.is_empty())
}

fn source_key(source: &SourceRef) -> ObjectKey {
    ObjectKey {
        group: source.group.clone(),
        resource: source.resource.clone(),
        namespace: Some(source.namespace.clone()).filter(|namespace| !namespace.is_empty()),
        name: source.name.clone(),
    }
}

fn remove<K: Ord, V: Ord>(map: &mut BTreeMap<K, BTreeSet<V>>, key: &K, value: &V) {
    if let Some(values) = map.get_mut(key) {
        values.remove(value);
        if values.is_empty() {
            map.remove(key);
        }
    }
}
