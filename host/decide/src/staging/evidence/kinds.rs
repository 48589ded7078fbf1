//! Which kinds can prove nothing by a status. Must not guess: a kind that is not listed is expected to report.

/// KubeStellar's status agent never returns anything for these (status add-on v0.2).
const NEVER_RETURNED: &[(&str, &str)] = &[
    ("", "configmaps"),
    ("", "secrets"),
    ("", "serviceaccounts"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("rbac.authorization.k8s.io", "roles"),
];

/// Built-in kinds whose objects have no status member (Kubernetes API reference v1.34): the agent reports that they
/// are there, with a time of year 1. Custom resources are not known to be such, so they are expected to report.
const WITHOUT_STATUS: &[(&str, &str)] = &[
    ("", "endpoints"),
    ("", "limitranges"),
    ("", "podtemplates"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("apps", "controllerrevisions"),
    ("networking.k8s.io", "ingressclasses"),
    ("networking.k8s.io", "networkpolicies"),
    ("node.k8s.io", "runtimeclasses"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "storageclasses"),
];

/// Nothing is ever known of these in a cluster: they are judged only when a filter insists, and then never pass.
pub fn is_never_returned(group: &str, resource: &str) -> bool {
    NEVER_RETURNED.contains(&(group, resource))
}

/// "There, without a status" is all that can be reported of these.
pub fn is_without_status(group: &str, resource: &str) -> bool {
    WITHOUT_STATUS.contains(&(group, resource))
}
