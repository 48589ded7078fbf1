//! Reading a Binding: its owner, its objects, its clusters. Must not judge them.

use kube::ResourceExt as _;
use serde_json::{Map, Value};
use stagegate_api::evidence::is_evidence_collector;
use stagegate_api::{Binding, BoundObject};

use crate::checks::health::Counted;
use crate::checks::variables::JudgedObject;
use crate::names::{ClusterName, ObjectKey, ResourceVersion, Uid};

/// Controller owner of a Binding: the BindingPolicy it was made for.
pub fn owner_uid(binding: &Binding) -> Option<Uid<&str>> {
    binding
        .owner_references()
        .iter()
        .find(|owner| owner.controller == Some(true))
        .map(|owner| Uid::of(&owner.uid))
}

pub fn objects(binding: &Binding) -> Vec<&BoundObject> {
    binding.spec.workload.objects().collect()
}

pub fn destinations(binding: &Binding) -> Vec<ClusterName<&str>> {
    binding
        .spec
        .destinations
        .iter()
        .map(|destination| ClusterName::of(&destination.cluster_id))
        .collect()
}

pub fn key(object: &BoundObject) -> ObjectKey {
    ObjectKey {
        group: object.group.clone(),
        resource: object.resource.clone(),
        namespace: object.namespace.clone().filter(|namespace| !namespace.is_empty()),
        name: object.name.clone(),
    }
}

/// The version of the object that the Binding names.
pub const fn resource_version(object: &BoundObject) -> ResourceVersion<&str> {
    ResourceVersion::of(object.resource_version.as_str())
}

/// What makes clusters report on an object of which nothing has come since it was made.
pub const fn remedy(object: &BoundObject) -> &'static str {
    if object.create_only {
        "createOnly keeps updates of it from the clusters: if nothing comes, set createOnly: false in its downsync clause"
    } else {
        "if nothing comes, update the object (kubectl rollout restart does)"
    }
}

/// The value of `object` in a condition.
pub fn judged(object: &BoundObject, generation: Option<i64>) -> JudgedObject {
    JudgedObject {
        group: object.group.clone(),
        version: Some(object.version.clone()),
        resource: object.resource.clone(),
        namespace: object.namespace.clone().unwrap_or_default(),
        name: object.name.clone(),
        generation,
    }
}

/// The value of `downsyncClause`: all members, always there but `namespace`, which cluster-scoped objects have not.
/// The evidence collector is left out of the collectors, as it is out of the results.
pub fn clause(object: &BoundObject) -> Value {
    let collectors = object
        .status_collectors
        .iter()
        .filter(|name| !is_evidence_collector(name))
        .cloned();
    let mut clause = Map::new();
    clause.insert("group".into(), object.group.clone().into());
    clause.insert("version".into(), object.version.clone().into());
    clause.insert("resource".into(), object.resource.clone().into());
    if let Some(namespace) = object.namespace.as_ref().filter(|namespace| !namespace.is_empty()) {
        clause.insert("namespace".into(), namespace.clone().into());
    }
    clause.insert("name".into(), object.name.clone().into());
    clause.insert("resourceVersion".into(), object.resource_version.clone().into());
    clause.insert("createOnly".into(), object.create_only.into());
    clause.insert("statusCollectors".into(), Value::from_iter(collectors));
    clause.insert(
        "wantSingletonReportedState".into(),
        object.want_singleton_reported_state.into(),
    );
    clause.insert(
        "wantMultiWECReportedState".into(),
        object.want_multi_wec_reported_state.into(),
    );
    Value::Object(clause)
}

/// The generation that transport has taken last; 0: none.
pub fn taken_generation(binding: &Binding) -> Option<i64> {
    binding.status.as_ref().map(|status| status.observed_generation)
}

/// The object as the health check counts it.
pub fn counted(object: &BoundObject) -> Counted {
    Counted {
        key: key(object),
        is_create_only: object.create_only,
    }
}
