//! The status an object would have in a cluster, from its kind, its age and the cluster's rules. Must not write it.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use stagegate_api::{SimulatedClusterRule, SimulatedClusterSpec, parse_duration};

/// Kinds for which KubeStellar's status add-on reports nothing at all.
const NEVER_REPORTED: &[(&str, &str)] = &[
    ("", "ConfigMap"),
    ("", "Secret"),
    ("", "ServiceAccount"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
];

/// An object in a cluster, as far as its health depends on it.
pub(super) struct Patient<'a> {
    pub(super) group: &'a str,
    pub(super) kind: &'a str,
    pub(super) namespace: Option<&'a str>,
    pub(super) name: &'a str,
    pub(super) manifest: &'a Value,
    /// The cluster's own count; `None` for kinds without one.
    pub(super) generation: Option<i64>,
    /// When it was created or its spec last changed, in this cluster.
    pub(super) changed_at: Timestamp,
}

/// A status, since when it is so, and when it will be another one without anybody's doing.
#[derive(Debug, PartialEq)]
pub(super) struct Health {
    /// `None`: the object carries no status.
    pub(super) status: Option<Value>,
    pub(super) since: Timestamp,
    pub(super) changes_at: Option<Timestamp>,
}

pub(super) fn is_reported(group: &str, kind: &str) -> bool {
    !NEVER_REPORTED.contains(&(group, kind))
}

/// Until `after` (else `readyAfter`) has passed since the object changed, it starts up; then it is well, as far as the
/// rule's status, merged over that of its kind, lets it.
pub(super) fn examine(patient: &Patient<'_>, spec: &SimulatedClusterSpec, now: Timestamp) -> Health {
    let rule = spec.rules.iter().find(|rule| matches(rule, patient));
    let ready_after = rule
        .and_then(|rule| rule.after.as_deref())
        .or(spec.ready_after.as_deref());
    let ready_at = patient
        .changed_at
        .checked_add(delay(ready_after))
        .unwrap_or(Timestamp::MAX);
    if now < ready_at {
        return Health {
            status: starting(patient),
            since: patient.changed_at,
            changes_at: Some(ready_at),
        };
    }
    let scripted = rule.and_then(|rule| rule.status.clone());
    let status = match (well(patient), scripted) {
        (well, None) => well,
        (well, Some(patch)) => {
            let mut status = well.unwrap_or_else(|| json!({}));
            json_patch::merge(&mut status, &Value::Object(patch));
            Some(status)
        }
    };
    Health {
        status,
        since: ready_at,
        changes_at: None,
    }
}

fn matches(rule: &SimulatedClusterRule, patient: &Patient<'_>) -> bool {
    let is = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
    is(&rule.kind, patient.kind)
        && is(&rule.namespace, patient.namespace.unwrap_or_default())
        && is(&rule.name, patient.name)
}

/// The CRD's pattern admits only what parses; an object stored without it counts as ready at once.
fn delay(text: Option<&str>) -> SignedDuration {
    let parsed = text.and_then(parse_duration).unwrap_or_default();
    SignedDuration::try_from(parsed).unwrap_or(SignedDuration::MAX)
}

/// How the status of a kind is made of its counters. Kubernetes leaves counters of zero out, those that the kind's
/// schema requires excepted.
struct Shape {
    group: &'static str,
    kind: &'static str,
    required: &'static [&'static str],
    /// Counted from the start.
    placed: &'static [&'static str],
    /// Counted once it runs.
    running: &'static [&'static str],
    /// Counted until it runs.
    missing: &'static [&'static str],
    condition: Option<&'static str>,
}

const COUNTED: &[Shape] = &[
    Shape {
        group: "apps",
        kind: "Deployment",
        required: &[],
        placed: &["replicas", "updatedReplicas"],
        running: &["readyReplicas", "availableReplicas"],
        missing: &["unavailableReplicas"],
        condition: Some("Available"),
    },
    Shape {
        group: "apps",
        kind: "StatefulSet",
        required: &["replicas"],
        placed: &["replicas", "currentReplicas", "updatedReplicas"],
        running: &["readyReplicas", "availableReplicas"],
        missing: &[],
        condition: None,
    },
    Shape {
        group: "apps",
        kind: "ReplicaSet",
        required: &["replicas"],
        placed: &["replicas", "fullyLabeledReplicas"],
        running: &["readyReplicas", "availableReplicas"],
        missing: &[],
        condition: None,
    },
    Shape {
        group: "apps",
        kind: "DaemonSet",
        required: &[
            "currentNumberScheduled",
            "desiredNumberScheduled",
            "numberMisscheduled",
            "numberReady",
        ],
        placed: &[
            "currentNumberScheduled",
            "desiredNumberScheduled",
            "updatedNumberScheduled",
        ],
        running: &["numberReady", "numberAvailable"],
        missing: &["numberUnavailable"],
        condition: None,
    },
];

fn starting(patient: &Patient<'_>) -> Option<Value> {
    match (patient.group, patient.kind) {
        ("batch", "Job") => Some(json!({"active": 1})),
        ("", "Pod") => Some(json!({"phase": "Pending", "conditions": [condition("Ready", false)]})),
        ("", "Service" | "Namespace") => well(patient),
        _ => shape(patient).map(|shape| counted(patient, shape, false)),
    }
}

fn well(patient: &Patient<'_>) -> Option<Value> {
    match (patient.group, patient.kind) {
        ("batch", "Job") => Some(json!({"succeeded": 1, "conditions": [condition("Complete", true)]})),
        ("", "Pod") => Some(json!({"phase": "Running", "conditions": [condition("Ready", true)]})),
        ("", "Service") => Some(json!({"loadBalancer": {}})),
        ("", "Namespace") => Some(json!({"phase": "Active"})),
        _ => shape(patient).map(|shape| counted(patient, shape, true)),
    }
}

fn shape(patient: &Patient<'_>) -> Option<&'static Shape> {
    COUNTED
        .iter()
        .find(|shape| shape.group == patient.group && shape.kind == patient.kind)
}

fn counted(patient: &Patient<'_>, shape: &Shape, runs: bool) -> Value {
    // A simulated cluster has one node, on which a DaemonSet runs once.
    let wanted = if patient.kind == "DaemonSet" {
        1
    } else {
        patient
            .manifest
            .pointer("/spec/replicas")
            .and_then(Value::as_i64)
            .unwrap_or(1)
    };
    let mut status: Map<String, Value> = shape.required.iter().map(|&name| (name.to_owned(), 0.into())).collect();
    let counters = if runs { shape.running } else { shape.missing };
    if wanted > 0 {
        status.extend(
            shape
                .placed
                .iter()
                .chain(counters)
                .map(|&name| (name.to_owned(), wanted.into())),
        );
    }
    if let Some(generation) = patient.generation {
        status.insert("observedGeneration".to_owned(), generation.into());
    }
    if let Some(kind) = shape.condition {
        status.insert("conditions".to_owned(), json!([condition(kind, runs || wanted == 0)]));
    }
    Value::Object(status)
}

/// Without times: a report changes only when the health does.
fn condition(kind: &str, holds: bool) -> Value {
    json!({"type": kind, "status": if holds { "True" } else { "False" }})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment<'a>(manifest: &'a Value, changed_at: Timestamp) -> Patient<'a> {
        Patient {
            group: "apps",
            kind: "Deployment",
            namespace: Some("shop"),
            name: "nginx",
            manifest,
            generation: Some(3),
            changed_at,
        }
    }

    fn spec(yaml: Value) -> SimulatedClusterSpec {
        serde_json::from_value(yaml).unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn a_deployment_that_starts_has_no_counter_of_what_runs_and_says_when_to_look_again() {
        let manifest = json!({"spec": {"replicas": 2}});
        let health = examine(&deployment(&manifest, at(0)), &spec(json!({"readyAfter": "2s"})), at(1));
        let status = health.status.unwrap();
        assert_eq!(status["observedGeneration"], 3);
        assert_eq!(status["unavailableReplicas"], 2);
        assert!(status.get("availableReplicas").is_none() && status.get("readyReplicas").is_none());
        assert_eq!(health.changes_at, Some(at(2)));
    }

    #[test]
    fn the_first_rule_that_matches_sets_the_delay_and_its_status_replaces_and_removes_members() {
        let manifest = json!({});
        let rules = json!({"readyAfter": "1s", "rules": [
            {"kind": "StatefulSet", "status": {"x": 1}},
            {"kind": "Deployment", "name": "nginx", "after": "5s", "status": {"availableReplicas": null, "readyReplicas": 7}},
            {"status": {"availableReplicas": 9}},
        ]});
        let patient = deployment(&manifest, at(0));
        assert!(examine(&patient, &spec(rules.clone()), at(4)).changes_at.is_some());
        let health = examine(&patient, &spec(rules), at(5));
        let status = health.status.unwrap();
        assert!(status.get("availableReplicas").is_none());
        assert_eq!(status["readyReplicas"], 7);
        assert_eq!((health.since, health.changes_at), (at(5), None));
    }

    #[test]
    fn a_kind_without_a_status_has_one_only_by_a_rule() {
        let manifest = json!({});
        let policy = Patient {
            group: "networking.k8s.io",
            kind: "NetworkPolicy",
            ..deployment(&manifest, at(0))
        };
        assert_eq!(examine(&policy, &spec(json!({})), at(9)).status, None);
        let scripted = examine(&policy, &spec(json!({"rules": [{"status": {"seen": true}}]})), at(9));
        assert_eq!(scripted.status, Some(json!({"seen": true})));
    }

    #[test]
    fn zero_replicas_leave_all_counters_out() {
        let manifest = json!({"spec": {"replicas": 0}});
        let status = examine(&deployment(&manifest, at(0)), &spec(json!({})), at(0))
            .status
            .unwrap();
        assert_eq!(
            status,
            json!({"observedGeneration": 3, "conditions": [{"type": "Available", "status": "True"}]})
        );
    }
}
