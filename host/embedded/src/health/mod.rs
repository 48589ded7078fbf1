//! The status of an object where it runs, from its kind, its age, what ran there before and the rules that hold there. Must not write it.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use stagegate_api::{Progressing, SimulatedClusterSpec, SimulatedNodeSpec, SimulationRule, parse_duration};

mod course;
mod patient;
pub(crate) mod soundness;
mod statuses;

pub(crate) use course::Course;
use course::{Script, Start, course, later};
use patient::revision;
pub(crate) use patient::{Patient, RunningReplicas};

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
/// The default of a Deployment's `progressDeadlineSeconds`.
const PROGRESS_DEADLINE: i64 = 600;

/// A status, since when it is so, and when it will be another one without anybody's doing.
#[derive(Debug, PartialEq)]
pub(crate) struct Health {
    /// `None`: the object carries no status.
    pub(crate) status: Option<Value>,
    pub(crate) since: Timestamp,
    pub(crate) changes_at: Option<Timestamp>,
}

/// How objects behave in one place.
#[derive(Clone, Copy)]
pub(crate) struct Behaviour<'a> {
    ready_after: Option<&'a str>,
    rules: &'a [SimulationRule],
}

impl<'a> From<&'a SimulatedClusterSpec> for Behaviour<'a> {
    fn from(spec: &'a SimulatedClusterSpec) -> Self {
        Self {
            ready_after: spec.ready_after.as_deref(),
            rules: &spec.rules,
        }
    }
}

impl<'a> From<&'a SimulatedNodeSpec> for Behaviour<'a> {
    fn from(spec: &'a SimulatedNodeSpec) -> Self {
        Self {
            ready_after: spec.ready_after.as_deref(),
            rules: &spec.rules,
        }
    }
}

pub(crate) fn is_reported(group: &str, kind: &str) -> bool {
    !NEVER_REPORTED.contains(&(group, kind))
}

/// The status at this point of the rollout. Once the rule's `after` (else `readyAfter`) has passed, the rule's status is merged
/// over it.
pub(crate) fn examine<'a>(patient: &Patient<'_>, behaviour: impl Into<Behaviour<'a>>, now: Timestamp) -> Health {
    let behaviour = behaviour.into();
    let rule = rule_for(patient, behaviour);
    let script = script(rule, behaviour);
    let course = course_of(patient, &script, now);
    let mut health = Health {
        status: statuses::status(patient, &course, &script),
        since: course.since,
        changes_at: course.changes_at,
    };
    let Some(patch) = rule.and_then(|rule| rule.status.clone()) else {
        return health;
    };
    let merged_at = later(patient.changed_at, script.after);
    if now < merged_at {
        health.changes_at = Some(health.changes_at.map_or(merged_at, |at| at.min(merged_at)));
    } else {
        let status = health.status.get_or_insert_with(|| json!({}));
        json_patch::merge(status, &Value::Object(patch));
        health.since = health.since.max(merged_at);
    }
    health
}

/// What is running at the moment when `next` replaces the patient's manifest.
pub(crate) fn running<'a>(
    patient: &Patient<'_>,
    behaviour: impl Into<Behaviour<'a>>,
    (next, now): (&Value, Timestamp),
) -> RunningReplicas {
    replaced(patient, &course_by(patient, behaviour, now), next)
}

/// How far the rollout of the patient has come.
pub(crate) fn course_by<'a>(patient: &Patient<'_>, behaviour: impl Into<Behaviour<'a>>, now: Timestamp) -> Course {
    let behaviour = behaviour.into();
    course_of(patient, &script(rule_for(patient, behaviour), behaviour), now)
}

/// The status of a workload that has come so far.
pub(crate) fn status_of_workload(patient: &Patient<'_>, course: &Course) -> Option<Value> {
    let script = Script {
        progressing: Progressing::Complete,
        after: SignedDuration::ZERO,
        period: None,
    };
    statuses::status(patient, course, &script)
}

/// What is running when `next` replaces the manifest of a patient that has come so far.
pub(crate) fn replaced(patient: &Patient<'_>, course: &Course, next: &Value) -> RunningReplicas {
    let old = statuses::old_replicas(patient, course);
    let before = patient.before;
    let (present, next) = (
        revision(patient),
        revision(&Patient {
            manifest: next,
            ..*patient
        }),
    );
    if present == next {
        return RunningReplicas {
            old,
            current: course.ready,
            old_revision: before.old_revision.clone(),
        };
    }
    if before.old_revision.as_ref() == Some(&next) {
        return RunningReplicas {
            old: course.ready,
            current: old,
            old_revision: Some(present),
        };
    }
    let last_rolled_out = before.old_revision.clone().filter(|_| !course.is_rolled_out);
    RunningReplicas {
        old: old + course.ready,
        current: 0,
        old_revision: last_rolled_out.or(Some(present)),
    }
}

fn rule_for<'a>(patient: &Patient<'_>, behaviour: Behaviour<'a>) -> Option<&'a SimulationRule> {
    behaviour.rules.iter().find(|rule| matches(rule, patient))
}

fn script(rule: Option<&SimulationRule>, behaviour: Behaviour<'_>) -> Script {
    let after = rule.and_then(|rule| rule.after.as_deref()).or(behaviour.ready_after);
    let period = rule.and_then(|rule| rule.period.as_deref());
    Script {
        progressing: rule.map(|rule| rule.progressing).unwrap_or_default(),
        after: delay(after),
        period: period.map(|period| delay(Some(period))),
    }
}

fn course_of(patient: &Patient<'_>, script: &Script, now: Timestamp) -> Course {
    let wanted = statuses::wanted(patient);
    let number = |path: &str| patient.manifest.pointer(path).and_then(Value::as_i64);
    // Scaling a Deployment after its rollout is not another rollout, so no deadline applies.
    let is_rollout = patient.before.old > 0 || patient.before.current == 0;
    let has_deadline = (patient.group, patient.kind) == ("apps", "Deployment") && is_rollout;
    let deadline = number("/spec/progressDeadlineSeconds").unwrap_or(PROGRESS_DEADLINE);
    let start = Start {
        at: patient.changed_at,
        ready: patient.before.current.min(wanted),
        wanted,
        deadline: has_deadline.then(|| SignedDuration::from_secs(deadline.max(0))),
    };
    course(&start, script, now)
}

fn matches(rule: &SimulationRule, patient: &Patient<'_>) -> bool {
    let is = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
    is(&rule.kind, patient.kind)
        && is(&rule.namespace, patient.namespace.unwrap_or_default())
        && is(&rule.name, patient.name)
        && rule.image.as_deref().is_none_or(|image| runs_image(patient, image))
}

fn runs_image(patient: &Patient<'_>, image: &str) -> bool {
    let pod_spec = match patient.kind {
        "Pod" => "/spec",
        "CronJob" => "/spec/jobTemplate/spec/template/spec",
        _ => "/spec/template/spec",
    };
    let pod_spec = patient.manifest.pointer(pod_spec).unwrap_or(&Value::Null);
    let containers = ["containers", "initContainers"]
        .into_iter()
        .filter_map(|member| pod_spec[member].as_array())
        .flatten();
    containers.into_iter().any(|container| container["image"] == image)
}

/// The CRD's pattern admits only what parses; an object stored without it counts as ready at once.
fn delay(text: Option<&str>) -> SignedDuration {
    let parsed = text.and_then(parse_duration).unwrap_or_default();
    SignedDuration::try_from(parsed).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests;
