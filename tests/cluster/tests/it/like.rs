//! When an object is like what a scenario says of it. Must not fetch anything.

use regex::Regex;
use serde_json::Value;

/// What is wrong with `found`, as paths; nothing: every member of `wanted` is there alike. Of a list, each wanted element is like some
/// element. `~…` is a regular expression over a text; null is absence.
pub fn faults(wanted: &Value, found: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    compare("", wanted, Some(found), &mut faults);
    faults
}

fn compare(path: &str, wanted: &Value, found: Option<&Value>, faults: &mut Vec<String>) {
    let Some(found) = found.filter(|found| !found.is_null()) else {
        if !wanted.is_null() {
            faults.push(format!("{path} is absent, not {wanted}"));
        }
        return;
    };
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            for (name, wanted) in wanted {
                compare(&format!("{path}.{name}"), wanted, found.get(name), faults);
            }
        }
        (Value::Array(wanted), Value::Array(found)) => {
            for wanted in wanted {
                let is_like = |found: &Value| {
                    let mut faults = Vec::new();
                    compare("", wanted, Some(found), &mut faults);
                    faults.is_empty()
                };
                if !found.iter().any(is_like) {
                    faults.push(format!(
                        "{path} has nothing like {wanted}: {}",
                        Value::from(found.clone())
                    ));
                }
            }
        }
        (Value::String(wanted), Value::String(found)) if wanted.starts_with('~') => {
            let pattern = Regex::new(&wanted[1..]).unwrap_or_else(|error| panic!("{wanted}: {error}"));
            if !pattern.is_match(found) {
                faults.push(format!("{path} is {found:?}, which does not match {wanted}"));
            }
        }
        _ if wanted == found => {}
        _ => faults.push(format!("{path} is {found}, not {wanted}")),
    }
}
