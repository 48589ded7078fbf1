//! The rows of a collector that selects columns: one for each cluster.

use stagegate_api::{Cell, CollectorResult, Row};

use super::value::{cell, error_cell};
use super::{Collector, Computed, Evaluation, Outcome};

/// What a filter says about a cluster's row.
pub(super) enum Verdict {
    Keep,
    Drop,
    Error(String),
}

/// Whether the columns matter after the filter gave this; if not, they need not be evaluated.
pub fn keeps_row(filter: &Outcome) -> bool {
    !matches!(verdict(Some(filter)), Verdict::Drop)
}

/// Null is documented to be false; KubeStellar takes it for an error.
pub(super) fn verdict(filter: Option<&Outcome>) -> Verdict {
    match filter {
        None | Some(Outcome::Value(Computed::Bool(true))) => Verdict::Keep,
        Some(Outcome::Value(Computed::Bool(false) | Computed::Null)) => Verdict::Drop,
        Some(Outcome::Value(_)) => Verdict::Error("the filter is neither true nor false".to_owned()),
        Some(Outcome::Error(error)) => Verdict::Error(error.clone()),
    }
}

/// The value of a column, or why there is none.
pub(super) fn column(evaluation: Option<&Evaluation>, at: usize) -> Result<&Computed, &str> {
    match evaluation.and_then(|evaluation| evaluation.columns.get(at)) {
        Some(Outcome::Value(value)) => Ok(value),
        Some(Outcome::Error(error)) => Err(error),
        None => Err("not evaluated"),
    }
}

/// The verdict for a cluster; without an evaluation it is an error.
pub(super) fn cluster_verdict(evaluation: Option<&Evaluation>) -> Verdict {
    match evaluation {
        Some(evaluation) => verdict(evaluation.filter.as_ref()),
        None => Verdict::Error("not evaluated".to_owned()),
    }
}

/// What a selecting collector says over the clusters, which are sorted.
pub(super) fn result(name: &str, collector: &Collector, clusters: &[&str]) -> CollectorResult {
    let column_names = collector.spec.select.iter().map(|column| column.name.clone()).collect();
    let evaluations = clusters.iter().map(|cluster| collector.evaluations.get(*cluster));
    // A row whose filter failed is kept, and nothing tells of the failure: so KubeStellar has it, run on 0.30.
    let kept = evaluations.filter(|evaluation| !matches!(cluster_verdict(*evaluation), Verdict::Drop));
    let rows = kept
        .map(|evaluation| Row {
            columns: selected(collector, evaluation),
        })
        .collect();
    CollectorResult {
        name: name.to_owned(),
        column_names,
        rows,
        ..CollectorResult::default()
    }
}

fn selected(collector: &Collector, evaluation: Option<&Evaluation>) -> Vec<Cell> {
    let columns = 0..collector.spec.select.len();
    columns
        .map(|at| column(evaluation, at).map_or_else(error_cell, cell))
        .collect()
}
