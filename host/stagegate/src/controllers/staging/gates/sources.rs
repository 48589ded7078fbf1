//! The ConfigMaps that gates name, as watches of their metadata tell them: which version is there. Must not read their
//! contents, and must not hold up a policy without gates: a namespace is watched once a policy names it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::{ObjectMeta, PartialObjectMeta};
use kube::{Api, Resource as _};
use stagegate_api::StagedBindingPolicy;
use stagegate_decide::staging::{GateNamespaces, Source, SourceEntry};
use stagegate_runtime::links::Links;
use stagegate_runtime::queue::Queue;
use stagegate_runtime::request::cut;
use stagegate_runtime::store::{Change, Listing, ObjectId, Store};
use stagegate_runtime::watch::{ManagedFields, Need, keep};
use stagegate_runtime::{Runtime, Tasks};
use tokio::sync::Notify;

use crate::controllers::kinds::Guarded;

/// A ConfigMap without its data.
pub type Slim = PartialObjectMeta<ConfigMap>;

/// Longest cause of a namespace that is not listed.
const CAUSE_CHARS_MAX: usize = 200;

/// Who names which ConfigMap, and what is known of them.
pub struct Sources {
    allowed: GateNamespaces,
    /// Policy → `namespace/name` of the ConfigMaps that its gates name, and → their namespaces.
    named: Mutex<Named>,
    /// By namespace; where all are allowed, one for all under the empty name.
    watched: BTreeMap<String, Watched>,
}

#[derive(Default)]
struct Named {
    config_maps: Links,
    namespaces: Links,
}

#[derive(Default)]
struct Watched {
    store: Arc<Store<Slim>>,
    /// A policy names a ConfigMap there.
    wanted: Notify,
}

impl Sources {
    pub fn new(allowed: GateNamespaces) -> Arc<Self> {
        let names: Vec<String> = match &allowed {
            GateNamespaces::All => vec![String::new()],
            GateNamespaces::Only(names) => names.iter().cloned().collect(),
        };
        Arc::new(Self {
            allowed,
            named: Mutex::default(),
            watched: names.into_iter().map(|name| (name, Watched::default())).collect(),
        })
    }

    pub fn allowed(&self) -> &GateNamespaces {
        &self.allowed
    }

    /// The ConfigMaps that gates of any stage name, in namespaces that are allowed: namespace and name.
    pub fn named_by(&self, policy: &StagedBindingPolicy) -> BTreeSet<(String, String)> {
        let gates = policy.spec.stages.iter().flat_map(|stage| &stage.gates);
        let entries = gates.map(|gate| SourceEntry::from(&gate.module.config_map));
        entries
            .filter(|entry| self.allowed.allow(&entry.namespace))
            .map(|entry| (entry.namespace, entry.name))
            .collect()
    }

    /// The facts about them, by `namespace/name`; without those of namespaces that are not listed yet.
    pub fn facts(&self, policy: &StagedBindingPolicy) -> BTreeMap<String, Source> {
        let named = self.named_by(policy).into_iter();
        named
            .filter_map(|(namespace, name)| Some((format!("{namespace}/{name}"), self.fact(namespace, name)?)))
            .collect()
    }

    fn fact(&self, namespace: String, name: String) -> Option<Source> {
        let Some(watched) = self.watched(&namespace) else {
            let message = format!("ConfigMaps of namespace {namespace} are not watched");
            return Some(Source::Unread { message });
        };
        let listing = watched.store.listing().borrow().clone();
        match listing {
            Listing::At(_) => {}
            Listing::Missing { cause: None } => return None,
            Listing::Missing { cause: Some(cause) } => {
                let message = format!(
                    "the ConfigMaps of namespace {namespace} cannot be listed: {}",
                    cut(&cause, CAUSE_CHARS_MAX)
                );
                return Some(Source::Unread { message });
            }
        }
        let id = ObjectId {
            namespace: Some(namespace),
            name,
        };
        Some(match watched.store.get(&id) {
            Some(found) => present(found.meta()),
            None => Source::Absent,
        })
    }

    /// Keeps who names what. To be told before a policy is queued: what its watches bring then finds it.
    pub fn policy(&self, change: &Change<'_, Guarded<StagedBindingPolicy>>) {
        let policy = change.after.and_then(|guarded| guarded.object());
        let named = policy.map(|policy| self.named_by(policy)).unwrap_or_default();
        let namespaces: BTreeSet<String> = named.iter().map(|(namespace, _)| namespace.clone()).collect();
        for watched in namespaces.iter().filter_map(|namespace| self.watched(namespace)) {
            watched.wanted.notify_one();
        }
        let mut names = self.lock();
        names.namespaces.set(&change.id.name, namespaces);
        let config_maps = named.iter().map(|(namespace, name)| format!("{namespace}/{name}"));
        names.config_maps.set(&change.id.name, config_maps.collect());
    }

    /// Watches each namespace from when it is first named, and queues the policies that an event touches.
    pub fn spawn(self: &Arc<Self>, runtime: &Runtime, queue: &Arc<Queue<String>>, tasks: &mut Tasks) {
        for (namespace, watched) in &self.watched {
            let (sources, policies) = (self.clone(), queue.clone());
            watched.store.listen(move |change| {
                for policy in sources.lock().config_maps.naming(&change.id.to_string()) {
                    policies.add(policy.clone());
                }
            });
            let api: Api<Slim> = match namespace.as_str() {
                "" => Api::all(runtime.client.clone()),
                namespace => Api::namespaced(runtime.client.clone(), namespace),
            };
            let (sources, queue, namespace) = (self.clone(), queue.clone(), namespace.clone());
            let (counters, stop) = (runtime.metrics.clone(), runtime.stop.clone());
            tasks.spawn(async move {
                let watched = &sources.watched[&namespace];
                let watching = async {
                    watched.wanted.notified().await;
                    let watched_config_maps = counters.add_watch("configmaps", Need::WhenNamed);
                    tokio::join!(
                        keep(api, watched.store.clone(), ManagedFields::Dropped, watched_config_maps),
                        sources.tell_of_lists(&namespace, &queue)
                    )
                };
                tokio::select! { () = stop.cancelled() => {}, _ = watching => {} }
                "a watch of ConfigMaps"
            });
        }
    }

    /// A ConfigMap that a list does not hold is absent from then on, and no event says so.
    async fn tell_of_lists(&self, namespace: &str, queue: &Queue<String>) {
        let mut listing = self.watched[namespace].store.listing();
        let mut was_listed = false;
        // The sender lives as long as the store, so this never ends.
        while listing.changed().await.is_ok() {
            let is_listed = matches!(*listing.borrow_and_update(), Listing::At(_));
            if std::mem::replace(&mut was_listed, is_listed) && is_listed {
                continue;
            }
            let names = self.lock();
            let touched: Vec<String> = match namespace {
                "" => names.namespaces.all().cloned().collect(),
                namespace => names.namespaces.naming(namespace).cloned().collect(),
            };
            drop(names);
            for policy in touched {
                queue.add(policy);
            }
        }
    }

    fn watched(&self, namespace: &str) -> Option<&Watched> {
        match self.allowed {
            GateNamespaces::All => self.watched.get(""),
            GateNamespaces::Only(_) => self.watched.get(namespace),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Named> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The version names uid and resourceVersion: a ConfigMap that was made anew is another one.
pub fn present(metadata: &ObjectMeta) -> Source {
    Source::Present {
        version: version(metadata),
    }
}

pub fn version(metadata: &ObjectMeta) -> String {
    format!(
        "{}/{}",
        metadata.uid.as_deref().unwrap_or_default(),
        metadata.resource_version.as_deref().unwrap_or_default()
    )
}
