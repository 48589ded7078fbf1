//! The structural schema of a custom resource, compiled once: what may stand where, what is dropped, filled in and
//! refused. It works on JSON values and knows nothing of storage or requests.

mod compile;
mod defaults;
mod identifiers;
mod prune;
mod references;
mod rule;
mod rules;
mod validate;

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use rule::Rule;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    fn name(self) -> &'static str {
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
    type_: Option<Type>,
    nullable: bool,
    int_or_string: bool,
    preserve_unknown: bool,
    /// The root, or `x-kubernetes-embedded-resource`.
    resource: bool,
    properties: BTreeMap<String, Schema>,
    additional: Option<Box<Schema>>,
    /// `additionalProperties: true`
    additional_any: bool,
    items: Option<Box<Schema>>,
    required: Vec<String>,
    default: Option<Value>,
    list: ListKind,
    atomic_map: bool,
    bounds: Bounds,
    all_of: Vec<Schema>,
    any_of: Vec<Schema>,
    one_of: Vec<Schema>,
    not: Option<Box<Schema>>,
    rules: Vec<Rule>,
    /// A rule stands here or below.
    has_rules: bool,
    /// A property name here or below is no CEL identifier.
    needs_escape: bool,
}

/// Limits on the value of one node. Lengths are characters, sizes items.
#[derive(Default)]
struct Bounds {
    one_of_values: Vec<Value>,
    pattern: Option<Regex>,
    format: Option<String>,
    minimum: Option<f64>,
    exclusive_minimum: bool,
    maximum: Option<f64>,
    exclusive_maximum: bool,
    multiple_of: Option<f64>,
    min_length: Option<u64>,
    max_length: Option<u64>,
    min_items: Option<u64>,
    max_items: Option<u64>,
    unique_items: bool,
    min_properties: Option<u64>,
    max_properties: Option<u64>,
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
    fn keeps_unknown(&self) -> bool {
        self.preserve_unknown || self.additional_any
    }
}

pub use compile::compile;
