//! Clusters that join a stage before they have reported on an update. Must not carry anything out.

use super::{Plot, later};
use crate::queue::Millis;
use crate::script::{Action, Edit, Setting, When};
use crate::seeded::Seeded;
use crate::server::Resource;

pub const PLOTS: &[Plot] = &[
    updated_again_before_it_reports,
    joins_with_what_a_placement_that_is_gone_brought,
];

/// The first stage is active all the time, and the second one's first cluster is labelled for it.
fn setting() -> Setting {
    Setting {
        clusters: vec![1, 2],
        shares: vec![false, false],
        objects: vec![Resource::Deployment],
        soak: Some("4m"),
        slow_reports: true,
        ..Setting::default()
    }
}

fn update() -> Action {
    Action::EditWorkload(0, Edit::Spec)
}

/// When the first stage's own cluster has reported on the version before.
fn begin(chance: &mut Seeded) -> When {
    When::AfterOpen(0, chance.between(14_000, 25_000))
}

/// A cluster joins nearly two minutes after the update, and receives it. Before it has reported, there is another update, which does not
/// reach it; then it reports on the first one.
fn updated_again_before_it_reports(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let update_after: Millis = chance.between(13_000, 25_000);
    let actions = vec![
        (begin(chance), update()),
        (later(chance, 104_000, 110_000), Action::Relabel(1)),
        (later(chance, 2_800, 5_000), Action::Undelivered(1, 400_000)),
        (
            When::AfterPrevious(0),
            Action::Unreachable(1, update_after + chance.between(4_000, 9_500)),
        ),
        (When::AfterPrevious(update_after), update()),
    ];
    (setting(), actions)
}

/// A cluster keeps what a deleted placement had delivered, and receives nothing more. The object is updated, and long after that the cluster
/// joins the other stage: what it reports is from before the update.
fn joins_with_what_a_placement_that_is_gone_brought(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        clusters: vec![2, 1],
        keeps_previous: true,
        slow_reports: false,
        ..setting()
    };
    let actions = vec![
        (
            When::AfterOpen(1, chance.between(8_000, 25_000)),
            Action::Undelivered(0, 400_000),
        ),
        (later(chance, 0, 1_000), Action::DeletePlacement(0)),
        (later(chance, 3_000, 6_000), update()),
        (later(chance, 30_000, 105_000), Action::Relabel(0)),
    ];
    (setting, actions)
}
