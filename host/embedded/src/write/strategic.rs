//! Strategic merge patch for built-in kinds: a merge patch whose lists merge by key, with `$patch`,
//! `$deleteFromPrimitiveList` and `$retainKeys`. `$setElementOrder` only orders and is dropped.

use serde_json::{Map, Value};

use crate::fields::{Merge, Typing};
use crate::refusal::Refusal;

/// Lays `patch` over `target`.
pub(super) fn merge(target: &mut Value, patch: Value, typing: Typing<'_>) -> Result<(), Refusal> {
    let Value::Object(patch) = patch else {
        *target = patch;
        return Ok(());
    };
    if patch.get("$patch").and_then(Value::as_str) == Some("replace") {
        *target = Value::Object(patch.into_iter().filter(|(name, _)| !name.starts_with('$')).collect());
        return Ok(());
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(map) = target.as_object_mut() else {
        return Ok(());
    };
    if let Some(Value::Array(kept)) = patch.get("$retainKeys") {
        map.retain(|name, _| kept.iter().any(|keep| keep == name));
    }
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            let gone = value.as_array().map(Vec::as_slice).unwrap_or_default();
            if let Some(items) = map.get_mut(list).and_then(Value::as_array_mut) {
                items.retain(|item| !gone.contains(item));
            }
        } else if name.starts_with('$') {
            continue;
        } else if value.is_null() || value["$patch"] == "delete" {
            map.remove(&name);
        } else {
            merge_field(
                map.entry(name.clone()).or_insert(Value::Null),
                value,
                typing.field(&name),
            )?;
        }
    }
    Ok(())
}

fn merge_field(target: &mut Value, patch: Value, typing: Typing<'_>) -> Result<(), Refusal> {
    match (patch, typing.list()) {
        (Value::Array(patch), Merge::Keyed(keys)) => {
            let keys: Vec<&str> = keys.iter().collect();
            merge_list(target, patch, &keys, typing)
        }
        (Value::Array(patch), Merge::Set) if !typing.is_patched_whole() => {
            let mut items = target.as_array().cloned().unwrap_or_default();
            for item in patch {
                if !items.contains(&item) {
                    items.push(item);
                }
            }
            *target = Value::Array(items);
            Ok(())
        }
        (patch, _) => merge(target, patch, typing),
    }
}

fn merge_list(target: &mut Value, patch: Vec<Value>, keys: &[&str], typing: Typing<'_>) -> Result<(), Refusal> {
    let mut items = target.as_array().cloned().unwrap_or_default();
    if patch.iter().any(|item| item["$patch"] == "replace") {
        items.clear();
    }
    // Only the first key is the patch merge key; the others tell server-side apply's items apart.
    let key = keys.first().copied().unwrap_or("name");
    for item in patch {
        let Some(identity) = item.get(key).cloned() else {
            if item["$patch"] == "replace" {
                continue;
            }
            return Err(Refusal::bad_request(format!(
                "an item of a strategic merge patch lacks its merge key {key:?}"
            )));
        };
        let known = items.iter().position(|candidate| candidate.get(key) == Some(&identity));
        match (item["$patch"] == "delete", known) {
            (true, Some(at)) => {
                items.remove(at);
            }
            (true, None) => {}
            (false, Some(at)) => merge(&mut items[at], item, typing.item())?,
            (false, None) => {
                let mut fresh = Value::Object(Map::new());
                merge(&mut fresh, item, typing.item())?;
                items.push(fresh);
            }
        }
    }
    *target = Value::Array(items);
    Ok(())
}
