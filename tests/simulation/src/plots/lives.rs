//! Objects that are made anew, clusters that move, placements that go and come. Must not carry anything out.

use super::Plot;

pub const PLOTS: &[Plot] = &[];
