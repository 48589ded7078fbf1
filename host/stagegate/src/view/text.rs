//! Values as the live view writes them. Must not know where they are shown.

use std::time::Duration;

use stagegate_api::EvidencePiece;

pub(super) fn milliseconds(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn seconds(elapsed: Duration) -> String {
    format!("{:.1}s", elapsed.as_secs_f64())
}

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
