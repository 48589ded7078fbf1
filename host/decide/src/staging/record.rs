//! A stage's entry in status: how it begins, is carried to a new attempt, and is brought up to date. All that a
//! restart has to find again is here. Must not decide anything.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use stagegate_api::staged_status::{MAX_NOT_JUDGED, MAX_RECORDED};
use stagegate_api::{BindingPolicyRef, BoundObject, CheckStatus, ObjectStatus, Outcome, StageState, StageStatus};

use super::binding_part::Bound;
use super::edits::is_unbound;
use super::finding::Finding;
use super::gates::Told;
use super::slot::Own;
use super::spec::{CheckedStage, Expression};
use super::{bound, pending};
use crate::names::{Digest, ObjectKey};

/// The record of this very attempt: the one in status, or a new one. On the same placement (an in-place update keeps
/// its uid) the objects and destinations go on, because old evidence may still be the newest there will be.
pub fn roll(recorded: Option<&StageStatus>, own: &Own<'_>, now: Timestamp) -> StageStatus {
    let same_placement = recorded.filter(|recorded| is_of(recorded, own));
    let state = StageState::Active;
    if let Some(recorded) = same_placement.filter(|recorded| recorded.attempt == Some(own.attempt)) {
        let plan = Some(own.plan.to_string());
        return StageStatus {
            state,
            plan,
            passed_at: None,
            completed_at: None,
            ..recorded.clone()
        };
    }
    // One that is closed has none; of one that an older release recorded, the time of its last attempt is the latest that it can be.
    let opened_at =
        same_placement.and_then(|recorded| recorded.opened_at.clone().or_else(|| recorded.placed_at.clone()));
    StageStatus {
        name: recorded.map(|recorded| recorded.name.clone()).unwrap_or_default(),
        state,
        plan: Some(own.plan.to_string()),
        attempt: Some(own.attempt),
        placed_at: Some(from(now)),
        opened_at: Some(opened_at.unwrap_or_else(|| from(now))),
        binding_policy: Some(placement_of(own)),
        destinations: same_placement
            .map(|recorded| recorded.destinations.clone())
            .unwrap_or_default(),
        objects: match (same_placement, recorded) {
            (Some(same), _) => same.objects.clone(),
            (None, Some(other)) => of_removed(other).objects,
            (None, None) => Vec::new(),
        },
        unsettled_since: same_placement.and_then(|recorded| recorded.unsettled_since.clone()),
        ..StageStatus::default()
    }
}

/// A time from which something counts. Kubernetes stores whole seconds, so it is rounded up: no wait is cut short by being stored.
pub fn from(now: Timestamp) -> Time {
    let second = if now.subsec_nanosecond() > 0 {
        now.as_second().saturating_add(1)
    } else {
        now.as_second()
    };
    Time(Timestamp::from_second(second).unwrap_or(now))
}

/// What stays known of a placement that somebody closed: what its clusters owe, and what evidence must be newer than. Its
/// set of clusters has to be accepted anew, as after any loss that no edit of the policy explains.
pub fn of_closed(recorded: &StageStatus) -> StageStatus {
    StageStatus {
        plan: recorded.plan.clone(),
        objects: recorded.objects.clone(),
        unsettled_since: recorded.unsettled_since.clone(),
        ..StageStatus::default()
    }
}

/// What stays known of a placement that is gone: its objects, so that an edit before the next one is seen shows in the generation,
/// and what its clusters owe. One that is out of reach runs what it ran, whichever placement brought that.
pub fn of_removed(recorded: &StageStatus) -> StageStatus {
    StageStatus {
        objects: recorded.objects.iter().map(unbound).collect(),
        ..StageStatus::default()
    }
}

/// The entry as it is before a Binding of the placement has been seen.
fn unbound(known: &ObjectStatus) -> ObjectStatus {
    ObjectStatus {
        resource_version: None,
        collectors: Vec::new(),
        baseline: None,
        ..known.clone()
    }
}

/// What is known of the bound objects when a placement is opened, from the one that was judged until then: an edit that is
/// made before the new placement's Binding is seen for the first time shows in the generation.
/// Clusters that have left the judged stage, maybe for this one, take along what they owe.
pub fn see_before_opening(record: &mut StageStatus, judged: &StageStatus) {
    let positions = positions(&record.objects);
    let placed: BTreeSet<&str> = judged.destinations.iter().map(String::as_str).collect();
    for known in &judged.objects {
        let mut seen = unbound(known);
        pending::drop_clusters(&mut seen, &placed);
        let position = positions.get(&key_of(known)).copied();
        match position.and_then(|position| record.objects.get_mut(position)) {
            // What is owed was counted up to the generation that stands there.
            Some(older) if is_unbound(older) && older.updates.is_empty() => *older = seen,
            Some(_) => {}
            None => record.objects.push(seen),
        }
    }
    record.objects.truncate(MAX_RECORDED);
}

/// Whether a record is of this very placement, whatever the attempt.
pub fn is_of(recorded: &StageStatus, own: &Own<'_>) -> bool {
    recorded.binding_policy.as_ref() == Some(&placement_of(own))
}

fn placement_of(own: &Own<'_>) -> BindingPolicyRef {
    BindingPolicyRef {
        name: own.object.name_any(),
        uid: own.uid().to_owned(),
    }
}

/// A set of clusters and objects that is accepted, and what [`settle`] needs to know about it.
pub struct Accepted<'a> {
    pub bound: &'a Bound<'a>,
    pub own: &'a Own<'a>,
    pub now: Timestamp,
    /// Whether an object's CombinedStatus has results of exactly the collectors that are bound to it.
    pub is_combined: &'a dyn Fn(&BoundObject) -> bool,
}

/// The Binding's set is accepted: it is what later sets are compared with. An object whose collectors and clusters
/// are as before keeps its baseline, since KubeStellar rewrites its CombinedStatus for no other change. So does one that lost
/// only collectors without results (missing or invalid ones): KubeStellar rewrites nothing then.
pub fn settle(record: &mut StageStatus, accepted: &Accepted<'_>) {
    let Accepted { bound, own, now, .. } = accepted;
    let clusters: BTreeSet<&str> = bound.destinations.iter().copied().collect();
    let is_same_clusters = record.destinations.iter().map(String::as_str).collect::<BTreeSet<_>>() == clusters;
    let keys: BTreeSet<ObjectKey> = bound.objects.iter().map(|object| bound::key(object)).collect();
    record.objects.retain(|object| keys.contains(&key_of(object)));
    let positions = positions(&record.objects);
    for object in &bound.objects {
        let position = positions.get(&bound::key(object));
        let Some(entry) = position.and_then(|position| record.objects.get_mut(*position)) else {
            continue;
        };
        let collectors: BTreeSet<&String> = object.status_collectors.iter().collect();
        let before: BTreeSet<&String> = entry.collectors.iter().collect();
        let is_reduced = collectors.is_subset(&before) && (accepted.is_combined)(object);
        let is_same = is_same_clusters && (before == collectors || is_reduced);
        if !(is_same && entry.baseline.is_some()) {
            entry.baseline = own.baseline.map(str::to_owned);
        }
        entry.collectors.clone_from(&object.status_collectors);
    }
    // A cluster that has left may come to another stage, and owes there what it owes here, as far as there is room. An entry
    // without names cannot tell it from others.
    let owed: usize = record.objects.iter().map(|entry| pending::bytes(&entry.updates)).sum();
    let has_no_room = owed > pending::BYTES_MAX / 2;
    for entry in &mut record.objects {
        if has_no_room || pending::is_compact(&entry.updates) {
            pending::keep_clusters(entry, &clusters);
        }
    }
    record.destinations = clusters.into_iter().map(str::to_owned).collect();
    record.settled_at = Some(Time(*now));
}

/// Keeps the list within what status takes: the oldest entries of objects that are not bound any more go first. Such entries
/// remain only where no set is accepted any more.
pub fn make_room(record: &mut StageStatus, bound: &[&BoundObject]) {
    let mut surplus = record.objects.len().saturating_sub(MAX_RECORDED);
    if surplus == 0 {
        return;
    }
    let bound: BTreeSet<ObjectKey> = bound.iter().map(|object| bound::key(object)).collect();
    record.objects.retain(|object| {
        let is_kept = surplus == 0 || bound.contains(&key_of(object));
        surplus -= usize::from(!is_kept);
        is_kept
    });
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

/// Puts a check's answer into the record; its time moves only when the answer does. An answer that does not pass is told of the
/// first evidence that gave it: the same again over newer evidence decides nothing, and nothing is written for it.
pub fn note_check(record: &mut StageStatus, name: &str, finding: &Finding, note: Note<'_>) {
    let mut check = CheckStatus {
        name: name.to_owned(),
        outcome: finding.outcome,
        reason: finding.reason.as_str().to_owned(),
        message: finding.message.clone(),
        check_digest: note.check.map(Digest::to_string),
        evidence_digest: note.evidence.map(|digest| digest.to_string()),
        module_digest: None,
        evidence: Vec::new(),
        valid_until: None,
        evaluated_at: None,
    };
    if let Some(old) = record.checks.iter().find(|old| old.name == name) {
        let is_same =
            (&old.reason, &old.message, &old.check_digest) == (&check.reason, &check.message, &check.check_digest);
        if is_same && old.outcome == check.outcome && check.outcome != Outcome::Pass {
            check.evidence_digest.clone_from(&old.evidence_digest);
        }
    }
    put_check(record, check, note.now);
}

/// Whether every cluster was last found to report on every object that is judged.
pub fn has_complete_evidence(record: &StageStatus) -> bool {
    let evidence = record.checks.iter().find(|check| check.name == "evidence");
    evidence.is_some_and(|check| check.outcome == Outcome::Pass)
}

/// What status says of the evidence, where no soak counts on it: a restart compares a soak's with what is there then.
pub fn evidence_of_no_soak(record: &StageStatus) -> Option<CheckStatus> {
    let known = record.checks.iter().find(|check| check.name == "evidence");
    known.filter(|_| record.passing_since.is_none()).cloned()
}

/// As long as a stage does not pass, evidence that changes and is as complete as before is nothing to write of.
pub fn keep_evidence(record: &mut StageStatus, before: Option<CheckStatus>) {
    let now = record.checks.iter_mut().find(|check| check.name == "evidence");
    if let Some((now, before)) = now.zip(before)
        && (now.outcome, &now.reason, &now.message) == (before.outcome, &before.reason, &before.message)
    {
        *now = before;
    }
}

/// Whether a check of the stage has not been asked before as it is now, or was asked of other objects: it has passed for no
/// time yet. Gates are compared one by one ([`Told::goes_on_from`]).
pub fn is_asked_anew(record: &StageStatus, stage: &CheckedStage) -> bool {
    let known = |name: &str| record.checks.iter().find(|check| check.name == name);
    let is_known = |name: &str, expression: Option<&Expression>| {
        let digest = known(name).and_then(|check| check.check_digest.as_deref());
        digest == expression.map(|expression| expression.digest.as_str())
    };
    let is_condition_known = stage.condition.is_none() || is_known("condition", stage.condition.as_ref());
    let is_health_known = !stage.requires_health() || known("health").is_some();
    !(is_known("filter", stage.filter.as_ref()) && is_condition_known && is_health_known)
}

/// The same for a gate's.
pub fn note_gate(record: &mut StageStatus, told: &Told, is_soaking: bool, now: Timestamp) {
    let check = CheckStatus {
        name: told.check.clone(),
        outcome: told.finding.outcome,
        reason: told.finding.reason.as_str().to_owned(),
        message: told.finding.message.clone(),
        check_digest: Some(told.check_digest.to_string()),
        evidence_digest: told.evidence_digest.as_ref().map(Digest::to_string),
        module_digest: told.module_digest(),
        evidence: told.pieces.clone(),
        // Cut to whole seconds: a pass is not made longer by being stored.
        valid_until: told
            .valid_until
            .filter(|_| is_soaking)
            .and_then(|until| Timestamp::from_second(until.as_second()).ok())
            .map(Time),
        evaluated_at: None,
    };
    put_check(record, check, now);
}

fn put_check(record: &mut StageStatus, mut check: CheckStatus, now: Timestamp) {
    let old = record.checks.iter_mut().find(|old| old.name == check.name);
    match old {
        Some(old) => {
            check.evaluated_at.clone_from(&old.evaluated_at);
            if check != *old {
                check.evaluated_at = Some(Time(now));
                *old = check;
            }
        }
        None => {
            check.evaluated_at = Some(Time(now));
            record.checks.push(check);
        }
    }
}

/// What goes with a check's answer.
#[derive(Clone, Copy, Debug)]
pub struct Note<'a> {
    pub check: Option<&'a Digest>,
    pub evidence: Option<&'a Digest>,
    pub now: Timestamp,
}

/// The objects that prove nothing, as a list that stays short.
pub fn not_judged(objects: &[ObjectKey]) -> Vec<String> {
    let mut names: Vec<String> = objects.iter().take(MAX_NOT_JUDGED).map(ObjectKey::to_string).collect();
    if objects.len() > MAX_NOT_JUDGED {
        names.truncate(MAX_NOT_JUDGED - 1);
        names.push(format!("and {} more", objects.len() - names.len()));
    }
    names
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use stagegate_api::StageStatus;

    use super::{Note, evidence_of_no_soak, from, keep_evidence, note_check};
    use crate::names::Digest;
    use crate::staging::finding::Finding;
    use crate::staging::reason::Reason;

    fn note(record: &mut StageStatus, finding: &Finding, evidence: &str, second: i64) {
        let note = Note {
            check: None,
            evidence: Some(&Digest::of(evidence)),
            now: Timestamp::from_second(second).unwrap(),
        };
        note_check(record, "evidence", finding, note);
    }

    #[test]
    fn an_answer_that_does_not_pass_is_told_of_the_first_evidence_that_gave_it() {
        let mut record = StageStatus::default();
        let hold = |text: &str| Finding::hold(Reason::ConditionFalse, text);
        note(&mut record, &hold("1 of 3"), "first", 1);
        let first = record.clone();
        note(&mut record, &hold("1 of 3"), "second", 2);
        assert_eq!(record, first);
        note(&mut record, &hold("2 of 3"), "third", 3);
        assert_eq!(record.checks[0].evidence_digest, Some(Digest::of("third").to_string()));
        let pass = Finding::pass(Reason::Complete, "2 of 3");
        note(&mut record, &pass, "fourth", 4);
        note(&mut record, &pass, "fifth", 5);
        assert_eq!(record.checks[0].evidence_digest, Some(Digest::of("fifth").to_string()));
    }

    #[test]
    fn evidence_that_a_soak_counts_on_is_always_the_newest() {
        let pass = Finding::pass(Reason::Complete, "one cluster");
        for is_soaking in [false, true] {
            let mut record = StageStatus::default();
            note(&mut record, &pass, "first", 1);
            record.passing_since = is_soaking.then(|| from(Timestamp::UNIX_EPOCH));
            let before = evidence_of_no_soak(&record);
            note(&mut record, &pass, "second", 2);
            keep_evidence(&mut record, before);
            let told = if is_soaking { "second" } else { "first" };
            assert_eq!(record.checks[0].evidence_digest, Some(Digest::of(told).to_string()));
        }
    }
}
