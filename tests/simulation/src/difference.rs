//! What is different between two objects: for the trace.

use serde::Serialize;
use serde_json::Value;

/// Most differences that are told.
const TOLD_MAX: usize = 6;

/// `path: before → after` for each value that is not the same.
pub fn difference<T: Serialize>(before: Option<&T>, after: &T) -> String {
    let value = |object: Option<&T>| serde_json::to_value(object).unwrap_or_default();
    let mut found = Vec::new();
    walk("", (&value(before), &value(Some(after))), &mut found);
    found.truncate(TOLD_MAX);
    found.join("; ")
}

fn walk(path: &str, (before, after): (&Value, &Value), found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for name in names {
                let side = |members: &serde_json::Map<String, Value>| members.get(name).cloned().unwrap_or_default();
                walk(&format!("{path}/{name}"), (&side(old), &side(new)), found);
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            for position in 0..old.len().max(new.len()) {
                let side = |items: &[Value]| items.get(position).cloned().unwrap_or_default();
                walk(&format!("{path}/{position}"), (&side(old), &side(new)), found);
            }
        }
        _ if before == after => {}
        _ => found.push(format!("{path}: {before} → {after}")),
    }
}
