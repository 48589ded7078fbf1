//! From the `openAPIV3Schema` of a CustomResourceDefinition to a compiled schema, refusing what a real API server
//! would: untyped nodes, broken patterns, rules that do not compile.

use regex::Regex;
use serde_json::Value;

use super::identifiers::is_identifier;
use super::node::{Bounds, ListKind, Schema, Type};
use super::references::undeclared;
use super::rule::Rule;
use crate::cause::Cause;

/// Compiles the schema of a whole resource. `path` is where it stands in the definition; all mistakes are reported.
pub fn compile(json: &Value, path: &str) -> Result<Schema, Vec<Cause>> {
    let mut compiler = Compiler { causes: Vec::new() };
    let schema = compiler.node(json, path, SchemaNode::Root);
    if schema.type_ != Some(Type::Object) {
        compiler
            .causes
            .push(Cause::required(format!("{path}.type"), "must be object at the root"));
    }
    if compiler.causes.is_empty() {
        Ok(schema)
    } else {
        Err(compiler.causes)
    }
}

/// Whether a node declares structure or, below `anyOf` and its kin, only limits values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaNode {
    /// The whole resource.
    Root,
    Structure,
    Logic,
}

struct Compiler {
    causes: Vec<Cause>,
}

impl Compiler {
    fn node(&mut self, json: &Value, path: &str, place: SchemaNode) -> Schema {
        let flag = |name: &str| json.get(name).and_then(Value::as_bool).unwrap_or(false);
        let mut schema = Schema {
            type_: self.type_of(json, path),
            nullable: flag("nullable"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            resource: place == SchemaNode::Root || flag("x-kubernetes-embedded-resource"),
            default: json.get("default").cloned(),
            required: strings(json, "required"),
            list: self.list_kind(json, path),
            atomic_map: json.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic"),
            bounds: self.bounds(json, path),
            ..Schema::default()
        };
        if place != SchemaNode::Logic && schema.type_.is_none() && !schema.int_or_string && !schema.preserve_unknown {
            let why = "must not be empty for specified object fields";
            self.causes.push(Cause::required(format!("{path}.type"), why));
        }
        let below = if place == SchemaNode::Logic {
            place
        } else {
            SchemaNode::Structure
        };
        self.children(json, path, below, &mut schema);
        self.rules(json, path, &mut schema);
        schema.summarise();
        schema
    }

    fn rules(&mut self, json: &Value, path: &str, schema: &mut Schema) {
        let rules = json.get("x-kubernetes-validations").and_then(Value::as_array);
        for (index, rule) in rules.into_iter().flatten().enumerate() {
            let path = format!("{path}.x-kubernetes-validations[{index}]");
            let text = rule["rule"].as_str().unwrap_or_default();
            if let Some(field) = undeclared(text, schema) {
                let why = format!("compilation failed: undefined field '{field}'");
                self.causes
                    .push(Cause::invalid(format!("{path}.rule"), &rule["rule"], why));
                continue;
            }
            match Rule::compile(rule, &path) {
                Ok(rule) => schema.rules.push(rule),
                Err(cause) => self.causes.push(cause),
            }
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the node under construction and where it stands"
    )]
    fn children(&mut self, json: &Value, path: &str, place: SchemaNode, schema: &mut Schema) {
        for (name, property) in json.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let child = self.node(property, &format!("{path}.properties[{name}]"), place);
            schema.properties.insert(name.clone(), child);
        }
        match json.get("additionalProperties") {
            Some(Value::Bool(any)) => schema.additional_any = *any,
            Some(values @ Value::Object(_)) => {
                let child = self.node(values, &format!("{path}.additionalProperties"), place);
                schema.additional = Some(Box::new(child));
            }
            _ => {}
        }
        if let Some(items) = json.get("items") {
            schema.items = Some(Box::new(self.node(items, &format!("{path}.items"), place)));
        } else if schema.type_ == Some(Type::Array) && place == SchemaNode::Structure {
            self.causes
                .push(Cause::required(format!("{path}.items"), "must be specified"));
        }
        schema.all_of = self.branches(json, path, "allOf");
        schema.any_of = self.branches(json, path, "anyOf");
        schema.one_of = self.branches(json, path, "oneOf");
        if let Some(not) = json.get("not") {
            schema.not = Some(Box::new(self.node(not, &format!("{path}.not"), SchemaNode::Logic)));
        }
    }

    fn branches(&mut self, json: &Value, path: &str, name: &str) -> Vec<Schema> {
        let branches = json
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .enumerate();
        branches
            .map(|(index, branch)| self.node(branch, &format!("{path}.{name}[{index}]"), SchemaNode::Logic))
            .collect()
    }

    fn type_of(&mut self, json: &Value, path: &str) -> Option<Type> {
        let name = json
            .get("type")
            .and_then(Value::as_str)
            .filter(|name| !name.is_empty())?;
        let known = [
            Type::Object,
            Type::Array,
            Type::String,
            Type::Integer,
            Type::Number,
            Type::Boolean,
        ];
        let found = known.into_iter().find(|known| known.name() == name);
        if found.is_none() {
            let supported = "supported values: array, boolean, integer, number, object, string";
            self.causes
                .push(Cause::invalid(format!("{path}.type"), &Value::from(name), supported));
        }
        found
    }

    fn list_kind(&mut self, json: &Value, path: &str) -> ListKind {
        match json.get("x-kubernetes-list-type").and_then(Value::as_str) {
            Some("set") => ListKind::Set,
            Some("map") => {
                let keys = strings(json, "x-kubernetes-list-map-keys");
                if keys.is_empty() {
                    let why = "must not be empty if x-kubernetes-list-type is map";
                    self.causes
                        .push(Cause::required(format!("{path}.x-kubernetes-list-map-keys"), why));
                }
                ListKind::Map(keys)
            }
            _ => ListKind::Atomic,
        }
    }

    fn bounds(&mut self, json: &Value, path: &str) -> Bounds {
        let number = |name: &str| json.get(name).and_then(Value::as_f64);
        let count = |name: &str| json.get(name).and_then(Value::as_u64);
        let flag = |name: &str| json.get(name).and_then(Value::as_bool).unwrap_or(false);
        let pattern = json
            .get("pattern")
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
            .and_then(|text| {
                Regex::new(text)
                    .map_err(|error| {
                        let why = format!("must be a valid regular expression: {error}");
                        self.causes
                            .push(Cause::invalid(format!("{path}.pattern"), &Value::from(text), why));
                    })
                    .ok()
            });
        Bounds {
            one_of_values: json.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            pattern,
            format: json.get("format").and_then(Value::as_str).map(str::to_owned),
            minimum: number("minimum"),
            exclusive_minimum: flag("exclusiveMinimum"),
            maximum: number("maximum"),
            exclusive_maximum: flag("exclusiveMaximum"),
            multiple_of: number("multipleOf"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            unique_items: flag("uniqueItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
        }
    }
}

impl Schema {
    /// Lifts what the walkers want to know about the subtree.
    fn summarise(&mut self) {
        let below = || {
            self.properties
                .values()
                .chain(self.additional.as_deref())
                .chain(self.items.as_deref())
        };
        let has_rules = !self.rules.is_empty() || below().any(|child| child.has_rules);
        let needs_escape =
            self.properties.keys().any(|name| !is_identifier(name)) || below().any(|child| child.needs_escape);
        self.has_rules = has_rules;
        self.needs_escape = needs_escape;
    }
}

fn strings(json: &Value, name: &str) -> Vec<String> {
    let items = json.get(name).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}
