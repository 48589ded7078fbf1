//! Whether clusters get just the versions that are admitted to a stage. Must not admit any.
//!
//! KubeStellar's transport reads objects as they are some time after KubeStellar has written the Binding. If all of them still have the
//! versions that the Binding names when they are read after that, it can have read no others: a version of an object never comes back.

use jiff::{SignedDuration, Timestamp};
use stagegate_api::staged_status::MAX_UNPROVEN;
use stagegate_api::{Binding, BoundObject, ContentBefore, HoldTracking, ObjectStatus, StageStatus};

use crate::checks::finding::Finding;
use crate::checks::reason::Reason;
use crate::names::{Digest, ObjectKey, PlacementName};
use crate::staging::evidence::binding::Placed;
use crate::staging::evidence::last_reports;
use crate::staging::evidence::objects::{ObjectTracker, question_about};
use crate::staging::input::{
    BindingFacts, ContentDigest, Facts, ObjectMeta, SeenGeneration, StageInput, admitted, binding_view,
    recorded::{is_unbound, key_of, positions, uid},
};
use crate::staging::question::Question;
use crate::time::{after, round_up_to_second};

/// How long a list of admitted versions stays as it is while resourceVersions move and no version does.
const LIST_STAYS: SignedDuration = SignedDuration::from_secs(30);

impl Placed<'_> {
    /// Fails unless the Binding of a held stage has named just the admitted versions for the settle time, and transport has read no others.
    pub(crate) fn require_admitted(&self, binding: &Binding) -> Result<(), Finding> {
        if self.stage.admitted.is_none() {
            return Ok(());
        }
        let name = &self.stage.placement;
        let Some(list) = admitted::list(binding) else {
            let text = format!(
                "Binding {name} has no list of admitted versions: it is held at the versions that it names now"
            );
            return Err(Finding::unknown(Reason::Placing, text));
        };
        if list != admitted::named(binding) {
            let text = format!("KubeStellar has not written the admitted versions into Binding {name} yet");
            return Err(Finding::unknown(Reason::Placing, text));
        }
        if let Some(first) = self.record.unproven.first() {
            let text = format!(
                "clusters of stage {} may have got a newer version of {first} than the admitted one: the stage cannot pass before its \
                 next release",
                self.stage.name
            );
            return Err(Finding::unknown(Reason::DeliveryUnproven, text));
        }
        let Some(held_since) = self
            .record
            .held_since
            .as_ref()
            .filter(|_| is_noted(self.facts, binding, self.record))
        else {
            let text = format!("KubeStellar's transport has not taken the admitted versions of Binding {name} yet");
            return Err(Finding::unknown(Reason::Placing, text));
        };
        let until = after(held_since.0, self.facts.settings.settle());
        if self.facts.now < until {
            let text = format!(
                "Binding {name} has named the admitted versions since {}: they count from {until} on",
                held_since.0
            );
            return Err(Finding::unknown(Reason::Settling, text).wake_at(until));
        }
        Ok(())
    }
}

/// What a Binding shows of what clusters have.
#[derive(Debug, Default)]
pub(crate) struct Delivery {
    /// What has to be read before the rest is known.
    pub(crate) questions: Vec<Question>,
    /// When that may change by itself.
    pub(crate) wake_at: Option<Timestamp>,
    /// What was watched may be older than what is on record, so it is read before anything is doubted.
    pub(crate) is_read_first: bool,
    /// An object that the Binding names otherwise than its list: nothing holds it.
    pub(crate) broken: Option<ObjectKey>,
}

/// Notes since when a held stage has what is admitted, and of which objects its clusters may have got something else: they have to
/// report anew then.
pub(crate) fn note(input: StageInput<'_>, record: &mut StageStatus) -> Delivery {
    let mut delivery = Delivery::default();
    if !input.facts.is_staged() {
        forget(record);
        return delivery;
    }
    let before = record.clone();
    let placed = Placed::of(input, &before);
    let Ok((entry, binding)) = placed.binding() else {
        record.held_since = None;
        return delivery;
    };
    let is_held = admitted::is_held_as_listed(binding);
    let mut doubtful = note_named(input.facts, (binding, is_held), record, &mut delivery);
    if is_held {
        doubtful.extend(note_taken(input.facts, (entry, binding), record, &mut delivery));
    } else {
        record.held_since = None;
    }
    let is_doubted = record.unproven != before.unproven || contents(record) != contents(&before);
    let is_doubted = is_doubted || !doubtful.is_empty() || delivery.broken.is_some();
    if is_doubted && !input.facts.read.is_anew() {
        *record = StageStatus {
            held_since: None,
            ..before
        };
        delivery.broken = None;
        delivery.is_read_first = true;
        return delivery;
    }
    if !doubtful.is_empty() {
        ObjectTracker::new(input).track(&placed, &doubtful, record);
    }
    delivery
}

/// What is on record of the contents that clusters have.
fn contents(record: &StageStatus) -> Vec<Option<&str>> {
    let contents = record.objects.iter().map(|entry| entry.content_digest.as_deref());
    contents.collect()
}

/// Nothing is held any more, or nothing of it is known.
pub(crate) fn forget(record: &mut StageStatus) {
    record.held_since = None;
    record.hold = HoldTracking::default();
    record.unproven.clear();
    record.objects.iter_mut().for_each(forget_release);
    last_reports::forget(record);
}

/// Whether the release under way has been written will not be known any more.
pub(crate) fn forget_release(entry: &mut ObjectStatus) {
    if entry.before_release.take().is_some() {
        entry.content_digest = Some(ContentDigest::unknown().to_string());
    }
}

/// An object that the Binding names otherwise than its list, although no release is under way: nothing has held it.
pub(crate) fn broken(binding: &Binding, record: &StageStatus) -> Option<ObjectKey> {
    let named = Some(digest_of(&admitted::named(binding)));
    let is_known = named == record.hold.named || named == record.hold.admitted || record.hold.named.is_none();
    let first = admitted::first_unlisted(binding).filter(|_| !is_known)?;
    Some(binding_view::key(first))
}

/// Compares the versions that the Binding names with those that it named last. Returns the objects of which it has named another content
/// than the one on record.
fn note_named<'b>(
    facts: &Facts,
    (binding, is_held): (&'b Binding, bool),
    record: &mut StageStatus,
    delivery: &mut Delivery,
) -> Vec<&'b BoundObject> {
    let named = digest_of(&admitted::named(binding));
    delivery.broken = broken(binding, record);
    let known = record.hold.named.clone();
    if is_held {
        // Otherwise it is compared again, until it is held.
        record.hold.named = Some(named.clone());
    }
    let Some(known) = known else {
        record.objects.iter_mut().for_each(forget_release);
        return Vec::new();
    };
    if known == named {
        return Vec::new();
    }
    if record.hold.admitted.as_ref() == Some(&named) {
        for entry in &mut record.objects {
            entry.before_release = None;
        }
        return Vec::new();
    }
    // A release that was overtaken by the next one, or versions that this stage was not given.
    let mut doubtful = Vec::new();
    let positions = positions(&record.objects);
    for object in binding.spec.workload.objects() {
        let key = binding_view::key(object);
        let Some(entry) = positions.get(&key).map(|at| &mut record.objects[*at]) else {
            continue;
        };
        let is_overtaken = entry.before_release.take().is_some();
        let named = binding_view::resource_version(object);
        let found = found(facts, &key).filter(|found| found.resource_version.borrowed() == named);
        if found.is_some_and(|found| has_content_of(found, entry)) {
            continue;
        }
        if found.is_some() {
            doubtful.push(object);
        } else if entry.content_digest.is_some() {
            entry.content_digest = Some(ContentDigest::unknown().to_string());
        }
        if !(is_held && is_overtaken) {
            note_unproven(&mut record.unproven, &key);
        }
    }
    doubtful
}

/// Looks at the objects once after transport has taken the Binding. Returns those that had a newer version then.
fn note_taken<'b>(
    facts: &Facts,
    (entry, binding): (&BindingFacts, &'b Binding),
    record: &mut StageStatus,
    delivery: &mut Delivery,
) -> Vec<&'b BoundObject> {
    if record.held_since.is_some() && is_noted(facts, binding, record) {
        return Vec::new();
    }
    record.held_since = None;
    note_touched(facts, binding, record);
    let since = match taken_since(facts, (entry, binding)) {
        Some(since) if since <= facts.now => since,
        until => {
            delivery.wake_at = until;
            return Vec::new();
        }
    };
    let is_read = |object: &BoundObject| {
        let known = facts.objects.get(&binding_view::key(object));
        known
            .and_then(|known| known.asked_at)
            .is_some_and(|asked_at| asked_at >= since)
    };
    let unread = binding.spec.workload.objects().filter(|object| !is_read(object));
    delivery.questions = unread.map(|object| question_about(facts, object)).collect();
    if !delivery.questions.is_empty() {
        return Vec::new();
    }
    record.held_since = Some(round_up_to_second(since));
    record.hold.generation = binding.metadata.generation;
    record.hold.is_untaken = !is_transport_there(facts);
    let mut doubtful = Vec::new();
    let positions = positions(&record.objects);
    for object in binding.spec.workload.objects() {
        let key = binding_view::key(object);
        let entry = positions.get(&key).map(|at| &mut record.objects[*at]);
        if !is_newer(facts, object, entry.as_deref()) {
            continue;
        }
        note_unproven(&mut record.unproven, &key);
        match entry {
            Some(entry) if found(facts, &key).is_some_and(|found| !has_content_of(found, entry)) => {
                doubtful.push(object)
            }
            Some(entry) if entry.content_digest.is_some() => {
                entry.content_digest = Some(ContentDigest::unknown().to_string());
            }
            _ => {}
        }
    }
    doubtful
}

/// An object that was edited and edited back, while transport may have read it: clusters may have what it was in between.
fn note_touched(facts: &Facts, binding: &Binding, record: &mut StageStatus) {
    let positions = positions(&record.objects);
    for object in binding.spec.workload.objects().filter(|object| !object.create_only) {
        let key = binding_view::key(object);
        let entry = positions.get(&key).map(|at| &mut record.objects[*at]);
        let Some((entry, found)) = entry.zip(found(facts, &key)) else {
            continue;
        };
        let is_counted = !is_unbound(entry) && entry.generation.is_some() && entry.content_digest.is_some();
        if is_counted && has_content_of(found, entry) && found.generation != entry.generation {
            entry.content_digest = Some(ContentDigest::unknown().to_string());
            note_unproven(&mut record.unproven, &key);
        }
    }
}

/// Since when transport has taken the Binding as it is. Where none runs, observedGeneration stays 0 for ever, on every Binding: then
/// what writes to clusters has had the settle time.
fn taken_since(facts: &Facts, (entry, binding): (&BindingFacts, &Binding)) -> Option<Timestamp> {
    let is_of_it = |seen: &SeenGeneration| Some(seen.generation) == binding.metadata.generation;
    if is_transport_there(facts) {
        return entry.observed.taken.filter(is_of_it).map(|taken| taken.since);
    }
    let written = entry.observed.written.filter(is_of_it)?;
    Some(after(written.since, facts.settings.settle()))
}

fn is_transport_there(facts: &Facts) -> bool {
    let bindings = facts
        .bindings
        .values()
        .filter_map(|entry| entry.object.as_ref()?.object());
    let mut taken = bindings.filter_map(binding_view::taken_generation);
    taken.any(|generation| generation != 0)
}

/// Whether the object had another content than the one that the Binding names when it was read. A resourceVersion may have moved for a
/// status alone.
fn is_newer(facts: &Facts, bound: &BoundObject, entry: Option<&ObjectStatus>) -> bool {
    let key = binding_view::key(bound);
    let named = binding_view::resource_version(bound);
    let known = facts.objects.get(&key);
    if known.is_some_and(|known| known.refused.is_some()) {
        return selected(facts, &key).is_none_or(|object| binding_view::resource_version(object) != named);
    }
    let Some(found) = known.and_then(|known| known.found.as_ref()) else {
        return true;
    };
    let is_status = |entry: &ObjectStatus| {
        let is_edited = found.generation.is_none() || found.generation != entry.generation;
        // With createOnly no edit travels.
        (bound.create_only && found.uid.borrowed() == uid(entry)) || (!is_edited && has_content_of(found, entry))
    };
    found.resource_version.borrowed() != named && !entry.is_some_and(is_status)
}

/// Begins to track a release of this list: what the stage has by its Binding stays on record until KubeStellar has written the release.
pub(crate) fn begin_release((binding, list): (&Binding, &str), record: &mut StageStatus, now: Timestamp) {
    // One before it that was never written has brought nothing.
    if record.hold.named.as_deref() == Some(&*digest_of(&admitted::named(binding))) {
        for entry in &mut record.objects {
            if let Some(before) = &entry.before_release {
                entry.content_digest = Some(before.content_digest.clone());
                entry.pending_updates.clone_from(&before.pending_updates);
            }
        }
    }
    note_admitted(list, record, now);
    record.unproven.clear();
}

/// Notes what the stage has been given.
pub(crate) fn note_admitted(list: &str, record: &mut StageStatus, now: Timestamp) {
    record.hold.admitted = Some(digest_of(list));
    record.hold.admitted_at = Some(round_up_to_second(now));
}

/// Notes what clusters had of the objects that the release brings in another content.
pub(crate) fn note_before_release(before: &[ObjectStatus], record: &mut StageStatus) {
    let positions = positions(before);
    for entry in record.objects.iter_mut().filter(|entry| entry.before_release.is_none()) {
        let known = positions.get(&key_of(entry)).map(|at| &before[*at]);
        let Some(known) = known.filter(|known| known.content_digest != entry.content_digest) else {
            continue;
        };
        entry.before_release = known.content_digest.clone().map(|content_digest| ContentBefore {
            content_digest,
            pending_updates: known.pending_updates.clone(),
        });
    }
}

/// Whether this is the list that the stage was given last: resourceVersions may have moved since, and no version has.
pub(crate) fn is_admitted(list: &str, record: &StageStatus) -> bool {
    record.hold.admitted.as_deref() == Some(&*digest_of(list))
}

fn digest_of(list: &str) -> String {
    Digest::of(&list).to_string()
}

fn found<'a>(facts: &'a Facts, key: &ObjectKey) -> Option<&'a ObjectMeta> {
    facts.objects.get(key)?.found.as_ref()
}

fn has_content_of(found: &ObjectMeta, entry: &ObjectStatus) -> bool {
    found.content_digest.as_ref().map(ToString::to_string) == entry.content_digest
}

pub(crate) fn note_unproven(unproven: &mut Vec<String>, key: &ObjectKey) {
    let name = key.to_string();
    if unproven.len() < MAX_UNPROVEN && !unproven.contains(&name) {
        unproven.push(name);
    }
}

/// From when on a list may be written anew for the versions that the stage has already.
pub(crate) fn list_stays_until(record: &StageStatus) -> Option<jiff::Timestamp> {
    record.hold.admitted_at.as_ref().map(|at| after(at.0, LIST_STAYS))
}

fn is_noted(facts: &Facts, binding: &Binding, record: &StageStatus) -> bool {
    let is_of_it = record.hold.generation.is_some() && record.hold.generation == binding.metadata.generation;
    is_of_it && !(record.hold.is_untaken && is_transport_there(facts))
}

/// The object as KubeStellar has seen it last.
fn selected<'a>(facts: &'a Facts, key: &ObjectKey) -> Option<&'a BoundObject> {
    let policy = facts.policy.object.metadata.name.as_deref().unwrap_or_default();
    let observer = facts.bindings.get(&PlacementName::of_versions(policy))?;
    let mut objects = observer.object.as_ref()?.object()?.spec.workload.objects();
    objects.find(|object| binding_view::key(object) == *key)
}
