//! What a store keeps of a CombinedStatus: identity, a digest, the first errors and the evidence rows.
//!
//! Decoding reads the whole object and keeps about a kilobyte of it. The view decides nothing: whether its errors and
//! rows suffice is judged elsewhere.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::Resource;
use kube::core::ObjectMeta;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::combined_status::{CellType, CollectorResult, CombinedStatus, Row, is_error_text, shorten};
use crate::evidence::{self, EvidenceView};
use crate::{hex, label};

/// Results are kept whole when their JSON is no longer than this, as that of a few values for a few clusters is: then a
/// condition over them needs no reading.
pub const MAX_KEPT_BYTES: usize = 2048;

/// A CombinedStatus without its rows, unless they are few.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct CombinedStatusView {
    /// Name, namespace, uid, resourceVersion, the time of deletion, and the five labels; where it was decoded, also who has
    /// written it, and nothing else.
    pub metadata: ObjectMeta,
    /// [`digest`] of the whole object's results.
    pub digest: String,
    /// Approximate size of `results` as JSON, in bytes, evidence included.
    pub size_bytes: usize,
    /// The collectors but ours, sorted by name.
    pub collectors: Vec<CollectorView>,
    /// What our own collectors said; more than one while versions of the controller change.
    pub evidence: Vec<EvidenceView>,
    /// [`shown_results`] as JSON, where they are short.
    pub results: Option<Arc<str>>,
}

/// What is kept of one collector's result.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct CollectorView {
    /// The StatusCollector.
    pub name: String,
    /// How many rows it has.
    pub row_count: usize,
    /// The first row error.
    pub row_error: Option<RowErrorView>,
    /// The first value that is the text of an error.
    pub error_cell: Option<RowErrorView>,
    /// The first aggregation error; it names no cluster.
    pub aggregation_error: Option<RowErrorView>,
}

/// One error: where and what.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct RowErrorView {
    /// The cluster, where it is known.
    pub cluster: Option<String>,
    /// The column; empty for the filter.
    pub column: String,
    /// The text, at most [`crate::combined_status::MAX_ERROR_CHARS`] characters.
    pub error: String,
}

impl CombinedStatusView {
    /// The view of an object that is at hand whole.
    pub fn of(combined: &CombinedStatus) -> Self {
        let mut collectors: Vec<CollectorView> = visible(&combined.results).map(collector_view).collect();
        collectors.sort_by(|a, b| a.name.cmp(&b.name));
        let ours = combined
            .results
            .iter()
            .filter(|result| evidence::is_evidence_collector(&result.name));
        Self {
            metadata: slim(&combined.metadata),
            digest: digest(combined),
            size_bytes: size_bytes(&combined.results),
            collectors,
            evidence: ours.map(evidence::read).collect(),
            results: short_json(&shown_results(combined)),
        }
    }

    /// The view itself as JSON text, a third of what it takes decoded.
    ///
    /// # Errors
    /// Never, as long as strings and numbers can be written.
    pub fn to_text(&self) -> serde_json::Result<String> {
        let mut text = Vec::with_capacity(1024);
        Self::serialize(self, &mut serde_json::Serializer::new(&mut text))?;
        String::from_utf8(text).map_err(serde::ser::Error::custom)
    }

    /// # Errors
    /// A text that [`Self::to_text`] has not written.
    pub fn from_text(text: &str) -> serde_json::Result<Self> {
        Self::deserialize(&mut serde_json::Deserializer::from_str(text))
    }

    /// What [`visible_results`] gives of the whole object, if that much was kept.
    pub fn visible(&self) -> Option<Value> {
        let results: Vec<Value> = serde_json::from_str(self.results.as_deref()?).ok()?;
        Some(seen(&self.metadata, &results))
    }

    /// A label's value; empty when it is not there.
    pub fn label(&self, key: &str) -> &str {
        self.metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(key))
            .map_or("", String::as_str)
    }
}

/// What a condition sees as `combinedStatus`: metadata and results, without the evidence collector's.
pub fn visible_results(combined: &CombinedStatus) -> Value {
    seen(&combined.metadata, &shown_results(combined))
}

/// Hex SHA-256 over what a condition can see: `shown` metadata, and the results of the collectors but ours in the order
/// of their names, rows as given. The same for a whole object and for its view.
pub fn digest(combined: &CombinedStatus) -> String {
    let results = shown_results(combined);
    let mut writer = HashWriter(Sha256::new());
    serde_json::to_writer(&mut writer, &(shown(&combined.metadata), &results))
        .expect("strings, numbers and JSON values serialise, and hashing takes all");
    hex::text(writer.0.finalize())
}

impl<'de> Deserialize<'de> for CombinedStatusView {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let combined = CombinedStatus::deserialize(deserializer)?;
        let mut view = Self::of(&combined);
        let writers = combined.metadata.managed_fields.into_iter().flatten();
        let writers: Vec<_> = writers
            .map(|entry| ManagedFieldsEntry {
                manager: entry.manager,
                ..Default::default()
            })
            .collect();
        view.metadata.managed_fields = Some(writers).filter(|writers| !writers.is_empty());
        Ok(view)
    }
}

impl Resource for CombinedStatusView {
    type DynamicType = ();
    type Scope = <CombinedStatus as Resource>::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        CombinedStatus::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        CombinedStatus::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        CombinedStatus::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        CombinedStatus::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The results that conditions and gates can see, in the order in which the digest takes them in: what is judged is what
/// was digested.
pub fn shown_results(combined: &CombinedStatus) -> Vec<&CollectorResult> {
    let mut results: Vec<&CollectorResult> = visible(&combined.results).collect();
    results.sort_by(|a, b| a.name.cmp(&b.name));
    results
}

fn visible(results: &[CollectorResult]) -> impl Iterator<Item = &CollectorResult> {
    results
        .iter()
        .filter(|result| !evidence::is_evidence_collector(&result.name))
}

/// The metadata that a condition can see: whose CombinedStatus it is, and nothing that moves without its results.
fn shown(metadata: &ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        resource_version: None,
        deletion_timestamp: None,
        ..slim(metadata)
    }
}

fn slim(metadata: &ObjectMeta) -> ObjectMeta {
    let five = [
        label::API_GROUP,
        label::RESOURCE,
        label::NAMESPACE,
        label::NAME,
        label::BINDING_POLICY,
    ];
    let labels = metadata.labels.as_ref().map(|labels| {
        labels
            .iter()
            .filter(|(key, _)| five.contains(&key.as_str()))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    });
    ObjectMeta {
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        deletion_timestamp: metadata.deletion_timestamp.clone(),
        labels,
        ..ObjectMeta::default()
    }
}

fn collector_view(result: &CollectorResult) -> CollectorView {
    let row_error = result.row_errors.first().map(|error| RowErrorView {
        cluster: Some(error.wec.cluster_id.clone()),
        column: error.column_name.clone(),
        error: shorten(&error.error),
    });
    let aggregation_error = result.aggregation_errors.first().map(|error| RowErrorView {
        cluster: None,
        column: error.column_name.clone(),
        error: shorten(&error.error),
    });
    CollectorView {
        name: result.name.clone(),
        row_count: result.rows.len(),
        row_error,
        error_cell: result.rows.iter().find_map(|row| error_cell(result, row)),
        aggregation_error,
    }
}

fn error_cell(result: &CollectorResult, row: &Row) -> Option<RowErrorView> {
    let mut texts = row
        .columns
        .iter()
        .enumerate()
        .filter_map(|(i, cell)| match cell.cell_type {
            CellType::String => cell.string.as_deref().map(|text| (i, text)),
            _ => None,
        });
    let (at, error) = texts.find(|(_, text)| is_error_text(text))?;
    let column = result.column_names.get(at).cloned().unwrap_or_default();
    Some(RowErrorView {
        cluster: cluster_of(result, row),
        column,
        error: shorten(error),
    })
}

/// The cluster a selected row is about, if one of its columns is named after it, as users usually do.
fn cluster_of(result: &CollectorResult, row: &Row) -> Option<String> {
    result.column_names.iter().zip(&row.columns).find_map(|(column, cell)| {
        let column = column.to_ascii_lowercase();
        let text = cell.string.as_deref().filter(|text| !is_error_text(text))?;
        (column.contains("cluster") || column.contains("wec")).then(|| text.to_owned())
    })
}

/// `results` is left out when none is visible, as KubeStellar leaves it out, so that "no result is bad" is an error and not a
/// pass.
fn seen<R: serde::Serialize>(metadata: &ObjectMeta, results: &[R]) -> Value {
    let mut seen = serde_json::Map::new();
    seen.insert("metadata".to_owned(), json!(shown(metadata)));
    if !results.is_empty() {
        seen.insert("results".to_owned(), json!(results));
    }
    Value::Object(seen)
}

fn short_json(results: &[&CollectorResult]) -> Option<Arc<str>> {
    let json = serde_json::to_string(results).expect("strings, numbers and JSON values serialise");
    (json.len() <= MAX_KEPT_BYTES).then(|| json.into())
}

fn size_bytes(results: &[CollectorResult]) -> usize {
    let mut writer = CountWriter(0);
    serde_json::to_writer(&mut writer, results)
        .expect("strings, numbers and JSON values serialise, and counting takes all");
    writer.0
}

struct HashWriter(Sha256);

impl io::Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct CountWriter(usize);

impl io::Write for CountWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
