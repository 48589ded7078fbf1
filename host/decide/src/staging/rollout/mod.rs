//! The stage machine: which stage is active, and what is placed, opened, changed or removed for it.
//!
//! The branching is here. Where each stage stands is in [`super::stages`], the writes are in [`super::placing`].

pub(crate) mod completed;
pub(crate) mod drift;
pub(crate) mod handover;
pub(crate) mod held;
pub(crate) mod judge;
pub(crate) mod placing;
pub(crate) mod repair;
pub(crate) mod sign_of_life;
pub(crate) mod stages;

use crate::staging::evidence::{collector, last_reports};
use crate::time::round_up_to_second;
use std::sync::LazyLock;

use jiff::Timestamp;
use stagegate_api::{
    Outcome, Phase, PreviousStages, StageState, StageStatus, StagedBindingPolicy, StagedBindingPolicyStatus,
};

use crate::checks::finding::Finding;
use crate::checks::reason::Reason;
use crate::checks::stage::READING_IS_WORTH;
use crate::names::{PlacementName, StageName};
use crate::staging::input::{Checked, Facts, OwnedPlacement, Slot, StageInput, placement::is_owned};
use crate::staging::plan::{Decision, Event, Plan, Write};
use crate::staging::question::Question;
use crate::staging::rollout::judge::{StageResult, follow, judge};
use crate::staging::status;
use crate::staging::status::{StatusDraft, stage};
use crate::staging::updates::versions::observer_name;
use crate::time::after;

static NO_STATUS: LazyLock<StagedBindingPolicyStatus> = LazyLock::new(StagedBindingPolicyStatus::default);

/// One policy, its stages, and what stands under each stage's name.
pub struct Rollout<'a> {
    pub(crate) facts: &'a Facts,
    pub(crate) checked: &'a Checked,
    pub(crate) policy: &'a StagedBindingPolicy,
    pub(crate) status: &'a StagedBindingPolicyStatus,
    pub(crate) slots: Vec<Slot<'a>>,
    /// Ours, under a name that no stage has (any more).
    pub(crate) gone: Vec<Slot<'a>>,
    /// Which of the stages have passed at the revision.
    passed: Vec<bool>,
}

/// What is being put together.
#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) writes: Vec<Write>,
    pub(crate) questions: Vec<Question>,
    pub(crate) events: Vec<Event>,
    pub(crate) wake_at: Option<Timestamp>,
    pub(crate) not_after: Option<Timestamp>,
    pub(crate) stalled: Option<Finding>,
    /// In how many clusters of the active stage nothing is missing, and how many there are.
    pub(crate) clusters: Option<(usize, usize)>,
    /// The stage whose objects were all found reported in this round.
    pub(crate) reported_stage: Option<usize>,
    /// Only this process is new: status stays as it is.
    pub(crate) is_restart: bool,
    /// The writes take away the traces of what status has to tell of.
    pub(crate) is_told_first: bool,
}

impl Draft {
    /// Asked once, however many moves wait for it.
    pub(crate) fn ask_for_fresh_read(&mut self) {
        self.questions.retain(|question| *question != Question::FreshPlacements);
        if !self.questions.contains(&Question::FreshRead) {
            self.questions.push(Question::FreshRead);
        }
    }

    /// Not asked where more is read anyway.
    pub(crate) fn ask_for_fresh_placements(&mut self) {
        if !self.questions.contains(&Question::FreshRead) && !self.questions.contains(&Question::FreshPlacements) {
            self.questions.push(Question::FreshPlacements);
        }
    }

    /// A fencing token of this same round changes the version that every other write to the placement is conditional on.
    pub(crate) fn is_fencing(&self, placement: &PlacementName) -> bool {
        let is_its = |write: &Write| matches!(write, Write::Fence(fenced) if fenced.name == *placement);
        self.writes.iter().any(is_its)
    }

    /// Asks what is not asked yet.
    pub(crate) fn ask(&mut self, questions: Vec<Question>) {
        for question in questions {
            if !self.questions.contains(&question) {
                self.questions.push(question);
            }
        }
    }

    pub(crate) fn wake(&mut self, at: Option<Timestamp>) {
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
        let is_stage = |name: &PlacementName| checked.stages.iter().any(|stage| stage.placement == *name);
        let observer = facts.is_staged().then(|| observer_name(facts));
        let gone = facts
            .placements
            .iter()
            .filter(|(name, _)| !is_stage(name) && observer.as_ref() != Some(name))
            .filter_map(|(_, placement)| placement.object())
            .filter(|object| is_owned(facts, object))
            .map(|object| Slot::of_object(facts, object))
            .collect();
        let policy = &facts.policy.object;
        let rollout = Self {
            facts,
            checked,
            policy,
            status: policy.status.as_ref().unwrap_or(&NO_STATUS),
            slots,
            gone,
            passed: Vec::new(),
        };
        let passed = rollout.passed();
        Self { passed, ..rollout }
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
            .and_then(|live| collector::foreign(&live.object));
        draft.writes.extend(self.fences());
        let mut records = self.records();
        let active = self.active();
        self.follow(active, &mut draft, &mut records);
        self.keep_holds(&mut draft, &mut records);
        let status_draft = match (self.active_gone(), active) {
            (Some(finding), _) => {
                draft.stalled = Some(finding.clone());
                self.status_of(&finding, self.recorded_active())
            }
            (None, None) => {
                let unready = self.after_completion(&mut draft, &mut records);
                StatusDraft {
                    unready,
                    ..self.completed()
                }
            }
            (None, Some(active)) => self.advance(active, &mut draft, &mut records),
        };
        self.renew_passed(&mut draft);
        self.repair(&mut draft, &mut records);
        self.keep_reports(&mut records);
        self.track_releases(&mut draft, &mut records);
        let judged = active.filter(|_| self.active_gone().is_none());
        stage::interrupt_soaks(&mut records, judged);
        let status_draft = match self.remove_previous(&mut draft, &mut records) {
            Some(staying) if status_draft.reason == Reason::Soaking => self.soaking_after(&staying, status_draft),
            _ => status_draft,
        };
        self.finish(draft, records, status_draft)
    }

    /// Edits are followed in every open placement, judged or not: when a new revision reaches it in place, its clusters have to send
    /// answers to the edits that they have not answered, and to no others.
    fn follow(&self, active: Option<usize>, draft: &mut Draft, records: &mut [StageStatus]) {
        for (index, record) in records.iter_mut().enumerate().take(self.slots.len()) {
            let Some(own) = self.slots[index].open() else { continue };
            // A held stage gets no edit before it is released.
            if (active == Some(index) && self.is_current(index, own)) || self.facts.is_staged() {
                continue;
            }
            if let Some((followed, questions)) = follow(self.input(index, own, self.recorded(index))) {
                record.objects = followed.objects;
                record.named_clusters = followed.named_clusters;
                draft.questions.extend(questions);
            }
        }
    }

    pub(crate) fn input<'s>(
        &'s self,
        index: usize,
        own: &'s OwnedPlacement<'s>,
        recorded: Option<&'s StageStatus>,
    ) -> StageInput<'s> {
        StageInput {
            facts: self.facts,
            stage: self.stage(index),
            own,
            recorded,
            is_handing_over: false,
        }
    }

    /// Places and judges the active stage, and opens the next one when all passes.
    fn advance(&self, active: usize, draft: &mut Draft, records: &mut [StageStatus]) -> StatusDraft {
        let stage = self.stage(active);
        let shared = self.shared_with_another(active);
        let finding = match &self.slots[active] {
            Slot::Open(own) if shared.is_none() && self.is_current(active, own) && self.is_released(active, own) => {
                return self.judge(Current { active, own }, draft, records);
            }
            Slot::Open(own) if let Some(shared) = shared.filter(|_| self.is_current(active, own)) => {
                records[active] = stage::start_attempt(Some(&records[active]), own, self.facts.now);
                draft.stalled = Some(shared.clone());
                shared
            }
            _ if let Some(finding) = self.unreadable_after(active) => finding,
            Slot::Open(_) if self.policy.spec.paused => Finding::unknown(
                Reason::Placing,
                format!("stage {} is placed as an older spec had it", stage.name),
            ),
            Slot::Open(own) if self.is_current(active, own) => self.renew(active, own, draft),
            Slot::Open(own) | Slot::Closed(own) => self.place(active, own, draft),
            _ => self.prepare(active, draft),
        };
        // Nothing is judged until it is placed as it should be, so nobody knows that it went on passing.
        records[active].passing_since = None;
        draft.wake(finding.wake_at);
        self.status_of(&finding, Some(stage.name.clone()))
    }

    fn judge(&self, current: Current<'_>, draft: &mut Draft, records: &mut [StageStatus]) -> StatusDraft {
        let Current { active, own } = current;
        let stage = self.stage(active);
        // While a later stage is open at the revision, nothing is removed for this one.
        let is_latest = self.latest().is_none_or(|latest| latest <= active);
        let is_removing = self.checked.previous_stages == PreviousStages::Remove && is_latest;
        // One where a rollout was completed stays until there is a new revision: nothing waits for its removal.
        let mut earlier = self.slots[..active].iter().zip(records.iter());
        let is_leaving =
            |(slot, record): (&Slot<'_>, &StageStatus)| slot.open().is_some() && record.completed_at.is_none();
        let is_handing_over = is_removing && earlier.any(is_leaving);
        let judgement = judge(StageInput {
            facts: self.facts,
            stage,
            own,
            recorded: self.recorded(active),
            is_handing_over,
        });
        let StageResult {
            record,
            mut finding,
            questions,
            ask_again_at,
            valid_until,
            is_reported,
            clusters,
        } = judgement;
        draft.clusters = clusters;
        draft.reported_stage = is_reported.then_some(active);
        draft.ask(questions);
        draft.wake(ask_again_at);
        draft.not_after = valid_until;
        // A rollout that has failed does not go on by itself.
        if finding.outcome == Outcome::Fail || finding.reason == Reason::HealthFailed {
            draft.stalled = Some(finding.clone());
        }
        records[active] = record;
        // Clusters that join need the resourceVersions of now. What is soaked is not touched.
        if records[active].passing_since.is_none() && !self.is_up_to_date(active, own) {
            self.renew(active, own, draft);
        }
        let next = (active + 1..self.slots.len()).find(|index| !self.has_passed(*index));
        if !self.policy.spec.paused {
            let judged = Judged { next, finding };
            finding = match self.require_sign_of_life(&judged, active, draft) {
                Some(waiting) => waiting,
                None => self.after_judging(judged, draft),
            };
        }
        if let Some(next) = next
            && draft.writes.iter().any(|write| matches!(write, Write::Open(_)))
        {
            let judged = records[active].clone();
            let window = self.facts.settings.unseen_update();
            stage::see_before_opening(&mut records[next], &judged, self.facts.now, window);
        }
        draft.wake(finding.wake_at);
        draft.is_restart = finding.is_restart;
        if finding.outcome == Outcome::Pass && next.is_none() && self.facts.read.is_anew() && !self.policy.spec.paused {
            records[active].state = StageState::Passed;
            records[active].passed_at = Some(round_up_to_second(self.facts.now));
            records[active].completed_at = Some(round_up_to_second(self.facts.now));
            return self.completed_standing(&finding);
        }
        self.status_of(&finding, Some(stage.name.clone()))
    }

    /// The next stage is kept ready, closed; when all passes on facts that were just read, it is opened.
    fn after_judging(&self, judged: Judged, draft: &mut Draft) -> Finding {
        let Judged { next, finding } = judged;
        let has_passed = finding.outcome == Outcome::Pass;
        if has_passed && !self.facts.read.is_anew() {
            let ready = next.is_none_or(|next| self.slots[next].own().is_some());
            if ready && draft.questions.is_empty() {
                draft.ask_for_fresh_read();
                return finding;
            }
        }
        let Some(next) = next else { return finding };
        match &self.slots[next] {
            Slot::Closed(_) | Slot::Open(_) if !has_passed => finding,
            Slot::Closed(own) | Slot::Open(own) => self.place(next, own, draft),
            _ => {
                let waiting = self.prepare(next, draft);
                draft.wake(waiting.wake_at);
                if has_passed { waiting } else { finding }
            }
        }
    }

    /// The soak has not started because a placement before this one stays: the reason of that is what a user can act on.
    fn soaking_after(&self, staying: &Finding, status_draft: StatusDraft) -> StatusDraft {
        let message = format!("{}; {}", staying.message, status_draft.message);
        self.status_of(&Finding::unknown(staying.reason, message), status_draft.active_stage)
    }

    fn completed(&self) -> StatusDraft {
        let finding = if self.stage(self.last()).is_judged() {
            Finding::pass(Reason::Completed, "all stages have passed")
        } else {
            Finding::pass(Reason::PlacedNotEvaluated, "")
        };
        self.completed_standing(&finding)
    }

    fn completed_standing(&self, finding: &Finding) -> StatusDraft {
        let last = self.stage(self.last());
        let message = if finding.reason == Reason::PlacedNotEvaluated {
            format!(
                "all stages have passed; the last one, {}, is placed, not evaluated",
                last.name
            )
        } else {
            match self.checked.stages.len() {
                1 => "the only stage has passed".to_owned(),
                stages => format!("all {stages} stages have passed"),
            }
        };
        // A pause does not undo completion.
        let message = if self.policy.spec.paused {
            format!("{message}; paused: nothing is opened, changed or removed")
        } else {
            message
        };
        StatusDraft {
            phase: Phase::Completed,
            reason: Reason::Completed,
            message,
            ..self.status_of(finding, Some(last.name.clone()))
        }
    }

    fn status_of(&self, finding: &Finding, active_stage: Option<StageName>) -> StatusDraft {
        let (phase, reason, message) = StatusDraft::of(finding);
        let is_paused = self.policy.spec.paused;
        StatusDraft {
            phase: if is_paused { Phase::Paused } else { phase },
            reason: if is_paused { Reason::Paused } else { reason },
            message: if is_paused {
                format!("paused: nothing is opened, changed or removed; {message}")
            } else {
                message
            },
            accepted: Ok(self.accepted_message()),
            stalled: None,
            unready: None,
            active_stage,
            clusters: None,
            stages: Vec::new(),
        }
    }

    fn finish(&self, mut draft: Draft, mut records: Vec<StageStatus>, mut status_draft: StatusDraft) -> Decision {
        if !draft.questions.is_empty() {
            return Decision::Ask(draft.questions);
        }
        if status::too_large(&records).is_some() {
            records.iter_mut().for_each(last_reports::forget);
        }
        if let Some(finding) = status::too_large(&records) {
            return Decision::Act(self.without_room(&finding));
        }
        status_draft.stalled = draft.stalled.take();
        status_draft.clusters = draft.clusters;
        // A plan that moves nothing may be told whenever it is.
        let newly_passed = |record: &StageStatus| {
            let before = self.status.stages.iter().find(|before| before.name == record.name);
            record.state == StageState::Passed && before.is_none_or(|before| before.state != StageState::Passed)
        };
        let is_moving = |write: &Write| write.places() || matches!(write, Write::Remove { .. });
        let moves = records.iter().any(newly_passed) || draft.writes.iter().any(is_moving);
        let reading_ends = after(self.facts.now, READING_IS_WORTH);
        let not_after = moves.then(|| draft.not_after.unwrap_or(reading_ends));
        status_draft.stages = records;
        draft.wake(status::event_due(&status_draft, self.facts.now));
        // Status tells of a placement before it is made: a conflict there (an edit, a pause) restarts the round.
        let (writes, events) = if draft.is_told_first || draft.writes.iter().any(is_moving) {
            self.tell_of_late_plans(&mut status_draft);
            let (write, events) = status::announce(self.facts, status_draft);
            ([vec![write], draft.writes].concat(), events)
        } else if draft.is_restart {
            (draft.writes, Vec::new())
        } else {
            let (write, events) = status::write(self.facts, status_draft);
            draft.writes.extend(write);
            (draft.writes, events)
        };
        Decision::Act(Plan {
            writes,
            events: draft.events.into_iter().chain(events).collect(),
            wake_at: draft.wake_at,
            not_after,
        })
    }
}

impl Rollout<'_> {
    /// The API server would refuse the records, and then nothing could be written ever again: they stay as they were, nothing moves,
    /// and status says why. Whether a stage goes on passing is not known meanwhile.
    fn without_room(&self, finding: &Finding) -> Plan {
        let mut stages = self.status.stages.clone();
        stage::interrupt_soaks(&mut stages, None);
        let status_draft = StatusDraft {
            stalled: Some(finding.clone()),
            stages,
            ..self.status_of(finding, self.recorded_active())
        };
        let (write, events) = status::write(self.facts, status_draft);
        Plan {
            writes: write.into_iter().collect(),
            events,
            ..Plan::default()
        }
    }

    /// What was announced and then came too late stands in status until the next try: it must not look like one under way.
    fn tell_of_late_plans(&self, status_draft: &mut StatusDraft) {
        let late = self.facts.late_plans;
        if late > 0 && status_draft.phase == Phase::Progressing && status_draft.stalled.is_none() {
            status_draft.reason = Reason::EvidenceExpired;
            status_draft.message = format!(
                "{}; so far this has come too late: reading the evidence and asking the gates of this stage took longer \
                 than what was read may be used",
                status_draft.message
            );
        }
    }
}

/// The active stage, open at the revision and as the spec has it.
struct Current<'a> {
    active: usize,
    own: &'a OwnedPlacement<'a>,
}

/// The stage after the active one, and what was found.
pub(crate) struct Judged {
    pub(crate) next: Option<usize>,
    pub(crate) finding: Finding,
}
