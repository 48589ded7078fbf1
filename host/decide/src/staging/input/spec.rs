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

use crate::checks::answers::{Answers, Compilation};
use crate::checks::check::Check;
use crate::checks::finding::Finding;
use crate::checks::question::Question;
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

/// The Go stager reads an empty expression as none. In YAML `condition: !has(x)` is a tag and an empty text, so a check that its author has
/// written would be none, too.
fn empty_expressions<'a>(stage: &'a Stage, field: &'a str) -> impl Iterator<Item = String> + 'a {
    let expressions = [("filter", &stage.filter), ("condition", &stage.condition)];
    let empty = expressions
        .into_iter()
        .filter(|(_, text)| text.as_deref().is_some_and(str::is_empty));
    empty.map(move |(name, _)| {
        format!(
            "{field}.{name} is empty: remove it, or write an expression; put one that begins with `!` below `{name}: |`, because YAML \
            reads `!` as a tag"
        )
    })
}

/// Which expressions nobody has tried to compile yet.
pub fn compile_questions(checked: &Checked, answers: Answers<'_>) -> Vec<Question> {
    let mut asked = BTreeSet::new();
    expressions(checked)
        .filter(|(_, expression, _)| !answers.compiled.contains_key(&expression.digest))
        .filter(|(_, expression, _)| asked.insert(expression.digest.clone()))
        .map(|(_, expression, root)| Question::Compile {
            digest: expression.digest.clone(),
            text: expression.text.clone(),
            root,
        })
        .collect()
}

/// The expressions that do not compile, each as a sentence.
pub fn refused_expressions(checked: &Checked, answers: Answers<'_>) -> Vec<String> {
    expressions(checked)
        .filter_map(
            |(field, expression, root)| match answers.compiled.get(&expression.digest) {
                Some(Compilation::Refused(message)) => {
                    Some(format!("{field} does not compile: {message}; {}", variables(root)))
                }
                _ => None,
            },
        )
        .collect()
}

/// The field of the first expression that names no variable, so that no report changes what it says.
pub fn constant(checked: &Checked, answers: Answers<'_>) -> Option<String> {
    expressions(checked).find_map(
        |(field, expression, _)| match answers.compiled.get(&expression.digest) {
            Some(Compilation::Compiles(named)) if named.is_empty() => Some(field),
            _ => None,
        },
    )
}

fn expressions(checked: &Checked) -> impl Iterator<Item = (String, &Expression, Root)> {
    checked.stages.iter().enumerate().flat_map(|(index, stage)| {
        let filter = stage
            .filter
            .as_ref()
            .map(|text| (format!("spec.stages[{index}].filter"), text, Root::Clause));
        let condition = stage
            .condition
            .as_ref()
            .map(|text| (format!("spec.stages[{index}].condition"), text, Root::CombinedStatus));
        filter.into_iter().chain(condition)
    })
}

fn variables(root: Root) -> String {
    let names: Vec<&str> = root.variables().iter().map(|variable| variable.name()).collect();
    let expression = match root {
        Root::Clause => "a filter",
        Root::CombinedStatus => "a condition",
    };
    format!("{expression} may use the variables {}", names.join(", "))
}
