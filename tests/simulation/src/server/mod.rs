//! An API server in memory: objects with versions, conditional writes, finalizers, and the log that watches are fed from. Must not
//! know what the objects are for.

pub mod kind;
pub mod workload;

use jiff::Timestamp;
use stagegate_api::{Binding, BindingPolicy, CombinedStatus, StagedBindingPolicy, StatusCollector};

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
        }
    }

    /// Removes what is owned by nobody who is there: the garbage collector.
    pub fn collect_garbage(&mut self) {
        let orphans = |meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
                       live: &dyn Fn(&str) -> bool| {
            let owners = meta.owner_references.as_deref().unwrap_or_default();
            !owners.is_empty() && !owners.iter().any(|owner| live(&owner.uid))
        };
        let of = |objects: Vec<(String, bool)>| objects.into_iter().filter(|(_, is)| *is).map(|(key, _)| key);
        let live = |uid: &str| self.policies.all().any(|(_, policy)| uid_of(policy.meta()) == uid);
        let placements = self.placements.all();
        let placements = placements.map(|(key, object)| (key.clone(), orphans(object.meta(), &live)));
        let gone: Vec<String> = of(placements.collect()).collect();
        for key in gone {
            let _gone = self.placements.delete(&mut self.counter, (&key, None));
        }
        let live = |uid: &str| self.placements.all().any(|(_, object)| uid_of(object.meta()) == uid);
        let bindings = self.bindings.all();
        let bindings = bindings.map(|(key, object)| (key.clone(), orphans(object.meta(), &live)));
        let gone: Vec<String> = of(bindings.collect()).collect();
        for key in gone {
            let _gone = self.bindings.delete(&mut self.counter, (&key, None));
        }
        let live = |uid: &str| self.workloads.all().any(|(_, object)| uid_of(object.meta()) == uid);
        let combined = self.combined.all();
        let combined = combined.map(|(key, object)| (key.clone(), orphans(object.meta(), &live)));
        let gone: Vec<String> = of(combined.collect()).collect();
        for key in gone {
            let _gone = self.combined.delete(&mut self.counter, (&key, None));
        }
    }
}
