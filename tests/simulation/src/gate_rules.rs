//! The rules about gates: a stage passes only on what its gates have said of it, status says only what they have said, and nothing is
//! opened for a config that a gate does not take. Must not look at what clusters run.
//!
//! What a gate has said counts for one attempt, and for as long as the gate says. A pass opens nothing if the gate would not pass
//! any more at the time of the reading.

use std::collections::BTreeSet;

use jiff::Timestamp;
use stagegate_api::{CheckStatus, Gate, Outcome, Stage, StageStatus, StagedBindingPolicyStatus};
use stagegate_decide::names::{PlacementName, StageName};
use stagegate_decide::staging::{CombinedRef, Decoded, Facts, GateAnswer, GateCall, Plan, Reason, Write};

use crate::gates::{Attempt, Gates, Kind, Manner, Said, config_of};
use crate::oracle::{Oracle, Violation};
use crate::proofs::newly_passed;
use crate::server::uid_of;

/// A rule, and how it is broken.
type Broken = (&'static str, String);

/// What the API server was seen to hold of gates that have said never and have been in the policy ever since.
#[derive(Clone, Debug, Default)]
pub struct GateRules {
    never: BTreeSet<(Attempt, String)>,
}

/// The uid of the stage's placement, as the facts have it.
pub fn placement(facts: &Facts, stage: &str) -> String {
    let policy = facts.policy.object.metadata.name.as_deref().unwrap_or_default();
    let name = PlacementName::of(policy, StageName::of(stage));
    let placement = facts.placements.get(name.as_str()).and_then(Decoded::object);
    placement
        .map(|placement| uid_of(&placement.metadata).to_owned())
        .unwrap_or_default()
}

/// Whether a gate of the stage passes only while all runs as it should.
pub fn looks_at_health(stage: &Stage) -> bool {
    let mut manners = stage.gates.iter().filter_map(Manner::of);
    manners.any(|manner| manner.kind == Kind::Health)
}

impl Oracle {
    /// A process is about to ask a gate.
    pub fn asks_gate(&mut self, facts: &Facts, call: &GateCall) {
        let attempt = (placement(facts, call.request.stage.as_str()), call.request.attempt);
        let is_known = self.gates.never.contains(&(attempt, call.request.config.clone()));
        let broken = is_known.then(|| {
            let text = format!(
                "a gate of stage {} is asked again in attempt {} in which it has said never",
                call.request.stage, call.request.attempt
            );
            ("gates", text)
        });
        self.note(broken, facts);
    }

    /// What status says of a gate, the gate has said in that attempt.
    pub fn said_of_gates(&mut self, facts: &Facts, plan: &Plan, gates: &Gates) {
        let stages = &facts.policy.object.spec.stages;
        let status = facts.policy.object.status.as_ref();
        // A gate that was taken away and put back unchanged has been edited, so it may be asked again.
        let is_in_policy = |config: &str| {
            stages
                .iter()
                .flat_map(|stage| &stage.gates)
                .any(|gate| config_of(gate) == config)
        };
        self.gates.never.retain(|(_, config)| is_in_policy(config));
        for (record, check) in status.into_iter().flat_map(checks) {
            let gate = gate_of(stages, record, check);
            let said = gate.map(|gate| (attempt_of(record), config_of(gate)));
            let said = said.filter(|(attempt, config)| {
                let is_no = |said: &&Said| matches!(said.answer, GateAnswer::Fail { .. });
                let mut all = gates.said.iter().filter(is_no);
                check.outcome == Outcome::Fail && all.any(|said| said.attempt == *attempt && said.config == *config)
            });
            self.gates.never.extend(said);
        }
        let written = plan.writes.iter().find_map(|write| match write {
            Write::Status { status, .. } => Some(&**status),
            _ => None,
        });
        let Some(status) = written else { return };
        let known: Vec<(&StageStatus, &CheckStatus)> = facts.policy.object.status.iter().flat_map(checks).collect();
        let is_new = |(record, check): &(&StageStatus, &CheckStatus)| {
            !known
                .iter()
                .any(|(old, known)| old.name == record.name && old.attempt == record.attempt && known == check)
        };
        let mut new = checks(status).filter(is_new);
        let broken = new.find_map(|(record, check)| {
            let gate = gate_of(stages, record, check)?;
            let has_said = gates.said.iter().any(|said| {
                said.attempt == attempt_of(record) && said.config == config_of(gate) && is_told(&said.answer, check)
            });
            let attempt = record.attempt.unwrap_or_default();
            (!has_said).then(|| {
                let text = format!(
                    "status says {} of {} in attempt {attempt} of stage {}, and the gate has not said so",
                    check.reason, check.name, record.name
                );
                ("gates", text)
            })
        });
        let broken = broken.or_else(|| {
            let is_soaking = status.reason.as_deref() == Some(Reason::Soaking.as_str());
            let stage = status.active_stage.as_deref().filter(|_| is_soaking)?;
            unsaid(facts, stage, gates)
        });
        self.note(broken, facts);
    }

    /// The rule about gates that this write would break.
    pub fn judge_gates(&self, facts: &Facts, plan: &Plan, (write, gates): (&Write, &Gates)) -> Option<Violation> {
        let broken = match write {
            Write::Status { .. } => newly_passed(facts, write)
                .iter()
                .find_map(|stage| unsaid(facts, stage, gates)),
            Write::Open(placement) => {
                let policy = facts.policy.object.metadata.name.as_deref().unwrap_or_default();
                let stages = &facts.policy.object.spec.stages;
                let is_it = |stage: &Stage| PlacementName::of(policy, StageName::of(&stage.name)) == placement.name;
                let position = stages.iter().position(is_it)?;
                let before = position.checked_sub(1).and_then(|before| stages.get(before));
                refused(&stages[position..]).or_else(|| {
                    let is_judged = |stage: &&Stage| {
                        let mut writes = plan.writes.iter();
                        has_passed(facts, stage) || writes.any(|write| newly_passed(facts, write).contains(&stage.name))
                    };
                    unsaid(facts, &before.filter(|stage| !is_judged(stage))?.name, gates)
                })
            }
            _ => None,
        };
        broken.map(|(rule, text)| Violation {
            rule,
            text,
            facts: Some(Box::new(facts.clone())),
        })
    }
}

fn has_passed(facts: &Facts, stage: &Stage) -> bool {
    let status = facts.policy.object.status.iter();
    let mut records = status.flat_map(|status| &status.stages);
    records.any(|record| record.name == stage.name && record.state == stagegate_api::StageState::Passed)
}

fn checks(status: &StagedBindingPolicyStatus) -> impl Iterator<Item = (&StageStatus, &CheckStatus)> {
    let all = status.stages.iter();
    all.flat_map(|record| record.checks.iter().map(move |check| (record, check)))
}

/// The gate in the spec that a check in status is about.
fn gate_of<'s>(stages: &'s [Stage], record: &StageStatus, check: &CheckStatus) -> Option<&'s Gate> {
    let name = check.name.strip_prefix("gate/")?;
    let stage = stages.iter().find(|stage| stage.name == record.name)?;
    stage.gates.iter().find(|gate| gate.name == name)
}

fn attempt_of(record: &StageStatus) -> Attempt {
    let placement = record.binding_policy.as_ref().map(|placement| placement.uid.clone());
    (placement.unwrap_or_default(), record.attempt.unwrap_or_default())
}

/// Whether the check tells of this answer. Why a gate could not be asked is no answer of it.
fn is_told(answer: &GateAnswer, check: &CheckStatus) -> bool {
    match answer {
        GateAnswer::Pass { .. } => check.outcome == Outcome::Pass,
        GateAnswer::Hold { .. } => check.outcome == Outcome::Hold,
        GateAnswer::Fail { .. } => check.outcome == Outcome::Fail,
        GateAnswer::Unknown { .. } => check.outcome == Outcome::Unknown,
    }
}

/// Whether a stage would pass, or be said to, without the pass of one of its gates.
fn unsaid(facts: &Facts, stage: &str, gates: &Gates) -> Option<Broken> {
    let spec = facts
        .policy
        .object
        .spec
        .stages
        .iter()
        .find(|known| known.name == stage)?;
    let policy = facts.policy.object.metadata.name.as_deref().unwrap_or_default();
    let name = PlacementName::of(policy, StageName::of(stage));
    let placement = facts.placements.get(name.as_str()).and_then(Decoded::object)?;
    let annotations = placement.metadata.annotations.as_ref();
    let attempt = annotations.and_then(|all| all.get(stagegate_api::annotation::ATTEMPT)?.parse().ok());
    let attempt = (uid_of(&placement.metadata).to_owned(), attempt.unwrap_or_default());
    spec.gates.iter().find_map(|gate| {
        let config = config_of(gate);
        let mut said = gates.said.iter();
        let is_good = |said: &Said| {
            said.attempt == attempt && said.config == config && counts(said, facts.now) && is_of_reading(facts, said)
        };
        let is_said = said.any(is_good);
        let would = Manner::of(gate).is_some_and(|manner| gates.would_pass(&manner, (attempt.1, facts.now)));
        let is_anew = facts.read.is_anew();
        let missing = if !is_said {
            "which has not passed this attempt on the evidence that was read"
        } else if is_anew && !would {
            "which would not pass it at the time of the reading"
        } else {
            return None;
        };
        Some((
            "gates",
            format!("stage {stage} passes its gate {}, {missing}", gate.name),
        ))
    })
}

/// Whether the gate has passed, and for so long.
fn counts(said: &Said, now: Timestamp) -> bool {
    match said.answer {
        GateAnswer::Pass { valid_for_ms: None } => said.at <= now,
        GateAnswer::Pass {
            valid_for_ms: Some(lasts),
        } => {
            let lasts = jiff::SignedDuration::from_millis(i64::try_from(lasts).unwrap_or(i64::MAX));
            said.at <= now && now.duration_since(said.at) < lasts
        }
        _ => false,
    }
}

/// Whether all that the gate was shown is what the reading found.
fn is_of_reading(facts: &Facts, said: &Said) -> bool {
    let is_read = |shown: &CombinedRef| {
        let read = facts.combined.get(&format!("{}/{}", shown.namespace, shown.name));
        read.and_then(Decoded::object)
            .is_some_and(|read| read.digest == shown.digest)
    };
    said.evidence.iter().all(is_read)
}

/// Whether one of the stages has a gate that does not take its config.
fn refused(stages: &[Stage]) -> Option<Broken> {
    let is_wrong = |gate: &&Gate| Manner::of(gate).is_none_or(|manner| manner.is_wrong);
    let found = stages
        .iter()
        .find_map(|stage| Some((stage, stage.gates.iter().find(is_wrong)?)));
    let (stage, gate) = found?;
    let text = format!(
        "a stage is opened while gate {} of stage {} does not take its config",
        gate.name, stage.name
    );
    Some(("gates", text))
}
