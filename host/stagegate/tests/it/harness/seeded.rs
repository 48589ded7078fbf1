//! Chance that can be had again: a generator whose seed is printed, and how many seeds a run may take. Must not be used
//! for anything but choosing what to try.

use std::ops::Range;

/// Runs this seed and no other.
const SEED: &str = "STAGEGATE_SEED";
/// Multiplies how many seeds are run.
const BUDGET: &str = "STAGEGATE_BUDGET";

/// SplitMix64: the same seed, the same choices.
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Seeded {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// One of `0..bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// So many times out of a hundred.
    pub fn percent(&mut self, of_hundred: u64) -> bool {
        self.below(100) < of_hundred
    }

    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        let count = u64::try_from(choices.len()).unwrap();
        &choices[usize::try_from(self.below(count)).unwrap()]
    }
}

/// How many times more than usual is run.
pub fn budget() -> u64 {
    number(BUDGET).unwrap_or(1)
}

/// The seeds to run: `count` of them times the budget, or the one that is asked for.
pub fn seeds(count: u64) -> Range<u64> {
    match number(SEED) {
        Some(seed) => seed..seed + 1,
        None => 0..count * budget(),
    }
}

/// Whether one seed is to be replayed: then what needs none need not run.
pub fn is_replay() -> bool {
    number(SEED).is_some()
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable}={text} is no number")),
    )
}
