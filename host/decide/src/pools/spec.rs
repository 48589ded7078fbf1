//! The spec of a YurtAppDaemon, checked: what the definition refuses may still be there, from before it did. Must not look at pools.

use jiff::SignedDuration;
use serde_json::{Map, Value};
use stagegate_api::parse_soak;
use stagegate_api::workloads::{PoolStage, REVISION_HISTORY_LIMIT, TemplateType, YurtAppDaemon};

use super::stages::CheckedStage;
use crate::checks::check::Check;
use crate::checks::expressions::empty_expression;
use crate::checks::spec::{Expression, gates};
use crate::checks::variables::Root;
use crate::selector::Selector;

/// A spec that can be carried out.
pub(super) struct Checked<'a> {
    pub kind: TemplateType,
    pub template: &'a Map<String, Value>,
    /// Of workloads.
    pub selector: Selector,
    pub pools: Selector,
    /// Revisions that are kept although nothing was made from them.
    pub history_limit: usize,
    pub paused: bool,
    pub stages: Vec<CheckedStage<'a>>,
}

impl<'a> Checked<'a> {
    /// Or which fields are wrong, each in a sentence that begins with the field and says how to correct it.
    pub fn of(daemon: &'a YurtAppDaemon) -> Result<Self, Vec<String>> {
        let spec = &daemon.spec;
        let mut mistakes = Vec::new();
        let chosen = kept(template(daemon), &mut mistakes);
        let workloads = Selector::try_from(&spec.selector).map_err(|error| format!("spec.selector: {error}"));
        let workloads = workloads.and_then(|selector| match selector.is_empty() {
            true => Err("spec.selector: must not be empty; give it the labels of the template".to_owned()),
            false => Ok(selector),
        });
        let workloads = kept(workloads, &mut mistakes);
        let pools =
            Selector::try_from(&spec.nodepool_selector).map_err(|error| format!("spec.nodepoolSelector: {error}"));
        let pools = kept(pools, &mut mistakes);
        let strategy = spec.update_strategy.as_ref();
        let stages = strategy.iter().flat_map(|strategy| &strategy.stages).enumerate();
        let stages: Vec<_> = stages
            .filter_map(|(at, stage)| {
                CheckedStage::of(stage, &format!("spec.updateStrategy.stages[{at}]"), &mut mistakes)
            })
            .collect();
        let history_limit = spec.revision_history_limit.unwrap_or(REVISION_HISTORY_LIMIT);
        match (chosen, workloads, pools) {
            (Some((kind, template)), Some(selector), Some(pools)) if mistakes.is_empty() => Ok(Self {
                kind,
                paused: strategy.is_some_and(|strategy| strategy.paused),
                stages,
                template,
                selector,
                pools,
                history_limit: usize::try_from(history_limit).unwrap_or_default(),
            }),
            _ => Err(mistakes),
        }
    }
}

/// The kind of the workloads and what they are made from, or what is wrong with it.
fn template(daemon: &YurtAppDaemon) -> Result<(TemplateType, &Map<String, Value>), String> {
    let (kind, template) =
        daemon.spec.workload_template.chosen().ok_or(
            "spec.workloadTemplate: needs exactly one of deploymentTemplate and statefulSetTemplate".to_owned(),
        )?;
    let made = daemon.status.as_ref().and_then(|status| status.template_type);
    if let Some(made) = made.filter(|made| *made != kind) {
        return Err(format!(
            "spec.workloadTemplate: the kind cannot be changed from {} to {}; create another YurtAppDaemon",
            made.kind(),
            kind.kind()
        ));
    }
    match template.get("spec").is_some_and(Value::is_object) {
        true => Ok((kind, template)),
        false => Err("spec.workloadTemplate: the template has no spec".to_owned()),
    }
}

/// What has no mistake; a mistake goes to the others.
fn kept<T>(checked: Result<T, String>, mistakes: &mut Vec<String>) -> Option<T> {
    checked.map_err(|mistake| mistakes.push(mistake)).ok()
}

impl<'a> CheckedStage<'a> {
    /// `None` only with a mistake.
    fn of(stage: &'a PoolStage, field: &str, mistakes: &mut Vec<String>) -> Option<Self> {
        let selector =
            Selector::try_from(&stage.nodepool_selector).map_err(|error| format!("{field}.nodepoolSelector: {error}"));
        let selector = kept(selector, mistakes);
        mistakes.extend(empty_expression(
            &format!("{field}.condition"),
            stage.condition.as_deref(),
        ));
        let gates = gates(&stage.gates, field, mistakes);
        let soak = stage.soak.as_deref().and_then(|text| {
            let time = parse_soak(text).and_then(|time| SignedDuration::try_from(time).ok());
            let time = time.ok_or_else(|| {
                format!("{field}.soak {text:?} is no time from 1s to 720h: write one such as 90s, 10m or 1h30m")
            });
            kept(time, mistakes)
        });
        Some(Self {
            name: &stage.name,
            selector: selector?,
            max_concurrent: stage.max_concurrent.as_ref(),
            condition: stage
                .condition
                .as_deref()
                .map(|text| Expression::new(text, Root::Pools)),
            gates,
            soak,
        })
    }

    /// Whether anything is asked of its pools but to be rolled out.
    pub fn has_checks(&self) -> bool {
        self.condition.is_some() || !self.gates.is_empty() || self.soak.is_some()
    }

    /// Whether a check of this name in status is one that the stage has (still).
    pub fn has_check(&self, name: &str) -> bool {
        match Check::named(name) {
            Some(Check::Evidence) => self.has_checks(),
            Some(Check::Condition) => self.condition.is_some(),
            Some(Check::Soak) => self.soak.is_some(),
            Some(Check::Filter | Check::Health) => false,
            None => self.gates.iter().any(|gate| gate.check_name() == name),
        }
    }
}
