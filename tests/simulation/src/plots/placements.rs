//! Stages, gates, hand-overs and what status says. Must not carry anything out.

use super::Plot;

pub const PLOTS: &[Plot] = &[];
