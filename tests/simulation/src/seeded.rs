//! Reproducible randomness: the same seed gives the same run. Must not look at a clock.

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Seeded {
    /// A stream of its own for each purpose, so that one purpose less leaves the others as they are.
    #[must_use]
    pub fn new(seed: u64, purpose: u64) -> Self {
        let mut stream = Self(seed ^ purpose.wrapping_mul(0xd1b5_4a32_d192_ed03));
        stream.draw();
        stream
    }

    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 0 for a bound of 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.draw() % bound).unwrap_or(0)
    }

    /// From `from` to `to`, both included.
    pub fn between(&mut self, from: i64, to: i64) -> i64 {
        let span = u64::try_from(to.saturating_sub(from)).unwrap_or(0).saturating_add(1);
        from.saturating_add(i64::try_from(self.draw() % span).unwrap_or(0))
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }
}
