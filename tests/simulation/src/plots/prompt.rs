//! Nothing fails and no cluster is away: the rollout completes within a stated time. Must not carry anything out.

use super::Plot;
use crate::queue::Millis;
use crate::script::{Action, Edit, Setting, When};
use crate::seeded::Seeded;
use crate::server::Resource;

pub const PLOTS: &[Plot] = &[updated_for_the_first_time];

/// The longest that a rollout takes that has no silence to wait for.
const AT_ONCE_MS: Millis = 90_000;

/// The object is updated for the first time when the first stage's cluster has reported the version before.
fn updated_for_the_first_time(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        clusters: vec![1, 1],
        shares: vec![false, false],
        objects: vec![Resource::Deployment],
        done_within_ms: AT_ONCE_MS,
        ..Setting::default()
    };
    let when = When::AfterOpen(0, chance.between(6_000, 8_500));
    (setting, vec![(when, Action::EditWorkload(0, Edit::Spec))])
}
