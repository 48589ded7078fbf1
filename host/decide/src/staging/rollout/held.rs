//! Stages that are held at admitted versions: what keeps them there, and what has to be known before one gets others. Must not judge a
//! stage, nor find out which versions there are.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;
use stagegate_api::{Binding, StageState, StageStatus};

use crate::checks::finding::Finding;
use crate::checks::reason::Reason;
use crate::names::{ClusterName, ObjectKey, PlacementName};
use crate::staging::evidence::{
    binding::{undelivered, without_undelivered},
    delivery::{self, Delivery, list_stays_until},
    last_reports,
};
use crate::staging::input::{
    OwnedPlacement, Slot, admitted, binding_view,
    placement::{is_identified, precondition},
};
use crate::staging::plan::{Decision, Event, Hold, Placement, Plan, Write};
use crate::staging::rollout::judge::follow;
use crate::staging::rollout::sign_of_life::other_open_spec;
use crate::staging::rollout::{Draft, Rollout};
use crate::staging::status::{self, StatusDraft, stage};
use crate::staging::updates::{Unknown, enforcement};

impl<'a> Rollout<'a> {
    /// While a version is unknown nothing moves: what is placed stays held, and status says what is missing.
    pub(crate) fn wait_for_versions(&self, unknown: Unknown) -> Decision {
        let Unknown {
            finding,
            questions,
            writes,
            is_stalled,
        } = unknown;
        let mut draft = Draft {
            writes: self.collector_writes(),
            questions,
            stalled: is_stalled.then(|| finding.clone()),
            ..Draft::default()
        };
        draft.writes.extend(self.fences());
        let mut stages = self.status.stages.clone();
        let mut held = self.records();
        self.keep_holds(&mut draft, &mut held);
        self.keep_reports(&mut held);
        self.keep_notes(&mut stages, held);
        if !draft.questions.is_empty() {
            return Decision::Ask(draft.questions);
        }
        if !self.policy.spec.paused {
            draft.writes.extend(writes);
        }
        stage::interrupt_soaks(&mut stages, None);
        draft.wake(finding.wake_at);
        let status_draft = StatusDraft {
            stalled: draft.stalled,
            stages,
            ..self.status_of(&finding, self.recorded_active())
        };
        let (status, events) = if finding.is_restart && !draft.is_told_first {
            (None, Vec::new())
        } else {
            status::write(self.facts, status_draft)
        };
        let mut writes = draft.writes;
        let place = if draft.is_told_first { 0 } else { writes.len() };
        writes.splice(place..place, status);
        Decision::Act(Plan {
            writes,
            events: draft.events.into_iter().chain(events).collect(),
            wake_at: draft.wake_at,
            not_after: None,
        })
    }

    /// Takes over what was noted about holds, and nothing else: a broken one is held again by the same plan, and cannot be seen later.
    fn keep_notes(&self, stages: &mut [StageStatus], held: Vec<StageStatus>) {
        for (slot, noted) in self.slots.iter().zip(held) {
            let known = stages.iter_mut().find(|stage| stage.name == noted.name);
            let Some(stage) = known.filter(|_| slot.open().is_some()) else {
                continue;
            };
            stage.held_since = noted.held_since;
            stage.hold = noted.hold;
            stage.unproven = noted.unproven;
            stage.objects = noted.objects;
            stage.message = noted.message;
        }
    }

    /// Holds what is placed and is not held, notes what is, and asks from time to time whether holds are enforced. Where updates are
    /// immediate, nothing is held.
    pub(crate) fn keep_holds(&self, draft: &mut Draft, records: &mut [StageStatus]) {
        if !self.facts.is_staged() {
            self.end_holds(draft);
            records.iter_mut().for_each(delivery::forget);
            return;
        }
        let mut broken = BTreeSet::new();
        for (index, record) in records.iter_mut().enumerate().take(self.slots.len()) {
            let Some(own) = self.slots[index].open() else { continue };
            let before = record.clone();
            let delivery = delivery::note(self.input(index, own, Some(&before)), record);
            let Some(binding) = self.binding_of(own) else { continue };
            self.tell_of_hold((index, binding), (draft, record), &delivery);
            self.tell_of_transport((index, binding), (draft, record));
            draft.ask(delivery.questions);
            draft.wake(delivery.wake_at);
            if delivery.is_read_first {
                draft.ask_for_fresh_read();
            }
            broken.extend(delivery.broken.map(|_| binding.name_any()));
        }
        self.look_at_gone((draft, records), &mut broken);
        for own in self
            .slots
            .iter()
            .chain(&self.gone)
            .filter_map(|slot| self.serving(slot))
        {
            let name = PlacementName::of_object(own.object);
            let Some(binding) = self.binding_of(own) else { continue };
            if broken.contains(name.as_str()) || admitted::list(binding).is_none() {
                draft.hold(&name, binding, admitted::named(binding));
                continue;
            }
            let (wrong, ask_again_at) = enforcement::check(self.facts, &name, &mut draft.questions);
            draft.wake(ask_again_at);
            if let Some(wrong) = wrong {
                draft.wake(wrong.wake_at);
                draft.stalled.get_or_insert(wrong);
            }
        }
    }

    /// The same of stages that the spec has no more: they are held, and nothing is released to them.
    fn look_at_gone(&self, (draft, records): (&mut Draft, &mut [StageStatus]), broken: &mut BTreeSet<String>) {
        for own in self.gone.iter().filter_map(Slot::open) {
            let uid = own.uid().to_string();
            let is_its = |record: &&mut StageStatus| {
                let placement = record.binding_policy.as_ref();
                placement.is_some_and(|placement| placement.uid == uid)
            };
            let Some((binding, record)) = self.binding_of(own).zip(records.iter_mut().find(is_its)) else {
                continue;
            };
            let name = binding.name_any();
            let Some(first) = delivery::broken(binding, record) else {
                continue;
            };
            draft.events.push(Event {
                warning: true,
                reason: Reason::HoldBroken,
                message: names_unadmitted(&name, &record.name, &first),
            });
            delivery::note_unproven(&mut record.unproven, &first);
            broken.insert(name);
        }
    }

    /// Notes what clusters of held stages report now: a restart of KubeStellar takes the reports away.
    pub(crate) fn keep_reports(&self, records: &mut [StageStatus]) {
        for (index, record) in records.iter_mut().enumerate().take(self.slots.len()) {
            if let Some(own) = self.slots[index].open().filter(|_| self.facts.is_staged()) {
                last_reports::note(self.input(index, own, self.recorded(index)), record);
            }
        }
    }

    /// The placement, if it serves clusters or may do so.
    fn serving<'s>(&self, slot: &'s Slot<'a>) -> Option<&'s OwnedPlacement<'a>> {
        slot.open()
            .or_else(|| slot.closed().filter(|own| self.still_serves(own)))
    }

    /// Events about a hold that was lost, and about versions that may have slipped through.
    fn tell_of_hold(
        &self,
        (index, binding): (usize, &Binding),
        (draft, record): (&mut Draft, &StageStatus),
        delivery: &Delivery,
    ) {
        let before = self.recorded(index);
        let stage = &self.stage(index).name;
        let name = binding.name_any();
        let was_held = before.is_some_and(|before| before.hold.named.is_some());
        let mut warn = |reason: Reason, message: String| {
            draft.events.push(Event {
                warning: true,
                reason,
                message,
            });
        };
        if was_held && admitted::list(binding).is_none() {
            let text = format!(
                "Binding {name} of stage {stage} has lost its list of admitted versions: it is held again at the versions that it names now"
            );
            warn(Reason::HoldBroken, text);
        }
        if let Some(first) = &delivery.broken {
            warn(Reason::HoldBroken, names_unadmitted(&name, stage.as_str(), first));
        }
        let known = before.map_or(&[][..], |before| &before.unproven);
        if let Some(first) = record.unproven.iter().find(|name| !known.contains(name)) {
            let text = format!(
                "clusters of stage {stage} may have got a newer version of {first} than the one that Binding {name} admits ({} objects in \
                 all): the stage cannot pass before its next release",
                record.unproven.len()
            );
            warn(Reason::DeliveryUnproven, text);
        }
    }

    /// Says what transport cannot deliver to a stage that has passed or waits for its turn: it then takes away the workload of the whole
    /// Binding.
    fn tell_of_transport(&self, (index, binding): (usize, &Binding), (draft, record): (&mut Draft, &mut StageStatus)) {
        let known = self.recorded(index).and_then(|known| known.message.as_deref());
        let is_told = without_undelivered(known) != known;
        let rest = without_undelivered(record.message.as_deref()).map(str::to_owned);
        let error = undelivered(binding).filter(|_| record.state != StageState::Active);
        let Some(error) = error else {
            record.message = rest;
            return;
        };
        let text = format!("{error}; clusters of stage {} may have lost the workload", record.name);
        if !is_told {
            draft.events.push(Event {
                warning: true,
                reason: Reason::TransportError,
                message: text.clone(),
            });
        }
        record.message = Some(rest.map_or(text.clone(), |rest| format!("{rest}; {text}")));
    }

    /// Where updates are immediate, Bindings that were held are held no more. That lets newer versions through, so a pause puts it off.
    fn end_holds(&self, draft: &mut Draft) {
        if self.policy.spec.paused {
            return;
        }
        for own in self.slots.iter().chain(&self.gone).filter_map(Slot::own) {
            let Some(binding) = self.binding_of(own).filter(|binding| admitted::list(binding).is_some()) else {
                continue;
            };
            if !self.facts.read.is_anew() {
                return draft.ask_for_fresh_read();
            }
            draft.writes.push(Write::Unhold {
                name: PlacementName::of_object(own.object),
                precondition: precondition(&binding.metadata),
            });
        }
    }

    /// Whether the stage's Binding lists the versions that the stage is to have.
    pub(crate) fn is_released(&self, index: usize, own: &OwnedPlacement<'_>) -> bool {
        let list = self.binding_of(own).and_then(admitted::list);
        let is_known = |record: &StageStatus| list.is_some_and(|list| delivery::is_admitted(list, record));
        self.is_up_to_date(index, own) || self.recorded(index).is_some_and(is_known)
    }

    /// Whether its list has the resourceVersions of now.
    pub(crate) fn is_up_to_date(&self, index: usize, own: &OwnedPlacement<'_>) -> bool {
        let wanted = self.stage(index).admitted.as_deref();
        wanted.is_none() || wanted == self.binding_of(own).and_then(admitted::list)
    }

    /// What is missing before a held stage may be opened, or may get other versions; `None`: nothing, or no stage is held.
    pub(crate) fn require_hold(&self, index: usize, own: &OwnedPlacement<'_>, draft: &mut Draft) -> Option<Finding> {
        let stage = self.stage(index);
        let (wanted, name) = (stage.admitted.as_ref()?, &stage.placement);
        let Some(binding) = self.binding_of(own) else {
            let text = format!(
                "no Binding {name} yet that could be held: KubeStellar writes it about 2 s after the BindingPolicy"
            );
            return Some(Finding::unknown(Reason::BindingMissing, text));
        };
        let list = admitted::list(binding);
        if self.slots[index].closed().is_some() && list != Some(&**wanted) {
            draft.hold(name, binding, wanted.to_string());
            return Some(Finding::unknown(
                Reason::Opening,
                format!("holding Binding {name} before stage {} is opened", stage.name),
            ));
        }
        if list.is_none() {
            return Some(Finding::unknown(
                Reason::Opening,
                format!("holding Binding {name} at the versions that it names"),
            ));
        }
        if let Some(shared) = self.shared_cluster(index, binding) {
            draft.stalled = Some(shared.clone());
            return Some(shared);
        }
        let asked = draft.questions.len();
        let missing = enforcement::require(self.facts, name, &mut draft.questions).err()?;
        if draft.questions.len() == asked && missing.reason == Reason::HoldsNotEnforced {
            draft.stalled = Some(missing.clone());
        }
        draft.wake(missing.wake_at);
        Some(missing)
    }

    /// What stands in the way of evaluating a held stage that is open: a report of a cluster may come from another placement.
    pub(crate) fn shared_with_another(&self, index: usize) -> Option<Finding> {
        let own = self.slots[index].open().filter(|_| self.facts.is_staged())?;
        self.shared_cluster(index, self.binding_of(own)?)
    }

    /// Two placements bring the same objects to one cluster: at different versions they would take turns there.
    fn shared_cluster(&self, index: usize, binding: &Binding) -> Option<Finding> {
        let clusters: BTreeSet<ClusterName<&str>> = binding_view::destinations(binding).into_iter().collect();
        let stages = self.slots.iter().enumerate().filter(|(other, _)| *other != index);
        let others = stages
            .map(|(_, slot)| slot)
            .chain(&self.gone)
            .filter_map(|slot| self.serving(slot));
        let mut at_other_versions = others.filter(|own| own.revision != self.checked.revision);
        at_other_versions.find_map(|own| {
            let destinations = binding_view::destinations(self.binding_of(own)?);
            let shared = destinations.into_iter().find(|cluster| clusters.contains(cluster))?;
            let text = format!(
                "cluster {shared} belongs to stage {} and to BindingPolicy {}, which are to have different versions: nothing is released, and \
                 the stage is not evaluated; a cluster that was moved from one to the other has to go back until both have the same version, \
                 otherwise change clusterSelectors so that no cluster belongs to both",
                self.stage(index).name,
                own.object.name_any()
            );
            Some(Finding::unknown(Reason::SharedCluster, text))
        })
    }

    /// The write that lets an open stage have the versions of the revision; `None`: no stage is held.
    pub(crate) fn release(&self, index: usize, own: &OwnedPlacement<'_>) -> Option<Write> {
        let stage = self.stage(index);
        let (wanted, binding) = (stage.admitted.as_ref()?, self.binding_of(own)?);
        match hold(&stage.placement, binding, wanted.to_string()) {
            Write::Hold(hold) => Some(Write::Release(hold)),
            _ => None,
        }
    }

    /// Writes the list of a stage anew that is at the revision: resourceVersions have moved and no version has, or the last release was
    /// broken off. KubeStellar may have given up on a list that was refused for long, so its BindingPolicy changes, too.
    pub(crate) fn renew(&self, index: usize, own: &OwnedPlacement<'_>, draft: &mut Draft) -> Finding {
        let stage = self.stage(index);
        let renewing = Finding::unknown(
            Reason::Placing,
            format!(
                "writing the list of admitted versions of Binding {} anew",
                stage.placement
            ),
        );
        if self.policy.spec.paused {
            return renewing;
        }
        let recorded = self
            .recorded(index)
            .filter(|record| record.attempt == Some(own.attempt));
        if let Some(until) = recorded
            .and_then(list_stays_until)
            .filter(|until| self.facts.now < *until)
        {
            draft.wake(Some(until));
            return renewing.wake_at(until);
        }
        if let Some(missing) = self.require_hold(index, own, draft) {
            return missing;
        }
        if !self.facts.read.is_anew() {
            draft.ask_for_fresh_read();
            return renewing;
        }
        if draft.is_fencing(&stage.placement) {
            return renewing;
        }
        draft.writes.push(Write::Fence(Placement {
            name: stage.placement.clone(),
            precondition: own.precondition(),
            spec: other_open_spec(&own.object.spec),
            annotations: BTreeMap::new(),
        }));
        draft.writes.extend(self.release(index, own));
        renewing
    }

    /// The same for all stages that have passed: clusters that join one get what the stage has.
    pub(crate) fn renew_passed(&self, draft: &mut Draft) {
        for index in (0..self.slots.len()).filter(|index| self.has_passed(*index)) {
            if let Some(own) = self.slots[index].open().filter(|own| !self.is_up_to_date(index, own)) {
                self.renew(index, own, draft);
            }
        }
    }

    /// What stages have to acknowledge is noted with their releases: a report that comes right after one must not be taken for an older
    /// one. Status tells of it before it is written.
    pub(crate) fn track_releases(&self, draft: &mut Draft, records: &mut [StageStatus]) {
        for (index, record) in records.iter_mut().enumerate().take(self.slots.len()) {
            let Some(wanted) = &self.stage(index).admitted else {
                continue;
            };
            let name = &self.stage(index).placement;
            let opens = |write: &Write| matches!(write, Write::Open(placement) if placement.name == *name);
            let releases = |write: &Write| matches!(write, Write::Release(hold) if hold.name == *name);
            if draft.writes.iter().any(opens) {
                delivery::note_admitted(wanted, record, self.facts.now);
            }
            let open = self.slots[index].open().filter(|_| draft.writes.iter().any(releases));
            let Some((own, binding)) = open.and_then(|own| Some((own, self.binding_of(own)?))) else {
                continue;
            };
            delivery::begin_release((binding, wanted), record, self.facts.now);
            if own.revision != self.checked.revision {
                // The message was about the release before.
                record.message = None;
            }
            let before = record.clone();
            if let Some((followed, questions)) = follow(self.input(index, own, Some(&before))) {
                record.objects = followed.objects;
                record.named_clusters = followed.named_clusters;
                record.message = followed.message;
                draft.ask(questions);
            }
            delivery::note_before_release(&before.objects, record);
        }
    }

    /// Whether a placement that selects no cluster still serves some: a held Binding never loses all its clusters.
    pub(crate) fn still_serves(&self, own: &OwnedPlacement<'_>) -> bool {
        let binding = self.binding_of(own).filter(|_| self.facts.is_staged());
        binding.is_some_and(|binding| !binding_view::destinations(binding).is_empty())
    }

    /// The Binding of this very placement, if it can be read and written.
    pub(crate) fn binding_of(&self, own: &OwnedPlacement<'_>) -> Option<&'a Binding> {
        let entry = self.facts.bindings.get(&PlacementName::of_object(own.object))?;
        let binding = entry.object.as_ref()?.object()?;
        let is_its =
            binding_view::owner_uid(binding) == Some(own.uid()) && binding.metadata.deletion_timestamp.is_none();
        (is_its && is_identified(&binding.metadata)).then_some(binding)
    }
}

fn names_unadmitted(binding: &str, stage: &str, object: &ObjectKey) -> String {
    format!(
        "Binding {binding} of stage {stage} names a version of {object} that its list does not admit: it is held again at the versions that \
         it names now, and clusters of the stage may have got them"
    )
}

impl Draft {
    /// Holds a Binding at these versions. Status tells of it first: it may be refused, and nothing shows afterwards what was there before.
    fn hold(&mut self, name: &PlacementName, binding: &Binding, versions: String) {
        self.is_told_first = true;
        self.writes.push(hold(name, binding, versions));
    }
}

fn hold(name: &PlacementName, binding: &Binding, versions: String) -> Write {
    Write::Hold(Hold {
        name: name.clone(),
        precondition: precondition(&binding.metadata),
        versions,
    })
}
