//! Regular expressions, compiled once and within limits.
//!
//! The engine compiles a pattern at every call and lets it take 10 MiB; a pattern that is refused for its size costs as
//! much as one that is not. So failures are remembered, too.

use regex::{Regex, RegexBuilder};
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

/// The most memory of one compiled pattern, and of the states it makes while it searches.
const PATTERN_BYTES: usize = 1 << 20;
/// How many patterns are remembered. Beyond that all are forgotten: a program has a handful.
const REMEMBERED: usize = 64;

/// The pattern, or `None` if it is not one or needs too much memory.
pub(crate) fn compiled(pattern: &str) -> Option<Regex> {
    static SEEN: LazyLock<Mutex<HashMap<String, Option<Regex>>>> = LazyLock::new(Mutex::default);
    let seen = || SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = seen().get(pattern) {
        return known.clone();
    }
    // Not under the lock: this takes up to 10 ms.
    let regex = RegexBuilder::new(pattern)
        .size_limit(PATTERN_BYTES)
        .dfa_size_limit(PATTERN_BYTES)
        .build()
        .ok();
    let mut seen = seen();
    if seen.len() >= REMEMBERED {
        seen.clear();
    }
    seen.insert(pattern.to_owned(), regex.clone());
    regex
}
