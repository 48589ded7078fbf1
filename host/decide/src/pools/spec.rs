//! The spec of a YurtAppDaemon, checked: what the definition refuses may still be there, from before it did. Must not look at pools.

use serde_json::{Map, Value};
use stagegate_api::workloads::{REVISION_HISTORY_LIMIT, TemplateType, YurtAppDaemon};

use super::stages::CheckedStage;
use crate::binding::Selector;

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
    /// Or which field is wrong, and how to correct it.
    pub fn of(daemon: &'a YurtAppDaemon) -> Result<Self, String> {
        let spec = &daemon.spec;
        let (kind, template) = spec.workload_template.chosen().ok_or(
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
        if !template.get("spec").is_some_and(Value::is_object) {
            return Err("spec.workloadTemplate: the template has no spec".to_owned());
        }
        let selector = Selector::try_from(&spec.selector).map_err(|error| format!("spec.selector: {error}"))?;
        if selector.is_empty() {
            return Err("spec.selector: must not be empty; give it the labels of the template".to_owned());
        }
        let pools =
            Selector::try_from(&spec.nodepool_selector).map_err(|error| format!("spec.nodepoolSelector: {error}"))?;
        let history_limit = spec.revision_history_limit.unwrap_or(REVISION_HISTORY_LIMIT);
        let strategy = spec.update_strategy.as_ref();
        let stages = strategy.iter().flat_map(|strategy| &strategy.stages).enumerate();
        let checked = stages.map(|(at, stage)| {
            let selector = Selector::try_from(&stage.nodepool_selector)
                .map_err(|error| format!("spec.updateStrategy.stages[{at}].nodepoolSelector: {error}"))?;
            Ok(CheckedStage {
                name: &stage.name,
                selector,
                max_concurrent: stage.max_concurrent.as_ref(),
            })
        });
        Ok(Self {
            kind,
            paused: strategy.is_some_and(|strategy| strategy.paused),
            stages: checked.collect::<Result<_, String>>()?,
            template,
            selector,
            pools,
            history_limit: usize::try_from(history_limit).unwrap_or_default(),
        })
    }
}
