//! What one call of a gate may use. The two that a policy sets are here as arguments, the others are the same for all.

use serde::{Deserialize, Serialize};

/// Longest time of a call, in milliseconds: default and most.
pub const TIMEOUT_MS: u32 = 500;
pub const TIMEOUT_MS_MAX: u32 = 5_000;
/// Linear memory of a call, in MiB: default and most.
pub const MEMORY_MIB: u32 = 64;
pub const MEMORY_MIB_MAX: u32 = 256;
/// Largest component, in bytes: what a ConfigMap holds (Kubernetes: 1 MiB over all values).
pub const COMPONENT_BYTES_MAX: usize = 1 << 20;
/// Largest request, in bytes of its encoding; a larger one is refused, never cut.
pub const REQUEST_BYTES_MAX: usize = 8 << 20;
/// Largest config, in bytes of its JSON text.
pub const CONFIG_BYTES_MAX: usize = 64 << 10;

/// The limits of one call. There is no call without them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Limits {
    pub(super) timeout_ms: u32,
    pub(super) memory_mib: u32,
}

impl Limits {
    /// Zero counts as one, more than the most as the most.
    pub fn new(timeout_ms: u32, memory_mib: u32) -> Self {
        Self {
            timeout_ms: timeout_ms.clamp(1, TIMEOUT_MS_MAX),
            memory_mib: memory_mib.clamp(1, MEMORY_MIB_MAX),
        }
    }

    pub const fn timeout_ms(self) -> u32 {
        self.timeout_ms
    }

    pub const fn memory_mib(self) -> u32 {
        self.memory_mib
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::new(TIMEOUT_MS, MEMORY_MIB)
    }
}
