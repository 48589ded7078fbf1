//! Updates for which status has no room for the names of the clusters. Must not carry anything out.

use super::{Plot, later, small};
use crate::script::{Action, Edit, Setting, When};
use crate::seeded::Seeded;

pub const PLOTS: &[Plot] = &[
    reported_on_the_old_version,
    reported_on_the_old_version,
    moved_with_an_update,
    updated_right_after_joining,
    placed_anew_after_an_update,
    acknowledged_before_the_start,
    joins_and_leaves_after_an_update,
];

fn without_room(clusters: Vec<usize>) -> Setting {
    Setting {
        has_no_room: true,
        ..small(clusters)
    }
}

/// An update is not delivered, and the cluster reports on the version before it once more.
fn reported_on_the_old_version(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let actions = vec![
        (
            When::AfterOpen(0, chance.between(6_000, 9_000)),
            Action::Undelivered(0, chance.between(200_000, 400_000)),
        ),
        (later(chance, 0, 500), Action::EditWorkload(0, Edit::Spec)),
        (later(chance, 6_000, 15_000), Action::Sicken(0, 0)),
        (later(chance, 1_000, 5_000), Action::Recover(0, 0)),
    ];
    (without_room(vec![1, 1]), actions)
}

/// A cluster becomes unreachable before it gets an update, and is then labelled for the next stage.
fn moved_with_an_update(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let actions = vec![
        (
            When::AfterOpen(0, chance.between(4_000, 8_000)),
            Action::EditWorkload(0, Edit::Spec),
        ),
        (
            later(chance, 0, 1_000),
            Action::Unreachable(1, chance.between(200_000, 400_000)),
        ),
        (later(chance, 0, 1_000), Action::Relabel(1)),
    ];
    (without_room(vec![2, 1]), actions)
}

/// A cluster joins the stage that is judged, reports, and is away when the object is updated.
fn updated_right_after_joining(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        soak: Some("1m"),
        ..without_room(vec![2, 1])
    };
    let actions = vec![
        (When::AfterOpen(0, chance.between(14_000, 20_000)), Action::Relabel(2)),
        (
            later(chance, 3_000, 4_800),
            Action::Unreachable(2, chance.between(200_000, 400_000)),
        ),
        (later(chance, 0, 200), Action::EditWorkload(0, Edit::Spec)),
    ];
    (setting, actions)
}

/// The object has been updated some times when KubeStellar loses what it has placed right after an update, and places it anew.
fn placed_anew_after_an_update(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        soak: Some("1m"),
        ..without_room(vec![1 + chance.below(2), 1])
    };
    let restart = Action::RestartKubeStellar {
        down_ms: chance.between(5_000, 60_000),
        inventory_ms: chance.between(500, 8_000),
        objects_ms: chance.between(500, 8_000),
    };
    let mut actions = vec![(
        When::AfterOpen(0, chance.between(5_000, 8_000)),
        Action::EditWorkload(0, Edit::Spec),
    )];
    for _ in 0..1 + chance.below(3) {
        actions.push((later(chance, 11_000, 14_000), Action::EditWorkload(0, Edit::Spec)));
    }
    actions.push((later(chance, 15_000, 30_000), Action::EditWorkload(0, Edit::Spec)));
    actions.push((later(chance, 0, 3_000), restart));
    (setting, actions)
}

/// A cluster acknowledges the first of two updates. KubeStellar is down when the second is made, and the process is down for longer than
/// the silence that acknowledges it.
fn acknowledged_before_the_start(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        slow_rollouts: true,
        ..without_room(vec![1, 1])
    };
    let down_ms = chance.between(140_000, 200_000);
    let (inventory_ms, objects_ms) = (chance.between(500, 2_000), chance.between(500, 2_000));
    let restart = Action::RestartKubeStellar {
        down_ms,
        inventory_ms,
        objects_ms,
    };
    let actions = vec![
        (
            When::AfterOpen(0, chance.between(6_000, 9_000)),
            Action::EditWorkload(0, Edit::Spec),
        ),
        (later(chance, 1_500, 5_000), restart),
        (later(chance, 0, 300), Action::EditWorkload(0, Edit::Spec)),
        (later(chance, 500, 3_000), Action::Kill(0, down_ms)),
    ];
    (setting, actions)
}

/// A cluster is out of reach when the object is updated. Another one joins the stage meanwhile, and leaves it.
fn joins_and_leaves_after_an_update(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let actions = vec![
        (
            When::AfterOpen(0, chance.between(6_000, 9_000)),
            Action::Unreachable(0, chance.between(200_000, 400_000)),
        ),
        (later(chance, 0, 500), Action::EditWorkload(0, Edit::Spec)),
        (later(chance, 3_000, 9_000), Action::Relabel(2)),
        (later(chance, 6_000, 15_000), Action::Relabel(2)),
    ];
    (without_room(vec![2, 1]), actions)
}
