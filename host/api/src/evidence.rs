//! The evidence collector: the one StatusCollector the controller owns, and how its rows are read back.
//!
//! It makes KubeStellar rewrite a CombinedStatus on every status change and tells when each cluster last reported.
//! Whatever it says that this file does not understand is malformed, never guessed.

mod columns;
mod words;

use std::sync::LazyLock;

use k8s_openapi::jiff::{Timestamp, civil};
use kube::core::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::combined_status::{Cell, CellType, CollectorResult, Row, is_error_text, shorten};
use crate::names::ClusterName;
use crate::status_collector::{NamedExpression, StatusCollector, StatusCollectorSpec};
use columns::NAMES;

pub use words::{
    ConditionReason, ConditionStatus, ConditionType, ReportedCondition, ReportedConditions, ReportedPhase,
};

/// Names of evidence collectors begin with this; the rest is 8 hex digits of the spec's digest.
pub const NAME_PREFIX: &str = "stagegate-evidence-";

/// What the evidence collector said about one object.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct EvidenceView {
    /// The collector's name; another one than ours is of another version of the controller.
    pub collector: String,
    /// One row for each destination, sorted by cluster; empty when malformed.
    pub rows: Vec<EvidenceRow>,
    /// What could not be understood; nothing of this evidence counts then.
    pub malformed: Option<String>,
}

/// What one cluster reported.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct EvidenceRow {
    /// The cluster.
    pub cluster: ClusterName,
    /// When its status last changed.
    pub at: Reported,
    /// `observedGeneration` of the returned status; empty when it has none.
    pub r#gen: String,
    /// `readyReplicas` of the returned status; for a DaemonSet `numberReady`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<i64>,
    /// `availableReplicas`; for a DaemonSet `numberAvailable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available: Option<i64>,
    /// `spec.replicas` of the object itself, as of the cluster's last report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<i64>,
    /// `replicas` of the returned status; for a DaemonSet `desiredNumberScheduled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
    /// `updatedReplicas`; for a DaemonSet `updatedNumberScheduled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated: Option<i64>,
    /// `phase`; `Assigned` or `Pending` for a Service of type LoadBalancer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ReportedPhase>,
    /// The conditions that health is judged by.
    #[serde(default, skip_serializing_if = "is_default")]
    pub conditions: ReportedConditions,
}

fn is_default(conditions: &ReportedConditions) -> bool {
    *conditions == ReportedConditions::default()
}

/// When a cluster last reported on an object.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Reported {
    /// There is no WorkStatus (shown as 1970).
    Never,
    /// The object is in the cluster, without a status (shown as the year 1).
    WithoutStatus,
    /// The status last changed then.
    At {
        /// Seconds since 1970; KubeStellar's times have whole seconds.
        seconds: i64,
    },
}

/// Whether a collector of this name is hidden from conditions.
pub fn is_evidence_collector(name: &str) -> bool {
    name.starts_with(NAME_PREFIX)
}

/// The spec of our evidence collector.
pub fn collector_spec() -> &'static StatusCollectorSpec {
    // Compared with at every look at evidence.
    static SPEC: LazyLock<StatusCollectorSpec> = LazyLock::new(spec_of_columns);
    &SPEC
}

fn spec_of_columns() -> StatusCollectorSpec {
    let select = NAMES
        .iter()
        .zip(columns::expressions())
        .map(|(name, def)| NamedExpression {
            name: (*name).to_owned(),
            def,
        })
        .collect();
    StatusCollectorSpec {
        select,
        limit: 20,
        ..StatusCollectorSpec::default()
    }
}

/// The name of our evidence collector: a changed spec is another collector, never an edit of the old.
pub fn collector_name() -> String {
    // Asked for with every look at evidence.
    static NAME: LazyLock<String> = LazyLock::new(name_of_columns);
    NAME.clone()
}

fn name_of_columns() -> String {
    let mut digest = Sha256::new();
    for (name, def) in NAMES.iter().zip(columns::expressions()) {
        digest.update(name);
        digest.update([0]);
        digest.update(def);
        digest.update([0]);
    }
    let digest = digest.finalize();
    format!(
        "{NAME_PREFIX}{:02x}{:02x}{:02x}{:02x}",
        digest[0], digest[1], digest[2], digest[3]
    )
}

/// Our evidence collector, ready to be created.
pub fn collector() -> StatusCollector {
    let metadata = ObjectMeta {
        name: Some(collector_name()),
        ..ObjectMeta::default()
    };
    StatusCollector {
        metadata,
        spec: collector_spec().clone(),
        status: None,
    }
}

/// Reads the evidence collector's result. Row errors, other columns, error texts and unreadable times are malformed.
pub fn read(result: &CollectorResult) -> EvidenceView {
    let (rows, malformed) = match read_rows(result) {
        Ok(rows) => (rows, None),
        Err(text) => (Vec::new(), Some(shorten(&text))),
    };
    EvidenceView {
        collector: result.name.clone(),
        rows,
        malformed,
    }
}

fn read_rows(result: &CollectorResult) -> Result<Vec<EvidenceRow>, String> {
    if let Some(error) = result.row_errors.first() {
        return Err(format!(
            "cluster {}, column {:?}: {}",
            error.wec.cluster_id, error.column_name, error.error
        ));
    }
    if let Some(error) = result.aggregation_errors.first() {
        return Err(format!("column {:?}: {}", error.column_name, error.error));
    }
    let mut positions = [0; NAMES.len()];
    for (position, column) in positions.iter_mut().zip(NAMES) {
        let mut found = result
            .column_names
            .iter()
            .enumerate()
            .filter(|(_, name)| *name == column);
        *position = found.next().ok_or_else(|| format!("no column {column:?}"))?.0;
        if found.next().is_some() {
            return Err(format!("column {column:?} is there twice"));
        }
    }
    let columns = result.column_names.len();
    if let Some(row) = result.rows.iter().find(|row| row.columns.len() > columns) {
        return Err(format!("a row has {} values for {columns} columns", row.columns.len()));
    }
    let rows = result.rows.iter().map(|row| read_row(row, positions));
    let mut rows: Vec<EvidenceRow> = rows.collect::<Result<_, _>>()?;
    rows.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    Ok(rows)
}

/// One row's cells, by the columns of [`NAMES`].
struct Cells<'a> {
    row: &'a Row,
    positions: [usize; NAMES.len()],
}

impl<'a> Cells<'a> {
    fn cell(&self, column: usize) -> Result<&'a Cell, String> {
        let cell = self.row.columns.get(self.positions[column]);
        cell.ok_or_else(|| format!("a row has no column {:?}", NAMES[column]))
    }

    fn text(&self, column: usize) -> Result<&'a str, String> {
        let cell = self.cell(column)?;
        match &cell.string {
            Some(text) if cell.cell_type == CellType::String && !is_error_text(text) => Ok(text),
            Some(text) => Err(format!("column {:?}: {text}", NAMES[column])),
            None => Err(format!("column {:?} holds no text", NAMES[column])),
        }
    }

    fn count(&self, column: usize) -> Result<Option<i64>, String> {
        match self.text(column)? {
            "" => Ok(None),
            text => match text.parse() {
                Ok(count) => Ok(Some(count)),
                Err(_) => Err(format!("column {:?}: {text:?} is no whole number", NAMES[column])),
            },
        }
    }

    fn phase(&self, column: usize) -> Result<Option<ReportedPhase>, String> {
        match self.text(column)? {
            "" => Ok(None),
            text => match ReportedPhase::parse(text) {
                Some(phase) => Ok(Some(phase)),
                None => Err(format!("column {:?}: {text:?} is no known phase", NAMES[column])),
            },
        }
    }

    fn conditions(&self, column: usize) -> Result<ReportedConditions, String> {
        let cell = self.cell(column)?;
        let list = match &cell.object {
            Some(Value::Array(list)) if cell.cell_type == CellType::Object => list,
            // An error of the expression is a text.
            _ => {
                self.text(column)?;
                return Err(format!("column {:?} holds no list", NAMES[column]));
            }
        };
        let mut conditions = ReportedConditions::default();
        let is_odd = |entry: &&Value| !entry.as_str().is_some_and(|entry| conditions.take(entry));
        match list.iter().find(is_odd) {
            None => Ok(conditions),
            Some(entry) => Err(format!("column {:?}: {entry} is no condition", NAMES[column])),
        }
    }
}

fn read_row(row: &Row, positions: [usize; NAMES.len()]) -> Result<EvidenceRow, String> {
    let cells = Cells { row, positions };
    let cluster = ClusterName::from(cells.text(0)?);
    if cluster.is_empty() {
        return Err("a row names no cluster".to_owned());
    }
    let read = || {
        let at = cells.text(1)?;
        let at = parse_reported(at).ok_or_else(|| format!("{at:?} is not a time"))?;
        Ok(EvidenceRow {
            cluster: cluster.clone(),
            at,
            r#gen: cells.text(2)?.to_owned(),
            ready: cells.count(3)?,
            available: cells.count(4)?,
            desired: cells.count(5)?,
            total: cells.count(6)?,
            updated: cells.count(7)?,
            phase: cells.phase(8)?,
            conditions: cells.conditions(9)?,
        })
    };
    read().map_err(|error: String| format!("cluster {cluster}: {error}"))
}

fn parse_reported(text: &str) -> Option<Reported> {
    let time: Timestamp = text.parse().ok()?;
    let seconds = time.as_second();
    match seconds {
        0 => Some(Reported::Never),
        1.. => Some(Reported::At { seconds }),
        _ if time.to_zoned(k8s_openapi::jiff::tz::TimeZone::UTC).date() == civil::date(1, 1, 1) => {
            Some(Reported::WithoutStatus)
        }
        _ => None,
    }
}
