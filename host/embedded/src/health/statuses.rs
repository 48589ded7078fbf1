//! The status that the controllers of Kubernetes write for each kind at one point of a rollout. Conditions have no transition times, so
//! that a report changes only when the health does. Must not know rules or the time.

use serde_json::{Map, Value, json};
use stagegate_api::Progressing;

use super::course::{Course, Script, later};
use super::patient::{Patient, revision};

/// Counts have 32 bits in Kubernetes; the limit keeps sums of them from overflowing here.
const REPLICAS_MAX: i64 = i32::MAX as i64;

/// `None`: objects of the kind carry no status.
pub(crate) fn status(patient: &Patient<'_>, course: &Course, script: &Script) -> Option<Value> {
    let generation = patient.generation;
    let observed = |mut status: Map<String, Value>| {
        status.extend(generation.map(|generation| ("observedGeneration".to_owned(), generation.into())));
        Some(Value::Object(status))
    };
    match (patient.group, patient.kind) {
        ("apps", "Deployment") => observed(deployment(patient, course)),
        ("apps", "StatefulSet") => observed(stateful_set(patient, course)),
        ("apps", "ReplicaSet") => observed(replica_set(course)),
        ("apps", "DaemonSet") => observed(daemon_set(course)),
        ("policy", "PodDisruptionBudget") => Some(disruption_budget(patient, course)),
        ("batch", "Job") => Some(job(patient, course, script)),
        ("batch", "CronJob") => Some(json!({})),
        ("", "Pod") => Some(pod(patient, course)),
        ("", "PersistentVolumeClaim") => Some(volume_claim(patient, course)),
        ("", "Service") => Some(service(patient, course)),
        ("", "Namespace") => Some(json!({"phase": "Active"})),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => Some(definition(patient, course)),
        ("apiregistration.k8s.io", "APIService") => Some(api_service(course)),
        _ if script.progressing == Progressing::Complete => None,
        _ => observed(custom(course)),
    }
}

/// How many replicas, completions or nodes the object's rollout has to reach.
pub(crate) fn wanted(patient: &Patient<'_>) -> i64 {
    let path = match (patient.group, patient.kind) {
        ("apps", "Deployment" | "StatefulSet" | "ReplicaSet") => "/spec/replicas",
        ("batch", "Job") => "/spec/completions",
        // A simulated cluster has one node, on which a DaemonSet runs once.
        _ => return 1,
    };
    let number = patient.manifest.pointer(path).and_then(Value::as_i64).unwrap_or(1);
    number.clamp(0, REPLICAS_MAX)
}

/// Available replicas of earlier Pod templates that the rollout has not replaced yet.
pub(crate) fn old_replicas(patient: &Patient<'_>, course: &Course) -> i64 {
    let old = patient.before.old;
    if course.is_rolled_out {
        return 0;
    }
    match (patient.group, patient.kind) {
        ("apps", "Deployment") if strategy(patient) == Some("Recreate") => 0,
        ("apps", "Deployment") => old.min((course.wanted - unavailable_max(course) - course.ready).max(0)),
        ("apps", "StatefulSet") => old.min(course.wanted - started_in_order(patient, course)),
        _ => 0,
    }
}

fn strategy<'a>(patient: &Patient<'a>) -> Option<&'a str> {
    patient.manifest.pointer("/spec/strategy/type").and_then(Value::as_str)
}

/// The defaults of a Deployment: 25 % may be unavailable, rounded down, and 25 % may be surplus, rounded up.
fn unavailable_max(course: &Course) -> i64 {
    course.wanted / 4
}

fn surge_max(course: &Course) -> i64 {
    (course.wanted + 3) / 4
}

fn deployment(patient: &Patient<'_>, course: &Course) -> Map<String, Value> {
    let old = old_replicas(patient, course);
    let updated = match old {
        0 => course.wanted,
        old => (course.wanted + surge_max(course) - old).clamp(course.ready, course.wanted),
    };
    let (replicas, available) = (old + updated, old + course.ready);
    let is_scaled = patient.before.old == 0 && patient.before.current > 0;
    let progressing = if course.is_rolled_out || is_scaled && !course.has_failed {
        condition("Progressing", true, "NewReplicaSetAvailable")
    } else if course.has_failed {
        condition("Progressing", false, "ProgressDeadlineExceeded")
    } else {
        condition("Progressing", true, "ReplicaSetUpdated")
    };
    let available_condition = if available >= course.wanted - unavailable_max(course) {
        condition("Available", true, "MinimumReplicasAvailable")
    } else {
        condition("Available", false, "MinimumReplicasUnavailable")
    };
    let mut status = nonzero(&[
        ("replicas", replicas),
        ("updatedReplicas", updated),
        ("readyReplicas", available),
        ("availableReplicas", available),
        ("unavailableReplicas", replicas - available),
    ]);
    status.insert("conditions".to_owned(), json!([available_condition, progressing]));
    status
}

/// A StatefulSet starts one Pod after the other, except with `podManagementPolicy: Parallel` in its first rollout.
fn started_in_order(patient: &Patient<'_>, course: &Course) -> i64 {
    let policy = patient.manifest.pointer("/spec/podManagementPolicy");
    let is_parallel = policy.is_some_and(|policy| policy == "Parallel") && patient.before.old == 0;
    match is_parallel || course.is_rolled_out {
        true => course.wanted,
        false => (course.ready + 1).min(course.wanted),
    }
}

fn stateful_set(patient: &Patient<'_>, course: &Course) -> Map<String, Value> {
    let updated = started_in_order(patient, course);
    let old = old_replicas(patient, course);
    let update_revision = revision(patient);
    let old_revision = patient.before.old_revision.clone().filter(|_| !course.is_rolled_out);
    let is_first = old_revision.is_none();
    let mut status = nonzero(&[
        ("readyReplicas", old + course.ready),
        ("currentReplicas", if is_first { updated } else { old }),
        ("updatedReplicas", updated),
    ]);
    status.insert("replicas".to_owned(), (old + updated).into());
    status.insert("availableReplicas".to_owned(), (old + course.ready).into());
    let current_revision = old_revision.unwrap_or_else(|| update_revision.clone());
    status.insert("currentRevision".to_owned(), current_revision.into());
    status.insert("updateRevision".to_owned(), update_revision.into());
    status
}

fn replica_set(course: &Course) -> Map<String, Value> {
    let mut status = nonzero(&[
        ("fullyLabeledReplicas", course.wanted),
        ("readyReplicas", course.ready),
        ("availableReplicas", course.ready),
    ]);
    status.insert("replicas".to_owned(), course.wanted.into());
    status
}

/// The only node runs either the old Pod or the new one.
fn daemon_set(course: &Course) -> Map<String, Value> {
    let mut status = nonzero(&[
        ("updatedNumberScheduled", course.wanted),
        ("numberAvailable", course.ready),
        ("numberUnavailable", course.wanted - course.ready),
    ]);
    status.insert("currentNumberScheduled".to_owned(), course.wanted.into());
    status.insert("desiredNumberScheduled".to_owned(), course.wanted.into());
    status.insert("numberMisscheduled".to_owned(), 0.into());
    status.insert("numberReady".to_owned(), course.ready.into());
    status
}

/// One Pod more matches than the budget wants available. Until the controller has observed it, only the required members are there.
fn disruption_budget(patient: &Patient<'_>, course: &Course) -> Value {
    if !course.is_well() {
        return json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0});
    }
    json!({
        "currentHealthy": 2, "desiredHealthy": 1, "disruptionsAllowed": 1, "expectedPods": 2,
        "observedGeneration": patient.generation, "conditions": [condition("DisruptionAllowed", true, "SufficientPods")],
    })
}

fn job(patient: &Patient<'_>, course: &Course, script: &Script) -> Value {
    let mut status = json!({"startTime": seconds(patient.changed_at)});
    if course.is_rolled_out {
        let completed_at = later(patient.changed_at, script.after);
        status["completionTime"] = json!(seconds(completed_at));
        status["succeeded"] = course.wanted.into();
        status["conditions"] = json!([
            condition("SuccessCriteriaMet", true, "CompletionsReached"),
            condition("Complete", true, "CompletionsReached"),
        ]);
    } else if course.has_failed {
        let limit = patient.manifest.pointer("/spec/backoffLimit").and_then(Value::as_i64);
        status["failed"] = limit.unwrap_or(6).clamp(0, REPLICAS_MAX).saturating_add(1).into();
        status["conditions"] = json!([
            condition("FailureTarget", true, "BackoffLimitExceeded"),
            condition("Failed", true, "BackoffLimitExceeded"),
        ]);
    } else {
        status["active"] = 1.into();
        status["ready"] = i64::from(!course.crashes).into();
        if course.ready > 0 {
            status["succeeded"] = course.ready.into();
        }
    }
    status
}

fn pod(patient: &Patient<'_>, course: &Course) -> Value {
    let is_ready = course.is_well();
    let phase = match (is_ready, course.has_failed, course.crashes) {
        (true, ..) | (false, false, true) => "Running",
        (false, true, _) => "Failed",
        (false, false, false) => "Pending",
    };
    let reason = if phase == "Failed" {
        "PodFailed"
    } else {
        "ContainersNotReady"
    };
    let readiness = |kind: &str| match is_ready {
        true => json!({"type": kind, "status": "True"}),
        false => condition(kind, false, reason),
    };
    let mut status = json!({
        "phase": phase,
        "conditions": [
            {"type": "PodScheduled", "status": "True"}, {"type": "Initialized", "status": "True"},
            readiness("ContainersReady"), readiness("Ready"),
        ],
    });
    if course.crashes && phase == "Running" {
        let containers = patient.manifest.pointer("/spec/containers").and_then(Value::as_array);
        let crashing = containers.into_iter().flatten().map(|container| {
            let waiting = json!({"reason": "CrashLoopBackOff"});
            json!({"name": container["name"], "ready": false, "state": {"waiting": waiting}})
        });
        status["containerStatuses"] = crashing.collect();
    }
    status
}

fn volume_claim(patient: &Patient<'_>, course: &Course) -> Value {
    if course.is_well() {
        let of_spec = |path: &str| patient.manifest.pointer(path).cloned().unwrap_or_default();
        return json!({
            "phase": "Bound", "accessModes": of_spec("/spec/accessModes"), "capacity": of_spec("/spec/resources/requests"),
        });
    }
    json!({"phase": if course.has_failed { "Lost" } else { "Pending" }})
}

fn service(patient: &Patient<'_>, course: &Course) -> Value {
    let kind = patient.manifest.pointer("/spec/type").and_then(Value::as_str);
    match kind == Some("LoadBalancer") && course.is_well() {
        true => json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}),
        false => json!({"loadBalancer": {}}),
    }
}

fn definition(patient: &Patient<'_>, course: &Course) -> Value {
    let spec = &patient.manifest["spec"];
    let versions = spec["versions"].as_array().into_iter().flatten();
    let stored: Vec<_> = versions
        .filter(|version| version["storage"] == true)
        .map(|version| version["name"].clone())
        .collect();
    let established = match (course.is_well(), course.has_failed) {
        (true, _) => condition("Established", true, "InitialNamesAccepted"),
        (false, true) => condition("Established", false, "NotAccepted"),
        (false, false) => condition("Established", false, "Installing"),
    };
    let names = match course.has_failed {
        true => condition("NamesAccepted", false, "PluralConflict"),
        false => condition("NamesAccepted", true, "NoConflicts"),
    };
    json!({"acceptedNames": spec["names"], "storedVersions": stored, "conditions": [names, established]})
}

fn api_service(course: &Course) -> Value {
    let available = match (course.is_well(), course.crashes) {
        (true, _) => condition("Available", true, "Passed"),
        (false, true) => condition("Available", false, "FailedDiscoveryCheck"),
        (false, false) => condition("Available", false, "MissingEndpoints"),
    };
    json!({"conditions": [available]})
}

/// The conditions that controllers of custom resources write for kstatus.
fn custom(course: &Course) -> Map<String, Value> {
    let (ready, reconciling, stalled) = match (course.is_well(), course.has_failed) {
        (true, _) => ((true, "Succeeded"), (false, "Succeeded"), (false, "Succeeded")),
        (false, true) => ((false, "Failed"), (false, "Failed"), (true, "Failed")),
        (false, false) => ((false, "Progressing"), (true, "Progressing"), (false, "Progressing")),
    };
    let conditions = [("Ready", ready), ("Reconciling", reconciling), ("Stalled", stalled)]
        .map(|(kind, (holds, reason))| condition(kind, holds, reason));
    members(json!({"conditions": conditions}))
}

/// Kubernetes leaves counters of zero out, those that the kind's schema requires excepted.
fn nonzero(counters: &[(&str, i64)]) -> Map<String, Value> {
    let nonzero = counters.iter().filter(|(_, number)| *number != 0);
    nonzero
        .map(|(name, number)| ((*name).to_owned(), (*number).into()))
        .collect()
}

fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

fn condition(kind: &str, holds: bool, reason: &str) -> Value {
    json!({"type": kind, "status": if holds { "True" } else { "False" }, "reason": reason})
}

fn seconds(time: jiff::Timestamp) -> String {
    let whole = jiff::Timestamp::from_second(time.as_second()).unwrap_or(time);
    whole.to_string()
}
