//! A stage's entry in status: how it begins, is carried to a new attempt, and is brought up to date. All that a
//! restart has to find again is here. Must not decide anything.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use stagegate_api::staged_status::{MAX_NOT_EVALUATED, MAX_RECORDED};
use stagegate_api::{BindingPolicyRef, BoundObject, HoldTracking, ObjectStatus, Outcome, StageState, StageStatus};

use crate::checks::check::Check;
use crate::checks::spec::Expression;
use crate::names::{ClusterName, ObjectKey};
use crate::staging::evidence::{Bound, binding::without_undelivered, delivery, last_reports, pending};
use crate::staging::input::{
    CheckedStage, NAMES_BYTES_MAX, OwnedPlacement, binding_view,
    recorded::{destinations, is_unbound, key_of, positions},
};
use crate::time::round_up_to_second;

/// The record of this very attempt: the one in status, or a new one. On the same placement (an in-place update keeps
/// its uid) the objects and destinations go on, because old evidence may still be the newest there will be.
pub fn start_attempt(recorded: Option<&StageStatus>, own: &OwnedPlacement<'_>, now: Timestamp) -> StageStatus {
    let same_placement = recorded.filter(|recorded| is_of(recorded, own));
    let state = StageState::Active;
    if let Some(recorded) = same_placement.filter(|recorded| recorded.attempt == Some(own.attempt)) {
        let revision = Some(own.revision.to_string());
        return StageStatus {
            state,
            revision,
            passed_at: None,
            completed_at: None,
            message: without_undelivered(recorded.message.as_deref()).map(str::to_owned),
            ..recorded.clone()
        };
    }
    // A closed placement has none. For one that an older release recorded, the start of its last attempt is the latest possible.
    let opened_at =
        same_placement.and_then(|recorded| recorded.opened_at.clone().or_else(|| recorded.placed_at.clone()));
    StageStatus {
        name: recorded.map(|recorded| recorded.name.clone()).unwrap_or_default(),
        state,
        revision: Some(own.revision.to_string()),
        attempt: Some(own.attempt),
        placed_at: Some(round_up_to_second(now)),
        opened_at: Some(opened_at.unwrap_or_else(|| round_up_to_second(now))),
        binding_policy: Some(placement_of(own)),
        destinations: same_placement
            .map(|recorded| recorded.destinations.clone())
            .unwrap_or_default(),
        named_clusters: same_placement
            .map(|recorded| recorded.named_clusters.clone())
            .unwrap_or_default(),
        objects: match (same_placement, recorded) {
            (Some(same), _) => same.objects.clone(),
            (None, Some(other)) => of_removed(other).objects,
            (None, None) => Vec::new(),
        },
        unsettled_since: same_placement.and_then(|recorded| recorded.unsettled_since.clone()),
        // The same objects in the same clusters, at other versions: the set that was accepted is what later sets are compared with.
        settled_at: same_placement
            .filter(|_| own.is_released_in_place())
            .and_then(|recorded| recorded.settled_at.clone()),
        // The message is about the release.
        message: same_placement
            .filter(|_| own.is_released_in_place())
            .and_then(|recorded| without_undelivered(recorded.message.as_deref()))
            .map(str::to_owned),
        hold: HoldTracking {
            generation: None,
            ..same_placement.map(|recorded| recorded.hold.clone()).unwrap_or_default()
        },
        ..StageStatus::default()
    }
}

/// Of a stage that is not judged in this round it is not known whether it goes on passing, unless it has passed.
pub fn interrupt_soaks(records: &mut [StageStatus], judged: Option<usize>) {
    let others = records
        .iter_mut()
        .enumerate()
        .filter(|(position, record)| judged != Some(*position) && record.state != StageState::Passed);
    for (_, record) in others {
        record.passing_since = None;
    }
}

/// What stays on record of a placement that was closed by hand: its pending updates, and what evidence must be newer than. Its
/// set of clusters has to be accepted anew, as after any loss that no edit of the policy explains.
pub fn of_closed(recorded: &StageStatus) -> StageStatus {
    let mut objects = recorded.objects.clone();
    objects.iter_mut().for_each(delivery::forget_release);
    objects.iter_mut().for_each(|entry| entry.reported_generations.clear());
    StageStatus {
        revision: recorded.revision.clone(),
        objects,
        unsettled_since: recorded.unsettled_since.clone(),
        ..StageStatus::default()
    }
}

/// What stays known of a placement that is gone: its objects, so that an edit before the next one is seen shows in the generation,
/// and its pending updates. A cluster that is out of reach runs what it ran, whichever placement brought that. If the stage had not
/// passed, its revision stays, too: then a later stage that is open at that revision is no proof that it has.
pub fn of_removed(recorded: &StageStatus) -> StageStatus {
    let has_passed = recorded.passed_at.is_some();
    StageStatus {
        revision: recorded.revision.clone().filter(|_| !has_passed),
        objects: recorded.objects.iter().map(unbound).collect(),
        ..StageStatus::default()
    }
}

/// The entry as it is before a Binding of the placement has been seen.
fn unbound(known: &ObjectStatus) -> ObjectStatus {
    let mut known = known.clone();
    delivery::forget_release(&mut known);
    ObjectStatus {
        resource_version: None,
        collectors: Vec::new(),
        baseline: None,
        reported_generations: Vec::new(),
        ..known
    }
}

/// What is known of the bound objects when a placement is opened, from the one that was judged until then: an edit that is
/// made before the new placement's Binding is seen for the first time shows in the generation.
/// Clusters that have left the judged stage, maybe for this one, take along their pending updates.
///
/// An older entry stays where the object was updated since so shortly before `now` that a cluster may still have, and report, what the
/// stage's placement before this one had brought: `window` is the time after which transport has nothing more to deliver.
pub fn see_before_opening(record: &mut StageStatus, judged: &StageStatus, now: Timestamp, window: SignedDuration) {
    let positions = positions(&record.objects);
    let placed: BTreeSet<ClusterName<&str>> = destinations(judged).collect();
    let is_recent = |older: &ObjectStatus, seen: &ObjectStatus| {
        let is_updated = older.generation != seen.generation || older.uid != seen.uid;
        let updated = seen.edited_at.as_ref().map(|time| time.0);
        is_updated && updated.is_none_or(|updated| now.duration_since(updated) < window)
    };
    for known in &judged.objects {
        let mut seen = unbound(known);
        pending::drop_clusters(&mut seen, &placed);
        let position = positions.get(&key_of(known)).copied();
        match position.and_then(|position| record.objects.get_mut(position)) {
            // Updates are counted up from the recorded generation.
            Some(older) if is_unbound(older) && older.pending_updates.is_empty() && !is_recent(older, &seen) => {
                *older = seen;
            }
            Some(_) => {}
            None => record.objects.push(seen),
        }
    }
    record.objects.truncate(MAX_RECORDED);
}

/// Whether a record is of this very placement, whatever the attempt.
pub fn is_of(recorded: &StageStatus, own: &OwnedPlacement<'_>) -> bool {
    recorded.binding_policy.as_ref() == Some(&placement_of(own))
}

fn placement_of(own: &OwnedPlacement<'_>) -> BindingPolicyRef {
    BindingPolicyRef {
        name: own.object.name_any(),
        uid: own.uid().to_string(),
    }
}

/// A set of clusters and objects that is accepted, and what [`settle`] needs to know about it.
pub struct Accepted<'a> {
    pub bound: &'a Bound<'a>,
    pub own: &'a OwnedPlacement<'a>,
    pub now: Timestamp,
    /// Whether an object's CombinedStatus has results of exactly the collectors that are bound to it.
    pub is_combined: &'a dyn Fn(&BoundObject) -> bool,
}

/// The Binding's set is accepted: it is what later sets are compared with. An object whose collectors and clusters
/// are as before keeps its baseline, since KubeStellar rewrites its CombinedStatus for no other change. So does one that lost
/// only collectors without results (missing or invalid ones): KubeStellar rewrites nothing then.
pub fn settle(record: &mut StageStatus, accepted: &Accepted<'_>) {
    let Accepted { bound, own, now, .. } = accepted;
    let clusters: BTreeSet<ClusterName<&str>> = bound.destinations.iter().copied().collect();
    let is_same_clusters = destinations(record).collect::<BTreeSet<_>>() == clusters;
    let keys: BTreeSet<ObjectKey> = bound.objects.iter().map(|object| binding_view::key(object)).collect();
    forget_lost(record, &keys);
    let mut is_larger = !clusters.is_subset(&destinations(record).collect());
    let positions = positions(&record.objects);
    for object in &bound.objects {
        let position = positions.get(&binding_view::key(object));
        let Some(entry) = position.and_then(|position| record.objects.get_mut(*position)) else {
            continue;
        };
        let collectors: BTreeSet<&String> = object.status_collectors.iter().collect();
        let before: BTreeSet<&String> = entry.collectors.iter().collect();
        let is_reduced = collectors.is_subset(&before) && (accepted.is_combined)(object);
        let is_same = is_same_clusters && (before == collectors || is_reduced);
        is_larger |= entry.baseline.is_none();
        if !(is_same && entry.baseline.is_some()) {
            entry.baseline = own.baseline.map(|version| version.to_string());
        }
        entry.collectors.clone_from(&object.status_collectors);
    }
    // A cluster that has left may come to another stage, where its updates stay pending, as far as there is room.
    let named: Vec<ClusterName> = record.named_clusters.iter().map(|name| name.clone().into()).collect();
    let known = destinations(record).map(|cluster| cluster.owned()).chain(named);
    let left: BTreeSet<ClusterName> = known
        .filter(|cluster| !clusters.contains(&cluster.borrowed()))
        .collect();
    for entry in &mut record.objects {
        pending::name_left_clusters(entry, &left, &clusters);
    }
    let required: usize = record
        .objects
        .iter()
        .map(|entry| pending::bytes(&entry.pending_updates))
        .sum();
    if required > NAMES_BYTES_MAX {
        for entry in &mut record.objects {
            pending::keep_clusters(entry, &clusters);
        }
    }
    if !clusters.is_subset(&destinations(record).collect()) {
        last_reports::forget(record);
    }
    record.destinations = clusters.iter().map(ClusterName::to_string).collect();
    record.named_clusters.clear();
    record.settled_at = Some(Time(*now));
    if is_larger {
        drop_answers(record);
    }
}

/// Drops what the checks have answered of fewer objects or clusters than they are asked about now: it shows nothing of what the others
/// had reported. A gate that will never pass stays on record, see [`crate::checks::gates::failed`].
fn drop_answers(record: &mut StageStatus) {
    record.checks.retain(|check| match Check::named(&check.name) {
        Some(check) => matches!(check, Check::Filter | Check::Soak),
        None => check.outcome == Outcome::Fail,
    });
}

/// Drops what another filter has answered, and what the checks have answered of the objects that it kept.
pub fn follow_filter(record: &mut StageStatus, stage: &CheckedStage) {
    let known = Check::Filter.last(&record.checks);
    let digest = known.and_then(|known| known.check_digest.as_deref());
    if digest != stage.filter.as_ref().map(|filter| filter.digest.as_str()) {
        record.checks.retain(|check| !Check::Filter.is_of(check));
        drop_answers(record);
    }
}

/// Whether a check of the stage has not been asked before as it is now, or was asked of other objects: it has passed for no
/// time yet. Gates are compared one by one ([`crate::checks::gates::GateResult::goes_on_from`]).
pub fn is_asked_anew(record: &StageStatus, stage: &CheckedStage) -> bool {
    let is_known = |check: Check, expression: Option<&Expression>| {
        let last = check.last(&record.checks);
        let digest = last.and_then(|last| last.check_digest.as_deref());
        digest == expression.map(|expression| expression.digest.as_str())
    };
    let is_condition_known = stage.condition.is_none() || is_known(Check::Condition, stage.condition.as_ref());
    let is_health_known = !stage.requires_health() || Check::Health.last(&record.checks).is_some();
    !(is_known(Check::Filter, stage.filter.as_ref()) && is_condition_known && is_health_known)
}

/// Of objects that the Binding names no more, those stay known that were updated: a cluster that is out of reach still has the last
/// one of a name, and reports a later generation than one that is made anew.
fn forget_lost(record: &mut StageStatus, bound: &BTreeSet<ObjectKey>) {
    record
        .objects
        .retain(|object| bound.contains(&key_of(object)) || object.generation.is_some_and(|generation| generation > 1));
    for object in &mut record.objects {
        if !bound.contains(&key_of(object)) {
            *object = unbound(object);
        }
    }
}

/// The objects that are not evaluated, as a list of bounded length.
pub fn not_evaluated(objects: &[ObjectKey]) -> Vec<String> {
    let mut names: Vec<String> = objects
        .iter()
        .take(MAX_NOT_EVALUATED)
        .map(ObjectKey::to_string)
        .collect();
    if objects.len() > MAX_NOT_EVALUATED {
        names.truncate(MAX_NOT_EVALUATED - 1);
        names.push(format!("and {} more", objects.len() - names.len()));
    }
    names
}
