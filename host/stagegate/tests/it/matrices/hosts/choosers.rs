//! Who goes next: in an order that is given, or by chance.

use std::ops::Range;
use std::time::Duration;

use crate::harness::schedule::{Choice, Chooser, Ready};
use crate::harness::seeded::Seeded;

/// Takes turns, but where a bit says which host goes first.
pub struct Orders {
    bits: u64,
    /// The decisions between two waiting hosts that bits are for.
    window: Range<usize>,
    decisions: usize,
}

impl Orders {
    pub fn new(bits: u64, window: Range<usize>) -> Self {
        Self {
            bits,
            window,
            decisions: 0,
        }
    }
}

impl Chooser for Orders {
    fn choose(&mut self, ready: &[Ready]) -> Choice {
        let Some(other) = ready.iter().position(|other| other.host != ready[0].host) else {
            return Choice::Let(0);
        };
        let nth = self.decisions;
        self.decisions += 1;
        let is_other_first = if self.window.contains(&nth) {
            (self.bits >> (nth - self.window.start)) & 1 == 1
        } else {
            nth % 2 == 1
        };
        Choice::Let(if is_other_first { other } else { 0 })
    }
}

/// Lets one host go on for a while, then the other, and holds some writes back.
pub struct Chance {
    chance: Seeded,
    going: usize,
    switches_percent: u64,
    holds_percent: u64,
    longest_ms: u64,
}

impl Chance {
    pub fn new(mut chance: Seeded) -> Self {
        Self {
            going: 0,
            switches_percent: *chance.pick(&[10, 50, 90]),
            holds_percent: *chance.pick(&[0, 5, 20]),
            longest_ms: *chance.pick(&[500, 9_000, 20_000, 60_000]),
            chance,
        }
    }
}

impl Chooser for Chance {
    fn choose(&mut self, ready: &[Ready]) -> Choice {
        let waits = |host: usize| ready.iter().any(|ready| ready.host == host);
        if !waits(self.going) || (waits(1 - self.going) && self.chance.percent(self.switches_percent)) {
            self.going = 1 - self.going;
        }
        let places: Vec<usize> = (0..ready.len())
            .filter(|place| ready[*place].host == self.going)
            .collect();
        let place = *self.chance.pick(&places);
        let may_wait = ready[place].is_write && !ready[place].was_held;
        if may_wait && self.chance.percent(self.holds_percent) {
            return Choice::Hold(place, Duration::from_millis(1 + self.chance.below(self.longest_ms)));
        }
        Choice::Let(place)
    }
}
