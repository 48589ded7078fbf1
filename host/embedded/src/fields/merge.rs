//! The two value transformations of server-side apply: laying a configuration over the live object, and taking fields
//! away that a manager no longer applies.

use serde_json::Value;

use super::set::FieldSet;
use super::typing::{Merge, Typing, field_step, item_step};

/// `live` with `applied` laid over it.
pub(super) fn merge(live: &Value, applied: &Value, typing: Typing<'_>) -> Value {
    match (live, applied) {
        (Value::Object(live), Value::Object(applied)) if !typing.is_atomic_map() => {
            let mut merged = live.clone();
            for (name, value) in applied {
                let value = match live.get(name) {
                    Some(old) => merge(old, value, typing.field(name)),
                    None => value.clone(),
                };
                merged.insert(name.clone(), value);
            }
            Value::Object(merged)
        }
        (Value::Array(live), Value::Array(applied)) if !matches!(typing.list(), Merge::Atomic) => {
            Value::Array(merge_items(live, applied, typing))
        }
        _ => applied.clone(),
    }
}

fn merge_items(live: &[Value], applied: &[Value], typing: Typing<'_>) -> Vec<Value> {
    let mut merged = live.to_vec();
    let mut steps: Vec<Option<String>> = live.iter().map(|item| item_step(typing.list(), item)).collect();
    for item in applied {
        let step = item_step(typing.list(), item);
        match steps.iter().position(|known| *known == step) {
            Some(at) => merged[at] = merge(&merged[at], item, typing.item()),
            None => {
                merged.push(item.clone());
                steps.push(step);
            }
        }
    }
    merged
}

/// Takes the paths of `gone` out of `value`; what becomes empty by that goes too.
pub(super) fn remove(value: &mut Value, gone: &FieldSet, typing: Typing<'_>) {
    match value {
        Value::Object(map) if !typing.is_atomic_map() => {
            let names: Vec<String> = map.keys().cloned().collect();
            for name in names {
                let Some(below) = gone.child(&field_step(&name)) else {
                    continue;
                };
                let child_typing = typing.field(&name);
                let emptied = map.get_mut(&name).is_some_and(|child| {
                    remove(child, below, child_typing);
                    is_empty(child)
                });
                // Of a map that still has members of others only the one who put it there has gone.
                let is_held = map
                    .get(&name)
                    .is_some_and(|child| child.is_object() && !child_typing.is_atomic_map() && !is_empty(child));
                if below.is_member() && below.children().next().is_none() && !is_held || emptied {
                    map.remove(&name);
                }
            }
        }
        Value::Array(items) if !matches!(typing.list(), Merge::Atomic) => {
            items.retain_mut(|item| {
                let Some(step) = item_step(typing.list(), item) else {
                    return true;
                };
                let Some(below) = gone.child(&step) else { return true };
                if below.is_member() {
                    return false;
                }
                remove(item, below, typing.item());
                true
            });
        }
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
