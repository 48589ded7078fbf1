//! Regular expressions, compiled once and within limits.
//!
//! The engine compiles a pattern at every call and lets it take 10 MiB; a pattern that is refused for its size costs as
//! much as one that is not. So failures are remembered, too.

use regex::{Regex, RegexBuilder};
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

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

type Seen = HashMap<String, Option<Pattern>>;

fn seen() -> MutexGuard<'static, Seen> {
    static SEEN: LazyLock<Mutex<Seen>> = LazyLock::new(Mutex::default);
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_pattern_that_is_too_large_is_refused_once_and_then_remembered() {
        let time = |times: u32| -> Duration {
            let started = Instant::now();
            for _ in 0..times {
                assert!(compiled(r"\p{L}{5001}").is_none());
            }
            started.elapsed()
        };
        let first = time(1);
        assert!(time(100) < first * 20, "{first:?}");
    }

    #[test]
    fn a_pattern_with_more_states_has_a_larger_size() {
        let size = |pattern| compiled(pattern).expect("a pattern").size;
        assert_eq!(
            [size("^[a-z]+$"), size("[ab]*a[ab]{400}c"), size("[ab]*a[ab]{8000}c")],
            [1, 4, 64]
        );
    }

    #[test]
    fn only_so_many_patterns_are_remembered() {
        for n in 0..3 * REMEMBERED {
            assert!(compiled(&format!("a{{{n}}}")).is_some());
        }
        assert!(seen().len() <= REMEMBERED);
    }
}
