//! What a recording holds: what was done to KubeStellar, when, and every version of what it wrote. The simulation reads its recordings by
//! this same file, and shows by it what its own KubeStellar writes. Must not know who wrote a version.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use stagegate_api::{BindingPolicySpec, StatusCollectorSpec};

/// Milliseconds since the first input.
pub type Millis = i64;

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Recording {
    pub about: String,
    pub clusters: BTreeMap<String, Labels>,
    pub inputs: Vec<Done>,
    pub written: Vec<RecordedWrite>,
    /// When the recording ends.
    pub end: Millis,
}

pub type Labels = BTreeMap<String, String>;

/// An input, and when the server had taken it.
#[derive(Debug, Deserialize, Serialize)]
pub struct Done {
    pub at: Millis,
    #[serde(flatten)]
    pub input: Input,
}

/// A version of an object; null where it was removed.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RecordedWrite {
    pub at: Millis,
    pub object: String,
    pub is: Value,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Input {
    /// A BindingPolicy, new or changed in place.
    Place {
        name: String,
        spec: BindingPolicySpec,
    },
    Displace(String),
    /// A Deployment in the recording's namespace.
    Make {
        name: String,
        replicas: i64,
        labels: Labels,
    },
    Edit {
        name: String,
        replicas: i64,
    },
    Remove(String),
    /// Another value of one label of a cluster.
    Label {
        cluster: String,
        key: String,
        value: String,
    },
    /// A StatusCollector, new or changed; the program's own where there is no spec.
    Collect {
        name: String,
        spec: Option<StatusCollectorSpec>,
    },
    Forget(String),
    /// A cluster reports on a Deployment.
    Report {
        from: String,
        of: String,
        status: Numbers,
    },
    /// The report goes.
    Withdraw {
        from: String,
        of: String,
    },
    /// KubeStellar is killed and started again; when it works again, this is done.
    Restart {
        #[serde(default)]
        down_ms: Millis,
    },
}

/// A Deployment's status. Zero counters are left out of it, as Kubernetes does.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Numbers {
    pub generation: i64,
    pub total: i64,
    pub updated: i64,
    pub ready: i64,
    pub available: i64,
    /// `type=status`, or `type=status:reason`.
    pub conditions: Vec<String>,
}

/// What stands in recordings for what no two servers have alike.
#[derive(Debug, Default)]
pub struct Roles {
    uids: BTreeMap<String, String>,
    versions: BTreeMap<String, String>,
    /// By cluster and time: that cluster's reports.
    reports: BTreeMap<(String, String), String>,
    counts: BTreeMap<String, usize>,
}

impl Roles {
    /// An object that an input has made or changed.
    pub fn note(&mut self, name: &str, metadata: &Value) {
        let text = |member: &str| metadata[member].as_str().unwrap_or_default().to_owned();
        let uid = text("uid");
        if !self.uids.contains_key(&uid) {
            let role = self.next(name);
            self.uids.insert(uid, role);
        }
        let version = text("resourceVersion");
        if !self.versions.contains_key(&version) {
            let role = self.next(&format!("version of {name}"));
            self.versions.insert(version, role);
        }
    }

    pub fn note_report(&mut self, cluster: &str, time: &str) {
        let key = (cluster.to_owned(), time.to_owned());
        if !self.reports.contains_key(&key) {
            let role = self.next("report");
            self.reports.insert(key, role);
        }
    }

    fn next(&mut self, of: &str) -> String {
        let count = self.counts.entry(of.to_owned()).or_default();
        *count += 1;
        format!("{of} {count}")
    }

    /// A BindingPolicy, a Binding or a CombinedStatus: its name, and what KubeStellar writes of it.
    pub fn shown(&self, kind: &str, object: &Value) -> (String, Value) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let shown = match kind {
            "BindingPolicy" => json!({
                "finalizers": object["metadata"]["finalizers"],
                "status": object["status"],
            }),
            "Binding" => json!({
                "owners": object["metadata"]["ownerReferences"],
                "spec": object["spec"],
                "status": object["status"],
            }),
            _ => json!({
                "labels": object["metadata"]["labels"],
                "owners": object["metadata"]["ownerReferences"],
                "results": sorted(&object["results"], self),
            }),
        };
        (format!("{kind} {}", self.named(name)), self.normal(shown))
    }

    fn named(&self, text: &str) -> String {
        let known = self.uids.iter().filter(|(uid, _)| text.contains(uid.as_str()));
        known.fold(text.to_owned(), |text, (uid, role)| text.replace(uid, role))
    }

    /// Uids, versions and times as roles; nothing that is empty.
    fn normal(&self, value: Value) -> Value {
        match value {
            Value::Object(members) => {
                let mut kept = Map::new();
                for (name, value) in members {
                    let value = match (name.as_str(), value) {
                        ("lastTransitionTime", _) => Value::Null,
                        ("resourceVersion", Value::String(version)) => {
                            json!(self.versions.get(&version).map_or("unknown", String::as_str))
                        }
                        (_, value) => self.normal(value),
                    };
                    let is_empty = match &value {
                        Value::Null => true,
                        Value::Object(members) => members.is_empty(),
                        Value::Array(list) => list.is_empty(),
                        _ => false,
                    };
                    if !is_empty {
                        kept.insert(name, value);
                    }
                }
                Value::Object(kept)
            }
            Value::Array(list) => list.into_iter().map(|value| self.normal(value)).collect(),
            Value::String(text) => json!(self.named(&text)),
            other => other,
        }
    }
}

/// Results with their rows as short texts in an order of their own: KubeStellar's is drawn anew each time.
fn sorted(results: &Value, roles: &Roles) -> Value {
    let results = results.as_array().into_iter().flatten();
    let shown = results.map(|result| {
        let rows = result["rows"].as_array().into_iter().flatten();
        let mut rows: Vec<String> = rows.map(|row| row_text(row, roles)).collect();
        rows.sort_unstable();
        json!({"name": result["name"], "columns": result["columnNames"], "rows": rows})
    });
    shown.collect()
}

fn row_text(row: &Value, roles: &Roles) -> String {
    let cells = row["columns"].as_array().into_iter().flatten();
    let cells: Vec<&Value> = cells.collect();
    let cluster = cells
        .first()
        .and_then(|cell| cell["string"].as_str())
        .unwrap_or_default();
    let text = |cell: &&Value| {
        let report = cell["string"].as_str().and_then(|time| {
            let key = (cluster.to_owned(), time.to_owned());
            roles.reports.get(&key)
        });
        match report {
            Some(role) => role.clone(),
            None => ["string", "float", "bool", "object"]
                .iter()
                .map(|member| &cell[*member])
                .find(|value| !value.is_null())
                .map_or_else(|| "null".to_owned(), ToString::to_string),
        }
    };
    cells.iter().map(text).collect::<Vec<_>>().join(" | ")
}

/// Versions that show no change are left out: writes by others than KubeStellar are not compared.
pub fn changes(versions: impl IntoIterator<Item = RecordedWrite>) -> Vec<RecordedWrite> {
    let mut last: BTreeMap<String, Value> = BTreeMap::new();
    let mut changes = Vec::new();
    for version in versions {
        let before = last.insert(version.object.clone(), version.is.clone());
        if before.unwrap_or_default() != version.is {
            changes.push(version);
        }
    }
    changes
}
