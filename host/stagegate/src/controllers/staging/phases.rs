//! How many policies there are in each phase, and where each of them stands, kept by what the watch reports. Must not look at all of them.

use std::sync::Arc;

use stagegate_api::StagedBindingPolicy;
use stagegate_runtime::store::Change;

use crate::controllers::kinds::Guarded;
use crate::metrics::{CountedPhase, RolloutMetrics};
use crate::policy_series::PolicyProgress;

/// Counts policies from where they were to where they are.
pub fn counted(
    metrics: Arc<RolloutMetrics>,
) -> impl Fn(&Change<'_, Guarded<StagedBindingPolicy>>) + Send + Sync + 'static {
    move |change| {
        metrics.policy(change.before().as_ref().map(phase), change.after.map(phase));
        if let Some(series) = metrics.each_policy() {
            series.set(&change.id.name, change.after.map(progress));
        }
    }
}

/// Where the policy stands.
fn phase(policy: &Arc<Guarded<StagedBindingPolicy>>) -> CountedPhase {
    let Ok(policy) = &policy.0 else {
        return CountedPhase::InvalidObject;
    };
    let phase = policy.status.as_ref().and_then(|status| status.phase);
    phase.map_or(CountedPhase::None, CountedPhase::Of)
}

fn progress(policy: &Arc<Guarded<StagedBindingPolicy>>) -> PolicyProgress {
    policy.object().map_or(PolicyProgress::UNREADABLE, PolicyProgress::of)
}
