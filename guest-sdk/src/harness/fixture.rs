//! From the terse form of clusters and objects to what a host would write of them in a request. Columns get the types that the
//! host gives them. Must not know the rest of a case.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::columns::{arena, integers, packed, rows_where};
use crate::bindings::stagegate::gate::types as wit;
use crate::{Error, Health, Outcome};

/// A cluster reported this long before the case's `now`, when the case does not say otherwise.
const REPORTED_BEFORE_MS: u64 = 60_000;

/// A destination of the stage: its name, or its name and labels. By name alone its labels are unknown.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Cluster {
    /// Its labels are unknown.
    Name(String),
    /// With labels.
    Labelled {
        /// As KubeStellar calls it.
        name: String,
        /// Those of the ManagedCluster.
        labels: BTreeMap<String, String>,
    },
}

/// An object that the stage judges.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Watched {
    /// `namespace/name`, or `name`.
    pub object: String,
    /// `resource.group`
    #[serde(default = "deployments")]
    pub kind: String,
    /// By cluster.
    #[serde(default)]
    pub evidence: BTreeMap<String, Report>,
    /// By collector.
    #[serde(default)]
    pub collectors: BTreeMap<String, Table>,
}

/// What the host knows of an object in a cluster.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Report {
    /// `never` or `withoutStatus`
    Without(Without),
    /// A status.
    Row(Row),
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Without {
    Never,
    WithoutStatus,
}

/// A report with a status. A number that is left out is absent from the status, except the generation, which is then 1.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Row {
    pub generation: Option<i64>,
    pub ready: Option<i64>,
    pub available: Option<i64>,
    pub total: Option<i64>,
    pub updated: Option<i64>,
    #[serde(default = "healthy")]
    pub health: Health,
}

fn healthy() -> Health {
    Health::Healthy
}

/// What a StatusCollector says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// A value of each column.
    pub rows: Vec<Vec<Value>>,
}

/// A check of the same stage that was answered before.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Earlier {
    /// Of the check.
    pub name: String,
    /// What it said.
    pub outcome: Outcome,
    /// Why.
    #[serde(default)]
    pub reason: String,
}

fn deployments() -> String {
    "deployments.apps".to_owned()
}

impl Cluster {
    pub(super) fn only() -> Vec<Self> {
        vec![Self::Name("dev-1".to_owned())]
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Name(name) | Self::Labelled { name, .. } => name,
        }
    }
}

impl Watched {
    pub(super) fn only() -> Vec<Self> {
        let (evidence, collectors) = Default::default();
        vec![Self {
            object: "shop/web".to_owned(),
            kind: deployments(),
            evidence,
            collectors,
        }]
    }
}

pub(super) fn destinations(clusters: &[Cluster]) -> wit::Destinations {
    let known = |cluster: &Cluster| match cluster {
        Cluster::Name(_) => None,
        Cluster::Labelled { labels, .. } => Some(labels.clone()),
    };
    let known: Vec<Option<BTreeMap<String, String>>> = clusters.iter().map(known).collect();
    let each = || known.iter().flatten().flatten();
    let counts = known.iter().map(|labels| labels.as_ref().map_or(0, BTreeMap::len));
    let mut end = 0;
    let labels = wit::Labels {
        unknown: rows_where(known.iter().map(Option::is_none)),
        keys: arena(each().map(|(key, _)| key)),
        values: arena(each().map(|(_, value)| value)),
        ends: counts
            .map(|count| {
                end += count;
                u32::try_from(end).unwrap_or(u32::MAX)
            })
            .collect(),
    };
    wit::Destinations {
        names: arena(clusters.iter().map(Cluster::name)),
        labels: known.iter().any(Option::is_some).then_some(labels),
    }
}

/// The report of a cluster that a case does not mention: it has reported, without numbers.
const SILENT: Row = Row {
    generation: None,
    ready: None,
    available: None,
    total: None,
    updated: None,
    health: Health::Healthy,
};

pub(super) fn evidence(watched: &Watched, clusters: &[Cluster], now_ms: u64) -> wit::Evidence {
    let row = |cluster: &Cluster| match watched.evidence.get(cluster.name()) {
        None => (wit::Reported::WithStatus, SILENT),
        Some(Report::Row(row)) => (wit::Reported::WithStatus, *row),
        Some(Report::Without(Without::WithoutStatus)) => (wit::Reported::WithoutStatus, SILENT),
        Some(Report::Without(Without::Never)) => {
            let health = Health::Progressing;
            (wit::Reported::Never, Row { health, ..SILENT })
        }
    };
    let rows: Vec<(wit::Reported, Row)> = clusters.iter().map(row).collect();
    let has_status = |reported: wit::Reported| reported == wit::Reported::WithStatus;
    let numbers = |number: fn(&Row) -> Option<i64>| integers(rows.iter().map(|(_, row)| number(row)));
    let generations = rows.iter().map(|(reported, row)| {
        let generation = row.generation.or(Some(1));
        generation.filter(|_| has_status(*reported))
    });
    let at_ms = |reported: wit::Reported| match reported {
        wit::Reported::WithStatus => now_ms.saturating_sub(REPORTED_BEFORE_MS),
        wit::Reported::WithoutStatus | wit::Reported::Never => 0,
    };
    wit::Evidence {
        reported: rows.iter().map(|(reported, _)| *reported).collect(),
        reported_at_ms: rows.iter().map(|(reported, _)| at_ms(*reported)).collect(),
        generation: integers(generations),
        ready: numbers(|row| row.ready),
        available: numbers(|row| row.available),
        total: numbers(|row| row.total),
        updated: numbers(|row| row.updated),
        health: rows.iter().map(|(_, row)| row.health).collect(),
    }
}

pub(super) fn object(at: usize, watched: &Watched, evidence: wit::Evidence) -> Result<wit::Object, Error> {
    let (namespace, name) = match watched.object.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, watched.object.as_str()),
    };
    let (resource, group) = watched.kind.split_once('.').unwrap_or((&watched.kind, ""));
    let results = watched
        .collectors
        .iter()
        .map(|(collector, table)| result_set(collector, table));
    Ok(wit::Object {
        group: group.to_owned(),
        resource: resource.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
        uid: format!("00000000-0000-4000-8000-{at:012}"),
        generation: Some(1),
        evidence,
        combined_status: wit::CombinedStatus {
            namespace: namespace.unwrap_or("kubestellar-report").to_owned(),
            name: format!("00000000-0000-4000-8000-{at:012}.00000000-0000-4000-8000-999999999999"),
            results: results.collect::<Result<_, _>>()?,
        },
    })
}

fn result_set(collector: &str, table: &Table) -> Result<wit::ResultSet, Error> {
    if let Some(at) = table.rows.iter().position(|row| row.len() != table.columns.len()) {
        return Err(Error::new(format_args!(
            "row {at} of collector {collector} is not as long as its header"
        )));
    }
    Ok(wit::ResultSet {
        collector: collector.to_owned(),
        row_count: u32::try_from(table.rows.len())?,
        columns: (table.columns.iter().enumerate())
            .map(|(at, name)| packed(name, table.rows.iter().map(|row| cell(&row[at])).collect()))
            .collect(),
    })
}

/// What the host makes of a value.
fn cell(value: &Value) -> wit::Cell {
    match value {
        Value::Null => wit::Cell::Null,
        Value::Bool(value) => wit::Cell::Boolean(*value),
        Value::Number(value) => match value.as_i64() {
            Some(value) => wit::Cell::Integer(value),
            None => wit::Cell::Decimal(value.as_f64().unwrap_or_default()),
        },
        Value::String(value) => wit::Cell::Text(value.clone()),
        value => wit::Cell::Json(value.to_string()),
    }
}
