//! Moves a StagedBindingPolicy through its stages: [`Facts`] in, a [`Decision`] out.
//!
//! Flow: check the spec → find the active stage (the first that has not passed at the revision) → place it (created
//! closed, then opened by a conditional write) → judge it → read the evidence anew and judge once more → open the next
//! → remove the previous once the next one serves its clusters.
//!
//! Guarantees: nothing is placed on cached facts; nothing that this policy does not own is touched; unknown is not
//! pass: whatever is missing, stale, undecodable or failed keeps the stage, and status names the first such thing.
//!
//! Assumptions: the caller answers questions truthfully and carries out writes in order, each under its precondition.

mod evidence;
mod input;
mod plan;
mod question;
mod rollout;
mod status;
mod updates;

pub use self::question::Question;
pub use crate::checks::answers::Compilation;
pub use crate::checks::gate_call::{
    CombinedRef, ConfigAnswer, ConfigKey, EarlierVerdict, GateAnswer, GateCall, GateDestination, GateEvidenceRow,
    GateHealth, GateNamespaces, GateObject, GateRequest, GateVerdict, Module, ModuleFacts, Source, SourceEntry,
};
pub use crate::checks::question::Evidence;
pub use crate::checks::reason::Reason;
pub use crate::checks::variables::{ClusterReport, ConditionEvidence, JudgedObject, Root, Variable};
pub use crate::checks::verdict::{Verdict, VerdictKey};
pub use evidence::collector::{has_our_spec, object as evidence_collector};
pub use evidence::combined_status::COMBINED_STATUS_BYTES_MAX;
pub use evidence::kinds::{is_never_returned, is_without_status};
pub use evidence::objects::is_read_whole;
pub use input::clauses::revision_of;
pub use input::facts::{
    BindingFacts, ContentDigest, Decoded, EvidenceCollectorFacts, Facts, ObjectFacts, ObjectMeta, PolicyFacts, Read,
    Settings,
};
pub use input::hold::{HoldAnswer, HoldFacts};
pub use input::observed::{NamedVersion, Observed, SeenGeneration, observe};
pub use input::placement::{bindings_to_read, open_placements};
pub use plan::{Decision, Event, Hold, Placement, Plan, Write};
pub use rollout::placing::newest_lease;
pub use rollout::stages::{placements_to_judge, placements_to_read};
pub use status::contested::{CONTESTED, CONTESTED_FOR, SECOND_CONTROLLER};
pub use status::is_news;
pub use status::wording::is_rewording;

use crate::checks::answers::Answers;
use crate::checks::finding::Finding;
use crate::checks::{expressions, gates};
use input::{placement, spec};
use rollout::{Rollout, placing};
use status::contested::contested_until;

/// What to do about one policy now.
///
/// Facts that the watches have brought, without any answer, give the first questions:
///
/// ```
/// use stagegate_decide::checks;
/// use stagegate_decide::staging::{Decision, Facts, Question, decide};
///
/// let facts: Facts = serde_json::from_value(serde_json::json!({
///     "now": "2026-01-05T09:00:00Z",
///     "policy": {"object": {
///         "apiVersion": "community.kubestellar.io/v1alpha1",
///         "kind": "StagedBindingPolicy",
///         "metadata": {"name": "nginx", "uid": "1", "resourceVersion": "7", "generation": 1},
///         "spec": {
///             "downsync": [{"resources": ["deployments"]}],
///             "stages": [{
///                 "name": "dev",
///                 "clusterSelectors": [{"matchLabels": {"env": "dev"}}],
///                 "condition": "obj.spec.replicas > 1",
///             }],
///         },
///     }},
/// }))?;
/// let Decision::Ask(questions) = decide(&facts) else { panic!("no plan without knowing whether the condition compiles") };
/// assert!(matches!(questions.as_slice(), [Question::OfChecks(checks::Question::Compile { .. })]));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn decide(facts: &Facts) -> Decision {
    match decide_uncontested(facts) {
        Decision::Act(plan) => Decision::Act(Plan {
            wake_at: [plan.wake_at, contested_until(facts)].into_iter().flatten().min(),
            ..plan
        }),
        asked @ Decision::Ask(_) => asked,
    }
}

/// The same, but for when to look whether the policy is still contested.
fn decide_uncontested(facts: &Facts) -> Decision {
    let policy = &facts.policy.object;
    if policy.metadata.deletion_timestamp.is_some() || !placement::is_identified(&policy.metadata) {
        return Decision::Act(Plan::default());
    }
    if placing::is_view_stale(facts) {
        return Decision::Act(Plan::default());
    }
    let mut checked = match spec::checked(facts) {
        Ok(checked) => checked,
        Err(finding) => return status::refused(facts, finding, placing::fences_of_refused(facts)),
    };
    let unknown = updates::resolve(facts, &mut checked);
    let rollout = Rollout::new(facts, &checked);
    match accept(&rollout, facts.answers()) {
        Ok(()) => match unknown {
            Some(unknown) => rollout.wait_for_versions(unknown),
            None => rollout.decide(),
        },
        Err(Unaccepted::Unanswered(questions)) => Decision::Ask(questions),
        Err(Unaccepted::Refused(finding)) => status::refused(facts, finding, rollout.fences()),
    }
}

/// Why a spec without a mistake of its own is not carried out.
enum Unaccepted {
    /// Whether its expressions and gate configs are right is not known yet.
    Unanswered(Vec<Question>),
    Refused(Finding),
}

/// Fails unless all expressions compile, and the gates that are still to be asked take their configs.
fn accept(rollout: &Rollout<'_>, answers: Answers<'_>) -> Result<(), Unaccepted> {
    let checked = rollout.checked;
    let gates_ahead = rollout.ahead().flat_map(|(_, stage)| &stage.gates);
    let of_expressions = expressions::compile_questions(answers, spec::expressions(checked));
    let of_gates = gates::questions(answers, gates_ahead);
    let questions: Vec<Question> = of_expressions.into_iter().chain(of_gates).map(Question::from).collect();
    if !questions.is_empty() {
        return Err(Unaccepted::Unanswered(questions));
    }
    let refused = expressions::refused_expressions(answers, spec::expressions(checked));
    if !refused.is_empty() {
        let finding = Finding::unknown(Reason::InvalidExpression, refused.join("; "));
        return Err(Unaccepted::Refused(finding));
    }
    let gates_ahead = rollout
        .ahead()
        .map(|(index, stage)| (index, stage.name.borrowed(), stage.gates.as_slice()));
    let refused = gates::refused_configs(answers, "spec.stages", gates_ahead);
    if !refused.is_empty() {
        let finding = Finding::unknown(Reason::InvalidGateConfig, refused.join("; "));
        return Err(Unaccepted::Refused(finding));
    }
    Ok(())
}
