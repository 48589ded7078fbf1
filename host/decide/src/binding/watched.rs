//! Which kinds of objects can be workload at all.

/// Groups that are no workload. The first five are KubeStellar's own list; the last two hold the inventory and the
/// simulated clusters, which live in another space where KubeStellar runs and beside the workload in the playground.
const EXCLUDED_GROUPS: [&str; 7] = [
    "flowcontrol.apiserver.k8s.io",
    "discovery.k8s.io",
    "apiregistration.k8s.io",
    "coordination.k8s.io",
    stagegate_api::KUBESTELLAR_GROUP,
    stagegate_api::INVENTORY_GROUP,
    stagegate_api::PLAYGROUND_GROUP,
];

/// Single resources (group, plural) that are no workload: KubeStellar's list.
const EXCLUDED_RESOURCES: [(&str, &str); 6] = [
    ("", "events"),
    ("", "nodes"),
    ("", "endpoints"),
    ("events.k8s.io", "events"),
    ("storage.k8s.io", "csistoragecapacities"),
    ("storage.k8s.io", "csinodes"),
];

/// Whether objects of this resource are watched and can match a clause.
pub fn is_watched(group: &str, resource: &str) -> bool {
    !EXCLUDED_GROUPS.contains(&group) && !EXCLUDED_RESOURCES.contains(&(group, resource))
}
