//! A BindingPolicy and the world resolved to the spec of a Binding, in KubeStellar's order.

use std::collections::{BTreeMap, BTreeSet};

use stagegate_api::{BindingSpec, BoundObject, Destination, Workload};

use super::{Clauses, Facts};
use crate::names::ObjectKey;
use crate::selector::{Selector, SelectorError};

/// Objects and destinations that the policy selects now.
pub(super) fn resolve(facts: &Facts) -> Result<BindingSpec, SelectorError> {
    let policy = &facts.policy.spec;
    let selectors = policy
        .cluster_selectors
        .iter()
        .map(Selector::try_from)
        .collect::<Result<Vec<_>, _>>()?;
    let selected = facts
        .clusters
        .iter()
        .filter(|cluster| selectors.iter().any(|one| one.matches(&cluster.labels)));
    let destinations: BTreeSet<Destination> = selected
        .map(|cluster| Destination {
            cluster_id: cluster.name.clone(),
        })
        .collect();

    let clauses = Clauses::new(&policy.downsync);
    // One version of an object is bound, the first that is listed: the version is no part of the server's list key.
    let mut bound: BTreeMap<ObjectKey, BoundObject> = BTreeMap::new();
    for object in facts
        .objects
        .iter()
        .filter_map(|object| clauses.bind(object, facts.namespaces))
    {
        bound.entry(key(&object)).or_insert(object);
    }
    let mut objects: Vec<BoundObject> = bound.into_values().collect();
    objects.sort_by_cached_key(order);
    let (namespace_scope, cluster_scope) = objects.into_iter().partition(|object| object.namespace.is_some());
    Ok(BindingSpec {
        workload: Workload {
            cluster_scope,
            namespace_scope,
        },
        destinations: destinations.into_iter().collect(),
    })
}

/// Whether two specs say the same: lists are sets.
pub(super) fn same(a: &BindingSpec, b: &BindingSpec) -> bool {
    fn sets(spec: &BindingSpec) -> (BTreeSet<BoundObject>, BTreeSet<&Destination>) {
        let object = |object: &BoundObject| {
            let mut object = object.clone();
            object.status_collectors.sort();
            object.status_collectors.dedup();
            object
        };
        (
            spec.workload.objects().map(object).collect(),
            spec.destinations.iter().collect(),
        )
    }
    a == b || sets(a) == sets(b)
}

/// One complaint for all objects whose status should be copied back from one cluster while there is not one.
pub(super) fn singleton_complaint(spec: &BindingSpec) -> Option<String> {
    let clusters = spec.destinations.len();
    let asking: Vec<&BoundObject> = spec
        .workload
        .objects()
        .filter(|object| object.want_singleton_reported_state)
        .collect();
    if asking.is_empty() || clusters == 1 {
        return None;
    }
    let named: Vec<String> = asking
        .iter()
        .take(NAMED_IN_COMPLAINT)
        .map(|object| key(object).to_string())
        .collect();
    let more = if asking.len() > named.len() {
        format!(" and {} more", asking.len() - named.len())
    } else {
        String::new()
    };
    Some(format!(
        "wantSingletonReportedState needs one destination, but {clusters} are selected for {}{more}",
        named.join(", ")
    ))
}

/// KubeStellar names at most so many objects in its complaint.
const NAMED_IN_COMPLAINT: usize = 4;

/// What the server holds to be one entry of the list.
fn key(object: &BoundObject) -> ObjectKey {
    ObjectKey {
        group: object.group.clone(),
        resource: object.resource.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
    }
}

/// KubeStellar sorts by the text of group, version and resource, then by the object's path, then by its version.
fn order(object: &BoundObject) -> (String, String, String) {
    let kind = format!("{}/{}, Resource={}", object.group, object.version, object.resource);
    (kind, path_of(object), object.resource_version.clone())
}

fn path_of(object: &BoundObject) -> String {
    match &object.namespace {
        Some(namespace) => format!("{namespace}/{}", object.name),
        None => object.name.clone(),
    }
}
