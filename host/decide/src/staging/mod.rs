//! Moves a StagedBindingPolicy through its stages: [`Facts`] in, a [`Decision`] out.
//!
//! Flow: check the spec → find the active stage (the first that has not passed at the plan) → place it (created
//! closed, then opened by a conditional write) → judge it → read everything anew and judge once more → open the next
//! → remove the previous once the next one serves its clusters.
//!
//! Guarantees: nothing is placed on cached facts; nothing that this policy does not own is touched; unknown is not
//! pass: whatever is missing, stale, undecodable or failed keeps the stage, and status names the first such thing.
//!
//! Assumptions: the caller answers questions truthfully and carries out writes in order, each under its precondition.

mod binding_part;
mod bound;
mod collector;
mod compact;
mod completed;
mod doubt;
mod drift;
mod edits;
mod evidence;
mod facts;
mod finding;
mod gate_facts;
mod gates;
mod handover;
mod healthy;
mod judge;
mod kinds;
mod observe;
mod pending;
mod placing;
mod plan;
mod reason;
mod record;
mod reports;
mod rollout;
mod sign_of_life;
mod slot;
mod soak;
mod spec;
mod stages;
mod status;
mod tracked;

use stagegate_api::{DownsyncClause, Phase, StageState};

pub use collector::{has_our_spec, object as evidence_collector};
pub use evidence::COMBINED_STATUS_BYTES_MAX;
pub use facts::{
    BindingFacts, Compilation, Decoded, EvidenceCollectorFacts, Facts, ObjectFacts, ObjectMeta, PolicyFacts, Read,
    Settings, Verdict, VerdictKey,
};
pub use gate_facts::{
    CombinedRef, ConfigAnswer, ConfigKey, EarlierVerdict, GateAnswer, GateCall, GateDestination, GateEvidenceRow,
    GateHealth, GateNamespaces, GateObject, GateRequest, GateVerdict, Module, ModuleFacts, Source, SourceEntry,
};
pub use kinds::{is_never_returned, is_without_status};
pub use observe::{NamedVersion, Observed, observe};
pub use placing::newest_lease;
pub use plan::{Decision, Event, Evidence, Placement, Plan, Precondition, Question, Root, Write};
pub use reason::Reason;
pub use status::is_news;

use crate::names::Digest;
use finding::Finding;
use rollout::Rollout;
use status::Standing;

/// What to do about one policy now.
pub fn decide(facts: &Facts) -> Decision {
    let policy = &facts.policy.object;
    if policy.metadata.deletion_timestamp.is_some() || !slot::is_identified(&policy.metadata) {
        return Decision::Act(Plan::default());
    }
    if placing::is_view_stale(facts) {
        return Decision::Act(Plan::default());
    }
    if let Some(error) = &facts.policy.undecodable {
        let text = format!("the stored policy cannot be read ({error}): apply it again as the CRD describes it");
        let finding = Finding::unknown(Reason::Undecodable, text);
        return refuse(facts, finding, placing::stamps_of_refused(facts));
    }
    let checked = match spec::check(policy) {
        Ok(checked) => checked,
        Err(findings) => {
            let finding = Finding::unknown(Reason::InvalidSpec, findings.join("; "));
            return refuse(facts, finding, placing::stamps_of_refused(facts));
        }
    };
    let rollout = Rollout::new(facts, &checked);
    let mut questions = spec::compile_questions(&checked, facts);
    questions.extend(gates::questions(facts, rollout.ahead().map(|(_, stage)| stage)));
    if !questions.is_empty() {
        return Decision::Ask(questions);
    }
    let refused = spec::refused_expressions(&checked, facts);
    if !refused.is_empty() {
        let finding = Finding::unknown(Reason::InvalidExpression, refused.join("; "));
        return refuse(facts, finding, rollout.stamps());
    }
    let refused = gates::refused_configs(facts, rollout.ahead());
    if !refused.is_empty() {
        let finding = Finding::unknown(Reason::InvalidGateConfig, refused.join("; "));
        return refuse(facts, finding, rollout.stamps());
    }
    rollout.decide()
}

/// The plan that these clauses are: what a rollout moves. Our collector is no part of it, and neither is the
/// difference between an absent and an empty list, which KubeStellar does not make.
pub fn plan_of(downsync: &[DownsyncClause]) -> Digest {
    let mut clauses = collector::without_evidence(downsync);
    for clause in &mut clauses {
        drop_empty(&mut clause.resources);
        drop_empty(&mut clause.namespaces);
        drop_empty(&mut clause.object_names);
        drop_empty(&mut clause.namespace_selectors);
        drop_empty(&mut clause.object_selectors);
    }
    Digest::of(&clauses)
}

fn drop_empty<T>(list: &mut Option<Vec<T>>) {
    if list.as_ref().is_some_and(Vec::is_empty) {
        *list = None;
    }
}

/// A policy that cannot be carried out: everything placed stays placed, status and an Event say why.
fn refuse(facts: &Facts, finding: Finding, writes: Vec<Write>) -> Decision {
    let mut old = facts.policy.object.status.clone().unwrap_or_default();
    // Nothing is judged meanwhile, so nobody knows that it went on passing.
    for stage in old.stages.iter_mut().filter(|stage| stage.state != StageState::Passed) {
        stage.passing_since = None;
    }
    let standing = Standing {
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
        active_stage: old.active_stage,
        stages: old.stages,
    };
    let (write, events) = status::write(facts, standing);
    Decision::Act(Plan {
        writes: writes.into_iter().chain(write).collect(),
        events,
        wake_at: None,
        not_after: None,
    })
}
