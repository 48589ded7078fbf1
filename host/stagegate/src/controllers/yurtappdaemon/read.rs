//! One reading of the API server: the pools, in the daemon's namespace the workloads of its kind and the ControllerRevisions, and the daemon.
//! Must not judge.

use std::fmt::Debug;
use std::sync::Arc;

use futures::try_join;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use serde::de::DeserializeOwned;
use stagegate_api::Uid;
use stagegate_api::workloads::{NodePool, WorkloadView, YurtAppDaemon};
use stagegate_decide::checks::Source;
use stagegate_decide::pools::{Facts, NodePools, Read, Revision};
use stagegate_runtime::request::{RequestError, request};
use stagegate_runtime::store::ObjectId;
use stagegate_runtime::watch::order;

use tracing::debug;

use super::YurtAppDaemons;
use super::gather::{gates_of, kind_of, named_child, named_pool, with_absence};
use super::memory::Memory;
use super::node_pools::{Answer, ask};
use crate::controllers::gates::sources;
use crate::controllers::guarded::Guarded;

/// Objects asked for at once.
const PAGE_OBJECTS: u32 = 500;

impl YurtAppDaemons {
    /// Everything anew; `None`: the daemon is gone, or another one has its name.
    ///
    /// # Errors
    /// What cannot be read, and an answer that is older than what is known.
    pub(super) async fn read_anew(
        &self,
        daemon: &YurtAppDaemon,
        memory: &mut Memory,
    ) -> Result<Option<Facts>, RequestError> {
        let began_at = self.runtime.clock.now();
        let (name, namespace) = (daemon.name_any(), daemon.namespace().unwrap_or_default());
        let (client, kind) = (&self.runtime.client, kind_of(daemon));
        let workloads: Api<Guarded<WorkloadView>> = Api::namespaced_with(client.clone(), &namespace, &kind);
        let revisions: Api<ControllerRevision> = Api::namespaced(client.clone(), &namespace);
        let config_maps = self.stores.sources.named_by(gates_of(daemon));
        let (workloads, revisions, pools, sources) = try_join!(
            whole((&workloads, kind.plural()), self.stores.workloads(kind).seen()),
            whole((&revisions, "controllerrevisions"), 0),
            self.pools(),
            sources::read(client, &config_maps),
        )?;
        // Last: workloads that a deletion has left without an owner are seen with it.
        let Some(found) = self.daemon(&ObjectId::of(&daemon.metadata)).await? else {
            return Ok(None);
        };
        if found.metadata.uid != daemon.metadata.uid || kind_of(&found) != kind {
            debug!(name, namespace, "another YurtAppDaemon has this name");
            return Ok(None);
        }
        if self.stores.sources.named_by(gates_of(&found)) != config_maps {
            let what = format!("read the gates of yurtappdaemon {namespace}/{name}");
            return Err(RequestError::Older { what });
        }
        let is_unread = |source: &Source| matches!(source, Source::Unread { .. });
        memory.checks.is_to_retry |= sources.values().any(is_unread);
        let facts = Facts {
            read: Read::Anew { began_at },
            pools,
            children: Arc::new(workloads.iter().map(named_child).collect()),
            revisions: revisions.into_iter().map(revision).collect(),
            sources,
            ..self.remembered(found, memory)
        };
        memory.applied.retain(|name, _| facts.children.contains_key(name));
        if let NodePools::Known(pools) = &facts.pools {
            memory.refused.retain(|pool, _| pools.contains_key(pool));
        }
        let uid = facts.daemon.metadata.uid.as_deref();
        let of_daemon = facts
            .revisions
            .iter()
            .filter(|revision| revision.owner.as_ref().map(Uid::as_str) == uid);
        memory.revisions = of_daemon.cloned().collect();
        Ok(Some(with_absence(facts, memory)))
    }

    /// `None`: it is gone, or cannot be read.
    async fn daemon(&self, key: &ObjectId) -> Result<Option<Arc<YurtAppDaemon>>, RequestError> {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let api: Api<Guarded<YurtAppDaemon>> = Api::namespaced(self.runtime.client.clone(), namespace);
        let seen = self.stores.daemons.seen();
        let what = format!("get yurtappdaemon {key}");
        let found = match request(what.clone(), api.get(&key.name)).await {
            Err(error) if error.is_not_found() => return Ok(None),
            answer => answer?,
        };
        if self.stores.daemons.knew_newer(&found, seen) {
            return Err(RequestError::Older { what });
        }
        Ok(found.0.ok())
    }

    async fn pools(&self) -> Result<NodePools, RequestError> {
        let client = &self.runtime.client;
        let version = match self.stores.served.answer() {
            Answer::In(version) => version,
            Answer::No | Answer::NotAsked => match ask(client).await? {
                Answer::In(version) => version,
                Answer::No | Answer::NotAsked => return Ok(NodePools::Unserved),
            },
        };
        let api: Api<Guarded<NodePool>> = Api::all_with(client.clone(), &version);
        match whole((&api, "nodepools"), self.stores.pools.seen()).await {
            Ok(pools) => Ok(NodePools::Known(Arc::new(pools.iter().map(named_pool).collect()))),
            Err(error) if error.is_not_found() => Ok(NodePools::Unserved),
            Err(RequestError::Refused { code, reason, .. }) => Ok(NodePools::Unread {
                why: format!("{code} {reason}"),
            }),
            Err(error) => Err(error),
        }
    }
}

/// All pages of one list, which must be of one version and no older than `seen`.
async fn whole<T>((api, plural): (&Api<T>, &str), seen: u64) -> Result<Vec<T>, RequestError>
where
    T: Clone + Debug + DeserializeOwned,
{
    let what = || format!("list {plural}");
    let mut params = ListParams::default().limit(PAGE_OBJECTS);
    let (mut objects, mut first) = (Vec::new(), None);
    loop {
        let page = request(what(), api.list(&params)).await?;
        let version = page.metadata.resource_version.unwrap_or_default();
        let is_older = order(&version).is_some_and(|listed| listed < seen);
        let is_torn = first.get_or_insert_with(|| version.clone()) != &version;
        if is_older || is_torn {
            return Err(RequestError::Older { what: what() });
        }
        objects.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(objects),
        }
    }
}

/// As facts hold it.
fn revision(found: ControllerRevision) -> Revision {
    let owners = found.metadata.owner_references.iter().flatten();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    let owner = controllers.next().map(|owner| owner.uid.clone().into());
    Revision {
        name: found.name_any(),
        uid: found.metadata.uid.clone().unwrap_or_default().into(),
        resource_version: found.metadata.resource_version.clone().unwrap_or_default().into(),
        owner,
        number: found.revision,
        data: found.data.map(|data| data.0).unwrap_or_default(),
    }
}
