//! An API server in memory: objects with versions, conditional writes, finalizers, and the log that watches are fed from. Must not
//! know what the objects are for.

pub mod kind;
pub mod workload;

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use stagegate_api::{Binding, BindingPolicy, BindingPolicySpec, CombinedStatus, StagedBindingPolicy, StatusCollector};

pub use kind::{Counter, Kind, Refused, Stored, key_of, uid_of, version_of};
pub use workload::{Cluster, Content, Resource, Workload};

/// All that is stored.
#[derive(Clone, Debug)]
pub struct Server {
    pub counter: Counter,
    pub policies: Kind<StagedBindingPolicy>,
    pub placements: Kind<BindingPolicy>,
    pub bindings: Kind<Binding>,
    pub collectors: Kind<StatusCollector>,
    pub combined: Kind<CombinedStatus>,
    pub workloads: Kind<Workload>,
    pub clusters: Kind<Cluster>,
    /// BindingPolicies are stored without `createOnly`, which this server does not know.
    pub drops_create_only: bool,
}

impl Server {
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self {
            counter: Counter::new(now),
            policies: Kind::default(),
            placements: Kind::default(),
            bindings: Kind::default(),
            collectors: Kind::default(),
            combined: Kind::default(),
            workloads: Kind::default(),
            clusters: Kind::default(),
            drops_create_only: false,
        }
    }

    /// A BindingPolicy's spec as this server stores it.
    #[must_use]
    pub fn pruned(&self, mut spec: BindingPolicySpec) -> BindingPolicySpec {
        for clause in &mut spec.downsync {
            clause.create_only &= !self.drops_create_only;
        }
        spec
    }

    /// Removes what no existing object owns: the garbage collector.
    pub fn collect_garbage(&mut self) {
        collect(&mut self.placements, &mut self.counter, &uids(&self.policies));
        collect(&mut self.bindings, &mut self.counter, &uids(&self.placements));
        collect(&mut self.combined, &mut self.counter, &uids(&self.workloads));
    }

    /// The transport says which generation of the Binding it takes. It does so before it delivers anything.
    pub fn tell_taken(&mut self, binding: &str) {
        let _told = self.bindings.update(&mut self.counter, (binding, None), |binding| {
            let generation = binding.metadata.generation.unwrap_or_default();
            binding.status.get_or_insert_default().observed_generation = generation;
        });
    }

    /// Whether the garbage collector has something to do about the BindingPolicies: one may have been made for a policy that was
    /// deleted meanwhile.
    #[must_use]
    pub fn has_orphans(&self) -> bool {
        let live = uids(&self.policies);
        self.placements
            .all()
            .any(|(_, placement)| is_orphan(placement.meta(), &live))
    }
}

impl Server {
    /// Whether its object is gone: KubeStellar may write a CombinedStatus for one that is.
    #[must_use]
    pub fn is_orphan_combined(&self, combined: &CombinedStatus) -> bool {
        is_orphan(combined.meta(), &uids(&self.workloads))
    }
}

fn uids<T: Stored>(kind: &Kind<T>) -> BTreeSet<String> {
    kind.all().map(|(_, object)| uid_of(object.meta()).to_owned()).collect()
}

fn is_orphan(meta: &ObjectMeta, live: &BTreeSet<String>) -> bool {
    let owners = meta.owner_references.as_deref().unwrap_or_default();
    !owners.is_empty() && !owners.iter().any(|owner| live.contains(&owner.uid))
}

fn collect<T: Stored>(kind: &mut Kind<T>, counter: &mut Counter, live: &BTreeSet<String>) {
    let orphans = kind.all().filter(|(_, object)| is_orphan(object.meta(), live));
    let orphans: Vec<String> = orphans.map(|(key, _)| key.clone()).collect();
    for key in orphans {
        let _gone = kind.delete(counter, (&key, None));
    }
}
