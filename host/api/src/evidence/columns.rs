//! The evidence collector's columns: their names and CEL expressions. Must not read their values.
//!
//! An error in one cell makes the whole evidence unreadable, so the expressions test the types of what they read. The values
//! have a bounded length, because KubeStellar keeps the rows of all clusters in one object. They do not test
//! that `spec`, `status` and `loadBalancer` are objects, nor the type of `observedGeneration`. KubeStellar's environment is the
//! standard library with its macros.

use super::words::{ConditionReason, ConditionType, ReportedPhase, UNREADABLE};

/// The names, in order.
pub(super) const NAMES: [&str; 10] = [
    "cluster",
    "at",
    "gen",
    "ready",
    "available",
    "desired",
    "total",
    "updated",
    "phase",
    "conditions",
];

/// The expressions, one for each name. An absent value is `''`, absent conditions are an empty list.
pub(super) fn expressions() -> [String; NAMES.len()] {
    [
        "inventory.name".to_owned(),
        "string(propagation.lastReturnedUpdateTimestamp)".to_owned(),
        "has(returned.status) && has(returned.status.observedGeneration) ? \
        string(returned.status.observedGeneration) : ''"
            .to_owned(),
        // A DaemonSet's counts have other names.
        count("returned.status", &["readyReplicas", "numberReady"]),
        count("returned.status", &["availableReplicas", "numberAvailable"]),
        count("obj.spec", &["replicas"]),
        count("returned.status", &["desiredNumberScheduled", "replicas"]),
        count("returned.status", &["updatedNumberScheduled", "updatedReplicas"]),
        phase(),
        conditions(),
    ]
}

/// The text of the first of the members that is a whole number.
fn count(parent: &str, members: &[&str]) -> String {
    let branch = |member: &&str| {
        let value = format!("{parent}.{member}");
        format!("has({parent}) && has({value}) && type({value}) == int ? string({value}) : ")
    };
    let branches: String = members.iter().map(branch).collect();
    format!("{branches}''")
}

fn phase() -> String {
    let known = quoted(ReportedPhase::ALL.map(ReportedPhase::as_str));
    format!(
        "has(returned.status) && has(returned.status.phase) ? \
        (returned.status.phase in {known} ? returned.status.phase : '') : \
        has(obj.spec) && has(obj.spec.type) && obj.spec.type == 'LoadBalancer' ? \
        (has(returned.status) && has(returned.status.loadBalancer) && has(returned.status.loadBalancer.ingress) && \
        size(returned.status.loadBalancer.ingress) > 0 ? 'Assigned' : 'Pending') : ''"
    )
}

/// At most one entry for each known type: `type=status`, followed by `:reason` if the reason is a known one. The status of a
/// condition that occurs twice, or has no valid status, is Unknown.
fn conditions() -> String {
    let types = quoted(ConditionType::ALL.map(ConditionType::as_str));
    let reasons = quoted(ConditionReason::ALL.map(ConditionReason::as_str));
    let list = "returned.status.conditions";
    format!(
        "!has(returned.status) || !has({list}) ? [] : type({list}) != list ? ['{UNREADABLE}'] : \
        {types}.map(t, {list}.filter(c, type(c) == map && has(c.type) && c.type == t))\
        .filter(found, size(found) > 0)\
        .map(found, found[0].type + '=' + \
        (size(found) == 1 && has(found[0].status) && found[0].status in ['True', 'False'] ? found[0].status : 'Unknown') + \
        (has(found[0].reason) && found[0].reason in {reasons} ? ':' + found[0].reason : '')) + \
        ({list}.all(c, type(c) == map && has(c.type)) ? [] : ['{UNREADABLE}'])"
    )
}

fn quoted<const N: usize>(words: [&str; N]) -> String {
    let words = words.map(|word| format!("'{word}'"));
    format!("[{}]", words.join(", "))
}
