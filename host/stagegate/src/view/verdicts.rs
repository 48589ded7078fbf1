//! The end of a rollout: every stage's verdicts with their reasons, as a table or as one JSON object.

use std::time::Duration;

use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use serde::Serialize;
use stagegate_api::Outcome;

use super::rollout::{Place, Progress, Rollout, RolloutStage, Rollouts};
use super::text::{explained, milliseconds};
use crate::target::Kind;

/// The last line of `-o json`.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "summary", rename_all = "camelCase")]
pub struct Summary<'a> {
    pub elapsed_ms: u64,
    /// Why the view ended: `Completed`, `Holding`, `Failed`, `TimedOut`, `Interrupted`.
    pub ended: &'a str,
    /// Policies or YurtAppDaemons.
    pub policies: Vec<&'a Rollout>,
}

impl<'a> Summary<'a> {
    pub fn of(rollouts: &'a Rollouts, ended: &'a str, elapsed: Duration) -> Self {
        Self {
            elapsed_ms: milliseconds(elapsed),
            ended,
            policies: rollouts.values().collect(),
        }
    }
}

/// One row per check; a stage without one has a row of its own, and so has a YurtAppDaemon without stages. `width`: text is wrapped to
/// this many columns of a terminal, and columns of the table that then have no room are left out.
pub fn table(rollouts: &Rollouts, width: Option<u16>) -> String {
    let mut cells: Vec<[String; COLUMNS]> = Vec::new();
    for (name, rollout) in rollouts {
        cells.extend(unstaged(rollout));
        let mut name_cell = name.as_str();
        for stage in &rollout.stages {
            let (state, place) = (format!("{:?}", stage.state), place(&stage.place));
            let mut stage_cells = [name_cell, stage.name.as_str(), &state, &place];
            for [check, outcome, reason, message] in rows(stage) {
                let [name, stage, state, place] = stage_cells;
                let row = [name, stage, state, place, &check, &outcome, &reason, &message];
                cells.push(row.map(stagegate_api::printable::printable));
                stage_cells = [""; 4];
            }
            name_cell = "";
        }
    }
    let kind = rollouts.values().next().map(|rollout| rollout.kind).unwrap_or_default();
    let header = header(kind);
    let least: [usize; COLUMNS] = std::array::from_fn(|column| least_width(header[column], (column, &cells)));
    let columns = with_room(&least, width);
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(columns.iter().map(|column| header[*column]));
    for row in &cells {
        table.add_row(columns.iter().map(|column| &row[*column]));
    }
    if let Some(width) = width {
        table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width);
        let constraints = columns.iter().map(|column| {
            let least = u16::try_from(least[*column]).unwrap_or(u16::MAX);
            ColumnConstraint::LowerBoundary(Width::Fixed(least))
        });
        table.set_constraints(constraints);
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

const COLUMNS: usize = 8;
/// Columns of text, which may be wrapped between words.
const WRAPPED: [usize; 2] = [3, 7];
/// What is left out first where there is no room: the message says more than the reason, and status has the clusters.
const LEFT_OUT: [usize; 3] = [6, 3, 7];
/// A blank on each side of a cell.
const PADDING: usize = 2;
/// A longer word, such as a digest, may be split.
const WORD_MAX: usize = 24;

const fn header(kind: Kind) -> [&'static str; COLUMNS] {
    let (name, place) = match kind {
        Kind::StagedBindingPolicy => ("POLICY", "CLUSTERS"),
        Kind::YurtAppDaemon => ("NAME", "POOLS"),
    };
    [name, "STAGE", "STATE", place, "CHECK", "OUTCOME", "REASON", "MESSAGE"]
}

/// The row of a rollout that has no stage to show.
fn unstaged(rollout: &Rollout) -> Option<[String; COLUMNS]> {
    let Progress { updated, total } = rollout.progress.filter(|_| rollout.stages.is_empty())?;
    let reason = rollout.reason.as_deref().unwrap_or_default();
    let pools = format!("{updated} of {total}");
    let row = [&rollout.name, "", "", &pools, "", "", reason, &rollout.message];
    Some(row.map(stagegate_api::printable::printable))
}

fn place(place: &Place) -> String {
    match place {
        Place::Clusters { clusters } => clusters.join(", "),
        Place::Pools { pools, updated } => format!("{updated} of {pools}"),
    }
}

/// The least that a column takes, without splitting a word.
fn least_width(header: &str, (column, cells): (usize, &[[String; COLUMNS]])) -> usize {
    let texts = cells.iter().map(|row| row[column].as_str()).chain([header]);
    let widest = if WRAPPED.contains(&column) {
        let words = texts.flat_map(str::split_whitespace);
        words.map(|word| word.chars().count().min(WORD_MAX)).max()
    } else {
        texts.map(|text| text.chars().count()).max()
    };
    widest.unwrap_or_default() + PADDING
}

/// The columns for which there is room.
fn with_room(least: &[usize; COLUMNS], width: Option<u16>) -> Vec<usize> {
    let mut columns: Vec<usize> = (0..COLUMNS).collect();
    let Some(width) = width else { return columns };
    for left_out in LEFT_OUT {
        let taken: usize = columns.iter().map(|column| least[*column]).sum();
        if taken <= usize::from(width) {
            break;
        }
        columns.retain(|column| *column != left_out);
    }
    columns
}

fn rows(stage: &RolloutStage) -> Vec<[String; 4]> {
    let row = |cells: [&str; 4]| cells.map(str::to_owned);
    if stage.checks.is_empty() {
        return vec![row(["", "", "", stage.message.as_deref().unwrap_or_default()])];
    }
    let outcome = |outcome| match outcome {
        Outcome::Pass => "Pass",
        Outcome::Hold => "Hold",
        Outcome::Unknown => "Unknown",
        Outcome::Fail => "Fail",
    };
    stage
        .checks
        .iter()
        .map(|check| {
            let message = explained(&check.message, &check.evidence);
            row([&check.name, outcome(check.outcome), &check.reason, &message])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use stagegate_api::StagedBindingPolicy;

    use super::super::rollout::Rolled as _;
    use super::table;

    fn rollout() -> String {
        let check = |name: &str, reason: &str, message: &str| json!({"name": name, "outcome": "Pass", "reason": reason, "message": message});
        let checks = json!([
            check("filter", "Complete", "keeps 1 of 3 bound objects"),
            check("condition", "ConditionTrue", "true for 1 object"),
            check("gate/min-available", "GatePassed", "passes"),
        ]);
        let policy = json!({
            "apiVersion": "community.kubestellar.io/v1alpha1",
            "kind": "StagedBindingPolicy",
            "metadata": {"name": "nginx"},
            "spec": {"downsync": [], "stages": [{"name": "dev"}, {"name": "prod"}]},
            "status": {"stages": [{"name": "dev", "state": "Passed", "destinations": ["dev-1", "dev-2"], "checks": checks}]},
        });
        let policy: StagedBindingPolicy = serde_json::from_value(policy).unwrap();
        table(&BTreeMap::from([("nginx".to_owned(), policy.rollout())]), Some(80))
    }

    #[test]
    fn a_table_of_80_columns_splits_no_word_and_leaves_out_what_has_no_room() {
        let table = rollout();
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
        for word in ["CLUSTERS", "condition", "gate/min-available", "objects", "dev-2"] {
            assert!(table.contains(word), "{word} is split or left out:\n{table}");
        }
        assert!(!table.contains("REASON"), "{table}");
    }
}
