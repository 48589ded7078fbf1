//! Values as the live view writes them. Must not know where they are shown.

use std::time::Duration;

use stagegate_api::EvidencePiece;

pub(super) fn milliseconds(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn seconds(elapsed: Duration) -> String {
    format!("{:.1}s", elapsed.as_secs_f64())
}

/// Whole seconds up to two minutes, then the two largest units: `119s`, `2m5s`, `3h`, `4d2h`.
pub(super) fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (large, small) = match seconds {
        ..120 => return format!("{seconds}s"),
        120..3_600 => ((seconds / 60, "m"), (seconds % 60, "s")),
        3_600..86_400 => ((seconds / 3_600, "h"), (seconds % 3_600 / 60, "m")),
        _ => ((seconds / 86_400, "d"), (seconds % 86_400 / 3_600, "h")),
    };
    let small = if small.0 == 0 {
        String::new()
    } else {
        format!("{}{}", small.0, small.1)
    };
    format!("{}{}{small}", large.0, large.1)
}

/// Names of clusters, the first eight of them.
pub(super) fn clusters(names: &[String]) -> String {
    const SHOWN: usize = 8;
    match names.len().checked_sub(SHOWN) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..SHOWN].join(", ")),
    }
}

/// Whether a message is, or ends with, what a check says.
pub(super) fn says(message: &str, said: &str) -> bool {
    message == said || (!said.is_empty() && message.ends_with(said))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_time_has_its_two_largest_units() {
        let texts = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (3_599, "59m59s"),
            (3_600, "1h"),
            (11_100, "3h5m"),
            (86_400, "1d"),
            (360_000, "4d4h"),
        ];
        for (seconds, text) in texts {
            assert_eq!(span(Duration::from_secs(seconds)), text);
        }
    }
}
