//! The bound objects of a placement: what metadata reads say of each, and its record, brought up to date with edits and
//! the clusters' answers. Must not judge.

use std::collections::BTreeSet;

use stagegate_api::staged_status::MAX_RECORDED;
use stagegate_api::{BoundObject, ObjectStatus, StageStatus};

use super::binding_part::{Placed, destinations_of};
use super::edits::{Edited, counted_generation, is_unbound};
use super::evidence::Subject;
use super::facts::{Decoded, ObjectFacts, ObjectMeta};
use super::finding::Finding;
use super::judge::{Judging, Subjected};
use super::plan::Question;
use super::reason::Reason;
use super::record::{self, key_of};
use super::slot::after;
use super::{bound, pending};

impl<'a> Judging<'a> {
    /// Every bound object is looked at again when its version in the Binding moves: an edit of one that is not judged
    /// restarts the settling all the same.
    pub(super) fn ask_about_objects(&mut self, objects: &[&BoundObject]) {
        for object in objects {
            let key = bound::key(object);
            let known = self.subjected.facts.objects.get(&key);
            if !known.is_some_and(|known| known.is_answer_to(&object.resource_version)) {
                self.questions.push(Question::Object {
                    key,
                    version: object.version.clone(),
                    resource_version: object.resource_version.clone(),
                });
            }
        }
    }

    pub(super) fn found(&self, object: &BoundObject) -> Option<&'a ObjectMeta> {
        self.subjected
            .facts
            .objects
            .get(&bound::key(object))
            .and_then(|known| known.found.as_ref())
    }

    /// Of an object that this host may not read nobody knows whether it was edited, also when it is not judged.
    pub(super) fn require_shown(&self, objects: &[&BoundObject]) -> Result<(), Finding> {
        let known = &self.subjected.facts.objects;
        let refused = |object: &&BoundObject| {
            let known = known.get(&bound::key(object))?;
            refusal(known, object)
        };
        objects.iter().find_map(refused).map_or(Ok(()), Err)
    }

    /// An object that is judged. One that cannot be found is no object to leave out.
    pub(super) fn subject<'p>(
        &self,
        placed: &'p Placed<'p>,
        object: &'p BoundObject,
    ) -> Result<(Subject<'p>, &'p ObjectMeta), Finding>
    where
        'a: 'p,
    {
        let found: &'p ObjectMeta = self.found(object).ok_or_else(|| missing(object))?;
        let subject = Subject {
            placed,
            bound: object,
            found,
        };
        Ok((subject, found))
    }

    /// Brings the record of each object up to date with its updates and the clusters' acknowledgements. A cluster owes until a
    /// set without it is accepted: that a Binding loses it for a while, as at a restart of KubeStellar, changes nothing.
    pub(super) fn track(&mut self, placed: &Placed<'_>, objects: &[&BoundObject], record: &mut StageStatus) {
        let accepted: Vec<String> = record.destinations.clone();
        let accepted: BTreeSet<&str> = accepted.iter().map(String::as_str).collect();
        let clusters: BTreeSet<&str> = accepted.iter().copied().chain(destinations_of(placed)).collect();
        // A closed placement's Binding has objects but no clusters: it is not known yet which clusters will owe an update.
        if clusters.is_empty() {
            return;
        }
        let positions = record::positions(&record.objects);
        let mut room_taken = record.objects.iter().map(|entry| pending::bytes(&entry.updates)).sum();
        let objects = &objects[..objects.len().min(MAX_RECORDED)];
        for object in objects {
            let Some(found) = self.found(object) else { continue };
            let position = positions.get(&bound::key(object)).copied();
            let old = position.and_then(|position| record.objects.get(position));
            let subject = Subject {
                placed,
                bound: object,
                found,
            };
            let edited = Edited::of(&subject, found, (&clusters, &accepted));
            let mut entry = edited.advance(old);
            if old.is_none_or(is_unbound) {
                self.inherit(edited, &mut entry);
            }
            let taken_before = old.map_or(0, |old| pending::bytes(&old.updates));
            let others = room_taken - taken_before;
            if !pending::is_room_for(&entry.updates, others) {
                // The record stays as it is, so the next round finds the update again.
                self.unrecorded += 1;
                continue;
            }
            room_taken = others + pending::bytes(&entry.updates);
            if let Some(message) = weakly_acknowledged(edited, old, &entry) {
                record.message = Some(message);
            }
            if let Some(message) = unacknowledgeable(edited, old) {
                record.unsettled_since = Some(record::from(self.subjected.facts.now));
                record.passing_since = None;
                record.message = Some(message);
            }
            match position {
                Some(position) => record.objects[position] = entry,
                None => record.objects.push(entry),
            }
        }
        record::make_room(record, objects);
    }

    /// Fails if status has no room for all pending updates.
    pub(super) fn require_recorded(&self, clusters: usize) -> Result<(), Finding> {
        let (facts, count) = (self.subjected.facts, self.unrecorded);
        if count == 0 {
            return Ok(());
        }
        let text = format!(
            "{count} updated objects in {clusters} clusters have more unacknowledged updates than status has room for \
             ({} KiB): they count when every cluster has acknowledged them and reported nothing new for {} s; update fewer \
             objects at a time, or split the policy",
            pending::BYTES_MAX / 1024,
            facts.settings.unseen_update().as_secs()
        );
        let look_again = after(facts.now, facts.settings.settle_after_loss());
        Err(Finding::unknown(Reason::TooManyUpdates, text).wake_at(look_again))
    }

    /// The object is new to this stage, but another stage places it, too: what its clusters owe there, they owe here. Their old
    /// status counts at once under the new placement, so an update made between the last round and this stage's Binding would
    /// be judged by reports from before it.
    fn inherit(&self, edited: Edited<'_>, entry: &mut ObjectStatus) {
        let Subjected { facts, own, .. } = self.subjected;
        let key = key_of(entry);
        let mut owed = pending::by_cluster(&entry.updates);
        for other in facts.policy.object.status.iter().flat_map(|status| &status.stages) {
            let is_placed = other.binding_policy.as_ref().is_some_and(|placement| {
                let live = facts.placements.get(&placement.name).and_then(Decoded::object);
                placement.uid != own.uid()
                    && live.is_some_and(|live| live.metadata.uid.as_deref() == Some(&placement.uid))
            });
            let Some(known) = other.objects.iter().find(|known| is_placed && key_of(known) == key) else {
                continue;
            };
            let accepted: BTreeSet<&str> = other.destinations.iter().map(String::as_str).collect();
            let shared: BTreeSet<&str> = edited.clusters.intersection(&accepted).copied().collect();
            let is_followed = !is_unbound(known) && known.uid == entry.uid;
            let there = Edited {
                clusters: &shared,
                accepted: &accepted,
                ..edited
            };
            let there = pending::by_cluster(&there.advance(Some(known)).updates);
            // That stage has seen every update, so what is not owed there was acknowledged.
            owed.retain(|cluster, _| !(is_followed && shared.contains(cluster.as_str())));
            owed.extend(
                there
                    .into_iter()
                    .filter(|(cluster, _)| edited.clusters.contains(cluster.as_str())),
            );
        }
        entry.updates = pending::grouped(owed);
    }
}

/// The message about an update that no cluster can acknowledge. Such an update only restarts the settling.
fn unacknowledgeable(edited: Edited<'_>, old: Option<&ObjectStatus>) -> Option<String> {
    let found = edited.found;
    let is_moved = |old: &ObjectStatus| old.uid != found.uid || old.mark.as_ref() != Some(&found.mark);
    let is_uncounted = counted_generation(edited.bound, found).is_none();
    (is_uncounted && old.is_some_and(is_moved)).then(|| {
        format!(
            "unproven: no status tells whether the last update of {} arrived in the clusters",
            bound::key(edited.bound)
        )
    })
}

/// The message about an acknowledgement that may have another cause than the update.
fn weakly_acknowledged(edited: Edited<'_>, old: Option<&ObjectStatus>, new: &ObjectStatus) -> Option<String> {
    let old = old.filter(|old| !old.updates.is_empty())?;
    let (before, now) = (pending::by_cluster(&old.updates), pending::by_cluster(&new.updates));
    let key = bound::key(edited.bound);
    let acknowledged = before
        .iter()
        .filter(|(cluster, pending)| now.get(*cluster).is_none_or(|now| now.owed < pending.owed));
    acknowledged.into_iter().find_map(|(cluster, _)| {
        let row = edited.row(cluster)?;
        if row.r#gen.is_empty() {
            return Some(format!(
                "unproven: the status of {key} has no observedGeneration, so whatever changes it counts as an \
                 acknowledgement of the last update"
            ));
        }
        let is_scaled = row.desired.is_some() && row.total.is_some() && row.desired != row.total;
        is_scaled.then(|| {
            format!(
                "unproven: cluster {cluster} runs another number of replicas of {key} than its spec says; an autoscaler there \
                 moves observedGeneration, too, so it may not be the last update that was acknowledged"
            )
        })
    })
}

/// The finding of an object that was asked for in vain.
pub(super) fn refusal(known: &ObjectFacts, object: &BoundObject) -> Option<Finding> {
    let message = known.refused.as_ref()?;
    let key = bound::key(object);
    let text =
        format!("{key} is bound, but Stagegate may not read its metadata: grant it the right to get them ({message})");
    Some(Finding::unknown(Reason::ObjectForbidden, text))
}

pub(super) fn missing(object: &BoundObject) -> Finding {
    let key = bound::key(object);
    let text = format!("{key} is in the Binding, but not on this control plane: it is being deleted, or was just made");
    Finding::unknown(Reason::ObjectMissing, text)
}
