//! Status from what was found: phase, reason and conditions, merged with what is there, and the Events of a change. Must not
//! decide what happens; the same state gives the same status, so nothing is written when nothing changed.
//!
//! `Ready`, `Reconciling` and `Stalled` are what kstatus reads: at most one of the last two is True, and `Ready` only when
//! neither is. `Contested` is there only while it is True. Phase and reason of the printer columns follow from the conditions.

pub(crate) mod contested;
pub(crate) mod refused;
pub(crate) mod stage;
pub(crate) mod wording;

pub(crate) use self::refused::refused;

use self::contested::{CONTESTED, SECOND_CONTROLLER, contested_until};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::Resource as _;
use stagegate_api::staged_status::MAX_EVENT_REASONS;
use stagegate_api::{Outcome, Phase, Stage, StageState, StageStatus, StagedBindingPolicyStatus};

use crate::checks::finding::Finding;
use crate::checks::reason::Reason;
use crate::names::StageName;
use crate::staging::input::{
    Facts,
    placement::precondition,
    recorded::{active_stage, stage_name},
};
use crate::staging::plan::{Event, Write};
use crate::time::after;
use stagegate_api::printable::printable;

/// Where the policy stands.
#[derive(Clone, Debug)]
pub struct StatusDraft {
    /// Never [`Phase::Stalled`]: that follows from `stalled`.
    pub phase: Phase,
    pub reason: Reason,
    pub message: String,
    /// Whether the spec can be carried out, and what is to be known about it.
    pub accepted: Result<String, Finding>,
    /// What a person has to correct.
    pub stalled: Option<Finding>,
    /// What the last stage lacks after completion. `None`: it is healthy, or the rollout is not completed.
    pub unready: Option<Finding>,
    pub active_stage: Option<StageName>,
    /// In how many of its clusters nothing is missing, and how many there are.
    pub clusters: Option<(usize, usize)>,
    pub stages: Vec<StageStatus>,
}

impl StatusDraft {
    /// Phase, reason and message of a stage's finding.
    pub fn of(finding: &Finding) -> (Phase, Reason, String) {
        let phase = match finding.outcome {
            Outcome::Hold => Phase::Holding,
            Outcome::Fail => Phase::Failed,
            Outcome::Pass | Outcome::Unknown => Phase::Progressing,
        };
        (phase, finding.reason, finding.message.clone())
    }

    const fn is_completed(&self) -> bool {
        matches!(self.phase, Phase::Completed)
    }

    /// The phase that status shows: `Stalled` comes before what the policy waits for.
    fn shown_phase(&self) -> Phase {
        match self.phase {
            Phase::Failed | Phase::Paused => self.phase,
            _ if self.stalled.is_some() => Phase::Stalled,
            phase => phase,
        }
    }

    /// Reason and message of the policy as a whole: of what stalls it, else of what it lacks after completion, else of its phase.
    fn main(&self) -> (Reason, &str) {
        let unready = self.unready.as_ref().filter(|_| self.is_completed());
        match self.stalled.as_ref().or(unready) {
            Some(finding) => (finding.reason, &finding.message),
            None => (self.reason, &self.message),
        }
    }
}

/// The most that the records of all stages may take as JSON. etcd takes 1.5 MiB for the whole policy, of which spec, metadata and
/// conditions need their part.
const STAGES_BYTES_MAX: usize = 1_000_000;

/// That the records of the stages do not fit, if they do not.
pub fn too_large(stages: &[StageStatus]) -> Option<Finding> {
    let bytes = bytes_of(stages);
    if bytes <= STAGES_BYTES_MAX {
        return None;
    }
    let objects: usize = stages.iter().map(|stage| stage.objects.len()).sum();
    let clusters: usize = stages.iter().map(|stage| stage.destinations.len()).sum();
    let text = format!(
        "what is known of {} stages with {objects} objects and {clusters} clusters in all takes {bytes} bytes, and status has room \
         for {STAGES_BYTES_MAX}: split the policy, or set previousStages: Remove",
        stages.len()
    );
    Some(Finding::unknown(Reason::StatusTooLarge, text))
}

/// The size as JSON, without keeping the text.
fn bytes_of(stages: &[StageStatus]) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.saturating_add(text.len());
            Ok(text.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    for stage in stages {
        // `tracking` has the rest of it.
        let tracked = (
            &stage.named_clusters,
            &stage.objects,
            &stage.event_reasons,
            &stage.unsettled_since,
        );
        // What cannot be written down could not be stored either.
        if serde_json::to_writer(&mut counter, &(stage, tracked)).is_err() {
            return usize::MAX;
        }
    }
    counter.0
}

/// In every rollout a collector that reads a count fails until the status has that count, so no Event reports this until so long after
/// the set has settled.
const ROW_ERROR_EVENT_AFTER: SignedDuration = SignedDuration::from_secs(10);

/// From when an Event may report the reason; `None`: at once.
pub fn event_due(status_draft: &StatusDraft, now: Timestamp) -> Option<Timestamp> {
    let active = status_draft.active_stage.as_ref().map(StageName::borrowed);
    let record = record_of(&status_draft.stages, active)?;
    let settled_at = record.settled_at.as_ref()?;
    let due = after(settled_at.0, ROW_ERROR_EVENT_AFTER);
    (status_draft.main().0 == Reason::RowError && now < due).then_some(due)
}

/// The status to write, if it differs from the one that is there, and the Events that tell of it.
pub fn write(facts: &Facts, status_draft: StatusDraft) -> (Option<Write>, Vec<Event>) {
    let (write, events) = announce(facts, status_draft);
    let is_changed =
        matches!(&write, Write::Status { status, .. } if facts.policy.object.status.as_ref() != Some(status));
    (is_changed.then_some(write), events)
}

/// The same, written even where nothing differs: it fails when the policy was edited since it was read.
pub fn announce(facts: &Facts, mut status_draft: StatusDraft) -> (Write, Vec<Event>) {
    status_draft.stages.iter_mut().for_each(make_printable);
    status_draft.accepted = status_draft.accepted.map(|message| printable(&message));
    let policy = &facts.policy.object;
    let nothing = StagedBindingPolicyStatus::default();
    let old = policy.status.as_ref().unwrap_or(&nothing);
    let generation = policy.meta().generation;
    let conditions = conditions(
        &status_draft,
        &old.conditions,
        Stamped {
            generation,
            now: facts.now,
            is_contested: contested_until(facts).is_some(),
        },
    );
    let mut events = passed(&status_draft, old, &policy.spec.stages);
    let is_due = event_due(&status_draft, facts.now).is_none();
    events.extend(reached(&mut status_draft, old, (generation, is_due)));
    let status = StagedBindingPolicyStatus {
        observed_generation: generation,
        active_stage: status_draft.active_stage.clone().map(String::from),
        clusters: status_draft.clusters.map(|(ready, all)| format!("{ready}/{all}")),
        phase: Some(status_draft.shown_phase()),
        reason: Some(status_draft.main().0.as_str().to_owned()),
        conditions,
        stages: status_draft.stages,
    };
    let write = Write::Status {
        precondition: precondition(policy.meta()),
        status: Box::new(status),
    };
    (write, events)
}

/// Findings are printable already; other sentences about a stage name clusters, objects and placements, too.
fn make_printable(stage: &mut StageStatus) {
    for text in stage.message.iter_mut().chain(&mut stage.not_evaluated) {
        *text = printable(text);
    }
}

#[derive(Clone, Copy)]
struct Stamped {
    generation: Option<i64>,
    now: Timestamp,
    is_contested: bool,
}

fn conditions(status_draft: &StatusDraft, old: &[Condition], stamped: Stamped) -> Vec<Condition> {
    let (accepted, accepted_reason, accepted_message) = match &status_draft.accepted {
        Ok(message) => (true, Reason::Accepted, message.as_str()),
        Err(finding) => (false, finding.reason, finding.message.as_str()),
    };
    let (reason, message) = status_draft.main();
    let is_stalled = status_draft.stalled.is_some();
    let is_completed = status_draft.is_completed();
    let is_done = is_completed && status_draft.unready.is_none();
    let progressing = status_draft.phase == Phase::Progressing && !is_stalled;
    // All stages have passed: that stays true, and `Completed` keeps saying it, whatever happens to the workload later.
    let (completed_reason, completed_message) = if is_completed {
        (status_draft.reason, status_draft.message.as_str())
    } else {
        (reason, message)
    };
    let (stalled_reason, stalled_message) = if is_stalled {
        (reason, message)
    } else {
        (Reason::NoConflict, "no conflicting objects")
    };
    let contested = stamped
        .is_contested
        .then_some((CONTESTED, true, Reason::SecondController, SECOND_CONTROLLER));
    [
        ("Accepted", accepted, accepted_reason, accepted_message),
        ("Progressing", progressing, reason, message),
        ("Completed", is_completed, completed_reason, completed_message),
        ("Stalled", is_stalled, stalled_reason, stalled_message),
        ("Ready", is_done && !is_stalled, reason, message),
        ("Reconciling", !is_done && !is_stalled, reason, message),
    ]
    .into_iter()
    .chain(contested)
    .map(|(type_, is_true, reason, message)| {
        let status = if is_true { "True" } else { "False" };
        let before = old.iter().find(|condition| condition.type_ == type_);
        let last_transition_time = before
            .filter(|before| before.status == status)
            .map_or(Time(stamped.now), |before| before.last_transition_time.clone());
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.as_str().to_owned(),
            message: message.to_owned(),
            observed_generation: stamped.generation,
            last_transition_time,
        }
    })
    .collect()
}

/// One Event for each stage that has passed, except the last: `Completed` reports that one.
fn passed(status_draft: &StatusDraft, old: &StagedBindingPolicyStatus, stages: &[Stage]) -> Vec<Event> {
    let had_passed = |name: StageName<&str>, revision: Option<&String>| {
        old.stages.iter().any(|stage| {
            stage_name(stage) == name && stage.state == StageState::Passed && stage.revision.as_ref() == revision
        })
    };
    let pairs = stages.iter().zip(stages.iter().skip(1));
    let passed_event = |(stage, next): (&Stage, &Stage)| {
        let name = StageName::of(&stage.name);
        let record = record_of(&status_draft.stages, Some(name))?;
        let is_new = record.state == StageState::Passed && !had_passed(name, record.revision.as_ref());
        let text = || format!("stage {} has passed; stage {} is next", stage.name, next.name);
        is_new.then(|| event(Reason::StagePassed, text()))
    };
    pairs.filter_map(passed_event).collect()
}

/// An Event for a reason that is reached for the first time in this stage, attempt and generation of the policy. The stage's
/// record keeps the reported reasons, so no Event repeats because its message changes, its reason comes back or the process
/// restarts.
fn reached(
    status_draft: &mut StatusDraft,
    old: &StagedBindingPolicyStatus,
    (generation, is_due): (Option<i64>, bool),
) -> Option<Event> {
    let (reason, message) = status_draft.main();
    let (reason, message) = (reason, message.to_owned());
    let known = |name: StageName<&str>| old.stages.iter().find(|stage| stage_name(stage) == name);
    let is_same_generation = old.observed_generation == generation;
    for stage in &mut status_draft.stages {
        let is_same = |known: &&StageStatus| (&known.revision, known.attempt) == (&stage.revision, stage.attempt);
        let known = known(stage_name(stage)).filter(|_| is_same_generation).filter(is_same);
        stage.event_reasons = known.map(|known| known.event_reasons.clone()).unwrap_or_default();
    }
    if !reason.is_notable() {
        return None;
    }
    let active = status_draft.active_stage.as_ref().map(StageName::borrowed);
    let before = record_of(&old.stages, active);
    let attempt = |stage: Option<&StageStatus>| stage.and_then(|stage| stage.attempt);
    let is_same_attempt = attempt(before) == attempt(record_of(&status_draft.stages, active));
    let has = |stage: &StageStatus| stage.event_reasons.iter().any(|known| known == reason.as_str());
    // A new generation clears the reported reasons, but a reason that an edit of the policy did not change is not news. Status may have
    // had this one before an Event about it was due.
    let is_news_later = reason == Reason::RowError && !before.is_some_and(has);
    let stays = old.reason.as_deref() == Some(reason.as_str())
        && active_stage(old) == active
        && is_same_attempt
        && !is_news_later;
    if !is_due && !stays {
        return None;
    }
    let record = status_draft
        .stages
        .iter_mut()
        .find(|stage| Some(stage_name(stage)) == active);
    let was_reported = match record {
        Some(record) if has(record) => true,
        Some(record) if record.event_reasons.len() < MAX_EVENT_REASONS => {
            record.event_reasons.push(reason.as_str().to_owned());
            stays
        }
        _ => stays,
    };
    (!was_reported).then(|| event(reason, message))
}

fn record_of<'s>(stages: &'s [StageStatus], name: Option<StageName<&str>>) -> Option<&'s StageStatus> {
    stages.iter().find(|stage| Some(stage_name(stage)) == name)
}

fn event(reason: Reason, message: String) -> Event {
    Event {
        warning: reason.is_warning(),
        reason,
        message,
    }
}

/// Whether `new` says what nobody could find out again later: that a soak has broken, that clusters have still to answer an
/// edit, that a gate has failed, that clusters may have got a version that was not admitted, that missing reports are being asked for. All
/// else can be said by whoever looks next.
pub fn is_news(found: &StagedBindingPolicyStatus, new: &StagedBindingPolicyStatus) -> bool {
    let nothing = StageStatus::default();
    new.stages.iter().any(|stage| {
        let known = found.stages.iter().find(|known| known.name == stage.name);
        let known = known.unwrap_or(&nothing);
        let has_broken = known.passing_since.is_some() && known.passing_since != stage.passing_since;
        let is_newly_unproven = stage.unproven.iter().any(|name| !known.unproven.contains(name));
        let is_repaired = known.hold.repaired_at < stage.hold.repaired_at;
        has_broken
            || is_newly_unproven
            || is_repaired
            || fails(stage) > fails(known)
            || unacknowledged(stage) > unacknowledged(known)
    })
}

fn fails(stage: &StageStatus) -> usize {
    let failed = stage.checks.iter().filter(|check| check.outcome == Outcome::Fail);
    failed.count()
}

fn unacknowledged(stage: &StageStatus) -> i64 {
    let updates = stage.objects.iter().flat_map(|object| &object.pending_updates);
    let unacknowledged = updates.map(|update| {
        let clusters = i64::try_from(update.clusters.len().max(1)).unwrap_or(i64::MAX);
        update.unacknowledged.saturating_mul(clusters)
    });
    unacknowledged.fold(0, i64::saturating_add)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};
    use stagegate_api::Phase;

    use super::{Stamped, StatusDraft, conditions, is_news};
    use crate::checks::finding::Finding;
    use crate::checks::reason::Reason;

    #[test]
    fn a_completed_policy_that_lacks_health_is_reconciling_until_it_stalls() {
        let lacking = Finding::unknown(Reason::NotReported, "cluster prod-1 has not reported");
        let mut status_draft = StatusDraft {
            phase: Phase::Completed,
            reason: Reason::Completed,
            message: "all 2 stages have passed".to_owned(),
            accepted: Ok(String::new()),
            stalled: None,
            unready: Some(lacking.clone()),
            active_stage: Some("prod".into()),
            clusters: None,
            stages: Vec::new(),
        };
        let stamped = Stamped {
            generation: Some(3),
            now: Timestamp::UNIX_EPOCH,
            is_contested: false,
        };
        let said = |status_draft: &StatusDraft| {
            let all = conditions(status_draft, &[], stamped).into_iter();
            let said = all.map(|it| format!("{} {} {}", it.type_, it.status, it.reason));
            said.collect::<Vec<_>>().join(", ")
        };
        let unready = "Accepted True Accepted, Progressing False NotReported, Completed True Completed, \
                       Stalled False NoConflict, Ready False NotReported, Reconciling True NotReported";
        assert_eq!(said(&status_draft), unready);
        assert_eq!(status_draft.shown_phase(), Phase::Completed);
        status_draft.stalled = Some(lacking);
        let stalled = "Accepted True Accepted, Progressing False NotReported, Completed True Completed, \
                       Stalled True NotReported, Ready False NotReported, Reconciling False NotReported";
        assert_eq!(said(&status_draft), stalled);
        assert_eq!(status_draft.shown_phase(), Phase::Stalled);
    }

    fn is_news_of(found: Value, new: Value) -> bool {
        let status = |stage: Value| {
            let mut stage = stage;
            (stage["name"], stage["state"]) = (json!("dev"), json!("Active"));
            let tracking = json!({"stage": "dev", "objects": stage.get("objects").unwrap_or(&json!([]))});
            serde_json::from_value(json!({"stages": [stage], "tracking": [tracking]})).unwrap()
        };
        is_news(&status(found), &status(new))
    }

    #[test]
    fn a_soak_that_broke_is_news_and_one_that_begins_is_none() {
        let (early, late) = (
            json!({"passingSince": "2026-01-01T00:00:00Z"}),
            json!({"passingSince": "2026-01-01T00:01:00Z"}),
        );
        assert!(is_news_of(early.clone(), json!({})));
        assert!(is_news_of(early.clone(), late.clone()));
        assert!(!is_news_of(json!({}), late));
        assert!(!is_news_of(early.clone(), early));
    }

    #[test]
    fn a_repair_is_news() {
        let status = |at: Value| {
            let stage = json!({"name": "dev", "state": "Active"});
            let tracking = json!({"stage": "dev", "hold": {"repairedAt": at}});
            serde_json::from_value(json!({"stages": [stage], "tracking": [tracking]})).unwrap()
        };
        let (early, late) = (json!("2026-01-01T00:00:00Z"), json!("2026-01-01T00:05:00Z"));
        assert!(is_news(&status(Value::Null), &status(early.clone())));
        assert!(is_news(&status(early.clone()), &status(late)));
        assert!(!is_news(&status(early.clone()), &status(early.clone())));
        assert!(!is_news(&status(early), &status(Value::Null)));
    }

    #[test]
    fn a_failed_gate_and_a_missing_acknowledgement_are_news_and_other_words_are_none() {
        let check = |outcome: &str| json!({"checks": [{"name": "gate/a", "outcome": outcome, "reason": "R", "message": outcome}]});
        assert!(is_news_of(check("Pass"), check("Fail")));
        assert!(!is_news_of(check("Fail"), check("Fail")));
        assert!(!is_news_of(check("Pass"), check("Unknown")));
        let with = |unacknowledged: i64| {
            let update = json!({"clusters": ["c"], "unacknowledged": unacknowledged, "observedGeneration": "1", "reportedAt": "", "since": "2026-01-01T00:00:00Z", "editedAt": "2026-01-01T00:00:00Z"});
            json!({"objects": [{"group": "", "resource": "r", "name": "n", "uid": "u", "pendingUpdates": [update]}]})
        };
        assert!(is_news_of(with(1), with(2)));
        assert!(!is_news_of(with(2), with(1)));
    }
}
