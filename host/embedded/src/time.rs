//! Times as the API server writes them.

use jiff::Timestamp;

/// RFC 3339 in whole seconds, as `metav1.Time` is written.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
