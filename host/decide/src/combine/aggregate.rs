//! The clusters combined: groups, and in each group COUNT, SUM, AVG, MIN and MAX.

use std::collections::BTreeMap;

use stagegate_api::combined_status::AggregationError;
use stagegate_api::{Cell, CollectorResult, CombinedField, Destination, Row, RowError};

use super::rows::{Verdict, cluster_verdict, column};
use super::value::{cell, error_text, go_float, number};
use super::{Collector, Computed};

/// A cluster whose expressions all gave values.
struct Member<'a> {
    cluster: &'a str,
    /// The values of the combined fields; `None` for COUNT.
    subjects: Vec<Option<&'a Computed>>,
}

#[derive(Default)]
struct Group<'a> {
    keys: Vec<&'a Computed>,
    members: Vec<Member<'a>>,
}

/// The first complaint for each column: KubeStellar names one cluster a column.
#[derive(Default)]
struct FirstErrors<T>(BTreeMap<String, T>);

impl<T> FirstErrors<T> {
    fn note(&mut self, column: &str, error: impl FnOnce() -> T) {
        if !self.0.contains_key(column) {
            self.0.insert(column.to_owned(), error());
        }
    }
}

/// What an aggregating collector says over the clusters, which are sorted.
pub(super) fn result(name: &str, collector: &Collector, clusters: &[&str]) -> CollectorResult {
    let spec = &collector.spec;
    let mut row_errors = FirstErrors::default();
    // By the keys' debug text, which tells types apart as KubeStellar does: 1, 1.0 and "1" are three groups.
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for &cluster in clusters {
        match member(collector, cluster) {
            Ok(Some((keys, member))) => {
                let group = groups.entry(format!("{keys:?}")).or_default();
                group.keys = keys;
                group.members.push(member);
            }
            Ok(None) => {}
            Err(errors) => {
                for (column, error) in errors {
                    row_errors.note(column, || RowError {
                        wec: Destination {
                            cluster_id: cluster.to_owned(),
                        },
                        column_name: column.to_owned(),
                        error: error_text(&error),
                    });
                }
            }
        }
    }
    // Nothing to combine is one row of neutral values, unless the reason is that every cluster failed.
    if spec.group_by.is_empty() && groups.is_empty() && row_errors.0.is_empty() {
        groups.insert(String::new(), Group::default());
    }
    let mut aggregation_errors = FirstErrors::default();
    let rows = groups
        .values()
        .map(|group| row(&spec.combined_fields, group, &mut aggregation_errors))
        .collect();
    let groups = spec.group_by.iter().map(|column| &column.name);
    CollectorResult {
        name: name.to_owned(),
        column_names: groups
            .chain(spec.combined_fields.iter().map(|field| &field.name))
            .cloned()
            .collect(),
        rows,
        row_errors: row_errors.0.into_values().collect(),
        aggregation_errors: aggregation_errors.0.into_values().collect(),
    }
}

type ColumnError<'a> = (&'a str, String);

/// A cluster's group keys and values; nothing when the filter drops it. Any error leaves it out as a whole, and all of them are said.
fn member<'a>(
    collector: &'a Collector,
    cluster: &'a str,
) -> Result<Option<(Vec<&'a Computed>, Member<'a>)>, Vec<ColumnError<'a>>> {
    let evaluation = collector.evaluations.get(cluster);
    let mut errors = Vec::new();
    match cluster_verdict(evaluation) {
        Verdict::Drop => return Ok(None),
        Verdict::Error(error) => errors.push(("", error)),
        Verdict::Keep => {}
    }
    let mut at = 0;
    let mut next = |name: &'a str| {
        at += 1;
        column(evaluation, at - 1).map_err(|error| (name, error.to_owned()))
    };
    let mut keys = Vec::new();
    for group in &collector.spec.group_by {
        match next(&group.name) {
            Ok(Computed::Json(_) | Computed::BuiltMap | Computed::Bytes(_)) => {
                errors.push((&group.name, "a list, a map or bytes cannot be grouped by".to_owned()));
            }
            Ok(key) => keys.push(key),
            Err(error) => errors.push(error),
        }
    }
    let mut subjects = Vec::new();
    for field in &collector.spec.combined_fields {
        match field.subject.as_ref().map(|_| next(&field.name)).transpose() {
            Ok(subject) => subjects.push(subject),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() {
        Ok(Some((keys, Member { cluster, subjects })))
    } else {
        Err(errors)
    }
}

fn row(fields: &[CombinedField], group: &Group, errors: &mut FirstErrors<AggregationError>) -> Row {
    let mut columns: Vec<Cell> = group.keys.iter().map(|key| cell(key)).collect();
    columns.extend(fields.iter().enumerate().map(|(at, field)| {
        let (cell, error) = combine(field, at, &group.members);
        if let Some(error) = error {
            errors.note(&field.name, || AggregationError {
                column_name: field.name.clone(),
                error,
            });
        }
        cell
    }));
    Row { columns }
}

/// The combined value, and an error where some of the values could not be used.
fn combine(field: &CombinedField, at: usize, members: &[Member]) -> (Cell, Option<String>) {
    let mut unusable = None;
    let mut numbers = Vec::with_capacity(members.len());
    for member in members {
        match member.subjects.get(at).copied().flatten().map(as_number) {
            Some(Some(number)) => numbers.push(number),
            Some(None) => unusable = unusable.or(Some(member.cluster)),
            None => {}
        }
    }
    // From a positive zero: `sum()` of nothing is -0, which would be written as such.
    let sum = || numbers.iter().fold(0.0, |sum, number| sum + number);
    let combined = match field.aggregation.as_str() {
        "COUNT" => return (number(members.len().to_string()), None),
        "SUM" => sum(),
        // Values that cannot be used count in the divisor all the same: so KubeStellar has it.
        "AVG" => sum() / members.len() as f64,
        "MIN" => numbers.iter().copied().fold(f64::INFINITY, f64::min),
        "MAX" => numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        other => {
            return (
                Cell::default(),
                Some(format!("{other:?} is not COUNT, SUM, AVG, MIN or MAX")),
            );
        }
    };
    let cell = number(go_float(combined));
    let error = match unusable {
        Some(cluster) => Some(format!("the value of cluster {cluster} is not a number")),
        None => (members.is_empty() && field.aggregation == "AVG").then(|| "no values".to_owned()),
    };
    (cell, error)
}

/// A number, or a text that is one.
fn as_number(value: &Computed) -> Option<f64> {
    match value {
        Computed::Int(value) => Some(*value as f64),
        Computed::Uint(value) => Some(*value as f64),
        Computed::Double(value) => Some(*value),
        Computed::String(text) => text.parse().ok(),
        _ => None,
    }
}
