//! One node of a compiled schema: what the definition says about it. Must not refuse or change a value.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Value};

use super::rule::Rule;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    pub(super) fn name(self) -> &'static str {
        match self {
            Type::Object => "object",
            Type::Array => "array",
            Type::String => "string",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Boolean => "boolean",
        }
    }
}

/// `x-kubernetes-list-type` with its keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListKind {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// One node of the schema.
#[derive(Default)]
pub struct Schema {
    pub(super) type_: Option<Type>,
    pub(super) nullable: bool,
    pub(super) int_or_string: bool,
    pub(super) preserve_unknown: bool,
    /// The root, or `x-kubernetes-embedded-resource`.
    pub(super) resource: bool,
    pub(super) properties: BTreeMap<String, Schema>,
    pub(super) additional: Option<Box<Schema>>,
    /// `additionalProperties: true`
    pub(super) additional_any: bool,
    pub(super) items: Option<Box<Schema>>,
    pub(super) required: Vec<String>,
    pub(super) default: Option<Value>,
    pub(super) list: ListKind,
    pub(super) atomic_map: bool,
    pub(super) bounds: Bounds,
    pub(super) all_of: Vec<Schema>,
    pub(super) any_of: Vec<Schema>,
    pub(super) one_of: Vec<Schema>,
    pub(super) not: Option<Box<Schema>>,
    pub(super) rules: Vec<Rule>,
    /// A rule stands here or below.
    pub(super) has_rules: bool,
    /// A property name here or below is no CEL identifier.
    pub(super) needs_escape: bool,
}

/// Limits on the value of one node. Lengths are characters, sizes items.
#[derive(Default)]
pub(super) struct Bounds {
    pub(super) one_of_values: Vec<Value>,
    pub(super) pattern: Option<Regex>,
    pub(super) format: Option<String>,
    pub(super) minimum: Option<f64>,
    pub(super) exclusive_minimum: bool,
    pub(super) maximum: Option<f64>,
    pub(super) exclusive_maximum: bool,
    pub(super) multiple_of: Option<f64>,
    pub(super) min_length: Option<u64>,
    pub(super) max_length: Option<u64>,
    pub(super) min_items: Option<u64>,
    pub(super) max_items: Option<u64>,
    pub(super) unique_items: bool,
    pub(super) min_properties: Option<u64>,
    pub(super) max_properties: Option<u64>,
}

impl Schema {
    pub fn is_resource(&self) -> bool {
        self.resource
    }

    pub fn field(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name).or(self.additional.as_deref())
    }

    pub fn item(&self) -> Option<&Schema> {
        self.items.as_deref()
    }

    pub fn list_kind(&self) -> &ListKind {
        &self.list
    }

    pub fn is_atomic_map(&self) -> bool {
        self.atomic_map
    }

    /// Whether a field that the schema does not name may stand here.
    pub(super) fn keeps_unknown(&self) -> bool {
        self.preserve_unknown || self.additional_any
    }

    /// A node without a type takes anything.
    pub(super) fn is_open(&self) -> bool {
        self.type_.is_none() && !self.int_or_string
    }

    /// The identity of an item of a list that merges by key.
    pub(super) fn keys_of(&self, item: &Value, keys: &[String]) -> Map<String, Value> {
        keys.iter()
            .filter_map(|key| item.get(key).map(|value| (key.clone(), value.clone())))
            .collect()
    }
}

/// The path of a field below a node's.
pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}
