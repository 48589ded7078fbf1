//! The end of a rollout: every stage's verdicts with their reasons, as a table or as one JSON object.

use std::time::Duration;

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use stagegate_api::{EvidencePiece, Outcome, Phase, StageState, StagedBindingPolicy};

use super::Policies;
use super::line::milliseconds;

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
#[serde(rename_all = "camelCase")]
pub struct CheckSummary<'a> {
    pub check: &'a str,
    pub outcome: Outcome,
    pub reason: &'a str,
    pub message: &'a str,
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
                        evidence: &check.evidence,
                        module_digest: check.module_digest.as_deref(),
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
                let cells = stage_cells.into_iter().chain(check.iter().map(String::as_str));
                table.add_row(cells.map(stagegate_decide::printable::printable));
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

/// What a check's answer rests on, behind its message: `passes [clusters=2 share=1]`.
pub(super) fn explained(message: &str, evidence: &[EvidencePiece]) -> String {
    if evidence.is_empty() {
        return message.to_owned();
    }
    let pieces: Vec<String> = evidence
        .iter()
        .map(|piece| format!("{}={}", piece.name, piece.value))
        .collect();
    format!("{message} [{}]", pieces.join(" ")).trim_start().to_owned()
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
