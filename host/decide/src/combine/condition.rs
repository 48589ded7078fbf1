//! The one condition on a Binding: whether every StatusCollector that it names is there.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use stagegate_api::{Binding, STATUS_COLLECTORS_AVAILABLE};

use super::Write;
use crate::precondition::Precondition;

/// The write that brings the condition up to date, if it is not. `existing` are the StatusCollectors that exist and are
/// valid: one that is refused counts as missing. A change of the condition's status is dated `now`.
pub fn binding_status(binding: &Binding, existing: &BTreeSet<String>, now: Timestamp) -> Option<Write> {
    let named: BTreeSet<&str> = binding
        .spec
        .workload
        .objects()
        .flat_map(|object| &object.status_collectors)
        .map(String::as_str)
        .collect();
    let missing: Vec<&str> = named.into_iter().filter(|name| !existing.contains(*name)).collect();
    let (status, reason, message) = if missing.is_empty() {
        (
            "True",
            "ReconcileSuccess",
            "All StatusCollector(s) are available".to_owned(),
        )
    } else {
        (
            "False",
            "ReconcileError",
            format!("missing StatusCollector(s): {}", missing.join(", ")),
        )
    };
    let mut after = binding.status.clone().unwrap_or_default();
    let at = after
        .conditions
        .iter()
        .position(|condition| condition.type_ == STATUS_COLLECTORS_AVAILABLE);
    let before = at.map(|at| after.conditions.remove(at));
    let unmoved = before.as_ref().filter(|before| before.status == status);
    let condition = Condition {
        last_transition_time: unmoved.map_or(Time(now), |before| before.last_transition_time.clone()),
        message,
        observed_generation: None,
        reason: reason.to_owned(),
        status: status.to_owned(),
        type_: STATUS_COLLECTORS_AVAILABLE.to_owned(),
    };
    if before.as_ref() == Some(&condition) {
        return None;
    }
    after.conditions.push(condition);
    let name = binding.metadata.name.clone()?;
    Some(Write::BindingStatus {
        name,
        precondition: Precondition::of(&binding.metadata)?,
        status: after,
    })
}
