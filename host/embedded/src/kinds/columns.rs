//! Printer columns: what a table says of a column, and its cell for an object. Which columns a kind has is said by [`super::tables`] and
//! by definitions.

use jiff::Timestamp;
use serde_json::Value;

use super::age::since;
use super::cells::Shown;
use super::json_path::{find, text};

/// One column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    /// OpenAPI type: string, integer, number, boolean or date.
    pub type_: String,
    pub format: String,
    pub description: String,
    pub priority: i64,
    pub source: Source,
}

/// Where a cell comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// The values at a path.
    Path(String),
    /// Worked out, as Kubernetes' own printers do it.
    Shown(Shown),
}

impl Column {
    pub fn new(name: &str, type_: &str, path: &str) -> Column {
        Column {
            name: name.to_owned(),
            type_: type_.to_owned(),
            format: String::new(),
            description: String::new(),
            priority: 0,
            source: Source::Path(path.to_owned()),
        }
    }

    /// The cell for `object`; dates become ages at `now`.
    pub fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let path = match &self.source {
            Source::Path(path) => path,
            Source::Shown(shown) => return shown.cell(object, now),
        };
        let found = find(object, path);
        let Some(first) = found.first() else { return Value::Null };
        match self.type_.as_str() {
            "date" => Value::from(since(first, now)),
            "integer" | "number" | "boolean" if !first.is_string() => (*first).clone(),
            _ if found.len() > 1 => Value::from(found.iter().map(|v| text(v)).collect::<Vec<_>>().join(",")),
            _ => Value::from(text(first)),
        }
    }
}
