//! Events have two spellings, `v1` and `events.k8s.io/v1`, of one stored object. This file translates between them and
//! does nothing else.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// Field of `events.k8s.io/v1`, field of `v1`.
const NAMES: &[(&str, &str)] = &[
    ("deprecatedCount", "count"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedSource", "source"),
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
];

/// From `events.k8s.io/v1` to the stored `v1`. The core type requires `involvedObject`.
pub fn to_core(event: Value) -> Value {
    let mut core = renamed(event, "v1", |name| {
        NAMES.iter().find(|(new, _)| *new == name).map(|(_, old)| *old)
    });
    if let Some(map) = core.as_object_mut() {
        map.entry("involvedObject").or_insert_with(|| Value::Object(Map::new()));
    }
    core
}

/// The stored spelling of a field that a selector names.
pub fn core_field(field: &str) -> Cow<'_, str> {
    let (first, rest) = field
        .split_once('.')
        .map_or((field, None), |(first, rest)| (first, Some(rest)));
    let old = NAMES.iter().find(|(new, _)| *new == first).map(|(_, old)| *old);
    match (old, rest) {
        (None, _) => Cow::Borrowed(field),
        (Some(old), None) => Cow::Borrowed(old),
        (Some(old), Some(rest)) => Cow::Owned(format!("{old}.{rest}")),
    }
}

/// From the stored `v1` to `events.k8s.io/v1`.
pub fn from_core(event: Value) -> Value {
    renamed(event, "events.k8s.io/v1", |name| {
        NAMES.iter().find(|(_, old)| *old == name).map(|(new, _)| *new)
    })
}

fn renamed(event: Value, api_version: &str, new_name: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Value::Object(map) = event else { return event };
    let mut renamed: Map<String, Value> = map
        .into_iter()
        .map(|(name, value)| (new_name(&name).map(str::to_owned).unwrap_or(name), value))
        .collect();
    renamed.insert("apiVersion".to_owned(), Value::from(api_version));
    Value::Object(renamed)
}

/// The same for a patch, which need not name what it leaves alone.
pub fn patch_to_core(patch: Value) -> Value {
    let mut core = renamed(patch, "v1", |name| {
        NAMES.iter().find(|(new, _)| *new == name).map(|(_, old)| *old)
    });
    if let Some(map) = core.as_object_mut() {
        map.remove("kind");
        map.remove("apiVersion");
    }
    core
}
