//! From a watch to single changes by name, re-lists included. Must not keep objects.

use std::collections::BTreeSet;
use std::fmt::Debug;

use futures::{Stream, StreamExt as _, TryStreamExt as _};
use kube::api::Api;
use kube::core::DeserializeGuard;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

/// One object that does not decode must not stop the watch.
pub(crate) type Guarded<K> = DeserializeGuard<K>;

/// A watch of a kind that outlives its errors; they are logged once each and the watch goes on.
pub(crate) fn events<K>(api: Api<K>, kind: &'static str) -> impl Stream<Item = Event<K>> + use<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    watcher(api, watcher::Config::default())
        .default_backoff()
        .inspect_err(move |error| tracing::warn!(%error, kind, "watch failed, it is started again"))
        .filter_map(|event| std::future::ready(event.ok()))
}

pub(crate) fn decoded<K: Resource<DynamicType = ()>>(guarded: Guarded<K>) -> Option<K> {
    let name = guarded.name_any();
    match guarded.0 {
        Ok(object) => Some(object),
        Err(error) => {
            tracing::warn!(kind = %K::kind(&()), name, error = %error.error, "object does not decode, it is passed over");
            None
        }
    }
}

/// What an object is called among those of its kind: `name`, or `namespace/name`.
pub(crate) fn key<K: ResourceExt>(object: &K) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

/// The names that a watch has shown.
#[derive(Default)]
pub(crate) struct Mirror {
    known: BTreeSet<String>,
    /// During a re-list: the names not yet seen again.
    missing: Option<BTreeSet<String>>,
}

pub(crate) enum Seen<K> {
    Set(K),
    Gone(String),
}

impl Mirror {
    pub(crate) fn changes<K: ResourceExt>(&mut self, event: Event<K>) -> Vec<Seen<K>> {
        match event {
            Event::Init => {
                self.missing = Some(self.known.clone());
                Vec::new()
            }
            Event::InitApply(object) | Event::Apply(object) => {
                let name = key(&object);
                if let Some(missing) = &mut self.missing {
                    missing.remove(&name);
                }
                self.known.insert(name);
                vec![Seen::Set(object)]
            }
            Event::Delete(object) => {
                let name = key(&object);
                self.known.remove(&name);
                vec![Seen::Gone(name)]
            }
            Event::InitDone => {
                let missing = self.missing.take().unwrap_or_default();
                self.known.retain(|name| !missing.contains(name));
                missing.into_iter().map(Seen::Gone).collect()
            }
        }
    }
}
