//! Label selectors as objects carry them (`metav1.LabelSelector`): what is wrong with one, and whether it selects. Must not read the
//! text form that requests carry.

use serde_json::Value;

use crate::cause::Cause;
use crate::names::{LABEL_VALUE, is_label_value, is_qualified_name, qualified_name_complaint};

/// Whether `selector` selects something that has `labels`.
pub fn selects(selector: &Value, labels: &Value) -> bool {
    let equal = members(selector).all(|(key, value)| labels.get(key) == Some(value));
    let mut met = expressions(selector).map(|expression| {
        let found = expression["key"].as_str().and_then(|key| labels.get(key));
        let named = |value: &Value| {
            expression["values"]
                .as_array()
                .is_some_and(|values| values.contains(value))
        };
        match expression["operator"].as_str() {
            Some("In") => found.is_some_and(named),
            Some("NotIn") => !found.is_some_and(named),
            Some("Exists") => found.is_some(),
            Some("DoesNotExist") => found.is_none(),
            _ => false,
        }
    });
    equal && met.all(|met| met)
}

/// What is wrong with a selector that stands at `path`.
pub fn causes(selector: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (key, value) in members(selector) {
        let path = format!("{path}.matchLabels");
        if !is_qualified_name(key) {
            let shown = Value::from(key.as_str());
            causes.push(Cause::invalid(&path, &shown, qualified_name_complaint(key)));
        }
        if !value.as_str().is_some_and(is_label_value) {
            causes.push(Cause::invalid(&path, value, LABEL_VALUE));
        }
    }
    for (index, expression) in expressions(selector).enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        let has_values = expression["values"].as_array().is_some_and(|values| !values.is_empty());
        match expression["operator"].as_str() {
            Some("In" | "NotIn") if !has_values => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                causes.push(Cause::required(format!("{path}.values"), why));
            }
            Some("Exists" | "DoesNotExist") if has_values => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                causes.push(Cause::forbidden(format!("{path}.values"), why));
            }
            Some("In" | "NotIn" | "Exists" | "DoesNotExist") => {}
            _ => {
                let why = "not a valid selector operator";
                causes.push(Cause::invalid(format!("{path}.operator"), &expression["operator"], why));
            }
        }
        let key = expression["key"].as_str().unwrap_or_default();
        if !is_qualified_name(key) {
            let why = qualified_name_complaint(key);
            causes.push(Cause::invalid(format!("{path}.key"), &Value::from(key), why));
        }
    }
    causes
}

fn members(selector: &Value) -> impl Iterator<Item = (&String, &Value)> {
    selector["matchLabels"].as_object().into_iter().flatten()
}

fn expressions(selector: &Value) -> impl Iterator<Item = &Value> {
    selector["matchExpressions"].as_array().into_iter().flatten()
}
