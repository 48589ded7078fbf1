//! An object in a cluster, as far as its status depends on it, and the name of its revision. Must not know rules or statuses.

use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// An object in a cluster, as far as its health depends on it.
pub(crate) struct Patient<'a> {
    pub(crate) group: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: &'a str,
    pub(crate) manifest: &'a Value,
    /// The cluster's own count; `None` for kinds without one.
    pub(crate) generation: Option<i64>,
    /// When it was created or its spec last changed, in this cluster.
    pub(crate) changed_at: Timestamp,
    pub(crate) before: &'a RunningReplicas,
}

/// What was running of an object when its spec was last changed: an update replaces no replica at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RunningReplicas {
    /// Available replicas of earlier Pod templates.
    pub(crate) old: i64,
    /// Available replicas of the current Pod template.
    pub(crate) current: i64,
    /// The revision of the `old` replicas; of several revisions the last that was rolled out.
    pub(crate) old_revision: Option<String>,
}

/// The name of a revision: a hash of the part of the manifest whose change starts new processes.
pub(crate) fn revision(patient: &Patient<'_>) -> String {
    let template = match (patient.group, patient.kind) {
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet") | ("batch", "Job") => {
            patient.manifest.pointer("/spec/template")
        }
        // A change of these starts nothing.
        ("apps", "ReplicaSet") | ("batch", "CronJob") | ("policy", "PodDisruptionBudget") => None,
        ("", "Service" | "PersistentVolumeClaim" | "Namespace") => None,
        ("apiextensions.k8s.io" | "apiregistration.k8s.io", _) => None,
        _ => patient.manifest.get("spec"),
    };
    let digest = Sha256::digest(template.unwrap_or(&Value::Null).to_string());
    let hash: String = digest.iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{hash}", patient.name)
}
