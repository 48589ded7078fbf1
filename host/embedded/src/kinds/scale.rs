//! An object seen through its scale subresource, as `autoscaling/v1 Scale`. Must not write one.

use serde_json::{Value, json};

use super::kind::Scale;

/// The object as a Scale, whose numbers stand at `paths`.
pub fn seen_as_scale(object: &Value, paths: &Scale) -> Value {
    let at = |path: &str| path.split('.').try_fold(object, |value, step| value.get(step));
    let number = |path: &str| at(path).and_then(Value::as_i64).unwrap_or(0);
    let metadata = &object["metadata"];
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata["name"], "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
            "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {"replicas": number(&paths.wanted)},
        "status": {"replicas": number(&paths.present)},
    });
    if metadata["namespace"]
        .as_str()
        .is_some_and(|namespace| !namespace.is_empty())
    {
        scale["metadata"]["namespace"] = metadata["namespace"].clone();
    }
    if let Some(selector) = paths.selector.as_deref().and_then(at).and_then(selector_text) {
        scale["status"]["selector"] = Value::from(selector);
    }
    scale
}

fn selector_text(selector: &Value) -> Option<String> {
    if let Some(text) = selector.as_str() {
        return Some(text.to_owned());
    }
    let labels = selector.get("matchLabels").unwrap_or(selector).as_object()?;
    let pairs = labels
        .iter()
        .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    Some(pairs.collect::<Vec<_>>().join(","))
}
