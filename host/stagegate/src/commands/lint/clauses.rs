//! What a `downsync` clause can match, as far as its text alone tells.

use serde_json::{Value, json};
use stagegate_api::GROUP;

/// A kind, as clauses name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub group: &'static str,
    pub resource: &'static str,
    pub namespaced: bool,
}

const RBAC: &str = "rbac.authorization.k8s.io";

pub const SECRETS: Kind = namespaced("", "secrets");
pub const POLICIES: Kind = cluster_scoped(GROUP, "stagedbindingpolicies");

/// Kinds for which KubeStellar's agent returns no status, so that nothing can be judged by one.
pub const WITHOUT_STATUS: [Kind; 7] = [
    namespaced("", "configmaps"),
    SECRETS,
    namespaced("", "serviceaccounts"),
    namespaced(RBAC, "roles"),
    namespaced(RBAC, "rolebindings"),
    cluster_scoped(RBAC, "clusterroles"),
    cluster_scoped(RBAC, "clusterrolebindings"),
];

/// Kinds of Kubernetes that have a status and no replicas in it.
pub const WITHOUT_REPLICAS: [Kind; 8] = [
    namespaced("batch", "cronjobs"),
    namespaced("autoscaling", "horizontalpodautoscalers"),
    namespaced("networking.k8s.io", "ingresses"),
    namespaced("batch", "jobs"),
    cluster_scoped("", "namespaces"),
    namespaced("", "persistentvolumeclaims"),
    namespaced("", "pods"),
    namespaced("", "services"),
];

const fn namespaced(group: &'static str, resource: &'static str) -> Kind {
    Kind {
        group,
        resource,
        namespaced: true,
    }
}

const fn cluster_scoped(group: &'static str, resource: &'static str) -> Kind {
    Kind {
        group,
        resource,
        namespaced: false,
    }
}

/// Whether the clause takes objects of the kind without having to name it, a label or a name.
pub fn takes_any(clause: &Value, kind: Kind) -> bool {
    let open = |member: &str| {
        let listed = list(clause, member);
        listed.is_empty() || listed.contains(&&json!("*"))
    };
    let selects_all = |member: &str| {
        let selectors = list(clause, member);
        selectors.is_empty() || selectors.contains(&&json!({}))
    };
    let scope = kind.namespaced || (open("namespaces") && selects_all("namespaceSelectors"));
    scope
        && open("resources")
        && open("objectNames")
        && selects_all("objectSelectors")
        && clause.get("apiGroup").is_none_or(|group| group == kind.group)
}

/// Whether the clause can match objects of the kind.
pub fn can_match(clause: &Value, kind: Kind) -> bool {
    let resources = list(clause, "resources");
    let resource =
        resources.is_empty() || resources.contains(&&json!("*")) || resources.contains(&&json!(kind.resource));
    resource && clause.get("apiGroup").is_none_or(|group| group == kind.group)
}

/// Whether the clause names the kind's resource.
pub fn names(clause: &Value, kind: Kind) -> bool {
    can_match(clause, kind) && list(clause, "resources").contains(&&json!(kind.resource))
}

/// Whether the clause names resources, and all of them are of kinds without status.
pub fn names_only_kinds_without_status(clause: &Value) -> bool {
    let resources = list(clause, "resources");
    let without = |resource: &&Value| {
        WITHOUT_STATUS
            .iter()
            .any(|kind| **resource == kind.resource && can_match(clause, *kind))
    };
    !resources.is_empty() && resources.iter().all(without)
}

/// What a filter would see of an object of the kind that the clause matched.
pub fn sample(clause: &Value, kind: Kind) -> Value {
    let first = |member: &str| {
        let named = list(clause, member)
            .into_iter()
            .filter_map(Value::as_str)
            .find(|name| *name != "*");
        named.unwrap_or("example").to_owned()
    };
    let mut sample = json!({
        "group": kind.group,
        "version": "v1",
        "resource": kind.resource,
        "name": first("objectNames"),
        "resourceVersion": "1",
        "statusCollectors": list(clause, "statusCollectors"),
    });
    if kind.namespaced {
        sample["namespace"] = json!(first("namespaces"));
    }
    sample
}

/// The members of a list; none when it is absent or no list.
pub fn list<'a>(clause: &'a Value, member: &str) -> Vec<&'a Value> {
    clause
        .get(member)
        .and_then(Value::as_array)
        .map(|list| list.iter().collect())
        .unwrap_or_default()
}
