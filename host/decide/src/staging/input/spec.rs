//! A policy's spec as written → a checked one, or the full list of what is wrong with it.
//!
//! The CRD's rules refuse the same at admission; an object that was stored before a rule existed meets it here.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::SignedDuration;
use kube::ResourceExt as _;
use stagegate_api::{
    MAX_POLICY_AND_STAGE_NAME, MAX_STAGED_POLICY_NAME, PreviousStages, Stage, StageHealth, StagedBindingPolicy,
    UnacknowledgedUpdates, Updates,
};

use crate::checks::check::Check;
use crate::checks::expressions::empty_expression;
use crate::checks::finding::Finding;
use crate::checks::reason::Reason;
use crate::checks::spec::{CheckedGate, Expression, gates};
use crate::checks::variables::Root;
use crate::names::is_dns_label;
use crate::names::{Digest, PlacementName, StageName};
use crate::staging::input::clauses::revision_of;
use crate::staging::input::facts::Facts;
use crate::staging::input::selectors;

/// A policy that can be carried out.
#[derive(Clone, Debug)]
pub struct Checked {
    pub previous_stages: PreviousStages,
    /// Never empty; names are unique.
    pub stages: Vec<CheckedStage>,
    /// Of the clauses, and of the objects' versions where stages are held: what a rollout moves through the stages.
    pub revision: Digest,
}

#[derive(Clone, Debug)]
pub struct CheckedStage {
    pub name: StageName,
    pub placement: PlacementName,
    pub health: StageHealth,
    pub filter: Option<Expression>,
    pub condition: Option<Expression>,
    /// In the order they are asked.
    pub gates: Vec<CheckedGate>,
    pub soak: Option<SignedDuration>,
    pub unacknowledged_updates: UnacknowledgedUpdates,
    /// The versions that it may have at the revision, as [`stagegate_api::ADMITTED_VERSIONS`] has them; `None`: it is not held.
    pub admitted: Option<Arc<str>>,
}

impl CheckedStage {
    /// Whether anything has to be proven before the workload goes on from here.
    pub fn is_judged(&self) -> bool {
        self.requires_health() || self.condition.is_some() || !self.gates.is_empty()
    }

    /// Whether a check reads the results of the user's StatusCollectors.
    pub fn reads_collectors(&self) -> bool {
        self.condition.is_some() || !self.gates.is_empty()
    }

    pub fn requires_health(&self) -> bool {
        self.health == StageHealth::Required
    }

    /// Whether a check of this name in status is one that the stage has (still).
    pub fn has_check(&self, name: &str) -> bool {
        match Check::named(name) {
            Some(Check::Health) => self.requires_health(),
            Some(Check::Condition) => self.condition.is_some(),
            Some(Check::Filter) => self.filter.is_some(),
            Some(Check::Soak) => self.soak.is_some(),
            Some(Check::Evidence) => true,
            None => self.gates.iter().any(|gate| gate.check_name() == name),
        }
    }
}

/// The checked spec of the policy, or what is wrong with it.
pub fn checked(facts: &Facts) -> Result<Checked, Finding> {
    if let Some(error) = &facts.policy.invalid {
        let text = format!("the stored policy cannot be read ({error}): apply it again as the CRD describes it");
        return Err(Finding::unknown(Reason::InvalidObject, text));
    }
    check(&facts.policy.object).map_err(|mistakes| Finding::unknown(Reason::InvalidSpec, mistakes.join("; ")))
}

/// The checked spec, or every finding as a sentence that names the field and the fix.
fn check(policy: &StagedBindingPolicy) -> Result<Checked, Vec<String>> {
    let mut findings = Vec::new();
    let mut names = BTreeSet::new();
    let last = policy.spec.stages.len().saturating_sub(1);
    if policy.spec.stages.is_empty() {
        findings.push("spec.stages is empty: name at least one stage".to_owned());
    }
    let mut stages = Vec::new();
    for (index, stage) in policy.spec.stages.iter().enumerate() {
        let field = format!("spec.stages[{index}]");
        if !is_dns_label(&stage.name) {
            findings.push(format!(
                "{field}.name {:?} is no DNS label: use lower-case letters, digits and '-'",
                stage.name
            ));
        } else if !names.insert(&stage.name) {
            findings.push(format!(
                "{field}.name {:?} is used twice: give each stage its own name",
                stage.name
            ));
        }
        let length = policy.name_any().len() + stage.name.len();
        if length > MAX_POLICY_AND_STAGE_NAME {
            findings.push(format!(
                "{field}.name: policy and stage name have {length} characters together, at most \
                {MAX_POLICY_AND_STAGE_NAME} fit \
                 into the label that KubeStellar makes of them: shorten one"
            ));
        }
        let soak = stage.soak_time().unwrap_or_else(|text| {
            findings.push(format!(
                "{field}.soak {text:?} is no time from 1s to 720h: write one such as 90s, 10m or 1h30m"
            ));
            None
        });
        findings.extend(empty_expressions(stage, &field));
        if index != last && !stage.has_checks() {
            findings.push(format!(
                "{field} has health Ignored and neither condition nor gates nor soak, so nothing would hold the workload \
                there: add one, or set health: Required"
            ));
        }
        stages.push(CheckedStage {
            name: stage.name.as_str().into(),
            placement: PlacementName::of(&policy.name_any(), StageName::of(&stage.name)),
            health: stage.health,
            filter: stage.filter.as_deref().map(|text| Expression::new(text, Root::Clause)),
            condition: stage
                .condition
                .as_deref()
                .map(|text| Expression::new(text, Root::CombinedStatus)),
            gates: gates(&stage.gates, &field, &mut findings),
            soak: soak.and_then(|soak| SignedDuration::try_from(soak).ok()),
            unacknowledged_updates: stage.unacknowledged_updates,
            admitted: None,
        });
    }
    findings.extend(selectors::mistakes(&policy.spec));
    findings.extend(mistakes_of_staged(policy));
    if findings.is_empty() {
        Ok(Checked {
            previous_stages: policy.spec.previous_stages,
            stages,
            revision: revision_of(&policy.spec.downsync),
        })
    } else {
        Err(findings)
    }
}

/// What staged updates cannot do.
fn mistakes_of_staged(policy: &StagedBindingPolicy) -> Vec<String> {
    let mut mistakes = Vec::new();
    if policy.spec.updates != Updates::Staged {
        return mistakes;
    }
    let length = policy.name_any().len();
    if length > MAX_STAGED_POLICY_NAME {
        mistakes.push(format!(
            "metadata.name has {length} characters, at most {MAX_STAGED_POLICY_NAME} are possible with updates: Staged: choose a shorter name"
        ));
    }
    for (index, clause) in policy.spec.downsync.iter().enumerate() {
        let wanted = [
            ("wantSingletonReportedState", clause.want_singleton_reported_state),
            ("wantMultiWECReportedState", clause.want_multi_wec_reported_state),
        ];
        for (field, _) in wanted.iter().filter(|(_, is_wanted)| *is_wanted) {
            mistakes.push(format!(
                "spec.downsync[{index}].{field}: each returned status would be a new version with updates: Staged: remove the field, or set \
                 updates: Immediate"
            ));
        }
    }
    mistakes
}

/// The Go stager reads an empty expression as none.
fn empty_expressions<'a>(stage: &'a Stage, field: &'a str) -> impl Iterator<Item = String> + 'a {
    let expressions = [("filter", &stage.filter), ("condition", &stage.condition)];
    expressions
        .into_iter()
        .filter_map(move |(name, text)| empty_expression(&format!("{field}.{name}"), text.as_deref()))
}

/// All expressions, each with its field.
pub fn expressions(checked: &Checked) -> impl Iterator<Item = (String, &Expression)> {
    checked.stages.iter().enumerate().flat_map(|(index, stage)| {
        let filter = stage
            .filter
            .iter()
            .map(move |text| (format!("spec.stages[{index}].filter"), text));
        let condition = stage
            .condition
            .iter()
            .map(move |text| (format!("spec.stages[{index}].condition"), text));
        filter.chain(condition)
    })
}
