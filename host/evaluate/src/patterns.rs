//! Regular expressions, compiled once and within limits.
//!
//! The engine compiles a pattern at every call and lets it take 10 MiB; a pattern that is refused for its size costs as
//! much as one that is not. So failures are remembered, too.

use regex::{Regex, RegexBuilder};
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

/// The most memory of one compiled pattern, smallest first. A search may take a step per state and byte of text, and a
/// pattern does not tell how many states it has; the first limit that it fits in does.
const SIZES: [usize; 4] = [16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// How many patterns are remembered. Beyond that all are forgotten: a program has a handful.
const REMEMBERED: usize = 64;

/// A compiled pattern.
#[derive(Clone)]
pub(crate) struct Pattern {
    pub(crate) regex: Regex,
    /// By how much a byte of text may take longer than with the smallest patterns: 1, 4, 16 or 64.
    pub(crate) size: usize,
}

/// The pattern, or `None` if it is not one or needs too much memory.
pub(crate) fn compiled(pattern: &str) -> Option<Pattern> {
    static SEEN: LazyLock<Mutex<HashMap<String, Option<Pattern>>>> = LazyLock::new(Mutex::default);
    let seen = || SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = seen().get(pattern) {
        return known.clone();
    }
    // Not under the lock: this takes up to 10 ms.
    let compiled = SIZES.into_iter().find_map(|bytes| {
        let regex = RegexBuilder::new(pattern)
            .size_limit(bytes)
            .dfa_size_limit(SIZES[3])
            .build()
            .ok()?;
        Some(Pattern {
            regex,
            size: bytes / SIZES[0],
        })
    });
    let mut seen = seen();
    if seen.len() >= REMEMBERED {
        seen.clear();
    }
    seen.insert(pattern.to_owned(), compiled.clone());
    compiled
}
