//! What status has recorded of a stage and its objects. Must not change it.

use std::collections::BTreeMap;

use stagegate_api::{CheckStatus, ObjectStatus, Outcome, StageStatus, StagedBindingPolicyStatus};

use crate::checks::check::Check;
use crate::names::{ClusterName, ObjectKey, ResourceVersion, StageName, Uid};

/// Whether an entry was made before the placement was opened, so that no Binding has been compared with it yet.
pub fn is_unbound(recorded: &ObjectStatus) -> bool {
    recorded.resource_version.is_none()
}

/// The stage that status calls active.
pub fn active_stage(status: &StagedBindingPolicyStatus) -> Option<StageName<&str>> {
    status.active_stage.as_deref().map(StageName::of)
}

/// Which stage a record is about.
pub fn stage_name(record: &StageStatus) -> StageName<&str> {
    StageName::of(&record.name)
}

/// The clusters of the set that was accepted last.
pub fn destinations(record: &StageStatus) -> impl ExactSizeIterator<Item = ClusterName<&str>> {
    record.destinations.iter().map(|cluster| ClusterName::of(cluster))
}

/// Which object of its name an entry is about.
pub fn uid(recorded: &ObjectStatus) -> Uid<&str> {
    Uid::of(&recorded.uid)
}

/// What evidence about the object must be newer than; `None`: no set with it has been accepted yet.
pub fn baseline(recorded: &ObjectStatus) -> Option<ResourceVersion<&str>> {
    recorded.baseline.as_deref().map(ResourceVersion::of)
}

/// The position of each object in a record's list.
pub fn positions(objects: &[ObjectStatus]) -> BTreeMap<ObjectKey, usize> {
    let positions = objects.iter().enumerate();
    positions.map(|(position, object)| (key_of(object), position)).collect()
}

pub fn key_of(object: &ObjectStatus) -> ObjectKey {
    ObjectKey {
        group: object.group.clone(),
        resource: object.resource.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
    }
}

/// Whether every cluster was last found to report on every object that is judged.
pub fn has_complete_evidence(record: &StageStatus) -> bool {
    let evidence = Check::Evidence.last(&record.checks);
    evidence.is_some_and(|check| check.outcome == Outcome::Pass)
}

/// Whether all clusters were once found to report in this attempt: only then a check other than the filter, the evidence and the
/// soak is made. A stage that is only soaked looks at no evidence, and a gate that will never pass stays on record when all other answers
/// are dropped.
pub fn has_had_complete_evidence(record: &StageStatus) -> bool {
    let shows_nothing = |check: &CheckStatus| match Check::named(&check.name) {
        Some(check) => [Check::Filter, Check::Evidence, Check::Soak].contains(&check),
        None => check.outcome == Outcome::Fail,
    };
    has_complete_evidence(record) || !record.checks.iter().all(shows_nothing)
}
