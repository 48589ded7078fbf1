//! The status of a policy that cannot be carried out. Must not decide whether it can be.

use stagegate_api::Phase;

use crate::checks::finding::Finding;
use crate::names::StageName;
use crate::staging::input::Facts;
use crate::staging::plan::{Decision, Plan, Write};
use crate::staging::status::stage::interrupt_soaks;
use crate::staging::status::{StatusDraft, write};

/// Everything placed stays placed; status and an Event say why. `writes` come before the status.
pub fn refused(facts: &Facts, finding: Finding, writes: Vec<Write>) -> Decision {
    let mut old = facts.policy.object.status.clone().unwrap_or_default();
    // Nothing is judged meanwhile, so it is not known whether a stage went on passing.
    interrupt_soaks(&mut old.stages, None);
    let status_draft = StatusDraft {
        phase: if facts.policy.object.spec.paused {
            Phase::Paused
        } else {
            Phase::Progressing
        },
        reason: finding.reason,
        message: finding.message.clone(),
        accepted: Err(finding.clone()),
        stalled: Some(finding),
        unready: None,
        active_stage: old.active_stage.map(StageName::from),
        clusters: None,
        stages: old.stages,
    };
    let (status, events) = write(facts, status_draft);
    Decision::Act(Plan {
        writes: writes.into_iter().chain(status).collect(),
        events,
        wake_at: None,
        not_after: None,
    })
}
