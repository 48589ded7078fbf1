//! Dropping fields that the schema does not name, and saying which.

use serde_json::Value;

use super::node::Schema;

/// Fields every whole resource has.
const RESOURCE_FIELDS: &[&str] = &["apiVersion", "kind", "metadata"];

impl Schema {
    /// Removes undeclared fields and returns their paths (`spec.colour`, `spec.list[2].x`).
    pub fn prune(&self, value: &mut Value) -> Vec<String> {
        let mut dropped = Vec::new();
        self.prune_at(value, "", &mut dropped);
        dropped
    }

    fn prune_at(&self, value: &mut Value, path: &str, dropped: &mut Vec<String>) {
        match value {
            Value::Object(map) => map.retain(|name, child| {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                match self.field(name) {
                    _ if self.resource && RESOURCE_FIELDS.contains(&name.as_str()) => true,
                    Some(schema) => {
                        schema.prune_at(child, &path, dropped);
                        true
                    }
                    None if self.keeps_unknown() => true,
                    None => {
                        dropped.push(path);
                        false
                    }
                }
            }),
            Value::Array(items) => {
                if let Some(schema) = self.item() {
                    for (index, item) in items.iter_mut().enumerate() {
                        schema.prune_at(item, &format!("{path}[{index}]"), dropped);
                    }
                }
            }
            _ => {}
        }
    }
}
