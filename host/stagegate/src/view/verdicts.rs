//! The end of a rollout: every stage's verdicts with their reasons, as a table or as one JSON object.

use std::time::Duration;

use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;
use stagegate_api::{EvidencePiece, Outcome, Phase, StageState, StagedBindingPolicy};

use super::shown::Policies;
use super::text::{explained, milliseconds};
use super::{change, frame, times};

/// The last line of `-o json`.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "summary", rename_all = "camelCase")]
pub struct Summary<'a> {
    pub elapsed_ms: u64,
    /// Why the view ended: `Completed`, `Holding`, `Failed`, `TimedOut`, `Interrupted`.
    pub ended: &'a str,
    pub policies: Vec<PolicySummary<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicySummary<'a> {
    pub name: &'a str,
    pub phase: Option<Phase>,
    pub reason: Option<&'a str>,
    /// That of the check or condition with the reason.
    pub message: String,
    /// Since when the policy is in its phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<&'a Time>,
    pub active_stage: Option<&'a str>,
    pub stages: Vec<StageSummary<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StageSummary<'a> {
    pub name: &'a str,
    pub state: StageState,
    pub clusters: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placed_at: Option<&'a Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed_at: Option<&'a Time>,
    /// Since when it has been held at the versions that are admitted to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_since: Option<&'a Time>,
    /// Objects of which clusters may have got a newer version than the admitted one.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub unproven: &'a [String],
    pub checks: Vec<CheckSummary<'a>>,
    pub not_evaluated: &'a [String],
    pub message: Option<&'a str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckSummary<'a> {
    pub check: &'a str,
    pub outcome: Outcome,
    pub reason: &'a str,
    pub message: &'a str,
    /// Since when it has given this very answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<&'a Time>,
    /// What a gate's answer rests on.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub evidence: &'a [EvidencePiece],
    /// The component that a gate ran, as `sha256:…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module_digest: Option<&'a str>,
}

impl<'a> Summary<'a> {
    pub fn of(policies: &'a Policies, ended: &'a str, elapsed: Duration) -> Self {
        Self {
            elapsed_ms: milliseconds(elapsed),
            ended,
            policies: policies
                .iter()
                .map(|(name, policy)| PolicySummary::of(name, policy))
                .collect(),
        }
    }
}

impl<'a> PolicySummary<'a> {
    pub(super) fn of(name: &'a str, policy: &'a StagedBindingPolicy) -> Self {
        let status = policy.status.as_ref();
        let records = status.map(|status| status.stages.as_slice()).unwrap_or_default();
        let stage = |spec: &'a stagegate_api::Stage| {
            let record = records.iter().find(|record| record.name == spec.name);
            let held = record.filter(|record| frame::is_held(policy, record));
            let checks = record.map(|record| record.checks.as_slice()).unwrap_or_default();
            StageSummary {
                name: &spec.name,
                state: record.map_or(StageState::Pending, |record| record.state),
                clusters: record.map(|record| record.destinations.as_slice()).unwrap_or_default(),
                placed_at: record.and_then(|record| record.placed_at.as_ref()),
                passed_at: record.and_then(|record| record.passed_at.as_ref()),
                held_since: held.and_then(|record| record.held_since.as_ref()),
                unproven: held.map(|record| record.unproven.as_slice()).unwrap_or_default(),
                checks: checks
                    .iter()
                    .map(|check| CheckSummary {
                        check: &check.name,
                        outcome: check.outcome,
                        reason: &check.reason,
                        message: &check.message,
                        since: check.evaluated_at.as_ref(),
                        evidence: &check.evidence,
                        module_digest: check.module_digest.as_deref(),
                    })
                    .collect(),
                not_evaluated: record.map(|record| record.not_evaluated.as_slice()).unwrap_or_default(),
                message: record.and_then(|record| record.message.as_deref()),
            }
        };
        let reason = status.and_then(|status| status.reason.as_deref());
        Self {
            name,
            phase: status.and_then(|status| status.phase),
            reason,
            message: change::explanation(policy, reason.unwrap_or_default()),
            since: status.and_then(times::phase_since),
            active_stage: status.and_then(|status| status.active_stage.as_deref()),
            stages: policy.spec.stages.iter().map(stage).collect(),
        }
    }
}

/// One row per check; a stage without one has a row of its own. `width`: text is wrapped to this many columns of a terminal, and
/// columns of the table that then have no room are left out.
pub fn table(policies: &Policies, width: Option<u16>) -> String {
    let mut cells: Vec<[String; COLUMNS]> = Vec::new();
    for (name, policy) in policies {
        let mut policy_cell = name.as_str();
        for stage in &PolicySummary::of(name, policy).stages {
            let (state, clusters) = (format!("{:?}", stage.state), stage.clusters.join(", "));
            let mut stage_cells = [policy_cell, stage.name, &state, &clusters];
            for [check, outcome, reason, message] in rows(stage) {
                let [policy, stage, state, clusters] = stage_cells;
                let row = [policy, stage, state, clusters, &check, &outcome, &reason, &message];
                cells.push(row.map(stagegate_api::printable::printable));
                stage_cells = [""; 4];
            }
            policy_cell = "";
        }
    }
    let least: [usize; COLUMNS] = std::array::from_fn(|column| least_width(column, &cells));
    let columns = with_room(&least, width);
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(columns.iter().map(|column| HEADER[*column]));
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
const HEADER: [&str; COLUMNS] = [
    "POLICY", "STAGE", "STATE", "CLUSTERS", "CHECK", "OUTCOME", "REASON", "MESSAGE",
];
/// Columns of text, which may be wrapped between words.
const WRAPPED: [usize; 2] = [3, 7];
/// What is left out first where there is no room: the message says more than the reason, and status has the clusters.
const LEFT_OUT: [usize; 3] = [6, 3, 7];
/// A blank on each side of a cell.
const PADDING: usize = 2;
/// A longer word, such as a digest, may be split.
const WORD_MAX: usize = 24;

/// The least that a column takes, without splitting a word.
fn least_width(column: usize, cells: &[[String; COLUMNS]]) -> usize {
    let texts = cells.iter().map(|row| row[column].as_str()).chain([HEADER[column]]);
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

fn rows(stage: &StageSummary<'_>) -> Vec<[String; 4]> {
    let row = |cells: [&str; 4]| cells.map(str::to_owned);
    if stage.checks.is_empty() {
        return vec![row(["", "", "", stage.message.unwrap_or_default()])];
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
            let message = explained(check.message, check.evidence);
            row([check.check, outcome(check.outcome), check.reason, &message])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

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
        let policies = BTreeMap::from([("nginx".to_owned(), serde_json::from_value(policy).unwrap())]);
        table(&policies, Some(80))
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
