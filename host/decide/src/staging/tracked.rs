//! The bound objects of a placement: what metadata reads say of each, and its record, brought up to date with edits and
//! the clusters' answers. Must not judge.

use stagegate_api::{BoundObject, ObjectStatus, StageStatus};

use super::binding_part::{Placed, destinations_of};
use super::bound;
use super::edits::{Edited, is_unbound};
use super::evidence::Subject;
use super::facts::{Decoded, ObjectFacts, ObjectMeta};
use super::finding::Finding;
use super::judge::{Judging, Subjected};
use super::plan::Question;
use super::reason::Reason;
use super::record::{self, key_of};

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

    /// Brings the record of each object up to date with its edits and the clusters' answers.
    pub(super) fn track(&self, placed: &Placed<'_>, objects: &[&BoundObject], record: &mut StageStatus) {
        let facts = self.subjected.facts;
        let destinations = destinations_of(placed);
        for object in objects.iter().take(stagegate_api::staged_status::MAX_RECORDED) {
            let Some(found) = self.found(object) else { continue };
            let key = bound::key(object);
            let position = record.objects.iter().position(|entry| key_of(entry) == key);
            let old = position.and_then(|position| record.objects.get(position));
            let subject = Subject {
                placed,
                bound: object,
                found,
            };
            let edited = Edited::of(&subject, found, &destinations);
            let is_moved = |old: &ObjectStatus| old.uid != found.uid || old.mark.as_ref() != Some(&found.mark);
            if found.generation.is_none() && old.is_some_and(is_moved) {
                record.unsettled_since = Some(record::from(facts.now));
                record.passing_since = None;
                record.message = Some(format!(
                    "{key} counts no generations: that its last edit arrived in the clusters is unproven"
                ));
            }
            let mut entry = edited.advance(old);
            if old.is_none_or(is_unbound) {
                self.inherit(edited, &mut entry);
            }
            match position {
                Some(position) => record.objects[position] = entry,
                None => record.objects.push(entry),
            }
        }
    }

    /// First seen here, but placed by another stage, too: what its clusters still owe there, they owe here. Their old
    /// status counts at once under the new placement, so an edit made between the last round and this stage's Binding
    /// would be judged by what came before it.
    fn inherit(&self, edited: Edited<'_>, entry: &mut ObjectStatus) {
        let Subjected { facts, own, .. } = self.subjected;
        let key = key_of(entry);
        for other in facts.policy.object.status.iter().flat_map(|status| &status.stages) {
            let is_placed = other.binding_policy.as_ref().is_some_and(|placement| {
                let live = facts.placements.get(&placement.name).and_then(Decoded::object);
                placement.uid != own.uid()
                    && live.is_some_and(|live| live.metadata.uid.as_deref() == Some(&placement.uid))
            });
            let Some(known) = other.objects.iter().find(|known| is_placed && key_of(known) == key) else {
                continue;
            };
            let is_shared = |cluster: &&str| other.destinations.iter().any(|shared| shared == cluster);
            let is_followed = !is_unbound(known) && known.uid == entry.uid;
            let shared: Vec<&str> = edited.destinations.iter().copied().filter(is_shared).collect();
            let owed = Edited {
                destinations: &shared,
                ..edited
            }
            .advance(Some(known))
            .updates;
            // Every edit was seen there, and what is not owed was answered.
            entry.updates.retain(|update| {
                let is_shared = shared.contains(&update.cluster.as_str());
                !(is_followed && is_shared) && owed.iter().all(|other| other.cluster != update.cluster)
            });
            entry.updates.extend(owed);
        }
    }
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
