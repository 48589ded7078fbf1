//! Updates of objects and the reports that may or may not acknowledge them. Must not carry anything out.

use super::Plot;
use crate::script::{Action, Edit, Setting, When};
use crate::seeded::Seeded;

pub const PLOTS: &[Plot] = &[away_since_before_the_update];

/// A cluster goes out of reach, then the object is updated, and the stage is judged while it is away or back.
fn away_since_before_the_update(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        clusters: vec![1 + chance.below(2), 1],
        shares: vec![false, false],
        objects: vec![crate::server::Resource::Deployment],
        ..Setting::default()
    };
    let actions = vec![
        (
            When::AfterOpen(0, chance.between(0, 9_000)),
            Action::Unreachable(0, chance.between(100_000, 300_000)),
        ),
        (
            When::AfterPrevious(chance.between(0, 3_000)),
            Action::EditWorkload(0, Edit::Spec),
        ),
    ];
    (setting, actions)
}
