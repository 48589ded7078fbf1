//! Updates that are seen while a Binding names no clusters, or not all that it named or will name. Must not carry anything out.

use super::{Plot, later};
use crate::queue::Millis;
use crate::script::{Action, Edit, PolicyEdit, Setting, When};
use crate::seeded::Seeded;
use crate::server::Resource;

/// The first one several times: what it is for shows in one of thirty of its runs.
pub const PLOTS: &[Plot] = &[
    updated_while_all_start,
    updated_while_all_start,
    updated_while_all_start,
    updated_while_all_start,
    updated_between_opening_and_first_look,
    leaves_before_the_first_set,
    updated_before_a_restart,
    updated_while_a_person_selects_other_clusters,
];

/// Longer than any wait of the rules.
const AWAY_MS: (Millis, Millis) = (170_000, 280_000);

fn setting(clusters: [usize; 2]) -> Setting {
    Setting {
        clusters: clusters.to_vec(),
        shares: vec![false, false],
        objects: vec![Resource::Deployment],
        ..Setting::default()
    }
}

fn away(chance: &mut Seeded) -> Action {
    away_with(0, chance)
}

fn away_with(cluster: usize, chance: &mut Seeded) -> Action {
    Action::Unreachable(cluster, chance.between(AWAY_MS.0, AWAY_MS.1))
}

fn update(chance: &mut Seeded) -> Action {
    let edit = if chance.once_in(4) { Edit::Removal } else { Edit::Spec };
    Action::EditWorkload(0, edit)
}

/// A cluster is out of reach, and KubeStellar and the controller start: the first Binding that the controller sees has the objects, one of
/// them updated, and no clusters, because KubeStellar knows none yet.
fn updated_while_all_start(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        soak: Some("2m"),
        ..setting([1 + chance.below(2), 1])
    };
    let restart = Action::RestartKubeStellar {
        down_ms: chance.between(500, 3_000),
        inventory_ms: 25_000,
        objects_ms: 500,
    };
    let actions = vec![
        (When::AfterOpen(0, chance.between(12_000, 40_000)), away(chance)),
        (later(chance, 0, 2_000), restart),
        (When::AfterPrevious(0), Action::Kill(0, chance.between(4_000, 8_000))),
        // No time tells of it: only who compares with what was on record knows of it.
        (later(chance, 0, 3_000), Action::EditWorkload(0, Edit::Removal)),
    ];
    (setting, actions)
}

/// In a new attempt the placement of the last stage is made anew, and its cluster keeps what it has. When the stage is opened, what is seen
/// first is still the Binding of the closed placement, which has no clusters, and an update that came after the last look at the first stage.
fn updated_between_opening_and_first_look(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        slow_queue: true,
        keeps_previous: true,
        ..setting([1, 1])
    };
    let actions = vec![
        (
            When::AfterOpen(1, chance.between(25_000, 40_000)),
            Action::Undelivered(1, 400_000),
        ),
        (later(chance, 0, 500), Action::EditPolicy(PolicyEdit::Clause)),
        (later(chance, 0, 1_000), Action::DeletePlacement(1)),
        (When::AfterDecision(2, chance.between(0, 1_000)), update(chance)),
        // What it reports then is of the older version.
        (later(chance, 2_000, 9_000), Action::Sicken(1, 0)),
        (later(chance, 500, 5_000), Action::Recover(1, 0)),
    ];
    (setting, actions)
}

/// A cluster leaves before the first set is accepted, and goes out of reach before the transport takes the object away. Then the object is
/// updated, and the cluster returns.
fn leaves_before_the_first_set(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        soak: Some("1m"),
        ..setting([2, 1])
    };
    let actions = vec![
        (When::AfterOpen(0, chance.between(2_000, 2_850)), Action::Relabel(0)),
        (later(chance, 400, 1_900), away(chance)),
        (later(chance, 500, 9_000), update(chance)),
        (later(chance, 500, 20_000), Action::Relabel(0)),
    ];
    (setting, actions)
}

/// The policy is made anew and its controller starts again after the opening: it cannot know of an update from before that takes fields
/// away, because no time tells of it. What the cluster reports then is of the older version.
fn updated_before_a_restart(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let actions = vec![
        // The update holds the stage, so the first one is the one that is opened again.
        (When::At(0), Action::EditWorkload(0, Edit::Spec)),
        (When::At(250_000), Action::Undelivered(0, 340_000)),
        (When::At(260_000), Action::RecreatePolicy),
        (
            When::AfterOpen(1, chance.between(0, 800)),
            Action::Kill(0, chance.between(7_000, 9_000)),
        ),
        (later(chance, 500, 4_000), Action::EditWorkload(0, Edit::Removal)),
        (later(chance, 4_000, 7_000), Action::Sicken(0, 0)),
        (later(chance, 500, 5_000), Action::Recover(0, 0)),
    ];
    (setting([1, 1]), actions)
}

/// Before any set of the second stage is accepted, a person selects other clusters in its placement, and the object is updated. A new process
/// notes the update while the Binding names those, and the stage's own cluster is out of reach with a report from right before the update.
fn updated_while_a_person_selects_other_clusters(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let actions = vec![
        (
            When::AfterOpen(1, chance.between(0, 1_500)),
            Action::Kill(0, chance.between(12_000, 18_000)),
        ),
        (later(chance, 3_500, 5_000), away_with(1, chance)),
        (later(chance, 500, 3_000), update(chance)),
        (later(chance, 0, 4_000), Action::EditPlacement(1)),
    ];
    (setting([1, 1]), actions)
}
