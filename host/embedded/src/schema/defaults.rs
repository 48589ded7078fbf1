//! Filling in defaults, as an API server does before it validates.

use serde_json::Value;

use super::Schema;

impl Schema {
    /// Sets every declared default that is missing. A null where a default exists and null is not allowed counts as
    /// missing.
    pub fn fill_defaults(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (name, schema) in &self.properties {
                    if let Some(default) = &schema.default {
                        let missing = map.get(name).is_none_or(|old| old.is_null() && !schema.nullable);
                        if missing {
                            map.insert(name.clone(), default.clone());
                        }
                    }
                }
                for (name, child) in map {
                    if let Some(schema) = self.field(name) {
                        schema.fill_defaults(child);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(schema) = self.item() {
                    items.iter_mut().for_each(|item| schema.fill_defaults(item));
                }
            }
            _ => {}
        }
    }
}
