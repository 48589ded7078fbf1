//! How long a list or a watch may take, and how long one must hold to count as one that held. Must not hold the times of the
//! audit or the pauses after an error: those stand where they are used.

use std::time::Duration;

/// Longest wait for a page of a list, and for a watch to begin.
pub const ANSWER_MAX: Duration = Duration::from_secs(30);
/// After so long the server is asked to end a watch by itself, as client-go and kube have it.
pub const WATCH_S: u32 = 290;
/// So much longer, and the connection is dead: silence is noticed within five minutes.
pub const SILENCE_MAX: Duration = Duration::from_secs(WATCH_S as u64 + 5);
/// A watch that held as long ends a row of troubles; one that ended sooner is one.
pub const HELD: Duration = Duration::from_secs(10);
/// A server that answers from nothing but an older state for so long has lost the newer one: it was restored.
pub const OLDER_MAX: Duration = Duration::from_secs(10 * 60);
