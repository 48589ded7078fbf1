//! Filling in defaults, as an API server does before it validates.

use serde_json::Value;

use super::node::Schema;

impl Schema {
    /// Sets every declared default that is missing. A null that is not allowed counts as missing, and goes where there is
    /// no default.
    pub fn fill_defaults(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.retain(|name, child| {
                    let null_forbidden = |schema: &Schema| !schema.nullable && !schema.is_open();
                    !(child.is_null() && self.field(name).is_some_and(null_forbidden))
                });
                for (name, schema) in &self.properties {
                    if let Some(default) = &schema.default
                        && !map.contains_key(name)
                    {
                        map.insert(name.clone(), default.clone());
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
