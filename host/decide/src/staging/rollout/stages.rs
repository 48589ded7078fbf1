//! Where each stage stands at the revision: passed, active, pending, or gone from the spec. Must not place or remove anything.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::time::round_up_to_second;
use kube::ResourceExt as _;
use stagegate_api::{BindingPolicy, BindingPolicyRef, StageState, StageStatus};

use crate::checks::expressions;
use crate::checks::finding::Finding;
use crate::checks::reason::Reason;
use crate::names::{PlacementName, ResourceVersion, StageName, Uid};
use crate::staging::input::{
    CheckedStage, Decoded, Facts, OwnedPlacement, Slot, binding_view,
    clauses::without_evidence,
    placement::open_placements,
    recorded::{active_stage, destinations, stage_name},
    spec,
};
use crate::staging::rollout::Rollout;
use crate::staging::rollout::repair::is_held_as;
use crate::staging::status::stage;
use crate::staging::updates;

/// Of stages that the spec has no more: as many as the CRD's list holds beside those of the spec.
const GONE_MAX: usize = 32;

/// The names of the BindingPolicies on whose CombinedStatuses a stage may pass: all that are or may be open, except those of passed
/// stages before the latest one, which only stay or are removed.
pub fn placements_to_judge(facts: &Facts) -> BTreeSet<String> {
    let mut names = open_placements(facts);
    if let Ok(mut checked) = spec::checked(facts) {
        // Without known versions no stage has passed.
        updates::resolve(facts, &mut checked);
        let rollout = Rollout::new(facts, &checked);
        let before_latest = 0..rollout.latest().unwrap_or_default();
        for passed in before_latest.filter(|index| rollout.has_passed(*index)) {
            names.remove(rollout.stage(passed).placement.as_str());
        }
    }
    names
}

/// The names of the BindingPolicies that a reading reads: those to judge; those that are missing although there is a Binding of their
/// name; those that the watch reports otherwise than status records them; and those of which status records nothing. The others are as
/// status records them, and a write to one of them is refused if it has changed since.
pub fn placements_to_read(facts: &Facts) -> BTreeSet<String> {
    let mut names = placements_to_judge(facts);
    let bound = facts.bindings.iter().filter(|(_, binding)| binding.object.is_some());
    let missing = bound.filter(|(name, _)| !facts.placements.contains_key(*name));
    names.extend(missing.map(|(name, _)| name.to_string()));
    let policy = &facts.policy.object;
    let records = policy.status.iter().flat_map(|status| &status.stages);
    let placement_of = |stage: StageName<&str>| PlacementName::of(&policy.name_any(), stage);
    let known_otherwise = records.clone().filter_map(|record| {
        let name = placement_of(stage_name(record));
        (!is_as_recorded(record, facts.placements.get(&name))).then(|| name.to_string())
    });
    names.extend(known_otherwise);
    let stages = policy.spec.stages.iter().map(|stage| StageName::of(&stage.name));
    let unrecorded = stages.filter(|stage| !records.clone().any(|record| stage_name(record) == *stage));
    names.extend(unrecorded.map(|stage| placement_of(stage).to_string()));
    names
}

/// Whether the placement is the one that the record is about, and open only if the record says so.
fn is_as_recorded(record: &StageStatus, placement: Option<&Decoded<BindingPolicy>>) -> bool {
    let object = match placement {
        None => None,
        Some(Decoded::Object(object)) => Some(object),
        // It counts as open.
        Some(Decoded::Invalid { .. }) => return true,
    };
    let uid = object.and_then(|object| object.metadata.uid.as_deref());
    let is_open = object.is_some_and(|object| !object.spec.cluster_selectors.is_empty());
    match (&record.binding_policy, record.state) {
        // Status records a removal before the placement is removed: it may still be open.
        (None, StageState::Passed) => !is_open,
        (None, StageState::Pending) => true,
        (None, _) => false,
        (Some(recorded), StageState::Pending) => uid == Some(recorded.uid.as_str()),
        (Some(recorded), _) => uid == Some(recorded.uid.as_str()) && is_open,
    }
}

impl<'a> Rollout<'a> {
    pub(crate) fn stage(&self, index: usize) -> &'a CheckedStage {
        &self.checked.stages[index]
    }

    pub(crate) fn is_stage(&self, placement: &PlacementName) -> bool {
        self.checked.stages.iter().any(|stage| stage.placement == *placement)
    }

    pub(crate) fn last(&self) -> usize {
        self.checked.stages.len() - 1
    }

    pub(crate) fn recorded(&self, index: usize) -> Option<&StageStatus> {
        self.status
            .stages
            .iter()
            .find(|record| stage_name(record) == self.stage(index).name.borrowed())
    }

    pub(crate) fn is_open_at_revision(&self, index: usize) -> bool {
        self.slots[index]
            .open()
            .is_some_and(|own| own.revision == self.checked.revision)
    }

    /// Whether status says that the stage has passed at the revision.
    pub(crate) fn is_recorded_as_passed(&self, index: usize) -> bool {
        self.recorded(index).is_some_and(|record| {
            record.state == StageState::Passed && record.revision.as_deref() == Some(self.checked.revision.as_str())
        })
    }

    /// Whether status says that the stage was placed at the revision and has not passed.
    fn is_recorded_as_unpassed(&self, index: usize) -> bool {
        self.recorded(index).is_some_and(|record| {
            record.passed_at.is_none() && record.revision.as_deref() == Some(self.checked.revision.as_str())
        })
    }

    /// Whether status knows this attempt of the stage. An attempt is first written in the status that also says that all stages before it
    /// have passed, so what that status says of them is not older than the attempt.
    fn is_on_record(&self, index: usize, own: &OwnedPlacement<'_>) -> bool {
        self.recorded(index)
            .is_some_and(|record| stage::is_of(record, own) && record.attempt == Some(own.attempt))
    }

    pub(crate) fn has_passed(&self, index: usize) -> bool {
        self.passed[index]
    }

    /// A stage has passed at the revision when status says so, or a later stage's open placement carries the revision and all stages
    /// between the two have passed; its own placement, if open, carries the revision, too. After an edit of the order of stages the later
    /// one may be judged only now: a stage between them that runs an older revision would get this one although no stage has passed. The
    /// last stage must also still be there, as the spec has it: it stays placed.
    pub(crate) fn passed(&self) -> Vec<bool> {
        let mut passed = vec![false; self.slots.len()];
        for index in (0..passed.len()).rev() {
            let until = (index + 1..passed.len()).find(|later| !passed[*later]);
            let until = until.map_or(passed.len(), |unpassed| unpassed + 1);
            passed[index] = self.is_passed_before(index, index + 1..until);
        }
        passed
    }

    fn is_passed_before(&self, index: usize, mut later: Range<usize>) -> bool {
        let revision = &self.checked.revision;
        let is_recorded = self.is_recorded_as_passed(index);
        let is_behind = later.any(|later| self.is_led_to(later, index));
        let is_own_at_revision = self.slots[index].open().is_none_or(|own| own.revision == *revision);
        let is_standing = index != self.last()
            || self.slots[index]
                .open()
                .is_some_and(|own| !own.is_unstamped && self.is_as_spec(index, own));
        (is_recorded || is_behind) && is_own_at_revision && is_standing
    }

    /// Whether a later stage's open placement says that this one has passed: at the revision, and opened after this one was. A
    /// stage that was moved before one that is open, or came back to an older revision, has led to nothing yet.
    fn is_led_to(&self, later: usize, index: usize) -> bool {
        let Some(after) = self.slots[later].open() else {
            return false;
        };
        // The Go stager writes no baseline; one of ours that has lost it says nothing of when it was opened. What a person has opened has
        // no attempt.
        let is_told = |stage: usize, own: &OwnedPlacement<'_>| {
            self.is_made_by_the_go_stager(stage, own) || (own.attempt > 0 && opened(own).is_some())
        };
        let is_before = |own: &OwnedPlacement<'_>| {
            let pair = opened(own).zip(opened(after));
            pair.is_none_or(|(own, after)| own.is_newer_than(&after) == Some(false))
        };
        let is_after = match &self.slots[index] {
            Slot::Open(own) | Slot::Leaving(own) => is_told(index, own) && is_before(own),
            // A person has closed it.
            Slot::Closed(own) if opened(own).is_some() => is_before(own),
            _ => !(self.is_recorded_as_unpassed(index) && self.is_on_record(later, after)),
        };
        // What cannot be seen now may be open at another revision, or since a moment ago.
        self.is_open_at_revision(later) && is_told(later, after) && is_after && !self.slots[index].may_be_open()
    }

    /// One without annotations that this controller has judged, or that names its StatusCollector, has lost them.
    pub(crate) fn is_made_by_the_go_stager(&self, index: usize, own: &OwnedPlacement<'_>) -> bool {
        let was_judged = self.recorded(index).is_some_and(|record| record.attempt.is_some());
        let clauses = &own.object.spec.downsync;
        own.is_unstamped && !was_judged && without_evidence(clauses) == *clauses
    }

    /// The stages that have not passed, with their places in the spec: those that may still be judged.
    pub(crate) fn ahead(&self) -> impl Iterator<Item = (usize, &'a CheckedStage)> {
        let checked = self.checked;
        checked
            .stages
            .iter()
            .enumerate()
            .filter(|(index, _)| !self.has_passed(*index))
    }

    pub(crate) fn active(&self) -> Option<usize> {
        (0..self.slots.len()).find(|index| !self.has_passed(*index))
    }

    /// The stage that status calls active.
    pub(crate) fn recorded_active(&self) -> Option<StageName> {
        active_stage(self.status).map(|stage| stage.owned())
    }

    /// The latest placement is of a stage that the spec no longer has: it stays, and a human says what is meant.
    pub(crate) fn active_gone(&self) -> Option<Finding> {
        let was_active = |name: &PlacementName| {
            let active = active_stage(self.status);
            active.is_some_and(|stage| PlacementName::of(&self.policy.name_any(), stage) == *name)
        };
        let unreadable = self
            .facts
            .placements
            .iter()
            .find_map(|(name, placement)| match placement {
                Decoded::Invalid { error } if was_active(name) => Some((name, error)),
                _ => None,
            });
        if let Some((name, error)) = unreadable.filter(|(name, _)| !self.is_stage(name)) {
            return Some(Finding::unknown(
                Reason::InvalidObject,
                format!(
                    "BindingPolicy {name} of a stage that spec.stages no longer has cannot be read ({error}): \
                    delete it if it is not needed (this removes its workload from its clusters)"
                ),
            ));
        }
        let none_at_revision = !(0..self.slots.len()).any(|index| self.is_open_at_revision(index));
        let gone = self.gone.iter().filter_map(Slot::open).find(|own| {
            was_active(&PlacementName::of_object(own.object))
                || (none_at_revision && own.revision == self.checked.revision)
        })?;
        let name = gone.object.name_any();
        Some(Finding::unknown(
            Reason::ActiveStageRemoved,
            format!(
                "BindingPolicy {name} places the workload, but spec.stages has no stage of that name any more: \
                give the stage its \
                 name back, or delete BindingPolicy {name} (this removes its workload from its clusters) to go on with the \
                 first stage that has not passed"
            ),
        ))
    }

    /// The stages' records before this decision's findings.
    pub(crate) fn records(&self) -> Vec<StageStatus> {
        (0..self.slots.len())
            .map(|index| {
                let name = self.stage(index).name.to_string();
                let recorded = self.recorded(index);
                let placement = self.slots[index].own().map(|own| BindingPolicyRef {
                    name: own.object.name_any(),
                    uid: own.uid().to_string(),
                });
                if self.has_passed(index) {
                    let revision = Some(self.checked.revision.to_string());
                    let base = recorded
                        .filter(|recorded| recorded.revision == revision)
                        .cloned()
                        .unwrap_or_default();
                    let message = self.joined(index, &base).or_else(|| base.message.clone());
                    let passed_at = base.passed_at.clone().or(Some(round_up_to_second(self.facts.now)));
                    // A cluster that is out of reach keeps what a placement that is gone brought: the next one has to know which version.
                    let objects = match &self.slots[index] {
                        Slot::Absent => stage::of_removed(&base).objects,
                        _ => base.objects.clone(),
                    };
                    return StageStatus {
                        name,
                        revision,
                        state: StageState::Passed,
                        passed_at,
                        binding_policy: placement,
                        objects,
                        message,
                        ..base
                    };
                }
                let open = self.slots[index].open();
                let state = match open {
                    Some(own) if own.revision != self.checked.revision => StageState::Outdated,
                    Some(_) => StageState::Active,
                    None => StageState::Pending,
                };
                let attempt = recorded.and_then(|recorded| recorded.attempt);
                if open.is_none()
                    && let Some(unseen) = recorded.filter(|_| self.slots[index].may_be_open())
                {
                    // Whether it is still placed is unknown: pending updates and what was said stay on record.
                    return unseen.clone();
                }
                // What is placed keeps its record through a change in place: the evidence may stay what it is.
                let base = match (recorded, self.slots[index].own()) {
                    (Some(recorded), _) if open.is_some() => recorded.clone(),
                    (Some(recorded), Some(own)) if stage::is_of(recorded, own) => stage::of_closed(recorded),
                    (Some(recorded), _) => stage::of_removed(recorded),
                    _ => StageStatus::default(),
                };
                StageStatus {
                    name,
                    state,
                    attempt,
                    binding_policy: placement,
                    ..base
                }
            })
            .chain(self.records_of_gone())
            .collect()
    }

    /// A stage that was taken out of the spec, or renamed, may come back: as long as it is placed, its record stays.
    fn records_of_gone(&self) -> impl Iterator<Item = StageStatus> {
        let placed = |record: &&StageStatus| {
            let uid = record.binding_policy.as_ref().map(|placement| Uid::of(&placement.uid));
            self.gone
                .iter()
                .filter_map(Slot::open)
                .any(|own| Some(own.uid()) == uid)
        };
        let in_spec = |record: &&StageStatus| {
            self.checked
                .stages
                .iter()
                .any(|stage| stage.name.borrowed() == stage_name(record))
        };
        let gone = self
            .status
            .stages
            .iter()
            .filter(move |record| !in_spec(record) && placed(record));
        gone.take(GONE_MAX).cloned()
    }

    /// A cluster that joined a stage after it had passed is reported, not evaluated.
    pub(crate) fn joined(&self, index: usize, record: &StageStatus) -> Option<String> {
        let name = &self.stage(index).placement;
        let binding = self.facts.bindings.get(name)?.object.as_ref()?.object()?;
        let joined = binding_view::destinations(binding)
            .into_iter()
            .find(|cluster| !destinations(record).any(|known| known == *cluster))?;
        (!record.destinations.is_empty()).then(|| {
            format!("cluster {joined} joined after this stage had passed: it has the workload, and is not evaluated")
        })
    }

    /// Open, ours by its annotations, at the revision, and just as the spec has it.
    pub(crate) fn is_current(&self, index: usize, own: &OwnedPlacement<'_>) -> bool {
        // Without its baseline nothing could ever count, and without its attempt no verdict: it is placed again, in place.
        let is_stamped = !own.is_unstamped && own.baseline.is_some() && own.attempt > 0;
        is_stamped && own.revision == self.checked.revision && self.is_as_spec(index, own)
    }

    /// Whether an open placement is just as the spec has it.
    fn is_as_spec(&self, index: usize, own: &OwnedPlacement<'_>) -> bool {
        let wanted = self.open_spec(index);
        let spec = &own.object.spec;
        *spec == wanted || (self.facts.is_staged() && is_held_as(spec, &wanted))
    }

    /// What a reader of `Accepted` should know: edits of stages that were passed do nothing on this revision, and what is placed
    /// for a stage that the spec has no more stays until a person deletes it.
    pub(crate) fn accepted_message(&self) -> String {
        if let Some(left) = self.gone.iter().find_map(Slot::open) {
            return format!(
                "BindingPolicy {} places the workload, but spec.stages has no stage of that name any more: delete it if \
                it is not needed (this removes its workload from its clusters)",
                left.object.name_any()
            );
        }
        let edited = (0..self.last()).find(|index| {
            self.has_passed(*index)
                && self.slots[*index].open().is_some_and(|own| {
                    own.object.spec.cluster_selectors != self.policy.spec.stages[*index].cluster_selectors
                })
        });
        let unplaced = (0..self.last()).find(|index| {
            let was_placed = self.recorded(*index).is_some_and(|record| record.placed_at.is_some());
            self.has_passed(*index) && !was_placed && self.slots[*index].own().is_none()
        });
        match edited.or(unplaced) {
            Some(index) => format!(
                "stage {} lies before the active one: its edit has no effect until spec.downsync changes",
                self.stage(index).name
            ),
            None => match expressions::constant(self.facts.answers(), spec::expressions(self.checked)) {
                Some(field) => format!(
                    "the policy can be carried out, but {field} names no variable: it says the same about every object"
                ),
                None => "the policy can be carried out".to_owned(),
            },
        }
    }
}

/// When the placement was opened last, if that is on record and is a version that compares. A baseline outlives changes in place;
/// where nothing else is on record, it is when the placement was first opened.
fn opened<'a>(own: &OwnedPlacement<'a>) -> Option<ResourceVersion<&'a str>> {
    let version = own.opened.or(own.baseline);
    version.filter(|version| version.number().is_some())
}
