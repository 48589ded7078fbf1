//! Whether an object with this status runs well in its current version. Tests compare the controllers' rules with this, so it must
//! not share code with them.

use serde_json::Value;

use super::patient::{Patient, revision};
use super::statuses::wanted;

/// A status of an earlier generation says nothing about this one; a kind without a status is healthy by being there.
pub(crate) fn is_healthy(patient: &Patient<'_>, status: Option<&Value>) -> bool {
    let status = status.unwrap_or(&Value::Null);
    let number = |name: &str| status[name].as_i64().unwrap_or_default();
    // An autoscaler may run more replicas than are wanted, but all must be of this version.
    let all = |names: &[&str]| names.iter().all(|name| number(name) == number("replicas"));
    let at_least = |names: &[&str], wanted: i64| names.iter().all(|name| number(name) >= wanted);
    let is = |kind: &str| condition(status, kind) == Some("True");
    let is_observed = match (patient.generation, status["observedGeneration"].as_i64()) {
        (Some(generation), Some(observed)) => generation == observed,
        _ => true,
    };
    let wanted = wanted(patient);
    is_observed
        && match (patient.group, patient.kind) {
            ("apps", "Deployment") => {
                number("replicas") >= wanted
                    && all(&["updatedReplicas", "readyReplicas", "availableReplicas"])
                    && condition(status, "Progressing") != Some("False")
                    && is("Available")
            }
            ("apps", "StatefulSet") => {
                number("replicas") >= wanted
                    && all(&["updatedReplicas", "readyReplicas", "availableReplicas"])
                    && status["currentRevision"] == revision(patient).as_str()
                    && status["updateRevision"] == status["currentRevision"]
            }
            ("apps", "ReplicaSet") => number("replicas") >= wanted && all(&["readyReplicas", "availableReplicas"]),
            ("apps", "DaemonSet") => at_least(
                &["updatedNumberScheduled", "numberReady", "numberAvailable"],
                number("desiredNumberScheduled").max(wanted),
            ),
            ("policy", "PodDisruptionBudget") => !status["observedGeneration"].is_null(),
            ("batch", "Job") => is("Complete"),
            ("", "Pod") => status["phase"] == "Succeeded" || status["phase"] == "Running" && is("Ready"),
            ("", "PersistentVolumeClaim") => status["phase"] == "Bound",
            ("", "Namespace") => status["phase"] == "Active",
            ("", "Service") => {
                patient.manifest["spec"]["type"] != "LoadBalancer"
                    || status["loadBalancer"]["ingress"]
                        .as_array()
                        .is_some_and(|ingress| !ingress.is_empty())
            }
            ("apiextensions.k8s.io", "CustomResourceDefinition") => is("Established") && is("NamesAccepted"),
            ("apiregistration.k8s.io", "APIService") => is("Available"),
            _ => {
                let by = |kind: &str, bad: &str| condition(status, kind) != Some(bad);
                by("Ready", "False") && by("Available", "False") && by("Reconciling", "True") && by("Stalled", "True")
            }
        }
}

fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = status["conditions"].as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == kind)?;
    found["status"].as_str()
}
