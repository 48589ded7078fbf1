//! `metadata.managedFields`: which manager owns what after an edit or an apply. The rules are those of Kubernetes'
//! structured merge: an edit takes over what it changes, an apply conflicts with it unless forced.

use serde_json::{Value, json};

use super::changes::{Changes, leaves, without_server_fields};
use super::merge::{merge, remove};
use super::set::FieldSet;
use super::typing::Typing;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// Who writes: one entry of managedFields belongs to each distinct value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manager {
    pub name: String,
    pub operation: Operation,
    pub api_version: String,
    pub subresource: Option<String>,
}

impl Manager {
    /// Apply entries of different versions are one manager's.
    fn is(&self, other: &Manager) -> bool {
        self.name == other.name
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    fn shown(&self) -> String {
        let subresource = self
            .subresource
            .as_ref()
            .map(|s| format!(" with subresource \"{s}\""))
            .unwrap_or_default();
        match self.operation {
            Operation::Apply => format!("\"{}\"{subresource}", self.name),
            Operation::Update => format!("\"{}\"{subresource} using {}", self.name, self.api_version),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    manager: Manager,
    time: Option<String>,
    fields: FieldSet,
}

/// All entries of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ManagedFields(Vec<Entry>);

/// A server-side apply request.
pub struct Apply<'a> {
    pub manager: &'a Manager,
    pub force: bool,
    /// RFC 3339, for the manager's entry.
    pub time: &'a str,
    pub typing: Typing<'a>,
}

impl ManagedFields {
    /// Reads `metadata.managedFields` of an object; entries that are no entries are dropped.
    pub fn of(object: &Value) -> ManagedFields {
        let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        ManagedFields(entries.into_iter().flatten().filter_map(read_entry).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes the entries into an object, replacing what is there.
    pub fn write_into(&self, object: &mut Value) {
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
            return;
        };
        if self.0.is_empty() {
            metadata.remove("managedFields");
        } else {
            metadata.insert(
                "managedFields".to_owned(),
                Value::Array(self.0.iter().map(write_entry).collect()),
            );
        }
    }

    /// Same owners of the same fields, whenever they wrote.
    pub fn same_owners(&self, other: &ManagedFields) -> bool {
        self.0.len() == other.0.len()
            && self
                .0
                .iter()
                .all(|a| other.0.iter().any(|b| a.manager == b.manager && a.fields == b.fields))
    }

    /// Ownership after `manager` changed the object as `changes` says; a scale's entry has no time.
    pub fn updated(mut self, changes: &Changes, manager: &Manager, time: Option<&str>) -> ManagedFields {
        let written = changes.written();
        for entry in &mut self.0 {
            let fields = std::mem::take(&mut entry.fields);
            entry.fields = fields.difference(&changes.removed);
            if !entry.manager.is(manager) {
                let lost = entry.fields.intersection(&written);
                entry.fields = std::mem::take(&mut entry.fields).difference(&lost);
            }
        }
        if !written.is_empty() {
            let entry = self.entry(manager);
            entry.fields = std::mem::take(&mut entry.fields).union(&written);
            entry.time = time.map(str::to_owned);
        }
        self.sorted()
    }

    /// Lays `config` over `live`; the merged object, or the conflicts as (manager, field) pairs.
    pub fn applied(
        mut self,
        live: &Value,
        config: &Value,
        apply: &Apply<'_>,
    ) -> Result<(Value, ManagedFields), Vec<(String, String)>> {
        let mine = without_server_fields(leaves(config, apply.typing));
        let mut merged = merge(live, config, apply.typing);
        let written = Changes::between(live, &merged, apply.typing).written();

        let mut conflicts = Vec::new();
        for entry in self.0.iter_mut().filter(|entry| !entry.manager.is(apply.manager)) {
            let lost = entry.fields.intersection(&written);
            if !lost.is_empty() && !apply.force {
                conflicts.extend(lost.paths().into_iter().map(|path| (entry.manager.shown(), path)));
            }
            entry.fields = std::mem::take(&mut entry.fields).difference(&lost);
        }
        if !conflicts.is_empty() {
            return Err(conflicts);
        }

        let before = std::mem::take(&mut self.entry(apply.manager).fields);
        let mut gone = before.clone().difference(&mine);
        for other in self.0.iter().filter(|entry| !entry.manager.is(apply.manager)) {
            gone = gone.difference(&other.fields);
        }
        remove(&mut merged, &gone, apply.typing);
        let entry = self.entry(apply.manager);
        // Who only joins the owners of what is there already has written at no time.
        if merged != *live {
            entry.time = Some(apply.time.to_owned());
        }
        entry.manager.api_version.clone_from(&apply.manager.api_version);
        entry.fields = mine;
        Ok((merged, self.sorted()))
    }

    fn entry(&mut self, manager: &Manager) -> &mut Entry {
        let at = self
            .0
            .iter()
            .position(|entry| entry.manager.is(manager))
            .unwrap_or_else(|| {
                self.0.push(Entry {
                    manager: manager.clone(),
                    time: None,
                    fields: FieldSet::default(),
                });
                self.0.len() - 1
            });
        &mut self.0[at]
    }

    /// Kubernetes' order: applies first, then by time, then by name. Owners of nothing are dropped.
    fn sorted(mut self) -> ManagedFields {
        self.0.retain(|entry| !entry.fields.is_empty());
        self.0.sort_by(|a, b| {
            (a.manager.operation, &a.time, &a.manager.name).cmp(&(b.manager.operation, &b.time, &b.manager.name))
        });
        self
    }
}

fn read_entry(entry: &Value) -> Option<Entry> {
    let text = |field: &str| entry.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let operation = match text("operation")? {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return None,
    };
    Some(Entry {
        manager: Manager {
            name: text("manager")?.to_owned(),
            operation,
            api_version: text("apiVersion")?.to_owned(),
            subresource: text("subresource").map(str::to_owned),
        },
        time: text("time").map(str::to_owned),
        fields: FieldSet::from_json(entry.get("fieldsV1")?),
    })
}

fn write_entry(entry: &Entry) -> Value {
    let mut json = json!({
        "manager": entry.manager.name,
        "operation": entry.manager.operation.name(),
        "apiVersion": entry.manager.api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": entry.fields.to_json(),
    });
    if let Some(time) = &entry.time {
        json["time"] = Value::from(time.as_str());
    }
    if let Some(subresource) = &entry.manager.subresource {
        json["subresource"] = Value::from(subresource.as_str());
    }
    json
}
