//! The facts about one YurtAppDaemon, from the watches. Must not judge.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::SignedDuration;
use kube::{Resource as _, ResourceExt as _};
use stagegate_api::Gate;
use stagegate_api::workloads::{NodePool, TemplateType, WorkloadView, YurtAppDaemon};
use stagegate_decide::pools::{Child, Facts, NodePools, Pool, Read, gone_pools, has_pools};
use stagegate_runtime::store::{Listing, ObjectId};

use super::YurtAppDaemons;
use super::memory::Memory;
use super::node_pools::Answer;
use crate::controllers::guarded::Guarded;
use crate::controllers::lateness::ago;

/// After how long a gate that gave no verdict is asked again.
const RETRY_AFTER: SignedDuration = SignedDuration::from_secs(30);

/// Of all stages.
pub(super) fn gates_of(daemon: &YurtAppDaemon) -> impl Iterator<Item = &Gate> {
    let strategy = daemon.spec.update_strategy.iter();
    strategy
        .flat_map(|strategy| &strategy.stages)
        .flat_map(|stage| &stage.gates)
}

impl YurtAppDaemons {
    /// `None`: it is gone, cannot be read, or NodePools are about to be listed.
    pub(super) fn facts(&self, key: &ObjectId, memory: &mut Memory) -> Option<Facts> {
        let Some(stored) = self.stores.daemons.get(key) else {
            self.forget_workloads(key);
            return None;
        };
        let daemon = match &stored.0 {
            Ok(daemon) => daemon,
            Err(_) => {
                self.tell_of_invalid(&stored);
                return None;
            }
        };
        if memory.uid != daemon.metadata.uid {
            *memory = Memory {
                uid: daemon.metadata.uid.clone(),
                ..Memory::default()
            };
        }
        memory.note_stored(daemon);
        let kind = daemon.spec.workload_template.chosen().map(|(kind, _)| kind);
        let namespace = daemon.namespace().unwrap_or_default();
        let children = kind.map(|kind| {
            let mut gathered = self.gathered();
            let of = gathered
                .workloads
                .entry((kind.plural(), namespace.clone()))
                .or_default();
            // The facts share the objects with the store, so that there is no second one of them.
            of.of(
                self.stores.workloads(kind).in_namespace(&namespace),
                named_child,
                |_, _| false,
            )
        });
        let pools = match (self.stores.served.answer(), &*self.stores.pools.listing().borrow()) {
            (Answer::No, _) => NodePools::Unserved,
            (Answer::In(_), Listing::At(_)) => {
                let mut gathered = self.gathered();
                NodePools::Known(gathered.pools.of(self.stores.pools.all(), named_pool, Pool::eq))
            }
            (_, Listing::Missing { cause: Some(cause) }) => NodePools::Unread { why: cause.clone() },
            // The first list queues every daemon.
            _ => return None,
        };
        let facts = Facts {
            pools,
            children: children.unwrap_or_default(),
            revisions: memory.revisions.clone(),
            sources: self.stores.sources.facts(gates_of(daemon)),
            ..self.remembered(daemon.clone(), memory)
        };
        Some(with_absence(facts, memory))
    }

    /// Keeps nothing of a kind in a namespace in which no daemon has that kind.
    fn forget_workloads(&self, gone: &ObjectId) {
        let namespace = gone.namespace.as_deref().unwrap_or_default();
        let daemons = self.stores.daemons.in_namespace(namespace);
        let daemons = daemons.iter().filter_map(|daemon| daemon.object());
        let kinds: BTreeSet<&str> = daemons.map(|daemon| kind_of(daemon).plural()).collect();
        let is_kept = |kind: &str, of: &str| of != namespace || kinds.contains(kind);
        self.gathered().workloads.retain(|(kind, of), _| is_kept(kind, of));
    }

    /// What is known of the daemon without its pools, workloads, revisions and the ConfigMaps of its gates.
    pub(super) fn remembered(&self, daemon: Arc<YurtAppDaemon>, memory: &Memory) -> Facts {
        let now = self.runtime.clock.now();
        let at_work = self.runtime.leader_state.at_work_since().map(|since| ago(since, now));
        let watching = self.stores.watching_since(kind_of(&daemon), now);
        let mut facts = Facts {
            now,
            read: Read::Cached,
            daemon,
            pools: NodePools::Unserved,
            no_pools_since: None,
            gone_since: BTreeMap::new(),
            children: Arc::default(),
            revisions: Vec::new(),
            refused: memory.refused.clone(),
            refused_revision: memory.refused_revision.clone(),
            applied: memory.applied.clone(),
            watching_since: watching.map(|since| since.max(at_work.unwrap_or(since))),
            retry_after: RETRY_AFTER,
            compiled: BTreeMap::new(),
            verdicts: BTreeMap::new(),
            gate_namespaces: self.stores.sources.allowed().clone(),
            sources: BTreeMap::new(),
            modules: BTreeMap::new(),
            configs: BTreeMap::new(),
            gate_verdicts: BTreeMap::new(),
        };
        memory.checks.fill(facts.answers_mut());
        facts
    }
}

/// With the times since when no pool matches, and since when pools are gone that workloads were made for.
pub(super) fn with_absence(facts: Facts, memory: &mut Memory) -> Facts {
    let now = facts.now;
    // While nothing is known no time goes by.
    let (is_without, gone) = match &facts.pools {
        NodePools::Known(pools) => (
            !has_pools(&facts.daemon, pools),
            gone_pools(&facts, pools, &memory.found),
        ),
        NodePools::Unread { .. } | NodePools::Unserved => (false, BTreeSet::new()),
    };
    memory.no_pools_since = is_without.then(|| memory.no_pools_since.unwrap_or(now));
    memory.gone_since.retain(|pool, _| gone.contains(pool));
    for pool in gone {
        memory.gone_since.entry(pool).or_insert(now);
    }
    Facts {
        no_pools_since: memory.no_pools_since,
        gone_since: memory.gone_since.clone(),
        ..facts
    }
}

pub(super) fn named_pool(pool: &Guarded<NodePool>) -> (String, Pool) {
    let spec = pool.object().map(|pool| pool.spec.clone());
    let pool_facts = Pool {
        labels: pool.labels().clone(),
        is_invalid: spec.is_none(),
        taints: spec.map(|spec| spec.taints).unwrap_or_default(),
    };
    (pool.meta().name.clone().unwrap_or_default(), pool_facts)
}

pub(super) fn named_child(workload: &Guarded<WorkloadView>) -> (String, Child) {
    let name = workload.meta().name.clone().unwrap_or_default();
    let child = match &workload.0 {
        Ok(view) => Child::Known(view.clone()),
        Err(invalid) => Child::Invalid {
            metadata: Box::new(invalid.metadata.clone()),
        },
    };
    (name, child)
}

/// Of the daemon's template, or a Deployment where there is none: nothing is read then.
pub(super) fn kind_of(daemon: &YurtAppDaemon) -> TemplateType {
    daemon
        .spec
        .workload_template
        .chosen()
        .map_or(TemplateType::Deployment, |(kind, _)| kind)
}
