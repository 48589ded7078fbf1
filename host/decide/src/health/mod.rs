//! Whether an object runs as it should in one cluster, from what the cluster reported about it. A pure function of the kind and
//! one evidence row. Must not judge whether that row is complete, of this placement and new enough.
//!
//! The rules are those of kstatus (`sigs.k8s.io/cli-utils/pkg/kstatus`) as far as a returned status can tell. An absent count
//! in a status is 0, except how many Pods a DaemonSet wants. The differences:
//!
//! | kind | kstatus | here | why |
//! | --- | --- | --- | --- |
//! | every kind | `observedGeneration` must be the object's generation | not compared | each cluster counts its own generations; acknowledgements prove that an update has arrived (`staging/evidence/acknowledgements.rs`) |
//! | every kind | an object that is being deleted is Terminating | not seen | metadata does not come back |
//! | Deployment, StatefulSet, ReplicaSet | without `observedGeneration` the counts decide | progressing | a status that no controller has written has 0 of 0 replicas, and that is no finished rollout |
//! | Deployment, StatefulSet, ReplicaSet | more replicas than desired are InProgress | healthy when all are updated, ready and available | an autoscaler in the cluster may want more replicas than the object asks for |
//! | Deployment | available, ready and updated replicas each have a lower bound only | all equal the total | a surplus replica may be an old one |
//! | Deployment | `spec.progressDeadlineSeconds` decides whether the condition `Progressing` is required | checked if present | the condition comes back, the cluster's default of that field does not |
//! | Deployment | `ReplicaFailure` is not looked at | not healthy unless it is absent or False | Pods cannot be created |
//! | StatefulSet | Current with `OnDelete`, and with a partition once the Pods above it are updated | not healthy while a Pod has an old revision | otherwise the next stage would get a version that runs in only some Pods, or in none |
//! | StatefulSet | revisions are compared, and `currentReplicas` | `updatedReplicas` must be all | a Pod of another revision is one that is not updated |
//! | StatefulSet | available replicas are not looked at | all must be available | `minReadySeconds` is part of a rollout |
//! | ReplicaSet | `fullyLabeledReplicas` is compared | not looked at | the labels of Pods do not say whether they run |
//! | DaemonSet | `currentNumberScheduled` is compared | not looked at | an updated Pod is a scheduled one |
//! | Pod | Current when it has failed | failed | a Pod that ended with an error does not run as it should |
//! | Pod | Failed while a container is in a crash loop | progressing | container statuses are not returned; neither passes |
//! | Pod | Failed when unschedulable for 15 s | progressing | there is no clock here; neither passes |
//! | Job | Current as soon as it runs | progressing until `Complete` | a running Job has not shown yet that it succeeds |
//! | Service (LoadBalancer) | Current when it has a cluster IP | healthy once the load balancer has an address | a cluster assigns the cluster IP at once, and in the spec, which does not come back |
//! | PodDisruptionBudget | Current | healthy once `observedGeneration` is there | its controller must have seen it |
//! | APIService | as any kind without a rule | `Available=True` | an aggregated API without a server fails discovery |
//! | Namespace | as any kind without a rule | phase `Active` | no object can be created in a Namespace that is being deleted |
//! | any other | `Ready` alone | without `Ready`, `Available` | some operators write only that |
//! | any other | `Reconciling` and `Stalled` count while True | Unknown is not healthy either | unknown is not pass |
//! | any other | conditions that are no list are an error | progressing | what cannot be read is not healthy |

mod workloads;

use std::borrow::Cow;

use stagegate_api::evidence::{ConditionReason, ConditionStatus, ConditionType, ReportedCondition, ReportedPhase};
use stagegate_api::{EvidenceRow, Reported};

/// The health of one object in one cluster. The text is the predicate of a sentence about the object: `has 1 of 3 replicas
/// updated`. Of what a cluster returned it contains only numbers and known words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It runs as it should.
    Healthy,
    /// Not yet, or not any more; it may become healthy by itself.
    Progressing(Cow<'static, str>),
    /// It will not become healthy by itself.
    Failed(Cow<'static, str>),
}

impl Health {
    /// Whether it runs as it should.
    pub fn is_healthy(&self) -> bool {
        *self == Self::Healthy
    }

    fn progressing(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Progressing(text.into())
    }

    fn failed(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Failed(text.into())
    }
}

/// The health of an object of this kind, by its API group and plural, in the cluster of the row.
///
/// ```
/// use stagegate_api::{EvidenceRow, Reported};
/// use stagegate_decide::health::{Health, health};
///
/// let row: EvidenceRow = serde_json::from_value(serde_json::json!({
///     "cluster": "dev-1", "at": {"At": {"seconds": 1_767_600_000}}, "gen": "2",
///     "desired": 3, "total": 3, "updated": 1, "ready": 3, "available": 3,
/// }))?;
/// let Health::Progressing(text) = health("apps", "deployments", &row) else { panic!() };
/// assert_eq!(text, "has 1 of 3 replicas updated");
/// assert_eq!(health("", "configmaps", &EvidenceRow { at: Reported::WithoutStatus, ..row }), Health::Healthy);
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn health(group: &str, resource: &str, row: &EvidenceRow) -> Health {
    if row.at == Reported::Never {
        return Health::progressing("has not been reported");
    }
    match (group, resource) {
        ("apps" | "extensions", "deployments") => workloads::deployment(row),
        ("apps", "statefulsets") => workloads::stateful_set(row),
        ("apps" | "extensions", "daemonsets") => workloads::daemon_set(row),
        ("apps" | "extensions", "replicasets") => workloads::replica_set(row),
        ("", "pods") => pod(row),
        ("batch", "jobs") => job(row),
        ("batch", "cronjobs") => Health::Healthy,
        ("", "persistentvolumeclaims") => in_phase(row, ReportedPhase::Bound),
        ("", "services") => service(row),
        ("policy", "poddisruptionbudgets") => disruption_budget(row),
        ("apiextensions.k8s.io", "customresourcedefinitions") => definition(row),
        ("apiregistration.k8s.io", "apiservices") => api_service(row),
        ("", "namespaces") => in_phase(row, ReportedPhase::Active),
        _ => by_conditions(row),
    }
}

/// Whether the status of this kind counts replicas or Pods: a count that it leaves out is 0.
pub(crate) fn counts_replicas(group: &str, resource: &str) -> bool {
    matches!(
        (group, resource),
        ("apps" | "extensions", "deployments" | "daemonsets" | "replicasets") | ("apps", "statefulsets")
    )
}

fn status(row: &EvidenceRow, type_: ConditionType) -> Option<ConditionStatus> {
    row.conditions.get(type_).map(|condition| condition.status)
}

fn is_true(row: &EvidenceRow, type_: ConditionType) -> bool {
    status(row, type_) == Some(ConditionStatus::True)
}

fn reason_of(condition: ReportedCondition) -> String {
    condition
        .reason
        .map_or_else(String::new, |reason| format!(": {}", reason.as_str()))
}

fn in_phase(row: &EvidenceRow, wanted: ReportedPhase) -> Health {
    match row.phase {
        Some(phase) if phase == wanted => Health::Healthy,
        Some(ReportedPhase::Lost) => Health::failed("is Lost"),
        Some(phase) => Health::progressing(format!("is {}, not {}", phase.as_str(), wanted.as_str())),
        None => Health::progressing(format!("is not {} yet", wanted.as_str())),
    }
}

fn pod(row: &EvidenceRow) -> Health {
    let scheduled = row.conditions.get(ConditionType::PodScheduled);
    match row.phase {
        Some(ReportedPhase::Succeeded) => Health::Healthy,
        Some(ReportedPhase::Failed) => Health::failed("has failed"),
        Some(ReportedPhase::Running) if is_true(row, ConditionType::Ready) => Health::Healthy,
        Some(ReportedPhase::Running) => Health::progressing("is running, but not ready"),
        _ if scheduled.is_some_and(|found| found.reason == Some(ConditionReason::Unschedulable)) => {
            Health::progressing("cannot be scheduled")
        }
        Some(phase) => Health::progressing(format!("is {}", phase.as_str())),
        None => Health::progressing("has no phase yet"),
    }
}

fn job(row: &EvidenceRow) -> Health {
    match row.conditions.get(ConditionType::Failed) {
        Some(failed) if failed.status == ConditionStatus::True => {
            Health::failed(format!("has failed{}", reason_of(failed)))
        }
        _ if is_true(row, ConditionType::Complete) => Health::Healthy,
        _ => Health::progressing("is not complete"),
    }
}

fn service(row: &EvidenceRow) -> Health {
    match row.phase {
        // No phase: the Service is not of type LoadBalancer.
        None | Some(ReportedPhase::Assigned) => Health::Healthy,
        Some(_) => Health::progressing("has no load balancer address yet"),
    }
}

fn disruption_budget(row: &EvidenceRow) -> Health {
    if row.r#gen.is_empty() {
        Health::progressing("has not been observed by its controller")
    } else {
        Health::Healthy
    }
}

fn definition(row: &EvidenceRow) -> Health {
    if status(row, ConditionType::NamesAccepted) == Some(ConditionStatus::False) {
        return Health::failed("has names that are not accepted");
    }
    match row.conditions.get(ConditionType::Established) {
        Some(found) if found.status == ConditionStatus::True => Health::Healthy,
        Some(found) if found.status == ConditionStatus::False && found.reason != Some(ConditionReason::Installing) => {
            Health::failed("is not established")
        }
        _ => Health::progressing("is not established yet"),
    }
}

fn api_service(row: &EvidenceRow) -> Health {
    match row.conditions.get(ConditionType::Available) {
        Some(found) if found.status == ConditionStatus::True => Health::Healthy,
        Some(found) => Health::progressing(format!("is not available{}", reason_of(found))),
        None => Health::progressing("is not available yet"),
    }
}

/// For kinds without a rule of their own. By kstatus's convention `Reconciling` and `Stalled` are absent when they do not hold.
fn by_conditions(row: &EvidenceRow) -> Health {
    if row.conditions.unreadable {
        return Health::progressing("has conditions that cannot be read");
    }
    if is_true(row, ConditionType::Stalled) {
        return Health::failed("has condition Stalled=True");
    }
    for type_ in [ConditionType::Stalled, ConditionType::Reconciling] {
        match status(row, type_) {
            None | Some(ConditionStatus::False) => {}
            Some(ConditionStatus::True) => return Health::progressing("has condition Reconciling=True"),
            Some(ConditionStatus::Unknown) => {
                return Health::progressing(format!("has condition {}=Unknown", type_.as_str()));
            }
        }
    }
    for type_ in [ConditionType::Ready, ConditionType::Available] {
        let said = match status(row, type_) {
            None => continue,
            Some(ConditionStatus::True) => return Health::Healthy,
            Some(ConditionStatus::False) => "False",
            Some(ConditionStatus::Unknown) => "Unknown",
        };
        return Health::progressing(format!("has condition {}={said}", type_.as_str()));
    }
    Health::Healthy
}
