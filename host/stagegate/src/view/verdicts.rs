//! The end of a rollout: every stage's verdicts with their reasons, as a table or as one JSON object.

use std::time::Duration;

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use stagegate_api::{Outcome, Phase, StageState, StagedBindingPolicy};

use super::Policies;
use super::line::{milliseconds, printable};

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
    pub active_stage: Option<&'a str>,
    pub stages: Vec<StageSummary<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StageSummary<'a> {
    pub name: &'a str,
    pub state: StageState,
    pub clusters: &'a [String],
    pub checks: Vec<CheckSummary<'a>>,
    pub not_judged: &'a [String],
    pub message: Option<&'a str>,
}

#[derive(Debug, Serialize)]
pub struct CheckSummary<'a> {
    pub check: &'a str,
    pub outcome: Outcome,
    pub reason: &'a str,
    pub message: &'a str,
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
    fn of(name: &'a str, policy: &'a StagedBindingPolicy) -> Self {
        let status = policy.status.as_ref();
        let records = status.map(|status| status.stages.as_slice()).unwrap_or_default();
        let stage = |spec: &'a stagegate_api::Stage| {
            let record = records.iter().find(|record| record.name == spec.name);
            let checks = record.map(|record| record.checks.as_slice()).unwrap_or_default();
            StageSummary {
                name: &spec.name,
                state: record.map_or(StageState::Pending, |record| record.state),
                clusters: record.map(|record| record.destinations.as_slice()).unwrap_or_default(),
                checks: checks
                    .iter()
                    .map(|check| CheckSummary {
                        check: &check.name,
                        outcome: check.outcome,
                        reason: &check.reason,
                        message: &check.message,
                    })
                    .collect(),
                not_judged: record.map(|record| record.not_judged.as_slice()).unwrap_or_default(),
                message: record.and_then(|record| record.message.as_deref()),
            }
        };
        Self {
            name,
            phase: status.and_then(|status| status.phase),
            reason: status.and_then(|status| status.reason.as_deref()),
            active_stage: status.and_then(|status| status.active_stage.as_deref()),
            stages: policy.spec.stages.iter().map(stage).collect(),
        }
    }
}

/// One row per check; a stage without one has a row of its own. `width`: wrapped to this many columns.
pub fn table(policies: &Policies, width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(HEADER);
    if let Some(width) = width {
        table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width);
    }
    for (name, policy) in policies {
        let mut policy_cell = name.as_str();
        for stage in &PolicySummary::of(name, policy).stages {
            let (state, clusters) = (format!("{:?}", stage.state), stage.clusters.join(", "));
            let mut stage_cells = [policy_cell, stage.name, &state, &clusters];
            for check in rows(stage) {
                table.add_row(stage_cells.into_iter().chain(check).map(printable));
                stage_cells = [""; 4];
            }
            policy_cell = "";
        }
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

const HEADER: [&str; 8] = [
    "POLICY", "STAGE", "STATE", "CLUSTERS", "CHECK", "OUTCOME", "REASON", "MESSAGE",
];

fn rows<'a>(stage: &StageSummary<'a>) -> Vec<[&'a str; 4]> {
    if stage.checks.is_empty() {
        return vec![["", "", "", stage.message.unwrap_or_default()]];
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
        .map(|check| [check.check, outcome(check.outcome), check.reason, check.message])
        .collect()
}
