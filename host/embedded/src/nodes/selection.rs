//! Whether Pods of a template may run on a node, as far as a scheduler looks at selectors and taints. Must not look at affinity or resources.

use std::collections::BTreeMap;

use serde_json::Value;
use stagegate_api::{SimulatedNodeSpec, SimulatedTaint};

/// `pod` is the spec of a Pod.
pub(super) fn may_run(pod: &Value, labels: &BTreeMap<String, String>, node: &SimulatedNodeSpec) -> bool {
    let selector = pod["nodeSelector"].as_object().into_iter().flatten();
    let has_labels = selector
        .into_iter()
        .all(|(key, value)| labels.get(key).map(String::as_str) == value.as_str());
    let tolerations: &[Value] = pod["tolerations"].as_array().map_or(&[], Vec::as_slice);
    let repels = |taint: &&SimulatedTaint| taint.effect != "PreferNoSchedule";
    let is_tolerated = |taint: &SimulatedTaint| tolerations.iter().any(|toleration| tolerates(toleration, taint));
    has_labels && node.taints.iter().filter(repels).all(is_tolerated)
}

fn tolerates(toleration: &Value, taint: &SimulatedTaint) -> bool {
    let text = |member: &str| toleration[member].as_str().unwrap_or_default();
    let is_any = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
    let has_value = text("operator") == "Exists" || text("value") == taint.value.as_deref().unwrap_or_default();
    let has_key = text("key") == taint.key || text("key").is_empty() && text("operator") == "Exists";
    is_any(text("effect"), &taint.effect) && has_key && has_value
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_run_where_their_selector_matches_and_their_tolerations_cover_the_taints() {
        let labels = BTreeMap::from([("pool".to_owned(), "edge".to_owned())]);
        let node = |taint: Value| -> SimulatedNodeSpec { serde_json::from_value(json!({"taints": [taint]})).unwrap() };
        let tainted = node(json!({"key": "k", "value": "v", "effect": "NoSchedule"}));
        let soft = node(json!({"key": "k", "effect": "PreferNoSchedule"}));
        let tolerating = |toleration: Value| json!({"tolerations": [toleration]});
        for (pod, node, expected) in [
            (json!({}), &SimulatedNodeSpec::default(), true),
            (
                json!({"nodeSelector": {"pool": "edge"}}),
                &SimulatedNodeSpec::default(),
                true,
            ),
            (
                json!({"nodeSelector": {"pool": "other"}}),
                &SimulatedNodeSpec::default(),
                false,
            ),
            (
                json!({"nodeSelector": {"absent": ""}}),
                &SimulatedNodeSpec::default(),
                false,
            ),
            (json!({}), &soft, true),
            (json!({}), &tainted, false),
            (tolerating(json!({"key": "k", "operator": "Exists"})), &tainted, true),
            (tolerating(json!({"operator": "Exists"})), &tainted, true),
            (tolerating(json!({"key": "k", "value": "v"})), &tainted, true),
            (
                tolerating(json!({"key": "k", "value": "v", "effect": "NoSchedule"})),
                &tainted,
                true,
            ),
            (
                tolerating(json!({"key": "k", "value": "v", "effect": "NoExecute"})),
                &tainted,
                false,
            ),
            (tolerating(json!({"key": "k", "value": "w"})), &tainted, false),
            (tolerating(json!({"key": "k"})), &tainted, false),
            (tolerating(json!({"value": "v"})), &tainted, false),
        ] {
            assert_eq!(may_run(&pod, &labels, node), expected, "{pod}");
        }
    }
}
