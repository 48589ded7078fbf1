//! Detects that a BindingPolicy of ours is not stored as it was written: the API server drops a field that it does not know,
//! or a webhook changes it. Must not decide what is written.

use kube::ResourceExt as _;
use serde_json::{Value, json};
use stagegate_api::{BindingPolicySpec, annotation};

use crate::checks::finding::Finding;
use crate::checks::reason::Reason;
use crate::staging::input::OwnedPlacement;
use crate::staging::plan::Placement;

/// Annotates a change in place with the generation that it replaces. If nothing of the change is stored, the generation stays
/// the same.
pub fn noting_what_it_replaces(mut placement: Placement, own: &OwnedPlacement<'_>) -> Placement {
    if let Some(generation) = own.object.metadata.generation {
        placement
            .annotations
            .insert(annotation::REPLACED.to_owned(), generation.to_string());
    }
    placement
}

/// Annotates a change in place that brings other versions of the same objects to the same clusters.
pub fn noting_a_release(mut placement: Placement) -> Placement {
    placement
        .annotations
        .insert(annotation::REPLACED.to_owned(), String::new());
    placement
}

/// The finding when another change in place would be lost like the last one, which did not move the generation.
pub fn undone(own: &OwnedPlacement<'_>, wanted: &BindingPolicySpec) -> Option<Finding> {
    let replaced: i64 = own.object.annotations().get(annotation::REPLACED)?.parse().ok()?;
    if own.object.metadata.generation != Some(replaced) {
        return None;
    }
    let field = first_difference("spec", &json!(wanted), &json!(own.object.spec))?;
    let name = own.object.name_any();
    let text = format!(
        "BindingPolicy {name} still differs from this policy in {field} after that was written: the API server drops the field \
         (it is newer than this KubeStellar), or an admission webhook changes it; take it out of this policy, upgrade \
         KubeStellar, or change the webhook"
    );
    Some(Finding::unknown(Reason::BindingPolicyNotStored, text))
}

/// The path of the first difference between two values. It never contains a value: a message must not show parts of an object.
fn first_difference(path: &str, wanted: &Value, found: &Value) -> Option<String> {
    match (wanted, found) {
        _ if wanted == found => None,
        (Value::Object(wanted), Value::Object(found)) => {
            let names = wanted
                .keys()
                .chain(found.keys().filter(|name| !wanted.contains_key(*name)));
            names.into_iter().find_map(|name| {
                let of = |members: &serde_json::Map<String, Value>| members.get(name).cloned().unwrap_or_default();
                first_difference(&format!("{path}.{name}"), &of(wanted), &of(found))
            })
        }
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
            let pairs = wanted.iter().zip(found).enumerate();
            pairs
                .filter_map(|(index, (wanted, found))| first_difference(&format!("{path}[{index}]"), wanted, found))
                .next()
        }
        _ => Some(path.to_owned()),
    }
}
