//! Times as the API server writes them, and later ones.

use jiff::{SignedDuration, Timestamp};

/// RFC 3339 in whole seconds, as `metav1.Time` is written.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The time so many milliseconds after another one.
pub(crate) fn later(time: Timestamp, delay_ms: u64) -> Timestamp {
    let delay = SignedDuration::from_millis(i64::try_from(delay_ms).unwrap_or(i64::MAX));
    time.checked_add(delay).unwrap_or(Timestamp::MAX)
}
