//! The kinds that are watched as long as the process lives, each once, whoever needs it.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use stagegate_api::{
    Binding, BindingPolicy, CombinedStatusView, ManagedCluster, StagedBindingPolicy, StatusCollector, WorkStatus,
};
use stagegate_decide::staging::Decoded;
use stagegate_runtime::store::Store;
use stagegate_runtime::watch::{ManagedFields, Need, keep};
use stagegate_runtime::{Runtime, Tasks};

use super::foreign_writers::{ForeignWriterGuard, WatchedKind};
pub use super::guarded::Guarded;
use super::guarded::{Form, Json, View, packing};

/// A store that is filled only if somebody asked for it.
pub struct Kind<K> {
    store: Arc<Store<Guarded<K>>>,
    wanted: AtomicBool,
    /// Somebody looks at all objects for each event.
    whole: AtomicBool,
}

impl<K> Default for Kind<K> {
    fn default() -> Self {
        Self {
            store: Arc::default(),
            wanted: AtomicBool::new(false),
            whole: AtomicBool::new(false),
        }
    }
}

impl<K> Kind<K> {
    /// By somebody who looks at all its objects for each event.
    pub fn wanted(&self) -> Arc<Store<Guarded<K>>> {
        self.whole.store(true, Ordering::Relaxed);
        self.wanted_singly()
    }

    /// By somebody who asks for one object, or for a few: the others may be packed.
    pub fn wanted_singly(&self) -> Arc<Store<Guarded<K>>> {
        self.wanted.store(true, Ordering::Relaxed);
        self.store.clone()
    }

    fn packed<F: Form<K>>(self) -> Self
    where
        K: PartialEq,
    {
        if !self.whole.load(Ordering::Relaxed) {
            self.store.pack(packing::<K, F>());
        }
        self
    }
}

/// One of each.
#[derive(Default)]
pub struct Kinds {
    pub policies: Kind<StagedBindingPolicy>,
    pub placements: Kind<BindingPolicy>,
    pub bindings: Kind<Binding>,
    pub collectors: Kind<StatusCollector>,
    pub combined: Kind<CombinedStatusView>,
    pub work_statuses: Kind<WorkStatus>,
    pub clusters: Kind<ManagedCluster>,
    pub namespaces: Kind<Namespace>,
}

impl Kinds {
    /// Starts the watches of the wanted kinds; their listeners are registered by now.
    pub fn spawn(self, runtime: &Runtime, foreign_writers: Option<&Arc<ForeignWriterGuard>>, tasks: &mut Tasks) {
        let shown = |kind: WatchedKind| match foreign_writers {
            Some(foreign_writers) => foreign_writers.clone().shown(kind),
            None => ManagedFields::Dropped,
        };
        spawn(self.policies.packed::<Json>(), ManagedFields::Dropped, runtime, tasks);
        spawn(
            self.placements.packed::<Json>(),
            shown(WatchedKind::BindingPolicy),
            runtime,
            tasks,
        );
        spawn(
            self.bindings.packed::<Json>(),
            shown(WatchedKind::Binding),
            runtime,
            tasks,
        );
        spawn(self.collectors, ManagedFields::Dropped, runtime, tasks);
        spawn(
            self.combined.packed::<View>(),
            shown(WatchedKind::CombinedStatus),
            runtime,
            tasks,
        );
        // The time of a WorkStatus's last change stands there and nowhere else.
        spawn(self.work_statuses, ManagedFields::Kept, runtime, tasks);
        spawn(self.clusters, ManagedFields::Dropped, runtime, tasks);
        spawn(self.namespaces, ManagedFields::Dropped, runtime, tasks);
    }
}

fn spawn<K>(kind: Kind<K>, managed: ManagedFields, runtime: &Runtime, tasks: &mut Tasks)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    if !kind.wanted.into_inner() {
        return;
    }
    let api: Api<Guarded<K>> = Api::all(runtime.client.clone());
    let watched = runtime.metrics.add_watch(&K::plural(&()), Need::Always);
    let (stop, store) = (runtime.stop.clone(), kind.store);
    tasks.spawn(async move {
        tokio::select! { () = stop.cancelled() => {}, () = keep(api, store, managed, watched) => {} }
        "a watch"
    });
}

/// The object as facts hold it.
pub fn decoded<K>(guarded: &Guarded<K>) -> Decoded<K> {
    match &guarded.0 {
        Ok(object) => Decoded::Object(object.clone()),
        Err(invalid) => Decoded::Invalid {
            error: invalid.error.clone(),
        },
    }
}
