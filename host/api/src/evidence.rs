//! The evidence collector: the one StatusCollector the host owns, and how its rows are read back.
//!
//! It makes KubeStellar rewrite a CombinedStatus on every status change and tells when each cluster last reported.
//! Whatever it says that this file does not understand is malformed, never guessed.

use std::sync::LazyLock;

use k8s_openapi::jiff::{Timestamp, civil};
use kube::core::ObjectMeta;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::combined_status::{CellType, CollectorResult, Row};
use crate::status_collector::{NamedExpression, StatusCollector, StatusCollectorSpec};

/// Names of evidence collectors begin with this; the rest is 8 hex digits of the spec's digest.
pub const NAME_PREFIX: &str = "stagegate-evidence-";

/// Columns and their expressions, in order. The status members stand under `has()`: an absent one is `''`.
const COLUMNS: [(&str, &str); 5] = [
    ("cluster", "inventory.name"),
    ("at", "string(propagation.lastReturnedUpdateTimestamp)"),
    (
        "gen",
        "has(returned.status) && has(returned.status.observedGeneration) ? \
        string(returned.status.observedGeneration) : ''",
    ),
    (
        "ready",
        "has(returned.status) && has(returned.status.readyReplicas) ? string(returned.status.readyReplicas) : ''",
    ),
    (
        "available",
        "has(returned.status) && has(returned.status.availableReplicas) ? \
        string(returned.status.availableReplicas) : ''",
    ),
];

/// What the evidence collector said about one object.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct EvidenceView {
    /// The collector's name; another one than ours is of another version of the host.
    pub collector: String,
    /// A row for each destination; empty when malformed.
    pub rows: Vec<EvidenceRow>,
    /// What could not be understood; nothing of this evidence counts then.
    pub malformed: Option<String>,
}

/// What one cluster reported.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct EvidenceRow {
    /// The cluster.
    pub cluster: String,
    /// When its status last changed.
    pub at: Reported,
    /// `observedGeneration` of the returned status; empty when it has none.
    pub r#gen: String,
    /// `readyReplicas` of the returned status; empty when it has none.
    pub ready: String,
    /// `availableReplicas` of the returned status; empty when it has none.
    pub available: String,
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
pub fn collector_spec() -> StatusCollectorSpec {
    let select = COLUMNS
        .iter()
        .map(|(name, def)| NamedExpression {
            name: (*name).to_owned(),
            def: (*def).to_owned(),
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
    for (name, def) in COLUMNS {
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
        spec: collector_spec(),
        status: None,
    }
}

/// Reads the evidence collector's result. Row errors, other columns, error texts and unreadable times are malformed.
pub fn read(result: &CollectorResult) -> EvidenceView {
    let (rows, malformed) = match read_rows(result) {
        Ok(rows) => (rows, None),
        Err(text) => (Vec::new(), Some(crate::combined_status_view::shorten(&text))),
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
    let mut positions = [0; COLUMNS.len()];
    for (position, (column, _)) in positions.iter_mut().zip(COLUMNS) {
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
    result.rows.iter().map(|row| read_row(row, positions)).collect()
}

fn read_row(row: &Row, positions: [usize; COLUMNS.len()]) -> Result<EvidenceRow, String> {
    let text = |column: usize| -> Result<String, String> {
        let name = COLUMNS[column].0;
        let cell = row
            .columns
            .get(positions[column])
            .ok_or_else(|| format!("a row has no column {name:?}"))?;
        match &cell.string {
            Some(text) if cell.cell_type == CellType::String && !is_error_text(text) => Ok(text.clone()),
            Some(text) => Err(format!("column {name:?}: {text}")),
            None => Err(format!("column {name:?} holds no text")),
        }
    };
    let cluster = text(0)?;
    if cluster.is_empty() {
        return Err("a row names no cluster".to_owned());
    }
    let of_cluster = |column: usize| text(column).map_err(|error| format!("cluster {cluster}: {error}"));
    let at = of_cluster(1)?;
    let at = parse_reported(&at).ok_or_else(|| format!("cluster {cluster}: {at:?} is not a time"))?;
    Ok(EvidenceRow {
        at,
        r#gen: of_cluster(2)?,
        ready: of_cluster(3)?,
        available: of_cluster(4)?,
        cluster,
    })
}

/// KubeStellar writes an evaluation error into the cell of a selected column; all its texts begin so. A value that
/// happens to begin so is taken for an error, which errs on the waiting side.
pub(crate) fn is_error_text(text: &str) -> bool {
    text.starts_with("failed to ")
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
