//! CombinedStatus (KubeStellar's): what the collectors of one bound object say over all its destinations.
//!
//! `results` is at the top level and there is no status subresource. The type reads and writes the object whole; a
//! store keeps [`crate::CombinedStatusView`] instead.

use std::borrow::Cow;

use kube::Resource;
use kube::core::ObjectMeta;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The maximum number of characters of an error that is kept.
pub const MAX_ERROR_CHARS: usize = 256;

/// The object as stored, without `apiVersion` and `kind` (they are put back when it is written).
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct CombinedStatus {
    /// Name `<object uid>.<BindingPolicy uid>`, the object's namespace or `kubestellar-report`, and the five labels.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// One for each existing valid collector, sorted by name; left out when there is none.
    #[serde(default)]
    pub results: Vec<CollectorResult>,
}

/// What one collector says.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CollectorResult {
    /// The StatusCollector.
    pub name: String,
    /// In the order of its spec: selected columns, or groups and then combined fields.
    #[serde(default)]
    pub column_names: Vec<String>,
    /// A row for each destination, or for each group; in no order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Row>,
    /// Destinations that were left out of an aggregation, the first for each column.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub row_errors: Vec<RowError>,
    /// Columns whose combination went wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aggregation_errors: Vec<AggregationError>,
}

/// Values in the order of `columnNames`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Row {
    /// The values.
    #[serde(default)]
    pub columns: Vec<Cell>,
}

/// One value; the member that `type` names is set.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Cell {
    /// Which member holds the value.
    #[serde(rename = "type")]
    pub cell_type: CellType,
    /// For `String`: also the text of an error, which looks like a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub string: Option<String>,
    /// For `Number`: the number as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub float: Option<String>,
    /// For `Bool`.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "bool")]
    pub boolean: Option<bool>,
    /// For `Object`: any JSON, lists too.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "sorted_json")]
    pub object: Option<Value>,
    /// For `Array`; KubeStellar never writes it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "sorted_json")]
    pub array: Option<Value>,
}

/// The types a cell can have. KubeStellar's CRD has no enum, so another one is kept as it is.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum CellType {
    /// Text.
    String,
    /// A number, as text.
    Number,
    /// True or false.
    Bool,
    /// Nothing.
    #[default]
    Null,
    /// Any JSON.
    Object,
    /// A list.
    Array,
    /// Anything else that was stored.
    #[serde(untagged)]
    Other(String),
}

/// A destination that has no value for a column.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RowError {
    /// The cluster.
    pub wec: crate::binding::Destination,
    /// The column; empty for the filter.
    #[serde(default)]
    pub column_name: String,
    /// The error's text.
    #[serde(default)]
    pub error: String,
}

/// A column whose combination went wrong.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AggregationError {
    /// The column.
    pub column_name: String,
    /// The error's text.
    #[serde(default)]
    pub error: String,
}

impl CombinedStatus {
    /// The name of the one about an object and a BindingPolicy.
    pub fn name_of(object_uid: &str, binding_policy_uid: &str) -> String {
        format!("{object_uid}.{binding_policy_uid}")
    }

    /// Where the one about an object lives; cluster-scoped objects share a namespace.
    pub fn namespace_of(object_namespace: Option<&str>) -> &str {
        object_namespace.unwrap_or(crate::REPORT_NAMESPACE)
    }
}

/// KubeStellar writes an evaluation error into the cell of a selected column; all its texts begin so. A value that
/// happens to begin so is taken for an error, which errs on the waiting side.
pub(crate) fn is_error_text(text: &str) -> bool {
    text.starts_with("failed to ")
}

/// Cuts a text to [`MAX_ERROR_CHARS`] characters.
pub(crate) fn shorten(text: &str) -> String {
    text.chars().take(MAX_ERROR_CHARS).collect()
}

impl Serialize for CombinedStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            api_version: Cow<'a, str>,
            kind: Cow<'a, str>,
            metadata: &'a ObjectMeta,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            results: &'a [CollectorResult],
        }
        let wire = Wire {
            api_version: Self::api_version(&()),
            kind: Self::kind(&()),
            metadata: &self.metadata,
            results: &self.results,
        };
        wire.serialize(serializer)
    }
}

impl Resource for CombinedStatus {
    type DynamicType = ();
    type Scope = k8s_openapi::NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "CombinedStatus".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        crate::KUBESTELLAR_GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        crate::VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "combinedstatuses".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Keys in order, whatever map the JSON library was built with: the digest of an object depends on it.
fn sorted_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    let mut value = Option::<Value>::deserialize(deserializer)?;
    if let Some(value) = &mut value {
        value.sort_all_objects();
    }
    Ok(value)
}
