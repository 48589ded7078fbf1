//! Whether clusters get just the versions that are admitted to a stage. Must not admit any.
//!
//! KubeStellar's transport reads objects as they are some time after KubeStellar has written the Binding. If all of them still have the
//! versions that the Binding names, it can have read no others: a version of an object never comes back.

use jiff::SignedDuration;
use stagegate_api::staged_status::MAX_UNPROVEN;
use stagegate_api::{Binding, BoundObject, StageStatus};

use crate::checks::finding::Finding;
use crate::checks::reason::Reason;
use crate::names::{ObjectKey, PlacementName};
use crate::staging::evidence::binding::Placed;
use crate::staging::input::{Facts, admitted, binding_view, recorded::key_of};
use crate::time::{after, round_up_to_second};

/// How long a list of admitted versions stays as it is while resourceVersions move and no version does.
const LIST_STAYS: SignedDuration = SignedDuration::from_secs(30);

impl Placed<'_> {
    /// Fails unless the Binding of a held stage has named just the admitted versions for the settle time, and they are still the newest.
    pub(crate) fn require_admitted(&self, binding: &Binding) -> Result<(), Finding> {
        let Some(wanted) = &self.stage.admitted else {
            return Ok(());
        };
        let name = &self.stage.placement;
        let Some(list) = admitted::list(binding) else {
            let text = format!(
                "Binding {name} has no list of admitted versions: it is held at the versions that it names now"
            );
            return Err(Finding::unknown(Reason::Placing, text));
        };
        if list != &**wanted {
            let text = format!(
                "the list of admitted versions of Binding {name} is older than the objects, and is written anew"
            );
            return Err(Finding::unknown(Reason::Placing, text));
        }
        if list != admitted::named(binding) {
            let text = format!("KubeStellar has not written the admitted versions into Binding {name} yet");
            return Err(Finding::unknown(Reason::Placing, text));
        }
        let held_since = self
            .record
            .held_since
            .as_ref()
            .filter(|_| is_noted(binding, self.record));
        let Some(held_since) = held_since else {
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

/// Notes since when a Binding has named just what is admitted, and which objects had another version then.
pub(crate) fn note_hold(facts: &Facts, binding: &Binding, record: &mut StageStatus) {
    if !facts.is_staged() {
        (record.held_since, record.held_generation) = (None, None);
        record.unproven.clear();
        return;
    }
    if !(admitted::is_held_as_listed(binding) && is_taken(facts, binding)) {
        record.held_since = None;
        return;
    }
    if record.held_since.is_some() && is_noted(binding, record) {
        return;
    }
    record.held_since = Some(round_up_to_second(facts.now));
    record.held_generation = binding.metadata.generation;
    for object in binding.spec.workload.objects() {
        if has_newer(facts, object) {
            note_unproven(record, binding_view::key(object).to_string());
        }
    }
}

/// Notes which objects the Binding names at a newer version than was admitted. Nobody knows what clusters have of them.
pub(crate) fn note_broken(binding: &Binding, record: &mut StageStatus) {
    for object in admitted::newer_than_listed(binding) {
        let key = binding_view::key(object);
        note_unproven(record, key.to_string());
        if let Some(entry) = record.objects.iter_mut().find(|entry| key_of(entry) == key) {
            entry.content_digest = None;
        }
    }
}

fn note_unproven(record: &mut StageStatus, name: String) {
    if record.unproven.len() < MAX_UNPROVEN && !record.unproven.contains(&name) {
        record.unproven.push(name);
    }
}

/// From when on a list may be written anew for the versions that the stage has already.
pub(crate) fn list_stays_until(record: &StageStatus) -> Option<jiff::Timestamp> {
    record.held_since.as_ref().map(|since| after(since.0, LIST_STAYS))
}

fn is_noted(binding: &Binding, record: &StageStatus) -> bool {
    record.held_generation.is_some() && record.held_generation == binding.metadata.generation
}

/// Transport says which generation of a Binding it has taken; where none runs this stays 0 for ever, on every Binding.
fn is_taken(facts: &Facts, binding: &Binding) -> bool {
    let taken = |binding: &Binding| binding.status.as_ref().map_or(0, |status| status.observed_generation);
    let mut others = facts
        .bindings
        .values()
        .filter_map(|entry| entry.object.as_ref()?.object());
    let is_there = taken(binding) != 0 || others.any(|binding| taken(binding) != 0);
    !is_there || Some(taken(binding)) == binding.metadata.generation
}

/// Whether the object has another version than the one that the Binding names, as far as is known.
fn has_newer(facts: &Facts, bound: &BoundObject) -> bool {
    let key = binding_view::key(bound);
    let named = binding_view::resource_version(bound);
    let found = facts.objects.get(&key).and_then(|known| known.found.as_ref());
    let is_other = found.is_some_and(|found| found.resource_version.borrowed() != named);
    is_other || selected(facts, &key).is_some_and(|object| binding_view::resource_version(object) != named)
}

/// The object as KubeStellar has seen it last.
fn selected<'a>(facts: &'a Facts, key: &ObjectKey) -> Option<&'a BoundObject> {
    let policy = facts.policy.object.metadata.name.as_deref().unwrap_or_default();
    let observer = facts.bindings.get(&PlacementName::of_versions(policy))?;
    let mut objects = observer.object.as_ref()?.object()?.spec.workload.objects();
    objects.find(|object| binding_view::key(object) == *key)
}
