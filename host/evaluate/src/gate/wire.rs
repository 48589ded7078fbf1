//! The request and the answer of a gate as plain values: what crosses the pipe to a sandbox, and, as JSON in camelCase, the
//! twin interface `gate-json` (an absent option is `null` or left out). Shapes and units are `wit/gate.wit`'s. Must not know
//! wasmtime. Members are never skipped: the pipe's encoding does not describe itself. What a gate answers has no other members:
//! a misspelt bound would be none.

use serde::{Deserialize, Serialize};

/// See `types.cell`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cell {
    Null,
    Boolean(bool),
    Integer(i64),
    Decimal(f64),
    Text(String),
    Json(String),
}

/// Texts in one string; text `i` ends before byte `ends[i]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Arena {
    pub bytes: String,
    pub ends: Vec<u32>,
}

impl Arena {
    /// Appends a text.
    pub fn push(&mut self, text: &str) {
        self.bytes.push_str(text);
        // A request as large as 4 GiB is refused for its size.
        self.ends.push(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ColumnData {
    Booleans(Vec<bool>),
    Integers(Vec<i64>),
    Decimals(Vec<f64>),
    Texts(Arena),
    Cells(Vec<Cell>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Column {
    pub name: String,
    /// Rows without a value, ascending.
    pub nulls: Vec<u32>,
    pub data: ColumnData,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResultSet {
    pub collector: String,
    pub row_count: u32,
    pub columns: Vec<Column>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CombinedStatus {
    pub namespace: String,
    pub name: String,
    pub results: Vec<ResultSet>,
}

/// What a cluster has reported about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reported {
    Never,
    WithoutStatus,
    WithStatus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Health {
    Healthy,
    Progressing,
    Failed,
}

/// One whole number for each destination.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Integers {
    /// Destinations without a value, ascending.
    pub nulls: Vec<u32>,
    pub values: Vec<i64>,
}

impl Integers {
    /// Adds the value of the next destination, or that it has none.
    pub fn push(&mut self, value: Option<i64>) {
        if value.is_none() {
            self.nulls.push(u32::try_from(self.values.len()).unwrap_or(u32::MAX));
        }
        self.values.push(value.unwrap_or_default());
    }
}

/// What the clusters report about one object: value `i` of each column is from destination `i`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    pub reported: Vec<Reported>,
    /// Milliseconds since the Unix epoch; valid where `reported` is `WithStatus`.
    pub reported_at_ms: Vec<u64>,
    pub generation: Integers,
    pub ready: Integers,
    pub available: Integers,
    pub total: Integers,
    pub updated: Integers,
    pub health: Vec<Health>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Object {
    pub group: String,
    pub resource: String,
    pub namespace: Option<String>,
    pub name: String,
    pub uid: String,
    pub generation: Option<i64>,
    pub evidence: Evidence,
    pub combined_status: CombinedStatus,
}

/// Labels of all destinations; those of destination `i` end before number `ends[i]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Labels {
    /// Destinations whose labels cannot be read, ascending.
    pub unknown: Vec<u32>,
    pub keys: Arena,
    pub values: Arena,
    pub ends: Vec<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Destinations {
    pub names: Arena,
    pub labels: Option<Labels>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    Pass,
    Hold,
    Fail,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EarlierVerdict {
    pub name: String,
    pub outcome: Outcome,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub policy: String,
    pub stage: String,
    pub attempt: u64,
    pub now_ms: u64,
    /// JSON text.
    pub config: String,
    pub objects: Vec<Object>,
    pub destinations: Destinations,
    pub earlier: Vec<EarlierVerdict>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pass {
    pub valid_for_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hold {
    pub reason: String,
    pub retry_after_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fail {
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Decision {
    Pass(Pass),
    Hold(Hold),
    Fail(Fail),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EvidencePiece {
    pub name: String,
    pub value: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Verdict {
    pub decision: Decision,
    pub evidence: Vec<EvidencePiece>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Description {
    pub name: String,
    pub version: String,
    pub summary: String,
    /// JSON Schema of the config, as text.
    pub config_schema: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogLine {
    pub level: Level,
    pub message: String,
}
