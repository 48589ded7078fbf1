//! How many policies there are in each phase, kept by what the watch tells. Must not look at all of them.

use std::sync::Arc;

use stagegate_api::{Phase, StagedBindingPolicy};
use stagegate_runtime::store::Change;

use crate::controllers::kinds::Guarded;
use crate::metrics::RolloutMetrics;

/// Counts policies from where they were to where they are.
pub fn counted(
    metrics: Arc<RolloutMetrics>,
) -> impl Fn(&Change<'_, Guarded<StagedBindingPolicy>>) + Send + Sync + 'static {
    move |change| metrics.policy(change.before().as_ref().map(phase), change.after.map(phase))
}

/// As status has it.
fn phase(policy: &Arc<Guarded<StagedBindingPolicy>>) -> &'static str {
    let Ok(policy) = &policy.0 else { return "InvalidObject" };
    match policy.status.as_ref().and_then(|status| status.phase) {
        None => "None",
        Some(Phase::Progressing) => "Progressing",
        Some(Phase::Holding) => "Holding",
        Some(Phase::Paused) => "Paused",
        Some(Phase::Completed) => "Completed",
        Some(Phase::Failed) => "Failed",
        Some(Phase::Stalled) => "Stalled",
    }
}
