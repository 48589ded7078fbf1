//! Holding a value against the rules of its schema: what each of them sees as `self` and as `oldSelf`. Must not say what a rule's
//! answer means.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::identifiers::escaped;
use super::node::{ListKind, Schema, Type, join};
use crate::cause::Cause;

/// The values before and after a write at one path.
#[derive(Clone, Copy)]
struct Transition<'a> {
    new: &'a Value,
    old: Option<&'a Value>,
}

impl Schema {
    pub(super) fn check_rules(&self, value: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
        self.rules_at(Transition { new: value, old }, "", causes);
    }

    fn rules_at(&self, at: Transition<'_>, path: &str, causes: &mut Vec<Cause>) {
        if at.new.is_null() || !self.has_rules {
            return;
        }
        if !self.rules.is_empty() {
            let type_ = self.type_.map_or("", Type::name);
            let new = self.as_seen_by_rules(at.new);
            let old = at.old.map(|old| self.as_seen_by_rules(old));
            causes.extend(
                self.rules
                    .iter()
                    .filter_map(|rule| rule.check((&new, type_), old.as_deref(), path)),
            );
        }
        match at.new {
            Value::Object(map) => {
                for (name, child) in map {
                    if let Some(schema) = self.field(name).filter(|schema| schema.has_rules) {
                        let old = at.old.and_then(|old| old.get(name));
                        schema.rules_at(Transition { new: child, old }, &join(path, name), causes);
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = self.item().filter(|schema| schema.has_rules) else {
                    return;
                };
                for (index, item) in items.iter().enumerate() {
                    let old = self.counterpart(item, at.old);
                    schema.rules_at(Transition { new: item, old }, &format!("{path}[{index}]"), causes);
                }
            }
            _ => {}
        }
    }

    /// The old item that a list item replaces; only lists with keys have one.
    fn counterpart<'a>(&self, item: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
        let ListKind::Map(keys) = &self.list else { return None };
        let wanted = self.keys_of(item, keys);
        old?.as_array()?
            .iter()
            .find(|candidate| self.keys_of(candidate, keys) == wanted)
    }

    /// The value as `self`: of metadata only the name, property names as CEL identifiers.
    fn as_seen_by_rules<'a>(&self, value: &'a Value) -> Cow<'a, Value> {
        if self.resource || self.needs_escape {
            Cow::Owned(self.rewritten(value))
        } else {
            Cow::Borrowed(value)
        }
    }

    fn rewritten(&self, value: &Value) -> Value {
        match value {
            Value::Object(map) => Value::Object(
                map.iter()
                    .map(|(name, child)| match (self.properties.get(name), &self.additional) {
                        _ if self.resource && name == "metadata" => (name.clone(), visible_metadata(child)),
                        (Some(schema), _) => (escaped(name).into_owned(), schema.rewritten(child)),
                        (None, Some(schema)) => (name.clone(), schema.rewritten(child)),
                        (None, None) => (name.clone(), child.clone()),
                    })
                    .collect(),
            ),
            Value::Array(items) => match self.item() {
                Some(schema) => Value::Array(items.iter().map(|item| schema.rewritten(item)).collect()),
                None => value.clone(),
            },
            scalar => scalar.clone(),
        }
    }
}

fn visible_metadata(metadata: &Value) -> Value {
    let visible = ["name", "generateName"];
    Value::Object(
        visible
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), metadata.get(name)?.clone())))
            .collect::<Map<String, Value>>(),
    )
}
