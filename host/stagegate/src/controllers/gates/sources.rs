//! The ConfigMaps that gates name, as watches of their metadata tell them: which version is there. Must not read their
//! contents, and must not hold up an object without gates: a namespace is watched once a gate names it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::{ObjectMeta, PartialObjectMeta};
use kube::{Api, Client, Resource as _};
use stagegate_api::Gate;
use stagegate_decide::checks::{GateNamespaces, Source, SourceEntry};
use stagegate_runtime::links::Links;
use stagegate_runtime::request::{RequestError, cut, request};
use stagegate_runtime::store::{Listing, ObjectId, Store};
use stagegate_runtime::watch::{ManagedFields, Need, keep};
use stagegate_runtime::{Runtime, Tasks};
use tokio::sync::Notify;

/// A ConfigMap without its data.
pub type Slim = PartialObjectMeta<ConfigMap>;

/// Longest cause of a namespace that is not listed.
const CAUSE_CHARS_MAX: usize = 200;
/// Longest message of a ConfigMap that may not be read.
const MESSAGE_CHARS_MAX: usize = 256;
/// ConfigMaps read at once.
const READS_MAX: usize = 8;

/// Who names which ConfigMap, and what is known of them.
pub struct Sources {
    allowed: GateNamespaces,
    /// Key → `namespace/name` of the ConfigMaps that its gates name, and → their namespaces.
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
    /// A gate names a ConfigMap there.
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

    /// The ConfigMaps that these gates name, in namespaces that are allowed: namespace and name.
    pub fn named_by<'g>(&self, gates: impl Iterator<Item = &'g Gate>) -> BTreeSet<(String, String)> {
        let entries = gates.map(|gate| SourceEntry::from(&gate.module.config_map));
        entries
            .filter(|entry| self.allowed.allow(&entry.namespace))
            .map(|entry| (entry.namespace, entry.name))
            .collect()
    }

    /// The facts about them, by `namespace/name`; without those of namespaces that are not listed yet.
    pub fn facts<'g>(&self, gates: impl Iterator<Item = &'g Gate>) -> BTreeMap<String, Source> {
        let named = self.named_by(gates).into_iter();
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

    /// From now on the object of this key has these gates. To be told before the object is queued: what its watches bring then finds it.
    pub fn set<'g>(&self, key: &str, gates: impl Iterator<Item = &'g Gate>) {
        let named = self.named_by(gates);
        let namespaces: BTreeSet<String> = named.iter().map(|(namespace, _)| namespace.clone()).collect();
        for watched in namespaces.iter().filter_map(|namespace| self.watched(namespace)) {
            watched.wanted.notify_one();
        }
        let mut names = self.lock();
        names.namespaces.set(key, namespaces);
        let config_maps = named.iter().map(|(namespace, name)| format!("{namespace}/{name}"));
        names.config_maps.set(key, config_maps.collect());
    }

    /// Watches each namespace from when it is first named, and names the keys that an event touches to `touch`.
    pub fn spawn(
        self: &Arc<Self>,
        runtime: &Runtime,
        touch: impl Fn(&str) + Clone + Send + Sync + 'static,
        tasks: &mut Tasks,
    ) {
        for (namespace, watched) in &self.watched {
            let (sources, touched) = (self.clone(), touch.clone());
            watched.store.listen(move |change| {
                for key in sources.lock().config_maps.naming(&change.id.to_string()) {
                    touched(key);
                }
            });
            let api: Api<Slim> = match namespace.as_str() {
                "" => Api::all(runtime.client.clone()),
                namespace => Api::namespaced(runtime.client.clone(), namespace),
            };
            let (sources, touch, namespace) = (self.clone(), touch.clone(), namespace.clone());
            let (counters, stop) = (runtime.metrics.clone(), runtime.stop.clone());
            tasks.spawn(async move {
                let watched = &sources.watched[&namespace];
                let watching = async {
                    watched.wanted.notified().await;
                    let watched_config_maps = counters.add_watch("configmaps", Need::WhenNamed);
                    tokio::join!(
                        keep(api, watched.store.clone(), ManagedFields::Dropped, watched_config_maps),
                        sources.tell_of_lists(&namespace, &touch)
                    )
                };
                tokio::select! { () = stop.cancelled() => {}, _ = watching => {} }
                "a watch of ConfigMaps"
            });
        }
    }

    /// A ConfigMap that a list does not hold is absent from then on, and no event says so.
    async fn tell_of_lists(&self, namespace: &str, touch: &(impl Fn(&str) + Sync)) {
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
            touched.iter().for_each(|key| touch(key));
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

/// The ConfigMaps of these namespaces and names as facts, by `namespace/name`, from reads of their metadata.
///
/// # Errors
/// What may be better the next time; a refusal is a fact.
pub async fn read(
    client: &Client,
    named: &BTreeSet<(String, String)>,
) -> Result<BTreeMap<String, Source>, RequestError> {
    let reads = named.iter().cloned().map(|(namespace, name)| async move {
        let api: Api<Slim> = Api::namespaced(client.clone(), &namespace);
        let what = format!("get metadata of configmaps {namespace}/{name}");
        let source = match request(what, api.get(&name)).await {
            Ok(found) => present(&found.metadata),
            Err(error) if error.is_not_found() => Source::Absent,
            Err(error) if error.is_forbidden() => Source::Unread {
                message: cut(&error.chain(), MESSAGE_CHARS_MAX),
            },
            Err(error) => return Err(error),
        };
        Ok((format!("{namespace}/{name}"), source))
    });
    stream::iter(reads).buffer_unordered(READS_MAX).try_collect().await
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
