//! Ages, as kubectl prints them. Must not read the clock.

use jiff::Timestamp;
use serde_json::Value;

/// The age of a time.
pub fn since(time: &Value, now: Timestamp) -> String {
    let time = time.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    time.map_or_else(
        || "<unknown>".to_owned(),
        |time| age(now.duration_since(time).as_secs()),
    )
}

/// Seconds as kubectl prints ages: two units below the small hours, one above.
fn age(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |big: i64, unit: &str, small: i64, small_unit: &str| {
        if small == 0 {
            format!("{big}{unit}")
        } else {
            format!("{big}{unit}{small}{small_unit}")
        }
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        _ => two(days / 365, "y", days % 365, "d"),
    }
}

#[cfg(test)]
mod tests {
    use super::age;

    #[test]
    fn ages_are_printed_as_kubectl_does() {
        for (seconds, wanted) in [
            (5, "5s"),
            (119, "119s"),
            (125, "2m5s"),
            (3600, "60m"),
            (90_000, "25h"),
            (864_000, "10d"),
        ] {
            assert_eq!(age(seconds), wanted);
        }
    }
}
