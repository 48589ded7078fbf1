//! Chance that can be had again: the same seed, the same run. Must not look at a clock.

use std::str::FromStr;

/// SplitMix64 (Steele, Lea, Flood 2014).
pub struct Seeded {
    /// For the message of a failure.
    pub seed: u64,
    state: u64,
}

impl Seeded {
    /// `STAGEGATE_SEED`, if it is set, replays the run of a failure that named it.
    pub fn new(seed: u64) -> Self {
        let seed = setting("STAGEGATE_SEED").unwrap_or(seed);
        Self { seed, state: seed }
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(bound).unwrap()).unwrap()
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// How many times as much as usual is tried: `STAGEGATE_BUDGET`.
pub fn budget() -> usize {
    setting("STAGEGATE_BUDGET").unwrap_or(1).max(1)
}

#[expect(
    clippy::disallowed_methods,
    reason = "how much is tried, and where it begins, is said to a test from outside; no fact of a decision is"
)]
fn setting<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text:?}")))
}
