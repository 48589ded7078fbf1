//! Status from what was found: phase, reason and the four conditions, merged with what is there. Must not decide what
//! happens; the same state gives the same status, so nothing is written when nothing changed.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::Resource as _;
use stagegate_api::{Outcome, Phase, StageState, StageStatus, StagedBindingPolicyStatus};

use super::facts::Facts;
use super::finding::Finding;
use super::plan::{Event, Write};
use super::reason::Reason;
use super::slot::precondition;
use crate::printable::printable;

/// Where the policy stands.
#[derive(Clone, Debug)]
pub struct Standing {
    pub phase: Phase,
    pub reason: Reason,
    pub message: String,
    /// Whether the spec can be carried out, and what is to be known about it.
    pub accepted: Result<String, Finding>,
    /// Somebody has to act.
    pub stalled: Option<Finding>,
    pub active_stage: Option<String>,
    pub stages: Vec<StageStatus>,
}

impl Standing {
    /// Phase, reason and message of a stage's finding.
    pub fn of(finding: &Finding) -> (Phase, Reason, String) {
        let phase = match finding.outcome {
            Outcome::Hold => Phase::Holding,
            Outcome::Fail => Phase::Failed,
            Outcome::Pass | Outcome::Unknown => Phase::Progressing,
        };
        (phase, finding.reason, finding.message.clone())
    }
}

/// The status to write, if it differs from the one that is there, and the Events that tell of it.
pub fn write(facts: &Facts, standing: Standing) -> (Option<Write>, Vec<Event>) {
    let (write, events) = announce(facts, standing);
    let is_changed =
        matches!(&write, Write::Status { status, .. } if facts.policy.object.status.as_ref() != Some(status));
    (is_changed.then_some(write), events)
}

/// The same, written even where nothing differs: it fails when the policy was edited since it was read.
pub fn announce(facts: &Facts, mut standing: Standing) -> (Write, Vec<Event>) {
    standing.stages.iter_mut().for_each(make_printable);
    let policy = &facts.policy.object;
    let nothing = StagedBindingPolicyStatus::default();
    let old = policy.status.as_ref().unwrap_or(&nothing);
    let generation = policy.meta().generation;
    let conditions = conditions(
        &standing,
        &old.conditions,
        Stamped {
            generation,
            now: facts.now,
        },
    );
    let mut status = StagedBindingPolicyStatus {
        observed_generation: generation,
        active_stage: standing.active_stage.clone(),
        phase: Some(standing.phase),
        reason: Some(standing.reason.as_str().to_owned()),
        conditions,
        stages: Vec::new(),
    };
    let told = events(&standing, old);
    status.stages = standing.stages;
    let events = if status == *old { Vec::new() } else { told };
    let write = Write::Status {
        precondition: precondition(policy.meta()),
        status: Box::new(status),
    };
    (write, events)
}

/// Sentences about a stage that are no findings name clusters and objects, too.
fn make_printable(stage: &mut StageStatus) {
    for text in stage.message.iter_mut().chain(&mut stage.not_judged) {
        *text = printable(text);
    }
}

#[derive(Clone, Copy)]
struct Stamped {
    generation: Option<i64>,
    now: Timestamp,
}

fn conditions(standing: &Standing, old: &[Condition], stamped: Stamped) -> Vec<Condition> {
    let (accepted, accepted_reason, accepted_message) = match &standing.accepted {
        Ok(message) => (true, Reason::Accepted, message.clone()),
        Err(finding) => (false, finding.reason, finding.message.clone()),
    };
    let stalled = standing.stalled.as_ref();
    let progressing = standing.phase == Phase::Progressing && stalled.is_none();
    let completed = standing.phase == Phase::Completed;
    let (stalled_reason, stalled_message) = stalled.map_or(
        (Reason::Accepted, "nothing of somebody else's is in the way".to_owned()),
        |finding| (finding.reason, finding.message.clone()),
    );
    [
        ("Accepted", accepted, accepted_reason, accepted_message),
        ("Progressing", progressing, standing.reason, standing.message.clone()),
        ("Completed", completed, standing.reason, standing.message.clone()),
        ("Stalled", stalled.is_some(), stalled_reason, stalled_message),
    ]
    .into_iter()
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
            message,
            observed_generation: stamped.generation,
            last_transition_time,
        }
    })
    .collect()
}

/// One Event for each reason that is reached and worth one, and for each stage that passed.
fn events(standing: &Standing, old: &StagedBindingPolicyStatus) -> Vec<Event> {
    let had_passed = |name: &str, plan: Option<&String>| {
        old.stages
            .iter()
            .any(|stage| stage.name == name && stage.state == StageState::Passed && stage.plan.as_ref() == plan)
    };
    let passed = standing
        .stages
        .iter()
        .filter(|stage| stage.state == StageState::Passed && !had_passed(&stage.name, stage.plan.as_ref()))
        .map(|stage| event(false, Reason::StagePassed, format!("stage {} has passed", stage.name)));
    let refused = standing.accepted.as_ref().err();
    let main = [
        refused.map(|finding| (finding.reason, finding.message.clone())),
        standing
            .stalled
            .as_ref()
            .map(|finding| (finding.reason, finding.message.clone())),
        Some((standing.reason, standing.message.clone())),
    ]
    .into_iter()
    .flatten()
    .find(|(reason, _)| reason.is_notable())
    .map(|(reason, message)| event(!matches!(reason, Reason::Completed | Reason::Paused), reason, message))
    // The same trouble elsewhere (another cluster, another object) is told again; a gate that holds may word it anew each second.
    .filter(|event| {
        let is_new_word = event.warning && event.reason != Reason::GateHolds.as_str() && !was_said(old, &event.message);
        old.reason.as_ref() != Some(&event.reason) || is_new_word
    });
    passed.chain(main).collect()
}

fn was_said(old: &StagedBindingPolicyStatus, message: &str) -> bool {
    old.conditions.iter().any(|condition| condition.message == message)
}

fn event(warning: bool, reason: Reason, message: String) -> Event {
    Event {
        warning,
        reason: reason.as_str().to_owned(),
        message,
    }
}

/// Whether `new` says what nobody could find out again later: that a soak has broken, that clusters have still to answer an
/// edit, that a gate has failed. All else can be said by whoever looks next.
pub fn is_news(found: &StagedBindingPolicyStatus, new: &StagedBindingPolicyStatus) -> bool {
    let nothing = StageStatus::default();
    new.stages.iter().any(|stage| {
        let known = found.stages.iter().find(|known| known.name == stage.name);
        let known = known.unwrap_or(&nothing);
        let has_broken = known.passing_since.is_some() && known.passing_since != stage.passing_since;
        has_broken || fails(stage) > fails(known) || owed(stage) > owed(known)
    })
}

fn fails(stage: &StageStatus) -> usize {
    let failed = stage.checks.iter().filter(|check| check.outcome == Outcome::Fail);
    failed.count()
}

fn owed(stage: &StageStatus) -> i64 {
    let updates = stage.objects.iter().flat_map(|object| &object.updates);
    updates.map(|update| update.owed).fold(0, i64::saturating_add)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::is_news;

    fn is_news_of(found: Value, new: Value) -> bool {
        let status = |stage: Value| {
            let mut stage = stage;
            (stage["name"], stage["state"]) = (json!("dev"), json!("Active"));
            serde_json::from_value(json!({"stages": [stage]})).unwrap()
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
    fn a_gates_fail_and_an_owed_answer_are_news_and_other_words_are_none() {
        let check = |outcome: &str| json!({"checks": [{"name": "gate/a", "outcome": outcome, "reason": "R", "message": outcome}]});
        assert!(is_news_of(check("Pass"), check("Fail")));
        assert!(!is_news_of(check("Fail"), check("Fail")));
        assert!(!is_news_of(check("Pass"), check("Unknown")));
        let owing = |owed: i64| {
            let update =
                json!({"cluster": "c", "owed": owed, "gen": "1", "at": "", "editedAt": "2026-01-01T00:00:00Z"});
            json!({"objects": [{"group": "", "resource": "r", "name": "n", "uid": "u", "updates": [update]}]})
        };
        assert!(is_news_of(owing(1), owing(2)));
        assert!(!is_news_of(owing(2), owing(1)));
    }
}
