//! The label selectors of a policy as KubeStellar would read them. Must not match anything.
//!
//! KubeStellar leaves out an object selector that it cannot read, and never processes a BindingPolicy with such a cluster selector. The
//! API server does not refuse them: a CRD's schema cannot say which operator takes values.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use stagegate_api::StagedBindingPolicySpec;

use crate::selector::Selector;

/// A sentence for each selector that cannot be read.
pub fn mistakes(spec: &StagedBindingPolicySpec) -> Vec<String> {
    let mut mistakes = Vec::new();
    for (index, clause) in spec.downsync.iter().enumerate() {
        let field = format!("spec.downsync[{index}]");
        let namespaces = clause.namespace_selectors.as_deref().unwrap_or_default();
        mistakes.extend(unreadable(&format!("{field}.namespaceSelectors"), namespaces));
        let objects = clause.object_selectors.as_deref().unwrap_or_default();
        mistakes.extend(unreadable(&format!("{field}.objectSelectors"), objects));
    }
    for (index, stage) in spec.stages.iter().enumerate() {
        let field = format!("spec.stages[{index}].clusterSelectors");
        mistakes.extend(unreadable(&field, &stage.cluster_selectors));
    }
    mistakes
}

/// A sentence for each selector of the list `field` that cannot be read: where it is, and what is wrong.
pub fn unreadable(field: &str, selectors: &[LabelSelector]) -> Vec<String> {
    let read = selectors.iter().map(Selector::try_from).enumerate();
    read.filter_map(|(index, read)| Some(format!("{field}[{index}] cannot be read: {}", read.err()?)))
        .collect()
}
