//! The rollout that a YurtAppDaemon's spec and status tell of. Must not know where it is shown.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use stagegate_api::Phase;
use stagegate_api::workloads::{PoolStageStatus, YurtAppDaemon, YurtAppDaemonStatus};

use super::rollout::{Place, Progress, Rolled, Rollout, RolloutStage, Versions};
use super::times;
use crate::target::Kind;

impl Rolled for YurtAppDaemon {
    const KIND: Kind = Kind::YurtAppDaemon;

    fn rollout(&self) -> Rollout {
        let nothing = YurtAppDaemonStatus::default();
        let status = self.status.as_ref().unwrap_or(&nothing);
        let strategy = self.spec.update_strategy.iter();
        let names: Vec<&str> = strategy
            .flat_map(|strategy| &strategy.stages)
            .map(|stage| stage.name.as_str())
            .collect();
        let record = |name: &str| status.stages.iter().find(|record| record.name == name);
        let removed = status
            .stages
            .iter()
            .filter(|record| !names.contains(&record.name.as_str()));
        let ready = times::condition(&status.conditions, "Ready");
        let since = |wanted: &str| {
            let ready = ready.filter(|ready| ready.status == wanted);
            ready.map(|ready| ready.last_transition_time.0)
        };
        Rollout {
            kind: Self::KIND,
            name: self.metadata.name.clone().unwrap_or_default(),
            namespace: self.metadata.namespace.clone(),
            phase: status.phase,
            reason: status.reason.clone(),
            message: ready.map(|ready| ready.message.clone()).unwrap_or_default(),
            since: phase_since(status).cloned(),
            active_stage: status.active_stage.clone(),
            progress: self.status.as_ref().map(|status| Progress {
                updated: status.updated_workloads,
                total: status.total_workloads,
            }),
            stages: names.iter().map(|name| of_stage(name, record(name))).collect(),
            removed: removed.map(|record| of_stage(&record.name, Some(record))).collect(),
            versions: Versions {
                generation: self.metadata.generation,
                observed: observed(status),
                has_status: self.status.is_some(),
            },
            is_ready: times::is_true(&status.conditions, "Ready"),
            is_contested: false,
            // Status does not record when an update that is over has begun.
            began: since("False"),
            ended: since("True"),
        }
    }
}

fn of_stage(name: &str, record: Option<&PoolStageStatus>) -> RolloutStage {
    let Some(record) = record else {
        return RolloutStage::pending(name, Place::Pools { pools: 0, updated: 0 });
    };
    let place = Place::Pools {
        pools: record.pools,
        updated: record.updated,
    };
    RolloutStage {
        state: record.state,
        passing_since: record.passing_since.clone(),
        checks: record.checks.clone(),
        ..RolloutStage::pending(name, place)
    }
}

/// Which generation status is about. That of a spec that cannot be carried out stands in the conditions alone.
fn observed(status: &YurtAppDaemonStatus) -> Option<i64> {
    let stalled = times::condition(&status.conditions, "Stalled").filter(is_true);
    let of_stalled = stalled.and_then(|condition| condition.observed_generation);
    of_stalled.or(status.observed_generation)
}

/// Since when the YurtAppDaemon is in its phase, as far as its conditions tell.
fn phase_since(status: &YurtAppDaemonStatus) -> Option<&Time> {
    let type_ = match status.phase? {
        Phase::Completed => "Ready",
        Phase::Stalled => "Stalled",
        Phase::Progressing | Phase::Holding | Phase::Paused | Phase::Failed => "Reconciling",
    };
    let condition = times::condition(&status.conditions, type_).filter(is_true);
    condition.map(|condition| &condition.last_transition_time)
}

fn is_true(condition: &&Condition) -> bool {
    condition.status == "True"
}
