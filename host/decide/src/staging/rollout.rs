//! The stage machine: which stage is active, and what is placed, opened, changed or removed for it.
//!
//! All branching about placements is here; what is proven is asked of [`super::judge`] and [`super::handover`].

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::{Resource as _, ResourceExt as _};
use stagegate_api::{
    BindingPolicy, BindingPolicyRef, BindingPolicySpec, Outcome, Phase, PreviousStages, StageState, StageStatus,
    StagedBindingPolicy, StagedBindingPolicyStatus, annotation,
};

use super::binding_part::Placed;
use super::facts::{Facts, Read};
use super::finding::Finding;
use super::handover::{HandOver, Pair, hand_over};
use super::judge::{Judgement, Subjected, foreign_collector, judge};
use super::plan::{Decision, Event, Placement, Plan, Question, Write};
use super::reason::Reason;
use super::slot::{Own, Slot, Stamp, is_owned, precondition};
use super::spec::{Checked, CheckedStage};
use super::status::{self, Standing};
use super::{bound, collector, record};
use crate::names::{Digest, PlacementName};

/// One policy, its stages, and what stands under each stage's name.
pub struct Rollout<'a> {
    facts: &'a Facts,
    checked: &'a Checked,
    policy: &'a StagedBindingPolicy,
    status: StagedBindingPolicyStatus,
    slots: Vec<Slot<'a>>,
    /// Ours, under a name that no stage has (any more).
    gone: Vec<Slot<'a>>,
}

/// What is being put together.
#[derive(Default)]
struct Draft {
    writes: Vec<Write>,
    questions: Vec<Question>,
    events: Vec<Event>,
    wake_at: Option<Timestamp>,
    stalled: Option<Finding>,
    /// Written before the placement that it announces.
    is_status_first: bool,
    /// Only this process is new: status stays as it is.
    is_restart: bool,
}

impl Draft {
    fn wake(&mut self, at: Option<Timestamp>) {
        self.wake_at = match (self.wake_at, at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

impl<'a> Rollout<'a> {
    pub fn new(facts: &'a Facts, checked: &'a Checked) -> Self {
        let slots = checked
            .stages
            .iter()
            .map(|stage| Slot::of(facts, &stage.placement))
            .collect();
        let is_stage = |name: &str| checked.stages.iter().any(|stage| stage.placement.as_str() == name);
        let gone = facts
            .placements
            .iter()
            .filter(|(name, _)| !is_stage(name))
            .filter_map(|(_, placement)| placement.object())
            .filter(|object| is_owned(facts, object))
            .map(|object| Slot::of_object(facts, object))
            .collect();
        let policy = &facts.policy.object;
        Self {
            facts,
            checked,
            policy,
            status: policy.status.clone().unwrap_or_default(),
            slots,
            gone,
        }
    }

    /// Somebody with a newer view of the policy (or a later lease) has been here: this process writes nothing.
    pub fn is_view_stale(&self) -> bool {
        let ours = Stamp::of(self.facts);
        self.slots
            .iter()
            .chain(&self.gone)
            .filter_map(Slot::own)
            .filter_map(|own| own.stamp)
            .any(|stamp| stamp > ours)
    }

    /// Raises the stamps of closed placements after an edit, a pause or a new leader, so that an open which an older
    /// process has decided fails. Clauses are brought up to date on the way.
    pub fn stamps(&self) -> Vec<Write> {
        let stamp = Stamp::of(self.facts);
        let closed = self.slots.iter().filter_map(Slot::closed);
        closed
            .filter(|own| own.stamp != Some(stamp))
            .map(|own| {
                let spec = self.closed_spec();
                let annotations = self.annotations(own.attempt, None);
                Write::Stamp(Placement {
                    name: name_of(own),
                    precondition: own.precondition(),
                    spec,
                    annotations,
                })
            })
            .collect()
    }

    pub fn decide(&self) -> Decision {
        let mut draft = Draft {
            writes: self.collector_writes(),
            ..Draft::default()
        };
        draft.stalled = self
            .facts
            .evidence_collector
            .as_ref()
            .and_then(|live| foreign_collector(&live.object));
        draft.writes.extend(self.stamps());
        let mut records = self.records();
        let active = self.active();
        let standing = match (self.active_gone(), active) {
            (Some(finding), _) => {
                draft.stalled = Some(finding.clone());
                self.standing_of(&finding, self.status.active_stage.clone())
            }
            (None, None) => self.completed(),
            (None, Some(active)) => self.advance(active, &mut draft, &mut records),
        };
        self.remove_previous(&mut draft, &mut records);
        self.finish(draft, records, standing)
    }

    /// Our StatusCollector is created, or put back; one of its name that is not ours is left alone.
    fn collector_writes(&self) -> Vec<Write> {
        let ours = collector::object();
        match &self.facts.evidence_collector {
            None => vec![Write::CreateEvidenceCollector(ours)],
            Some(live) if collector::is_ours(&live.object) && !collector::has_our_spec(&live.object) => {
                vec![Write::RestoreEvidenceCollector {
                    precondition: precondition(&live.object.metadata),
                    collector: ours,
                }]
            }
            Some(_) => Vec::new(),
        }
    }

    fn stage(&self, index: usize) -> &'a CheckedStage {
        &self.checked.stages[index]
    }

    fn last(&self) -> usize {
        self.checked.stages.len() - 1
    }

    fn recorded(&self, index: usize) -> Option<&StageStatus> {
        self.status
            .stages
            .iter()
            .find(|record| record.name == self.stage(index).name)
    }

    fn is_open_at_plan(&self, index: usize) -> bool {
        self.slots[index]
            .open()
            .is_some_and(|own| own.plan == self.checked.plan)
    }

    /// A stage has passed at the plan when status says so or a later stage's open placement carries the plan, and its
    /// own, if open, carries it too. The last one must also still be there, as the spec has it: it stays placed.
    fn has_passed(&self, index: usize) -> bool {
        let plan = &self.checked.plan;
        let is_recorded = self
            .recorded(index)
            .is_some_and(|record| record.state == StageState::Passed && record.plan.as_deref() == Some(plan.as_str()));
        let is_behind = (index + 1..self.slots.len()).any(|later| self.is_open_at_plan(later));
        let is_own_at_plan = self.slots[index].open().is_none_or(|own| own.plan == *plan);
        let is_standing = index != self.last()
            || self.slots[index]
                .open()
                .is_some_and(|own| !own.is_unstamped && own.object.spec == self.open_spec(index));
        (is_recorded || is_behind) && is_own_at_plan && is_standing
    }

    fn active(&self) -> Option<usize> {
        (0..self.slots.len()).find(|index| !self.has_passed(*index))
    }

    /// The latest placement is of a stage that the spec no longer has: it stays, and a human says what is meant.
    fn active_gone(&self) -> Option<Finding> {
        let was_active = |name: &str| {
            let active = self.status.active_stage.as_deref();
            active.is_some_and(|stage| PlacementName::of(&self.policy.name_any(), stage).as_str() == name)
        };
        let none_at_plan = !(0..self.slots.len()).any(|index| self.is_open_at_plan(index));
        let gone = self
            .gone
            .iter()
            .filter_map(Slot::open)
            .find(|own| was_active(&own.object.name_any()) || (none_at_plan && own.plan == self.checked.plan))?;
        let name = gone.object.name_any();
        Some(Finding::unknown(
            Reason::ActiveStageRemoved,
            format!(
                "BindingPolicy {name} places the workload, but spec.stages has no stage of that name any more: give the stage its \
                 name back, or delete BindingPolicy {name} to go on with the first stage that has not passed"
            ),
        ))
    }

    /// The stages' records before this decision's findings.
    fn records(&self) -> Vec<StageStatus> {
        (0..self.slots.len())
            .map(|index| {
                let name = self.stage(index).name.clone();
                let recorded = self.recorded(index);
                let placement = self.slots[index].own().map(|own| BindingPolicyRef {
                    name: own.object.name_any(),
                    uid: own.uid().to_owned(),
                });
                if self.has_passed(index) {
                    let plan = Some(self.checked.plan.to_string());
                    let base = recorded
                        .filter(|recorded| recorded.plan == plan)
                        .cloned()
                        .unwrap_or_default();
                    let message = self.joined(index, &base).or_else(|| base.message.clone());
                    let passed_at = base.passed_at.clone().or(Some(Time(self.facts.now)));
                    return StageStatus {
                        name,
                        plan,
                        state: StageState::Passed,
                        passed_at,
                        binding_policy: placement,
                        message,
                        ..base
                    };
                }
                let state = match self.slots[index].open() {
                    Some(own) if own.plan != self.checked.plan => StageState::Outdated,
                    _ => StageState::Pending,
                };
                let base = if state == StageState::Outdated {
                    recorded.cloned().unwrap_or_default()
                } else {
                    StageStatus::default()
                };
                let attempt = recorded.and_then(|recorded| recorded.attempt);
                StageStatus {
                    name,
                    state,
                    attempt,
                    binding_policy: placement,
                    ..base
                }
            })
            .collect()
    }

    /// A cluster that joined a stage after it had passed is reported, not judged.
    fn joined(&self, index: usize, record: &StageStatus) -> Option<String> {
        let name = self.stage(index).placement.as_str();
        let binding = self.facts.bindings.get(name)?.object.as_ref()?.object()?;
        let joined = bound::destinations(binding)
            .into_iter()
            .find(|cluster| !record.destinations.iter().any(|known| known == cluster))?;
        (!record.destinations.is_empty()).then(|| {
            format!("cluster {joined} joined after this stage had passed: it has the workload, and is not judged")
        })
    }

    /// Places and judges the active stage, and opens the next one when all passes.
    fn advance(&self, active: usize, draft: &mut Draft, records: &mut [StageStatus]) -> Standing {
        let stage = self.stage(active);
        let finding = match &self.slots[active] {
            Slot::Open(own) if self.is_current(active, own) => return self.judge(active, draft, records),
            Slot::Open(_) if self.policy.spec.paused => Finding::unknown(
                Reason::Placing,
                format!("stage {} is placed as an older spec had it", stage.name),
            ),
            Slot::Open(_) | Slot::Closed(_) => self.place(active, draft),
            _ => self.prepare(active, draft),
        };
        draft.wake(finding.wake_at);
        self.standing_of(&finding, Some(stage.name.clone()))
    }

    /// Open, ours by its annotations, at the plan, and just as the spec has it.
    fn is_current(&self, index: usize, own: &Own<'_>) -> bool {
        !own.is_unstamped && own.plan == self.checked.plan && own.object.spec == self.open_spec(index)
    }

    fn judge(&self, active: usize, draft: &mut Draft, records: &mut [StageStatus]) -> Standing {
        let stage = self.stage(active);
        let Some(own) = self.slots[active].open() else {
            return self.standing_of(
                &Finding::unknown(Reason::Placing, "not placed"),
                Some(stage.name.clone()),
            );
        };
        let is_removing = self.checked.previous_stages == PreviousStages::Remove;
        let is_handing_over = is_removing && self.slots[..active].iter().any(|slot| slot.open().is_some());
        let judgement = judge(Subjected {
            facts: self.facts,
            stage,
            own,
            recorded: self.recorded(active),
            is_handing_over,
        });
        let Judgement {
            record,
            mut finding,
            questions,
        } = judgement;
        draft.questions.extend(questions);
        records[active] = record;
        let next = (active + 1..self.slots.len()).find(|index| !self.has_passed(*index));
        if !self.policy.spec.paused {
            finding = self.after_judging(Judged { active, next, finding }, draft, records);
        }
        draft.wake(finding.wake_at);
        draft.is_restart = finding.is_restart;
        if finding.outcome == Outcome::Pass
            && next.is_none()
            && matches!(self.facts.read, Read::Anew { .. })
            && !self.policy.spec.paused
        {
            records[active].state = StageState::Passed;
            records[active].passed_at = Some(Time(self.facts.now));
            return self.completed_standing(&finding);
        }
        self.standing_of(&finding, Some(stage.name.clone()))
    }

    /// The next stage is kept ready, closed; when all passes on facts that were just read, it is opened.
    fn after_judging(&self, judged: Judged, draft: &mut Draft, records: &[StageStatus]) -> Finding {
        let Judged { active, next, finding } = judged;
        let has_passed = finding.outcome == Outcome::Pass;
        if has_passed && self.facts.read == Read::Cached {
            let ready = next.is_none_or(|next| self.slots[next].own().is_some());
            if ready && draft.questions.is_empty() {
                draft.questions.push(Question::ReadAnew);
                return finding;
            }
        }
        let Some(next) = next else { return finding };
        match &self.slots[next] {
            Slot::Closed(_) | Slot::Open(_) if !has_passed => finding,
            Slot::Closed(_) | Slot::Open(_) => {
                // Status tells of the verdicts first; a conflict there restarts the round.
                let placing = self.place(next, draft);
                if draft.questions.is_empty() && placing.reason == Reason::Opening {
                    draft.is_status_first = records[active].state == StageState::Active;
                }
                placing
            }
            _ => {
                let waiting = self.prepare(next, draft);
                draft.wake(waiting.wake_at);
                if has_passed { waiting } else { finding }
            }
        }
    }

    /// Nothing of ours stands under the stage's name: create it, closed, unless something is in the way.
    fn prepare(&self, index: usize, draft: &mut Draft) -> Finding {
        let stage = self.stage(index);
        let name = &stage.placement;
        match &self.slots[index] {
            Slot::Undecodable(error) => Finding::unknown(
                Reason::Undecodable,
                format!("BindingPolicy {name} cannot be read ({error}): delete it if it is not needed"),
            ),
            Slot::Foreign => {
                let finding = Finding::unknown(
                    Reason::BindingPolicyForeign,
                    format!(
                        "there is a BindingPolicy {name} that this policy does not own: delete or rename it, or rename stage {}",
                        stage.name
                    ),
                );
                draft.stalled = Some(finding.clone());
                finding
            }
            Slot::Leaving => Finding::unknown(
                Reason::NameInUse,
                format!("the old BindingPolicy {name} is still being deleted"),
            ),
            Slot::Absent
                if self
                    .facts
                    .bindings
                    .get(name.as_str())
                    .is_some_and(|entry| entry.object.is_some()) =>
            {
                Finding::unknown(
                    Reason::NameInUse,
                    format!(
                        "the Binding of an old BindingPolicy {name} is still there: waiting for it to be collected"
                    ),
                )
            }
            _ if self.policy.spec.paused => Finding::unknown(Reason::Paused, "paused"),
            _ => {
                draft.writes.push(Write::CreateClosed(self.closed_policy(index)));
                Finding::unknown(Reason::Placing, format!("creating BindingPolicy {name}, closed"))
            }
        }
    }

    /// Opens, adopts or updates the stage's BindingPolicy, on facts that were just read and on nothing else.
    fn place(&self, index: usize, draft: &mut Draft) -> Finding {
        let stage = self.stage(index);
        if self.policy.spec.stages[index].cluster_selectors.is_empty() {
            return Finding::unknown(
                Reason::NoDestinations,
                format!(
                    "stage {} has no clusterSelectors, so it selects no cluster: add one",
                    stage.name
                ),
            );
        }
        let opening = Finding::unknown(Reason::Opening, format!("opening stage {}", stage.name));
        if self.policy.spec.paused {
            return Finding::unknown(Reason::Paused, format!("stage {} is ready to be opened", stage.name));
        }
        let Read::Anew { baseline } = &self.facts.read else {
            draft.questions.push(Question::ReadAnew);
            return opening;
        };
        let Some(own) = self.slots[index].own() else {
            return opening;
        };
        // A stamp of this same round would change the version that the open is conditional on.
        if draft
            .writes
            .iter()
            .any(|write| matches!(write, Write::Stamp(placement) if placement.name == stage.placement))
        {
            return opening;
        }
        let attempt = own
            .attempt
            .max(
                self.recorded(index)
                    .and_then(|record| record.attempt)
                    .unwrap_or_default(),
            )
            .saturating_add(1);
        let adopting = own.is_unstamped && self.slots[index].open().is_some();
        let placement = Placement {
            name: stage.placement.clone(),
            precondition: own.precondition(),
            spec: if adopting {
                adopted_spec(own.object)
            } else {
                self.open_spec(index)
            },
            annotations: if adopting {
                self.annotations_at(own.plan.clone(), attempt, Some(baseline))
            } else {
                self.annotations(attempt, Some(baseline))
            },
        };
        let text = match &self.slots[index] {
            Slot::Closed(_) => format!("opened stage {}", stage.name),
            _ if adopting => format!("took over BindingPolicy {} of stage {}", stage.placement, stage.name),
            _ => format!("changed the placement of stage {} in place", stage.name),
        };
        draft.events.push(Event {
            warning: false,
            reason: Reason::StageOpened.as_str().to_owned(),
            message: text,
        });
        draft.writes.push(match &self.slots[index] {
            Slot::Closed(_) => Write::Open(placement),
            _ if adopting => Write::Adopt(placement),
            _ => Write::Update(placement),
        });
        opening
    }

    fn completed(&self) -> Standing {
        let finding = match &self.stage(self.last()).condition {
            Some(_) => Finding::pass(Reason::Completed, "all stages have passed"),
            None => Finding::pass(Reason::PlacedNotJudged, ""),
        };
        self.completed_standing(&finding)
    }

    fn completed_standing(&self, finding: &Finding) -> Standing {
        let last = self.stage(self.last());
        let message = if finding.reason == Reason::PlacedNotJudged {
            format!(
                "all stages have passed; the last one, {}, is placed, not judged",
                last.name
            )
        } else {
            format!("all {} stage(s) have passed", self.checked.stages.len())
        };
        let phase = if self.policy.spec.paused {
            Phase::Paused
        } else {
            Phase::Completed
        };
        let reason = if self.policy.spec.paused {
            Reason::Paused
        } else {
            Reason::Completed
        };
        Standing {
            phase,
            reason,
            message,
            ..self.standing_of(finding, Some(last.name.clone()))
        }
    }

    /// The placements before the latest one at the plan go, when it demonstrably serves what they served.
    fn remove_previous(&self, draft: &mut Draft, records: &mut [StageStatus]) {
        if self.policy.spec.paused {
            return;
        }
        // A closed one that no stage needs selects nothing: it may go without proof.
        for own in self.gone.iter().filter_map(Slot::closed) {
            draft.writes.push(Write::Remove {
                name: name_of(own),
                precondition: own.precondition(),
            });
        }
        if self.checked.previous_stages == PreviousStages::Keep || self.active_gone().is_some() {
            return;
        }
        let Some(latest) = (0..self.slots.len()).rev().find(|index| self.is_open_at_plan(*index)) else {
            return;
        };
        let Some(own) = self.slots[latest].open().filter(|own| self.is_current(latest, own)) else {
            return;
        };
        let record = record::roll(self.recorded(latest), own, self.facts.now);
        let placed = Placed {
            facts: self.facts,
            stage: self.stage(latest),
            own,
            record: &record,
        };
        for earlier in 0..latest {
            let Some(previous) = self.slots[earlier].own().filter(|_| self.has_passed(earlier)) else {
                continue;
            };
            let pair = Pair {
                later: &placed,
                earlier: &self.stage(earlier).placement,
                earlier_record: self.recorded(earlier),
            };
            match hand_over(pair, &mut draft.questions) {
                Ok(handed) => {
                    if let HandOver::Unproven(shared) = handed {
                        records[latest].message = Some(format!(
                            "cluster {} was handed over by its rows alone: that the new placement holds the workload there is unproven \
                             without reading the inventory",
                            shared.join(", ")
                        ));
                    }
                    draft.writes.push(Write::Remove {
                        name: self.stage(earlier).placement.clone(),
                        precondition: previous.precondition(),
                    });
                }
                Err(finding) => draft.wake(finding.wake_at),
            }
        }
    }

    fn standing_of(&self, finding: &Finding, active_stage: Option<String>) -> Standing {
        let (phase, reason, message) = Standing::of(finding);
        let is_paused = self.policy.spec.paused;
        Standing {
            phase: if is_paused { Phase::Paused } else { phase },
            reason: if is_paused { Reason::Paused } else { reason },
            message: if is_paused {
                format!("paused: nothing is opened, changed or removed; {message}")
            } else {
                message
            },
            accepted: Ok(self.accepted_message()),
            stalled: None,
            active_stage,
            stages: Vec::new(),
        }
    }

    /// What a reader of `Accepted` should know: edits of stages that were passed do nothing on this plan.
    fn accepted_message(&self) -> String {
        let edited = (0..self.last()).find(|index| {
            self.has_passed(*index)
                && self.slots[*index].open().is_some_and(|own| {
                    own.object.spec.cluster_selectors != self.policy.spec.stages[*index].cluster_selectors
                })
        });
        let unplaced = (0..self.last()).find(|index| {
            self.has_passed(*index) && self.recorded(*index).is_none() && self.slots[*index].own().is_none()
        });
        match edited.or(unplaced) {
            Some(index) => format!(
                "stage {} lies before the active one: its edit has no effect until spec.downsync changes",
                self.stage(index).name
            ),
            None => "the policy can be carried out".to_owned(),
        }
    }

    fn finish(&self, mut draft: Draft, records: Vec<StageStatus>, mut standing: Standing) -> Decision {
        if !draft.questions.is_empty() {
            return Decision::Ask(draft.questions);
        }
        if standing.phase != Phase::Completed
            && let Some(stalled) = &draft.stalled
        {
            standing.reason = stalled.reason;
            standing.message.clone_from(&stalled.message);
        }
        standing.stalled = draft.stalled.take();
        standing.stages = records;
        let (write, events) = if draft.is_restart {
            (None, Vec::new())
        } else {
            status::write(self.facts, standing)
        };
        let mut writes = Vec::new();
        if draft.is_status_first {
            writes.extend(write);
            writes.extend(draft.writes);
        } else {
            writes.extend(draft.writes);
            writes.extend(write);
        }
        Decision::Act(Plan {
            writes,
            events: draft.events.into_iter().chain(events).collect(),
            wake_at: draft.wake_at,
        })
    }

    fn open_spec(&self, index: usize) -> BindingPolicySpec {
        let cluster_selectors = self.policy.spec.stages[index].cluster_selectors.clone();
        BindingPolicySpec {
            cluster_selectors,
            ..self.closed_spec()
        }
    }

    fn closed_spec(&self) -> BindingPolicySpec {
        BindingPolicySpec {
            cluster_selectors: Vec::new(),
            downsync: collector::with_evidence(&self.policy.spec.downsync),
        }
    }

    fn closed_policy(&self, index: usize) -> BindingPolicy {
        let mut object = BindingPolicy::new(self.stage(index).placement.as_str(), self.closed_spec());
        object.meta_mut().owner_references = Some(vec![self.owner()]);
        object.annotations_mut().extend(self.annotations(0, None));
        object
    }

    /// The policy as owner: its deletion removes the placements, `--cascade=orphan` leaves them.
    fn owner(&self) -> OwnerReference {
        OwnerReference {
            api_version: StagedBindingPolicy::api_version(&()).into_owned(),
            kind: StagedBindingPolicy::kind(&()).into_owned(),
            name: self.policy.name_any(),
            uid: self.policy.meta().uid.clone().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: Some(false),
        }
    }

    fn annotations(&self, attempt: i64, baseline: Option<&String>) -> BTreeMap<String, String> {
        self.annotations_at(self.checked.plan.clone(), attempt, baseline)
    }

    fn annotations_at(&self, plan: Digest, attempt: i64, baseline: Option<&String>) -> BTreeMap<String, String> {
        let mut annotations = BTreeMap::from([
            (annotation::PLAN.to_owned(), plan.to_string()),
            (annotation::ATTEMPT.to_owned(), attempt.to_string()),
            (annotation::STAMP.to_owned(), Stamp::of(self.facts).to_string()),
        ]);
        annotations.extend(baseline.map(|baseline| (annotation::BASELINE.to_owned(), baseline.clone())));
        annotations
    }
}

/// The active stage, the one after it, and what was found.
struct Judged {
    active: usize,
    next: Option<usize>,
    finding: Finding,
}

/// What the Go stager wrote, with our collector added: the same objects in the same clusters.
fn adopted_spec(object: &BindingPolicy) -> BindingPolicySpec {
    BindingPolicySpec {
        cluster_selectors: object.spec.cluster_selectors.clone(),
        downsync: collector::with_evidence(&object.spec.downsync),
    }
}

fn name_of(own: &Own<'_>) -> PlacementName {
    PlacementName::of_object(own.object)
}
