//! What the controller watches. Must not decide what any of it means.

use std::sync::Arc;

use jiff::Timestamp;
use kube::Api;
use kube::Resource;
use serde::de::DeserializeOwned;
use stagegate_api::workloads::{NodePool, POOL_NAME, TemplateType, WorkloadView, YurtAppDaemon};
use stagegate_runtime::store::{ObjectId, Store};
use stagegate_runtime::watch::{ManagedFields, Need, Selected, keep};
use stagegate_runtime::{Runtime, Tasks};

use super::DaemonQueue;
use super::node_pools::{Served, watch_node_pools};
use crate::controllers::gates::sources::Sources;
use crate::controllers::guarded::Guarded;
use crate::controllers::lateness::ago;

/// Every kind that is watched.
#[derive(Clone)]
pub struct Stores {
    pub daemons: Arc<Store<Guarded<YurtAppDaemon>>>,
    /// Those with a pool's label.
    pub deployments: Arc<Store<Guarded<WorkloadView>>>,
    /// Those with a pool's label.
    pub stateful_sets: Arc<Store<Guarded<WorkloadView>>>,
    pub pools: Arc<Store<Guarded<NodePool>>>,
    /// In which version there are NodePools.
    pub served: Arc<Served>,
    /// Of these a decision needs none to be listed: a gate without its ConfigMap waits alone.
    pub sources: Arc<Sources>,
}

impl Stores {
    pub fn new(sources: Arc<Sources>) -> Self {
        Self {
            daemons: Arc::default(),
            deployments: Arc::default(),
            stateful_sets: Arc::default(),
            pools: Arc::default(),
            served: Arc::default(),
            sources,
        }
    }

    /// Since when no event about workloads of this kind or NodePools can have been missed.
    pub fn watching_since(&self, kind: TemplateType, now: Timestamp) -> Option<Timestamp> {
        let listed = [
            self.daemons.listed_at()?,
            self.workloads(kind).listed_at()?,
            self.pools.listed_at()?,
        ];
        Some(ago(listed.into_iter().max()?, now))
    }

    pub fn workloads(&self, kind: TemplateType) -> &Arc<Store<Guarded<WorkloadView>>> {
        match kind {
            TemplateType::Deployment => &self.deployments,
            TemplateType::StatefulSet => &self.stateful_sets,
        }
    }

    pub fn spawn(&self, runtime: &Runtime, queue: &DaemonQueue, tasks: &mut Tasks) {
        let daemons: Api<Guarded<YurtAppDaemon>> = Api::all(runtime.client.clone());
        spawn(daemons, "yurtappdaemons", &self.daemons, (runtime, tasks));
        for kind in TemplateType::ALL {
            let api: Api<Guarded<WorkloadView>> = Api::all_with(runtime.client.clone(), &kind);
            let labels = Some(POOL_NAME.to_owned());
            let of = Selected { api, labels };
            spawn(of, kind.plural(), self.workloads(kind), (runtime, tasks));
        }
        let to = queue.clone();
        let touch = move |daemon: &str| {
            if let Some((namespace, name)) = daemon.split_once('/') {
                to.add(ObjectId {
                    namespace: Some(namespace.to_owned()),
                    name: name.to_owned(),
                });
            }
        };
        self.sources.spawn(runtime, touch, tasks);
        let (stop, of, queue, with) = (runtime.stop.clone(), self.clone(), queue.clone(), runtime.clone());
        tasks.spawn(async move {
            tokio::select! { () = stop.cancelled() => {}, () = watch_node_pools(with, of, queue) => {} }
            "the watch of NodePools"
        });
    }
}

fn spawn<K>(
    of: impl Into<Selected<Guarded<K>>>,
    name: &str,
    store: &Arc<Store<Guarded<K>>>,
    (runtime, tasks): (&Runtime, &mut Tasks),
) where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
{
    let watched = runtime.metrics.add_watch(name, Need::Always);
    let (stop, store, of) = (runtime.stop.clone(), store.clone(), of.into());
    tasks.spawn(async move {
        tokio::select! { () = stop.cancelled() => {}, () = keep(of, store, ManagedFields::Dropped, watched) => {} }
        "a watch"
    });
}
