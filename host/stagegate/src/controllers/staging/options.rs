//! What the staging controller is started with. Must not start anything.

use std::sync::Arc;

use stagegate_decide::checks::GateNamespaces;

use crate::controllers::evaluator::Evaluator;
use crate::metrics::RolloutMetrics;

/// What this controller is told and given beside what it watches.
#[derive(Clone, Debug)]
pub struct StagingOptions {
    /// As in [`stagegate_decide::staging::Settings`].
    pub settle_ms: i64,
    /// Namespaces whose ConfigMaps may be run as gates.
    pub gate_namespaces: GateNamespaces,
    pub evaluator: Arc<Evaluator>,
    pub metrics: Arc<RolloutMetrics>,
}
