//! Kinds that count replicas. They are healthy when their rollout is finished: every replica is updated, ready and available,
//! and no old one is left. Must not look at other kinds.

use stagegate_api::EvidenceRow;
use stagegate_api::evidence::{ConditionReason, ConditionStatus, ConditionType};

use super::{Health, is_true, reason_of, status};
use crate::counted::counted;

/// `spec.replicas` where the object has none: the API server's default.
const DESIRED_BY_DEFAULT: i64 = 1;

pub(super) fn deployment(row: &EvidenceRow) -> Health {
    let progressing = row.conditions.get(ConditionType::Progressing);
    if let Some(failed) = progressing.filter(|found| found.reason == Some(ConditionReason::ProgressDeadlineExceeded)) {
        return Health::failed(format!("failed to roll out{}", reason_of(failed)));
    }
    let unfinished = observed(row)
        .or_else(|| replica_failure(row))
        .or_else(|| short_of(row, Counted::ROLLOUT));
    if let Some(unfinished) = unfinished {
        return unfinished;
    }
    if let Some(found) = progressing {
        let is_done =
            found.status == ConditionStatus::True && found.reason == Some(ConditionReason::NewReplicaSetAvailable);
        if !is_done {
            return Health::progressing(format!("is still rolling out{}", reason_of(found)));
        }
    }
    if is_true(row, ConditionType::Available) {
        Health::Healthy
    } else {
        Health::progressing("has no condition Available=True")
    }
}

pub(super) fn stateful_set(row: &EvidenceRow) -> Health {
    observed(row)
        .or_else(|| short_of(row, Counted::ROLLOUT))
        .unwrap_or(Health::Healthy)
}

/// A ReplicaSet has no revisions, so its status does not tell which Pods are old.
pub(super) fn replica_set(row: &EvidenceRow) -> Health {
    observed(row)
        .or_else(|| replica_failure(row))
        .or_else(|| short_of(row, &[Counted::Ready, Counted::Available]))
        .unwrap_or(Health::Healthy)
}

/// The cluster itself says how many Pods it wants, by its nodes. 0 is an answer; an absent count is not.
pub(super) fn daemon_set(row: &EvidenceRow) -> Health {
    let unfinished = observed(row).or_else(|| match row.total {
        None => Some(Health::progressing("has not counted its nodes yet")),
        Some(wanted) => Counted::ROLLOUT.iter().find_map(|kind| {
            let found = kind.of(row);
            (found < wanted)
                .then(|| Health::progressing(format!("has {found} of {} {}", counted(wanted, "Pod"), kind.word())))
        }),
    });
    unfinished.unwrap_or(Health::Healthy)
}

#[derive(Clone, Copy)]
enum Counted {
    Updated,
    Ready,
    Available,
}

impl Counted {
    const ROLLOUT: &'static [Self] = &[Self::Updated, Self::Ready, Self::Available];

    fn of(self, row: &EvidenceRow) -> i64 {
        match self {
            Self::Updated => row.updated,
            Self::Ready => row.ready,
            Self::Available => row.available,
        }
        .unwrap_or_default()
    }

    fn word(self) -> &'static str {
        match self {
            Self::Updated => "updated",
            Self::Ready => "ready",
            Self::Available => "available",
        }
    }

    fn missing(self) -> &'static str {
        match self {
            Self::Updated => "of an old version",
            Self::Ready => "not ready",
            Self::Available => "not available",
        }
    }
}

fn observed(row: &EvidenceRow) -> Option<Health> {
    (row.r#gen.is_empty()).then(|| Health::progressing("has not been observed by its controller"))
}

fn replica_failure(row: &EvidenceRow) -> Option<Health> {
    let found = row.conditions.get(ConditionType::ReplicaFailure)?;
    (status(row, ConditionType::ReplicaFailure) != Some(ConditionStatus::False))
        .then(|| Health::progressing(format!("cannot make its Pods{}", reason_of(found))))
}

/// What keeps the rollout from being finished: too few replicas are in one of the counted states, or there are too many.
fn short_of(row: &EvidenceRow, all: &[Counted]) -> Option<Health> {
    let desired = row.desired.unwrap_or(DESIRED_BY_DEFAULT);
    let total = row.total.unwrap_or_default();
    let wanted = desired.max(total);
    // The first count comes before the total: it tells how far the rollout is, even while replicas are missing.
    if let Some(kind) = all.iter().find(|kind| kind.of(row) < wanted) {
        let found = kind.of(row);
        let text = if found < desired {
            format!("has {found} of {} {}", counted(desired, "replica"), kind.word())
        } else {
            let (old, missing) = (total.saturating_sub(found), kind.missing());
            format!("has {old} of {} {missing}", counted(total, "replica"))
        };
        return Some(Health::progressing(text));
    }
    if total < wanted {
        return Some(Health::progressing(format!(
            "has {total} of {}",
            counted(wanted, "replica")
        )));
    }
    // After a finished rollout no count is above the total.
    let odd = all.iter().find(|kind| kind.of(row) > wanted)?;
    let found = odd.of(row);
    Some(Health::progressing(format!(
        "has {}, but {found} {}",
        counted(total, "replica"),
        odd.word()
    )))
}
