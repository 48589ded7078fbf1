//! How lists and maps merge: by the schema of a custom resource, or, for built-in kinds and `metadata`, by the names
//! Kubernetes gives its fields. It answers questions about shape and touches no object.

use serde_json::{Map, Value};

use super::set::readable;
use crate::schema::{ListKind, Schema};

/// What is known about the value at one path.
#[derive(Clone, Copy)]
pub enum Typing<'a> {
    Schema(&'a Schema),
    /// A built-in field: its own name and that of the field around it.
    Named {
        parent: &'a str,
        name: &'a str,
    },
    Unknown,
}

/// Lists of built-in kinds that merge item by item, with their keys
/// (`x-kubernetes-list-map-keys` and `x-kubernetes-patch-merge-key` of the Kubernetes OpenAPI document).
const KEYED_LISTS: &[(&str, &[&str])] = &[
    ("conditions", &["type"]),
    ("containers", &["name"]),
    ("containerStatuses", &["name"]),
    ("env", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("hostAliases", &["ip"]),
    ("imagePullSecrets", &["name"]),
    ("initContainers", &["name"]),
    ("matchConditions", &["name"]),
    ("ownerReferences", &["uid"]),
    ("resourceClaims", &["name"]),
    ("secrets", &["name"]),
    ("topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
    ("variables", &["name"]),
    ("volumeDevices", &["devicePath"]),
    ("volumeMounts", &["mountPath"]),
    ("volumes", &["name"]),
];

/// Structs and maps that are replaced as a whole (`x-kubernetes-map-type: atomic`).
const ATOMIC_MAPS: &[&str] = &[
    "claimRef",
    "configMapKeyRef",
    "fieldRef",
    "fieldsV1",
    "involvedObject",
    "matchConstraints",
    "matchLabels",
    "matchResources",
    "nodeSelector",
    "resourceFieldRef",
    "roleRef",
    "secretKeyRef",
    "selector",
];

const CONTAINER_PORT: &[&str] = &["containerPort", "protocol"];
const SERVICE_PORT: &[&str] = &["port", "protocol"];

/// The keys of a list that merges by key.
#[derive(Clone, Copy)]
pub enum Keys<'a> {
    Static(&'static [&'static str]),
    Declared(&'a [String]),
}

impl<'a> Keys<'a> {
    pub fn iter(self) -> impl Iterator<Item = &'a str> {
        let (fixed, declared): (&'static [&'static str], &'a [String]) = match self {
            Keys::Static(keys) => (keys, &[]),
            Keys::Declared(keys) => (&[], keys),
        };
        fixed.iter().copied().chain(declared.iter().map(String::as_str))
    }
}

/// How a list merges.
#[derive(Clone, Copy)]
pub enum Merge<'a> {
    Atomic,
    Set,
    Keyed(Keys<'a>),
}

impl<'a> Typing<'a> {
    pub fn field(self, field: &'a str) -> Typing<'a> {
        match self {
            Typing::Schema(schema) if field == "metadata" && schema.is_resource() => Typing::Named {
                parent: "",
                name: "metadata",
            },
            Typing::Schema(schema) => schema.field(field).map_or(Typing::Unknown, Typing::Schema),
            Typing::Named { name, .. } => Typing::Named {
                parent: name,
                name: field,
            },
            Typing::Unknown => Typing::Unknown,
        }
    }

    pub fn item(self) -> Typing<'a> {
        match self {
            Typing::Schema(schema) => schema.item().map_or(Typing::Unknown, Typing::Schema),
            named_or_unknown => named_or_unknown,
        }
    }

    pub fn list(self) -> Merge<'a> {
        match self {
            Typing::Schema(schema) => match schema.list_kind() {
                ListKind::Atomic => Merge::Atomic,
                ListKind::Set => Merge::Set,
                ListKind::Map(keys) => Merge::Keyed(Keys::Declared(keys)),
            },
            Typing::Named {
                name: "finalizers" | "validationActions",
                ..
            } => Merge::Set,
            Typing::Named { name: "ports", parent } if parent.ends_with("ontainers") => {
                Merge::Keyed(Keys::Static(CONTAINER_PORT))
            }
            Typing::Named {
                name: "ports",
                parent: "spec",
            } => Merge::Keyed(Keys::Static(SERVICE_PORT)),
            Typing::Named { name, .. } => match KEYED_LISTS.iter().find(|(list, _)| *list == name) {
                Some((_, keys)) => Merge::Keyed(Keys::Static(keys)),
                None => Merge::Atomic,
            },
            Typing::Unknown => Merge::Atomic,
        }
    }

    /// A list that a strategic merge patch replaces, though server-side apply merges it (no `x-kubernetes-patch-strategy`).
    pub fn is_patched_whole(self) -> bool {
        matches!(
            self,
            Typing::Named {
                name: "validationActions",
                ..
            }
        )
    }

    pub fn is_atomic_map(self) -> bool {
        match self {
            Typing::Schema(schema) => schema.is_atomic_map(),
            Typing::Named { name, .. } => ATOMIC_MAPS.contains(&name),
            Typing::Unknown => false,
        }
    }
}

/// The first list with two items of one key, and that key, as people read them. Nobody could own either.
pub fn repeated(value: &Value, typing: Typing<'_>) -> Option<(String, String)> {
    match value {
        Value::Object(map) => map.iter().find_map(|(name, child)| {
            let (list, item) = repeated(child, typing.field(name))?;
            Some((format!(".{name}{list}"), item))
        }),
        Value::Array(items) => {
            let mut seen = std::collections::BTreeSet::new();
            for item in items {
                let Some(step) = item_step(typing.list(), item) else {
                    continue;
                };
                if !seen.insert(step.clone()) {
                    return Some((String::new(), readable(&step)));
                }
                if let Some((list, key)) = repeated(item, typing.item()) {
                    return Some((format!("{}{list}", readable(&step)), key));
                }
            }
            None
        }
        _ => None,
    }
}

/// The step to a map's field.
pub fn field_step(name: &str) -> String {
    format!("f:{name}")
}

/// The step to a list's item; `None` when the list has no addressable items.
pub fn item_step(merge: Merge<'_>, item: &Value) -> Option<String> {
    match merge {
        Merge::Atomic => None,
        Merge::Set => Some(format!("v:{item}")),
        Merge::Keyed(keys) => {
            let mut step = Map::new();
            for key in keys.iter() {
                match item.get(key) {
                    Some(value) => step.insert(key.to_owned(), value.clone()),
                    // The only key of a built-in list with a default.
                    None if key == "protocol" => step.insert(key.to_owned(), Value::from("TCP")),
                    None => None,
                };
            }
            Some(format!("k:{}", Value::Object(step)))
        }
    }
}
