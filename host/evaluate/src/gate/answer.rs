//! What may come out of a gate: bounds on its verdict, description and log. A gate is not trusted to keep them, and whoever
//! shows its texts is not trusted to look. Who runs gates in another process holds what comes back to the same bounds once
//! more: what is within them stays as it is.

use super::failure::{Failure, FailureKind};
use super::text::one_line;
use super::wire::{Decision, Description, EvidencePiece, Level, LogLine, Pass, Verdict};

const REASON_BYTES_MAX: usize = 4 << 10;
const EVIDENCE_MAX: usize = 32;
const EVIDENCE_BYTES_MAX: usize = 1 << 10;
const NAME_BYTES_MAX: usize = 64;
const VERSION_BYTES_MAX: usize = 64;
const SUMMARY_BYTES_MAX: usize = 256;
const SCHEMA_BYTES_MAX: usize = 64 << 10;
const LOG_LINES_MAX: usize = 64;
const LOG_BYTES_MAX: usize = 8 << 10;

/// Cuts what is too long.
///
/// # Errors
/// `AnswerInvalid`: a hold or a fail without a reason and a pass for no time at all are no verdicts.
pub fn verdict(mut verdict: Verdict) -> Result<Verdict, Failure> {
    match &mut verdict.decision {
        Decision::Pass(Pass { valid_for_ms: Some(0) }) => {
            return Err(Failure::new(
                FailureKind::AnswerInvalid,
                "the gate passed for no time at all",
            ));
        }
        Decision::Pass(_) => {}
        Decision::Hold(hold) => hold.reason = reason("hold", &hold.reason)?,
        Decision::Fail(fail) => fail.reason = reason("fail", &fail.reason)?,
    }
    verdict.evidence.truncate(EVIDENCE_MAX);
    for EvidencePiece { name, value } in &mut verdict.evidence {
        *name = one_line(name, EVIDENCE_BYTES_MAX);
        *value = one_line(value, EVIDENCE_BYTES_MAX);
    }
    Ok(verdict)
}

fn reason(decision: &str, reason: &str) -> Result<String, Failure> {
    let reason = one_line(reason, REASON_BYTES_MAX);
    if reason.trim().is_empty() {
        return Err(Failure::new(
            FailureKind::AnswerInvalid,
            format_args!("the gate answered {decision} without a reason"),
        ));
    }
    Ok(reason)
}

/// Cuts what is too long.
///
/// # Errors
/// `AnswerInvalid`: a config schema that is too long or no JSON, and no name.
pub fn description(description: Description) -> Result<Description, Failure> {
    let Description {
        name,
        version,
        summary,
        config_schema,
    } = description;
    let refused = |message| Err(Failure::new(FailureKind::AnswerInvalid, message));
    if config_schema.len() > SCHEMA_BYTES_MAX {
        return refused(format!(
            "the gate's config schema has {} bytes, {SCHEMA_BYTES_MAX} are allowed",
            config_schema.len()
        ));
    }
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(&config_schema) {
        return refused(format!("the gate's config schema is not JSON: {error}"));
    }
    let name = one_line(&name, NAME_BYTES_MAX);
    if name.trim().is_empty() {
        return refused("the gate does not say its name".to_owned());
    }
    Ok(Description {
        name,
        version: one_line(&version, VERSION_BYTES_MAX),
        summary: one_line(&summary, SUMMARY_BYTES_MAX),
        config_schema,
    })
}

/// Drops lines beyond the bounds; the one that meets a bound is cut.
pub fn log(lines: Vec<LogLine>) -> Vec<LogLine> {
    let mut log = Log::default();
    for LogLine { level, message } in lines {
        log.push(level, &message);
    }
    log.into_lines()
}

/// The lines of one call, within the bounds at any time.
#[derive(Default)]
pub(super) struct Log {
    lines: Vec<LogLine>,
    bytes: usize,
}

impl Log {
    pub(super) fn push(&mut self, level: Level, message: &str) {
        let left = LOG_BYTES_MAX - self.bytes;
        if self.lines.len() == LOG_LINES_MAX || left == 0 {
            return;
        }
        let message = one_line(message, left);
        self.bytes += message.len();
        self.lines.push(LogLine { level, message });
    }

    pub(super) fn into_lines(self) -> Vec<LogLine> {
        self.lines
    }
}
