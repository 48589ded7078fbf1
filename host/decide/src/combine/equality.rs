//! When a CombinedStatus that is there says the same as the one that is wanted.

use stagegate_api::{CollectorResult, CombinedStatus, Row};

pub(super) fn same(current: &CombinedStatus, wanted: &CombinedStatus) -> bool {
    let metadata = |combined: &CombinedStatus| {
        let owners = combined.metadata.owner_references.clone().unwrap_or_default();
        (combined.metadata.labels.clone().unwrap_or_default(), owners)
    };
    metadata(current) == metadata(wanted)
        && current.results.len() == wanted.results.len()
        && current
            .results
            .iter()
            .zip(&wanted.results)
            .all(|(current, wanted)| same_result(current, wanted))
}

/// Rows are a set with repetitions; everything else is compared as it stands, errors too.
fn same_result(current: &CollectorResult, wanted: &CollectorResult) -> bool {
    current.name == wanted.name
        && current.column_names == wanted.column_names
        && current.row_errors == wanted.row_errors
        && current.aggregation_errors == wanted.aggregation_errors
        && (current.rows == wanted.rows || sorted(&current.rows) == sorted(&wanted.rows))
}

fn sorted(rows: &[Row]) -> Vec<String> {
    let mut texts: Vec<String> = rows
        .iter()
        .map(|row| serde_json::to_string(row).expect("strings and JSON values always serialise"))
        .collect();
    texts.sort_unstable();
    texts
}
