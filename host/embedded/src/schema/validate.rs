//! Holding a value against the schema: structure and bounds first, rules only where those are kept.

use std::collections::BTreeSet;

use serde_json::{Map, Number, Value};

use super::node::{Bounds, ListKind, Schema, Type, join};
use crate::cause::{Cause, shown};

impl Schema {
    /// Adds everything that is wrong with `value`; `old` is what it replaces, for transition rules.
    pub fn validate(&self, value: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
        self.structure(value, "", causes);
        if !self.has_rules {
            return;
        }
        if causes.iter().any(Cause::blocks_rules) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing \
                       errors to complete validation";
            causes.push(Cause::invalid("", &Value::Null, why));
        } else {
            self.check_rules(value, old, causes);
        }
    }

    fn structure(&self, value: &Value, path: &str, causes: &mut Vec<Cause>) {
        if value.is_null() && (self.nullable || self.is_open()) {
            return;
        }
        if !self.accepts_type(value) {
            let wanted = if self.int_or_string {
                "integer,string"
            } else {
                self.type_.map_or("any", Type::name)
            };
            // Kubernetes shows the type in the value's place.
            let given = Value::from(type_name(value));
            causes.push(Cause {
                reason: "FieldValueTypeInvalid",
                ..misfit(path, &given, format!("must be of type {wanted}: {given}"))
            });
            return;
        }
        self.bounds.check(value, path, causes);
        match value {
            Value::Object(map) => self.object(map, path, causes),
            Value::Array(items) => self.array(items, path, causes),
            _ => {}
        }
        self.logic(value, path, causes);
    }

    fn accepts_type(&self, value: &Value) -> bool {
        if self.int_or_string {
            return value.is_string() || is_integer(value);
        }
        match self.type_ {
            None => true,
            Some(Type::Object) => value.is_object(),
            Some(Type::Array) => value.is_array(),
            Some(Type::String) => value.is_string(),
            Some(Type::Integer) => is_integer(value),
            Some(Type::Number) => value.is_number(),
            Some(Type::Boolean) => value.is_boolean(),
        }
    }

    fn object(&self, map: &Map<String, Value>, path: &str, causes: &mut Vec<Cause>) {
        for name in &self.required {
            if !map.contains_key(name) {
                causes.push(Cause::required(join(path, name), ""));
            }
        }
        if self.resource && !path.is_empty() {
            for name in ["apiVersion", "kind"] {
                if !map.get(name).is_some_and(Value::is_string) {
                    causes.push(Cause::required(join(path, name), "must not be empty"));
                }
            }
        }
        for (name, child) in map {
            if let Some(schema) = self.field(name) {
                schema.structure(child, &join(path, name), causes);
            }
        }
    }

    fn array(&self, items: &[Value], path: &str, causes: &mut Vec<Cause>) {
        if let Some(schema) = self.item() {
            for (index, item) in items.iter().enumerate() {
                schema.structure(item, &format!("{path}[{index}]"), causes);
            }
        }
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let identity = match &self.list {
                ListKind::Atomic if self.bounds.unique_items => item.to_string(),
                ListKind::Atomic => continue,
                ListKind::Set => item.to_string(),
                ListKind::Map(keys) => Value::Object(self.keys_of(item, keys)).to_string(),
            };
            if !seen.insert(identity) {
                let shown = match &self.list {
                    ListKind::Map(keys) => Value::Object(self.keys_of(item, keys)).to_string(),
                    _ => shown(item),
                };
                causes.push(Cause::duplicate(format!("{path}[{index}]"), &shown));
            }
        }
    }

    fn logic(&self, value: &Value, path: &str, causes: &mut Vec<Cause>) {
        let fits = |schema: &Schema| {
            let mut inner = Vec::new();
            schema.structure(value, path, &mut inner);
            inner.is_empty()
        };
        for schema in &self.all_of {
            schema.structure(value, path, causes);
        }
        if !self.any_of.is_empty() && !self.any_of.iter().any(fits) {
            let why = format!("{path:?} must validate at least one schema (anyOf)");
            causes.push(Cause::invalid("", &Value::from(""), why));
        }
        if !self.one_of.is_empty() && self.one_of.iter().filter(|schema| fits(schema)).count() != 1 {
            let why = format!("{path:?} must validate one and only one schema (oneOf)");
            causes.push(Cause::invalid("", &Value::from(""), why));
        }
        if self.not.as_deref().is_some_and(fits) {
            let why = format!("{path:?} must not validate the schema (not)");
            causes.push(Cause::invalid("", &Value::from(""), why));
        }
    }
}

impl Bounds {
    fn check(&self, value: &Value, path: &str, causes: &mut Vec<Cause>) {
        if !self.one_of_values.is_empty() && !self.one_of_values.contains(value) {
            let values: Vec<String> = self.one_of_values.iter().map(Value::to_string).collect();
            causes.push(Cause {
                reason: "FieldValueNotSupported",
                field: path.to_owned(),
                message: format!(
                    "Unsupported value: {}: supported values: {}",
                    shown(value),
                    values.join(", ")
                ),
            });
        }
        match value {
            Value::String(text) => self.text(text, path, causes),
            Value::Number(number) => self.number(number, path, causes),
            Value::Array(items) => {
                let count = items.len() as u64;
                if let Some(least) = self.min_items.filter(|least| count < *least) {
                    let why = format!("should have at least {least} items");
                    causes.push(misfit(path, &Value::from(count), why));
                }
                causes.extend(
                    self.max_items
                        .filter(|most| count > *most)
                        .map(|most| Cause::too_many(path, count, most)),
                );
            }
            Value::Object(map) => {
                let count = map.len() as u64;
                if let Some(least) = self.min_properties.filter(|least| count < *least) {
                    let why = format!("should have at least {least} properties");
                    causes.push(misfit(path, &Value::from(count), why));
                }
                let most = self.max_properties.filter(|most| count > *most);
                causes.extend(most.map(|most| Cause::too_many(path, count, most)));
            }
            _ => {}
        }
    }

    fn text(&self, text: &str, path: &str, causes: &mut Vec<Cause>) {
        let value = Value::from(text);
        let characters = text.chars().count() as u64;
        if let Some(least) = self.min_length.filter(|least| characters < *least) {
            causes.push(misfit(path, &value, format!("should be at least {least} chars long")));
        }
        // Kubernetes counts characters and says bytes.
        let most = self.max_length.filter(|most| characters > *most);
        causes.extend(most.map(|most| Cause::too_long(path, most)));
        if let Some(pattern) = &self.pattern
            && !pattern.is_match(text)
        {
            causes.push(misfit(path, &value, format!("should match '{pattern}'")));
        }
        if let Some(format) = &self.format
            && !fits_format(format, text)
        {
            causes.push(Cause {
                reason: "FieldValueTypeInvalid",
                ..misfit(path, &value, format!("must be of type {format}: {value}"))
            });
        }
    }

    fn number(&self, number: &Number, path: &str, causes: &mut Vec<Cause>) {
        let value = Value::Number(number.clone());
        let number = number.as_f64().unwrap_or(f64::NAN);
        if let Some(limit) = self.minimum
            && (number < limit || self.exclusive_minimum && number <= limit)
        {
            let relation = if self.exclusive_minimum {
                "greater than"
            } else {
                "greater than or equal to"
            };
            causes.push(misfit(path, &value, format!("should be {relation} {limit}")));
        }
        if let Some(limit) = self.maximum
            && (number > limit || self.exclusive_maximum && number >= limit)
        {
            let relation = if self.exclusive_maximum {
                "less than"
            } else {
                "less than or equal to"
            };
            causes.push(misfit(path, &value, format!("should be {relation} {limit}")));
        }
        if let Some(step) = self.multiple_of
            && (number / step).fract() != 0.0
        {
            causes.push(misfit(path, &value, format!("should be a multiple of {step}")));
        }
    }
}

/// In the words of Kubernetes' validation of custom resources, which names the field a second time.
fn misfit(path: &str, value: &Value, why: impl std::fmt::Display) -> Cause {
    Cause::invalid(path, value, format!("{path} in body {why}"))
}

fn fits_format(format: &str, text: &str) -> bool {
    match format {
        "date-time" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.parse::<jiff::civil::Date>().is_ok(),
        "uuid" => uuid::Uuid::parse_str(text).is_ok(),
        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
        "byte" => {
            let body = text.trim_end_matches('=');
            text.len().is_multiple_of(4)
                && body
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/')
        }
        // Kubernetes ignores formats it does not know; `int32` and `int64` limit numbers, not text.
        _ => true,
    }
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if is_integer(value) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
