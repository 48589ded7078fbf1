//! What was measured of one controller. Must not judge.

use std::time::Duration;

use stagegate_cluster_tests::bench::requests::Counts;

/// Counts are for each policy, change or flip.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub placed: Duration,
    pub placing_cpu: Duration,
    pub placing_requests: Counts,
    pub resident_mib: f64,
    pub end_mib: f64,
    pub peak_mib: f64,
    pub idle_cpu: Duration,
    pub idle_requests: usize,
    /// Of which status has nothing to tell, and of which it has.
    pub changes: [Changes; 2],
    pub flips: Vec<Flip>,
    pub missed: usize,
    pub flip_cpu: Duration,
    pub flip_requests: Counts,
    pub bursts: Vec<Duration>,
    pub stopped_in: Duration,
    pub restart_failing: usize,
    pub restart_writes: usize,
    pub restart_worked: usize,
    pub restart_cpu: Duration,
    pub restart_mib: f64,
}

/// Changes that decide nothing.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    pub cpu: Duration,
    pub requests: Counts,
}

/// One policy moved.
#[derive(Clone, Copy, Debug)]
pub struct Flip {
    pub from_write: Duration,
    pub from_event: Duration,
}
