//! What may come out of a gate: bounds on its verdict and description. A gate is not trusted to keep them, and whoever shows
//! its texts is not trusted to look.

use super::failure::{Failure, FailureKind};
use super::wire::{Decision, Description, EvidencePiece, Verdict};

const REASON_BYTES_MAX: usize = 4 << 10;
const EVIDENCE_MAX: usize = 32;
const EVIDENCE_BYTES_MAX: usize = 1 << 10;
const NAME_BYTES_MAX: usize = 64;
const VERSION_BYTES_MAX: usize = 64;
const SUMMARY_BYTES_MAX: usize = 256;
const SCHEMA_BYTES_MAX: usize = 64 << 10;

/// Cuts what is too long. A hold or a fail without a reason is no verdict.
pub(super) fn verdict(mut verdict: Verdict) -> Result<Verdict, Failure> {
    match &mut verdict.decision {
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

/// Cuts what is too long. A config schema is JSON and whole, or the description is refused.
pub(super) fn description(description: Description) -> Result<Description, Failure> {
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

/// The start of `text`, at most `bytes_max` bytes, without characters that end a line or control a terminal.
pub(super) fn one_line(text: &str, bytes_max: usize) -> String {
    let end = text.floor_char_boundary(bytes_max);
    text[..end].replace(char::is_control, " ")
}
