//! The bound objects of a placement: what metadata reads say of each, and its record, brought up to date with edits and
//! the clusters' answers. Must not judge.

use crate::staging::input::{
    Decoded, Facts, ObjectFacts, ObjectMeta, PENDING_BYTES_MAX, StageInput, binding_view,
    recorded::{destinations, is_unbound, key_of, positions, stage_name, uid},
};
use crate::time::round_up_to_second;
use std::collections::{BTreeMap, BTreeSet};

use stagegate_api::staged_status::MAX_RECORDED;
use stagegate_api::{BoundObject, EvidenceRow, ObjectStatus, PendingUpdate, StageState, StageStatus};

use crate::checks::finding::Finding;
use crate::checks::reason::Reason;
use crate::names::{ClusterName, ObjectKey};
use crate::staging::evidence::acknowledgements::{UpdateTracker, counted_generation};
use crate::staging::evidence::binding::{Placed, destinations_of, left_before_acceptance};
use crate::staging::evidence::clusters::Clusters;
use crate::staging::evidence::combined_status::Subject;
use crate::staging::evidence::pending::ByCluster;
use crate::staging::evidence::{kinds, pending};
use crate::staging::question::Question;
use crate::time::after;

/// The objects of one placement: asks about them, and keeps their records.
#[derive(Debug)]
pub(crate) struct ObjectTracker<'a> {
    pub(crate) input: StageInput<'a>,
    /// What has to be read before the rest can be decided.
    pub(crate) questions: Vec<Question>,
    /// How many updated objects have pending updates that status has no room for.
    unrecorded: usize,
}

impl<'a> ObjectTracker<'a> {
    pub(crate) const fn new(input: StageInput<'a>) -> Self {
        Self {
            input,
            questions: Vec::new(),
            unrecorded: 0,
        }
    }

    /// Every bound object is looked at again when its version in the Binding moves: an edit of one that is not evaluated
    /// restarts the settling all the same.
    pub(crate) fn ask_about_objects(&mut self, objects: &[&BoundObject]) {
        for object in objects {
            let known = self.input.facts.objects.get(&binding_view::key(object));
            if !known.is_some_and(|known| known.is_answer_to(binding_view::resource_version(object))) {
                self.questions.push(question_about(self.input.facts, object));
            }
        }
    }

    pub(crate) fn found(&self, object: &BoundObject) -> Option<&'a ObjectMeta> {
        self.input
            .facts
            .objects
            .get(&binding_view::key(object))
            .and_then(|known| known.found.as_ref())
    }

    /// Fails if an object may not be read: nothing shows whether it was edited, and that matters even if it is not evaluated.
    pub(crate) fn require_shown(&self, objects: &[&BoundObject]) -> Result<(), Finding> {
        let known = &self.input.facts.objects;
        let refused = |object: &&BoundObject| {
            let known = known.get(&binding_view::key(object))?;
            refusal(known, object)
        };
        objects.iter().find_map(refused).map_or(Ok(()), Err)
    }

    /// An object that is judged. One that cannot be found is no object to leave out.
    pub(crate) fn subject<'p>(
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

    /// Brings the record of each object up to date with its updates and the clusters' acknowledgements. A cluster with a pending update
    /// holds its stage until a set without that cluster is accepted, even if the Binding loses the cluster for a while, as during
    /// a restart of KubeStellar.
    pub(crate) fn track(&mut self, placed: &Placed<'_>, objects: &[&BoundObject], record: &mut StageStatus) {
        let accepted: Vec<ClusterName> = destinations(record).map(|cluster| cluster.owned()).collect();
        let accepted: BTreeSet<ClusterName<&str>> = accepted.iter().map(ClusterName::borrowed).collect();
        let named = destinations_of(placed);
        // A closed placement's Binding has objects but no clusters: it is not known yet which clusters will have to acknowledge an update.
        if named.is_empty() && accepted.is_empty() {
            return;
        }
        let before = record.named_clusters.clone();
        let before: BTreeSet<ClusterName<&str>> = before.iter().map(|cluster| ClusterName::of(cluster)).collect();
        let named = named.into_iter().chain(left_before_acceptance(placed));
        let clusters = Clusters::of(named, &accepted).with_named_before(&before);
        let has_room = self.has_room_for_names(placed, (objects, &clusters), record);
        let elsewhere = self.elsewhere(&clusters);
        // Only a stage that is judged accepts another set.
        let has_joined = !clusters.new.is_empty() && record.state == StageState::Active;
        let positions = positions(&record.objects);
        let mut room_taken = record
            .objects
            .iter()
            .map(|entry| pending::bytes(&entry.pending_updates))
            .sum();
        let objects = &objects[..objects.len().min(MAX_RECORDED)];
        for object in objects {
            let Some(found) = self.found(object) else { continue };
            let position = positions.get(&binding_view::key(object)).copied();
            let old = position.and_then(|position| record.objects.get(position));
            let subject = Subject {
                placed,
                bound: object,
                found,
            };
            let edited = UpdateTracker::of(&subject, found, &clusters);
            let others = room_taken - old.map_or(0, |old| pending::bytes(&old.pending_updates));
            // What is new at the first sight of the Binding inherits below.
            let is_first_sight = |old: &ObjectStatus| accepted.is_empty() && is_unbound(old);
            let joined = old
                .filter(|old| has_joined && !is_first_sight(old))
                .and_then(|old| with_updates_of_joined(edited, &elsewhere, old));
            let old = joined.as_ref().or(old);
            let known = old.map_or(&[][..], |old| &old.pending_updates);
            // Updates that were seen long ago are pending by cluster name.
            let is_updated = || edited.is_updated(old);
            let is_compact =
                pending::has_unnamed(known) || (pending::is_free(known, &clusters.all) && !has_room && is_updated());
            let compact = is_compact.then(|| edited.advance_compactly(old));
            let is_new = old.is_none_or(is_unbound);
            let mut entry = match compact {
                Some(entry) if !is_new => entry,
                Some(entry) => {
                    let required = pending::by_cluster(&entry.pending_updates, &clusters.all);
                    inherit(edited, &elsewhere, (entry, required))
                }
                None if is_new => inherit(edited, &elsewhere, edited.advance_by_cluster(old)),
                None => edited.advance(old),
            };
            if !is_room_for(&entry.pending_updates, others) {
                pending::keep_clusters(&mut entry, &clusters.all);
            }
            if !is_room_for(&entry.pending_updates, others) {
                // The record stays as it is, so the next round finds the update again.
                self.unrecorded += 1;
                continue;
            }
            room_taken = others + pending::bytes(&entry.pending_updates);
            if let Some(message) = weakly_acknowledged(edited, old, &entry) {
                record.message = Some(message);
            }
            if let Some(message) = unacknowledgeable(edited, old) {
                record.unsettled_since = Some(round_up_to_second(self.input.facts.now));
                record.passing_since = None;
                record.message = Some(message);
            }
            match position {
                Some(position) => record.objects[position] = entry,
                None => record.objects.push(entry),
            }
        }
        make_room(record, objects);
        // A cluster stays late until its late naming has been looked at for each object.
        if accepted.is_empty() && self.unrecorded == 0 && objects.iter().all(|object| self.found(object).is_some()) {
            let named = before.union(&clusters.all).take(MAX_RECORDED);
            record.named_clusters = named.map(ClusterName::to_string).collect();
        }
    }

    /// Whether the room for names in status holds those of all clusters for each object that has been updated.
    fn has_room_for_names(
        &self,
        placed: &Placed<'_>,
        (objects, clusters): (&[&BoundObject], &Clusters<'_>),
        record: &StageStatus,
    ) -> bool {
        let is_pending = |entry: &&ObjectStatus| !pending::is_free(&entry.pending_updates, &clusters.all);
        let known = record.objects.iter().filter(is_pending).count();
        let positions = positions(&record.objects);
        let is_updated = |object: &&&BoundObject| {
            let old = positions
                .get(&binding_view::key(object))
                .and_then(|at| record.objects.get(*at));
            let subject = self.subject(placed, object).ok();
            subject
                .is_some_and(|(subject, found)| UpdateTracker::without_rows(&subject, found, clusters).is_updated(old))
        };
        let updated = objects.iter().filter(is_updated).count();
        let names = pending::names_bytes(clusters.all.iter().copied());
        names.saturating_mul(known + updated) <= self.input.facts.settings.names_bytes_max
    }

    /// Fails if status has no room for all pending updates.
    pub(crate) fn require_recorded(&self, clusters: usize) -> Result<(), Finding> {
        let (facts, count) = (self.input.facts, self.unrecorded);
        if count == 0 {
            return Ok(());
        }
        let text = format!(
            "{count} updated objects in {clusters} clusters have more unacknowledged updates than status has room for \
             ({} KiB): they count when every cluster has acknowledged them and reported nothing new for {} s; update fewer \
             objects at a time, or split the policy",
            PENDING_BYTES_MAX / 1024,
            facts.settings.unseen_update().as_secs()
        );
        let look_again = after(facts.now, facts.settings.settle_after_loss());
        Err(Finding::unknown(Reason::TooManyUpdates, text).wake_at(look_again))
    }

    /// The records of the other stages, of those whose placement is gone, too: an update that is pending there stays pending
    /// wherever its cluster goes.
    fn elsewhere<'c>(&self, here: &'c Clusters<'c>) -> Vec<Elsewhere<'c>>
    where
        'a: 'c,
    {
        let StageInput { facts, stage, .. } = self.input;
        let stages = facts.policy.object.status.iter().flat_map(|status| &status.stages);
        let is_placed = |other: &StageStatus| {
            other.binding_policy.as_ref().is_some_and(|placement| {
                let live = facts.placements.get(placement.name.as_str()).and_then(Decoded::object);
                live.is_some_and(|live| live.metadata.uid.as_deref() == Some(&placement.uid))
            })
        };
        let others = stages.filter(|other| stage_name(other) != stage.name.borrowed());
        let elsewhere = others.map(|record| {
            let accepted: BTreeSet<ClusterName<&str>> = if is_placed(record) {
                destinations(record).collect()
            } else {
                BTreeSet::new()
            };
            Elsewhere {
                positions: positions(&record.objects),
                all: Shared::of(&here.all, &accepted),
                new: Shared::of(&here.new, &accepted),
                accepted,
                record,
            }
        });
        elsewhere.collect()
    }
}

/// Asks for the object as it is now.
pub(crate) fn question_about(facts: &Facts, object: &BoundObject) -> Question {
    Question::Object {
        key: binding_view::key(object),
        version: object.version.clone(),
        resource_version: binding_view::resource_version(object).owned(),
        is_whole: is_read_whole(facts, object),
    }
}

/// Whether a digest of all that travels of it is needed. Of kinds that no cluster reports on, no status moves the resourceVersion.
pub fn is_read_whole(facts: &Facts, object: &BoundObject) -> bool {
    facts.is_staged() && !kinds::is_never_returned(&object.group, &object.resource)
}

/// Whether status has room for these beside those of the other objects of the stage.
fn is_room_for(updates: &[PendingUpdate], others: usize) -> bool {
    updates.is_empty() || others.saturating_add(pending::bytes(updates)) <= PENDING_BYTES_MAX
}

/// Keeps the list within what status takes: the oldest entries of objects that are not bound any more go first. Such entries
/// remain only where no set is accepted any more.
fn make_room(record: &mut StageStatus, bound: &[&BoundObject]) {
    let mut surplus = record.objects.len().saturating_sub(MAX_RECORDED);
    if surplus == 0 {
        return;
    }
    let bound: BTreeSet<ObjectKey> = bound.iter().map(|object| binding_view::key(object)).collect();
    record.objects.retain(|object| {
        let is_kept = surplus == 0 || bound.contains(&key_of(object));
        surplus -= usize::from(!is_kept);
        is_kept
    });
}

/// Another stage.
struct Elsewhere<'a> {
    record: &'a StageStatus,
    positions: BTreeMap<ObjectKey, usize>,
    /// The clusters that it has accepted, while it is placed.
    accepted: BTreeSet<ClusterName<&'a str>>,
    all: Shared<'a>,
    new: Shared<'a>,
}

/// Clusters of the judged stage, and those of them that another stage has accepted: the same for each object.
struct Shared<'a> {
    clusters: &'a BTreeSet<ClusterName<&'a str>>,
    accepted: Clusters<'a>,
}

impl<'a> Shared<'a> {
    fn of(clusters: &'a BTreeSet<ClusterName<&'a str>>, accepted: &BTreeSet<ClusterName<&'a str>>) -> Self {
        let accepted = Clusters::without_new(clusters.intersection(accepted).copied().collect());
        Self { clusters, accepted }
    }
}

impl Elsewhere<'_> {
    fn known(&self, key: &ObjectKey) -> Option<&ObjectStatus> {
        self.positions.get(key).and_then(|at| self.record.objects.get(*at))
    }

    /// The updates that are pending for these clusters by the other stage's record, as of now. `here`: what this stage's own record has
    /// pending; for its clusters, updates that the other record has not counted are left out.
    fn pending_updates(
        &self,
        edited: UpdateTracker<'_>,
        known: &ObjectStatus,
        (shared, here): (&Shared<'_>, &ByCluster),
    ) -> ByCluster {
        // Which clusters an entry without names was about is not known when the placement is gone.
        let is_named = |update: &PendingUpdate, cluster: ClusterName<&str>| {
            pending::covers(update, cluster) && (self.accepted.is_empty() || !pending::is_unnamed(update))
        };
        let is_known = |cluster: &ClusterName<&str>| {
            self.accepted.contains(cluster) || known.pending_updates.iter().any(|update| is_named(update, *cluster))
        };
        let with_named;
        let there = if known.pending_updates.is_empty() {
            &shared.accepted
        } else {
            with_named = Clusters::without_new(shared.clusters.iter().copied().filter(is_known).collect());
            &with_named
        };
        let there = UpdateTracker {
            clusters: there,
            ..edited
        };
        let (_, mut required) = there.advance_by_cluster(Some(known));
        required.retain(|cluster, _| there.clusters.all.contains(&cluster.borrowed()));
        if here.keys().any(|cluster| required.contains_key(cluster)) {
            // As if the record had counted all updates: acknowledgements still count, new updates do not.
            let up_to_date = ObjectStatus {
                generation: edited.generation(),
                ..known.clone()
            };
            let (_, mut without_new) = there.advance_by_cluster(Some(&up_to_date));
            without_new.retain(|cluster, _| here.contains_key(cluster) && required.contains_key(cluster));
            required.retain(|cluster, _| !here.contains_key(cluster));
            required.extend(without_new);
        }
        required
    }
}

/// The object is new to this stage, but another stage has placed it, too: an update that is pending there is pending here. Their old
/// status counts at once under the new placement, so an update made between the last round and this stage's Binding would
/// be judged by reports from before it.
fn inherit(
    edited: UpdateTracker<'_>,
    elsewhere: &[Elsewhere<'_>],
    (entry, mut required): (ObjectStatus, ByCluster),
) -> ObjectStatus {
    let key = key_of(&entry);
    let mut inherited = ByCluster::new();
    for other in elsewhere {
        let Some(known) = other.known(&key) else { continue };
        let is_followed = !is_unbound(known) && known.uid == entry.uid;
        // That stage has seen every update, so what is not pending there was acknowledged.
        required.retain(|cluster, _| !(is_followed && other.accepted.contains(&cluster.borrowed())));
        pending::add_more(
            &mut inherited,
            other.pending_updates(edited, known, (&other.all, &ByCluster::new())),
        );
    }
    pending::add_more(&mut required, inherited);
    ObjectStatus {
        pending_updates: pending::grouped(required),
        ..entry
    }
}

/// The same for clusters that have joined this stage since, for instance because their labels changed: adds what the records of other
/// stages have as pending for them. `None`: they have nothing.
fn with_updates_of_joined(
    edited: UpdateTracker<'_>,
    elsewhere: &[Elsewhere<'_>],
    old: &ObjectStatus,
) -> Option<ObjectStatus> {
    let key = key_of(old);
    // New updates are counted once, by this stage's own record: with createOnly the generation in the other record stays as it is, so
    // they would count in every round.
    // An entry without names does not stand for clusters that have joined since.
    let known = edited.clusters.all.iter().copied();
    let known = known.filter(|cluster| !edited.has_joined(*cluster)).collect();
    let here = pending::by_cluster(&old.pending_updates, &known);
    let mut required = ByCluster::new();
    for other in elsewhere {
        let Some(known) = other.known(&key) else { continue };
        pending::add_more(&mut required, other.pending_updates(edited, known, (&other.new, &here)));
    }
    if required.is_empty() {
        return None;
    }
    let mut new = old.clone();
    required.retain(|cluster, pending| here.get(cluster).is_none_or(|here| pending.outweighs(here)));
    let more: BTreeSet<ClusterName<&str>> = required.keys().map(ClusterName::borrowed).collect();
    pending::except_clusters(&mut new, &more);
    new.pending_updates.extend(pending::grouped(required));
    Some(new)
}

/// The message about an update that no cluster can acknowledge. Such an update only restarts the settling.
fn unacknowledgeable(edited: UpdateTracker<'_>, old: Option<&ObjectStatus>) -> Option<String> {
    let found = edited.found;
    let is_moved = |old: &ObjectStatus| {
        uid(old) != found.uid.borrowed() || old.metadata_digest.as_ref() != Some(&found.metadata_digest)
    };
    let is_uncounted = counted_generation(edited.bound, found).is_none();
    (is_uncounted && old.is_some_and(is_moved)).then(|| {
        format!(
            "unproven: no status tells whether the last update of {} arrived in the clusters",
            binding_view::key(edited.bound)
        )
    })
}

/// The message about an acknowledgement that may have another cause than the update.
fn weakly_acknowledged(edited: UpdateTracker<'_>, old: Option<&ObjectStatus>, new: &ObjectStatus) -> Option<String> {
    let old = old.filter(|old| !old.pending_updates.is_empty())?;
    let key = binding_view::key(edited.bound);
    // An entry without names is acknowledged as a whole.
    if pending::has_unnamed(&old.pending_updates) && !pending::has_unnamed(&new.pending_updates) {
        let mut rows = edited.reported_by(&edited.clusters.all).filter_map(|(_, row)| row);
        return rows.find_map(|row| weakness(row, &key));
    }
    let clusters = &edited.clusters.all;
    let now = pending::by_cluster(&new.pending_updates, clusters);
    let before = pending::by_cluster(&old.pending_updates, clusters);
    let mut acknowledged = before.iter().filter(|(cluster, pending)| {
        now.get(*cluster)
            .is_none_or(|now| now.unacknowledged < pending.unacknowledged)
    });
    acknowledged.find_map(|(cluster, _)| weakness(edited.row(cluster.borrowed())?, &key))
}

/// Why an acknowledgement by this row may not be of the last update.
fn weakness(row: &EvidenceRow, key: &ObjectKey) -> Option<String> {
    if row.r#gen.is_empty() {
        return Some(format!(
            "unproven: the status of {key} has no observedGeneration, so whatever changes it counts as an \
                 acknowledgement of the last update"
        ));
    }
    let is_scaled = row.desired.is_some() && row.total.is_some() && row.desired != row.total;
    is_scaled.then(|| {
        format!(
            "unproven: cluster {} runs another number of replicas of {key} than its spec says; an autoscaler there \
                 moves observedGeneration, too, so it may not be the last update that was acknowledged",
            row.cluster
        )
    })
}

/// The finding of an object that was asked for in vain.
pub(crate) fn refusal(known: &ObjectFacts, object: &BoundObject) -> Option<Finding> {
    let message = known.refused.as_ref()?;
    let key = binding_view::key(object);
    let text =
        format!("{key} is bound, but Stagegate may not read its metadata: grant it the right to get them ({message})");
    Some(Finding::unknown(Reason::ObjectForbidden, text))
}

pub(crate) fn missing(object: &BoundObject) -> Finding {
    let key = binding_view::key(object);
    let text = format!("{key} is in the Binding, but not on this control plane: it is being deleted, or was just made");
    Finding::unknown(Reason::ObjectMissing, text)
}
