//! Bindings, CombinedStatuses, collectors and conditions. Must not carry anything out.

use super::Plot;

pub const PLOTS: &[Plot] = &[];
