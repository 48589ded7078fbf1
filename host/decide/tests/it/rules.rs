//! What must hold of every plan in the world it was made for, read from the facts and the plan alone: whatever is placed,
//! is placed on proof, in its turn, under the version that was read; whatever is removed, is covered. Must not decide.

use std::collections::{BTreeMap, BTreeSet};

use stagegate_api::{
    BindingPolicy, CheckStatus, Outcome, PreviousStages, Stage, StageHealth, StageState, StageStatus, annotation,
};
use stagegate_decide::names::{Digest, PlacementName, StageName};
use stagegate_decide::precondition::Precondition;
use stagegate_decide::staging::{BindingFacts, Decoded, Facts, Placement, Plan, Read, Root, Write, revision_of};

use crate::world::{short, status_after};

/// Every rule that the plan breaks, as a sentence; none for a good one.
pub fn broken(plan: &Plan, facts: &Facts) -> Vec<String> {
    let made = Made::new(plan, facts);
    let mut broken = Vec::new();
    let placed = plan.writes.iter().filter(|write| write.places()).count();
    if placed > 1 {
        broken.push(format!("{placed} placements in one plan"));
    }
    if is_moving(plan) && !matches!(plan.writes.first(), Some(Write::Status { .. })) {
        broken.push("moves before status tells of it".to_owned());
    }
    if is_moving(plan) && plan.not_after.is_none() {
        broken.push("moves without a bound in time".to_owned());
    }
    for write in &plan.writes {
        let wrong = [
            made.is_still(write),
            made.is_conditional(write),
            made.is_read_anew(write),
            made.is_justified(write),
            made.is_covered(write),
        ];
        broken.extend(
            wrong
                .into_iter()
                .flatten()
                .map(|text| format!("{}: {text}", short(write))),
        );
    }
    broken.extend(made.unproven_passes());
    broken.extend(unprintable(plan, facts));
    broken
}

/// The place of every sentence for people that holds a character with an effect on a terminal.
pub fn unprintable(plan: &Plan, facts: &Facts) -> Vec<String> {
    let status = status_after(plan, facts);
    let mut texts: Vec<(String, &str)> = Vec::new();
    for condition in &status.conditions {
        texts.push((format!("condition {}", condition.type_), &condition.message));
    }
    for stage in &status.stages {
        let of_stage = stage.message.iter().chain(&stage.not_evaluated);
        texts.extend(of_stage.map(|text| (format!("stage {}", stage.name), text.as_str())));
        for check in &stage.checks {
            let pieces = check.evidence.iter().flat_map(|piece| [&piece.name, &piece.value]);
            let of_check = pieces.chain([&check.message]);
            texts.extend(of_check.map(|text| (format!("check {}", check.name), text.as_str())));
        }
    }
    let events = plan.events.iter();
    texts.extend(events.map(|event| (format!("Event {}", event.reason.as_str()), event.message.as_str())));
    // In addition to control characters: those that change the direction of writing, end a line, or are invisible.
    let is_bad = |c: char| {
        c.is_control() || "\u{61c}\u{200b}\u{200e}\u{200f}\u{2028}\u{2029}\u{202e}\u{2066}\u{feff}".contains(c)
    };
    let bad = texts.into_iter().filter(|(_, text)| text.contains(is_bad));
    bad.map(|(place, text)| format!("{place} is not printable: {text:?}"))
        .collect()
}

fn is_moving(plan: &Plan) -> bool {
    plan.writes
        .iter()
        .any(|write| write.places() || matches!(write, Write::Remove { .. }))
}

struct Made<'a> {
    facts: &'a Facts,
    revision: Digest,
    stages: &'a [Stage],
    before: BTreeMap<String, StageStatus>,
    after: BTreeMap<String, StageStatus>,
}

impl<'a> Made<'a> {
    fn new(plan: &Plan, facts: &'a Facts) -> Self {
        let spec = &facts.policy.object.spec;
        let by_name = |stages: Vec<StageStatus>| stages.into_iter().map(|stage| (stage.name.clone(), stage)).collect();
        let before = facts.policy.object.status.clone().unwrap_or_default();
        Self {
            facts,
            revision: revision_of(&spec.downsync),
            stages: &spec.stages,
            before: by_name(before.stages),
            after: by_name(status_after(plan, facts).stages),
        }
    }

    /// A policy that is paused changes nothing but status and fencing tokens; one that is being deleted writes nothing.
    fn is_still(&self, write: &Write) -> Option<String> {
        let policy = &self.facts.policy.object;
        if policy.metadata.deletion_timestamp.is_some() {
            return Some("the policy is being deleted".to_owned());
        }
        let changes = write.places() || matches!(write, Write::Remove { .. } | Write::CreateClosed(_));
        (policy.spec.paused && changes).then(|| "the policy is paused".to_owned())
    }

    /// Every change names the uid and the version that were read, and is of an object that the policy owns.
    fn is_conditional(&self, write: &Write) -> Option<String> {
        let (name, precondition) = match write {
            Write::Open(placement) | Write::Update(placement) | Write::Adopt(placement) | Write::Fence(placement) => {
                (placement.name.as_str(), &placement.precondition)
            }
            Write::Release(hold) | Write::Hold(hold) => {
                return self.is_of_binding(hold.name.as_str(), &hold.precondition);
            }
            Write::Unhold { name, precondition } => return self.is_of_binding(name.as_str(), precondition),
            Write::Remove { name, precondition } => (name.as_str(), precondition),
            Write::Status { precondition, .. } => {
                return differs(&self.facts.policy.object.metadata, precondition);
            }
            Write::RestoreEvidenceCollector { precondition, .. } => {
                let live = self.facts.evidence_collector.as_ref();
                return live.map_or_else(
                    || Some("it is not there".to_owned()),
                    |live| differs(&live.object.metadata, precondition),
                );
            }
            Write::CreateClosed(policy) => {
                let is_placing = !policy.spec.cluster_selectors.is_empty();
                return is_placing.then(|| "it is created open".to_owned());
            }
            Write::CreateEvidenceCollector(_) => return None,
        };
        let Some(object) = self.object(name) else {
            return Some("it is not there".to_owned());
        };
        let uid = self.facts.policy.object.metadata.uid.as_ref();
        let mut owners = object.metadata.owner_references.iter().flatten();
        if !owners.any(|owner| Some(&owner.uid) == uid) {
            return Some("it is not the policy's".to_owned());
        }
        differs(&object.metadata, precondition)
    }

    fn is_of_binding(&self, name: &str, precondition: &Precondition) -> Option<String> {
        let binding = self.facts.bindings.get(name)?.object.as_ref()?.object();
        binding.map_or_else(
            || Some("it is not there".to_owned()),
            |binding| differs(&binding.metadata, precondition),
        )
    }

    fn is_read_anew(&self, write: &Write) -> Option<String> {
        let takes_away = matches!(write, Write::Remove { name, .. } if self.is_open(name.as_str()));
        let is_cached = match self.facts.read {
            Read::Cached => write.places() || takes_away,
            Read::Placements => write.places() || (takes_away && self.shares_a_cluster(write)),
            Read::Anew { .. } => false,
        };
        is_cached.then(|| "decided on a cache".to_owned())
    }

    /// Whether the last open placement has a cluster of the one that is removed, or may have one.
    fn shares_a_cluster(&self, write: &Write) -> bool {
        let Write::Remove { name, .. } = write else {
            return false;
        };
        let clusters = |binding: &BindingFacts| -> BTreeSet<String> {
            let binding = binding.object.as_ref().and_then(Decoded::object);
            let destinations = binding.into_iter().flat_map(|binding| &binding.spec.destinations);
            destinations.map(|destination| destination.cluster_id.clone()).collect()
        };
        let of = |placement: &PlacementName| self.facts.bindings.get(placement).map(clusters).unwrap_or_default();
        let status = self.facts.policy.object.status.as_ref();
        let records = status.iter().flat_map(|status| &status.stages);
        let mut records = records.filter(|record| placement_of(self.facts, &record.name) == *name);
        let recorded = records.next().map(|record| record.destinations.clone());
        let own: BTreeSet<String> = of(name).into_iter().chain(recorded.unwrap_or_default()).collect();
        let mut names = self.stages.iter().map(|stage| placement_of(self.facts, &stage.name));
        let last = names.rfind(|name| self.is_open(name.as_str()));
        last.is_none_or(|last| own.is_empty() || !of(&last).is_disjoint(&own))
    }

    /// What is placed is the policy's plan at a stage whose predecessors have all passed at it; only what the Go stager
    /// made keeps the clauses it has.
    fn is_justified(&self, write: &Write) -> Option<String> {
        let (Write::Open(placement) | Write::Update(placement) | Write::Adopt(placement)) = write else {
            return None;
        };
        let Some(index) = self.stage_of(placement.name.as_str()) else {
            return Some("it is of no stage".to_owned());
        };
        if !matches!(write, Write::Adopt(_)) {
            if placement.annotations.get(annotation::REVISION).map(String::as_str) != Some(self.revision.as_str()) {
                return Some("it is not placed at the revision".to_owned());
            }
            if placement.spec.cluster_selectors != self.stages[index].cluster_selectors {
                return Some("it is not placed where its stage says".to_owned());
            }
        }
        if !self.is_newer_attempt(write, placement) {
            return Some("old verdicts would count for it".to_owned());
        }
        let missing = self.stages[..index].iter().find(|stage| !self.has_passed(stage));
        missing.map(|stage| format!("stage {} before it has not passed", stage.name))
    }

    /// Where the policy has changed, the attempt grows; somebody's change of the placement is put back in the same one.
    fn is_newer_attempt(&self, write: &Write, placement: &Placement) -> bool {
        let Some(object) = self.object(placement.name.as_str()) else {
            return false;
        };
        let number = |annotations: &BTreeMap<String, String>| {
            let text = annotations.get(annotation::ATTEMPT)?;
            text.parse::<i64>().ok()
        };
        let old = object.metadata.annotations.as_ref();
        let is_put_back = !matches!(write, Write::Open(_))
            && self.revision_at(placement.name.as_str()).as_deref() == Some(self.revision.as_str())
            && old.and_then(|old| old.get(annotation::FENCING_TOKEN))
                == placement.annotations.get(annotation::FENCING_TOKEN);
        is_put_back || number(&placement.annotations) > old.and_then(number).or(Some(0))
    }

    /// An open placement goes only where a later one at the revision is there and stays.
    fn is_covered(&self, write: &Write) -> Option<String> {
        let Write::Remove { name, .. } = write else { return None };
        if !self.is_open(name.as_str()) {
            return None;
        }
        if self.facts.policy.object.spec.previous_stages == PreviousStages::Keep {
            return Some("passed stages keep the workload".to_owned());
        }
        let Some(index) = self.stage_of(name.as_str()) else {
            return Some("it is open, and of no stage".to_owned());
        };
        let is_later = |stage: &Stage| {
            let placement = self.placement_of(stage);
            self.is_open(&placement) && self.revision_at(&placement).as_deref() == Some(self.revision.as_str())
        };
        let is_covered = self.stages[index + 1..].iter().any(is_later);
        (!is_covered).then(|| "no later stage has the workload".to_owned())
    }

    /// A stage that status calls passed, and did not before, has all its checks' passes on record at this plan, or the
    /// plan is in a later stage already.
    fn unproven_passes(&self) -> Vec<String> {
        let newly = self.stages.iter().enumerate().filter(|(_, stage)| {
            let at_plan = |records: &BTreeMap<String, StageStatus>| {
                records.get(&stage.name).is_some_and(|record| {
                    record.state == StageState::Passed && record.revision.as_deref() == Some(self.revision.as_str())
                })
            };
            at_plan(&self.after) && !at_plan(&self.before)
        });
        let unproven = newly.filter(|(index, stage)| {
            let is_behind = self.stages[index + 1..].iter().any(|later| {
                let placement = self.placement_of(later);
                self.is_open(&placement) && self.revision_at(&placement).as_deref() == Some(self.revision.as_str())
            });
            !is_behind && !self.has_proof(stage)
        });
        unproven
            .map(|(_, stage)| format!("stage {} is called passed without proof", stage.name))
            .collect()
    }

    fn has_passed(&self, stage: &Stage) -> bool {
        let record = self.after.get(&stage.name);
        let is_at_revision = record.is_some_and(|record| record.revision.as_deref() == Some(self.revision.as_str()));
        is_at_revision && (record.is_some_and(|record| record.state == StageState::Passed) || self.has_proof(stage))
    }

    /// Each check that the stage has is on record as passed, the condition as it stands in the spec.
    fn has_proof(&self, stage: &Stage) -> bool {
        let Some(record) = self.after.get(&stage.name) else {
            return false;
        };
        let passed = |name: &str| -> Option<&CheckStatus> {
            let check = record.checks.iter().find(|check| check.name == name)?;
            (check.outcome == Outcome::Pass).then_some(check)
        };
        let needs_health = stage.health == StageHealth::Required;
        let is_judged = needs_health || stage.condition.is_some() || !stage.gates.is_empty();
        let condition = stage.condition.as_ref().is_none_or(|text| {
            let digest = Digest::of(&(Root::CombinedStatus, text)).to_string();
            passed("condition").is_some_and(|check| check.check_digest.as_ref() == Some(&digest))
        });
        (!is_judged || passed("evidence").is_some())
            && (!needs_health || passed("health").is_some())
            && condition
            && stage
                .gates
                .iter()
                .all(|gate| passed(&format!("gate/{}", gate.name)).is_some())
            && (stage.filter.is_none() || !is_judged || passed("filter").is_some())
            && (stage.soak.is_none() || passed("soak").is_some())
    }

    fn stage_of(&self, placement: &str) -> Option<usize> {
        self.stages
            .iter()
            .position(|stage| self.placement_of(stage) == placement)
    }

    fn placement_of(&self, stage: &Stage) -> String {
        let policy = self.facts.policy.object.metadata.name.as_deref().unwrap_or_default();
        format!("{policy}.stage.{}", stage.name)
    }

    fn object(&self, placement: &str) -> Option<&'a BindingPolicy> {
        self.facts.placements.get(placement).and_then(Decoded::object)
    }

    fn is_open(&self, placement: &str) -> bool {
        self.object(placement)
            .is_some_and(|object| !object.spec.cluster_selectors.is_empty())
    }

    /// Its annotation, or what its clauses are where the Go stager made it.
    fn revision_at(&self, placement: &str) -> Option<String> {
        let object = self.object(placement)?;
        let annotations = object.metadata.annotations.as_ref();
        let fenced = annotations.and_then(|annotations| annotations.get(annotation::REVISION));
        Some(fenced.map_or_else(|| revision_of(&object.spec.downsync).to_string(), Clone::clone))
    }
}

fn differs(
    metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    precondition: &Precondition,
) -> Option<String> {
    let is_same = metadata.uid.as_deref() == Some(precondition.uid.as_str())
        && metadata.resource_version.as_deref() == Some(precondition.resource_version.as_str())
        && !precondition.uid.is_empty()
        && !precondition.resource_version.is_empty();
    (!is_same).then(|| format!("{precondition:?} is not what was read"))
}

fn placement_of(facts: &Facts, stage: &str) -> PlacementName {
    let policy = facts.policy.object.metadata.name.as_deref().unwrap_or_default();
    PlacementName::of(policy, StageName::of(stage))
}
