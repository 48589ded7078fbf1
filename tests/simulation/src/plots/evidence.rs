//! Bindings, CombinedStatuses, collectors and conditions. Must not carry anything out.

use super::{Plot, later, small};
use crate::queue::Millis;
use crate::script::{Action, Edit, PolicyEdit, Setting, When};
use crate::seeded::Seeded;
use crate::server::Resource;

pub const PLOTS: &[Plot] = &[
    changed_while_unheard,
    changed_in_a_backlog,
    restarted_beside_two_objects,
    restarted_in_a_soak,
    away_before_the_next_stage,
    joined_under_a_clock_ahead,
    put_back_beside_an_old_binding,
    left_without_objects,
    asked_otherwise,
    twisted_and_put_back,
    restored_by_hand,
    one_without_a_value,
    one_filtered_in_vain,
    appended_after_completion,
    misspelt_at_first,
    changed_twice_in_place,
    asked_more_and_unheard,
    unreadable_while_it_works,
    crowded,
    filter_taken_out_while_a_cluster_is_away,
];

/// Clusters whose names status has no room for, if an update is pending for all of them.
const CROWD: usize = 515;

/// Stages of one object, with clusters of their own.
fn after_open(nth: usize, chance: &mut Seeded, (from, to): (Millis, Millis)) -> When {
    When::AfterOpen(nth, chance.between(from, to))
}

fn silent(down_ms: Millis, chance: &mut Seeded) -> Action {
    Action::RestartKubeStellar {
        down_ms,
        inventory_ms: chance.between(0, 2_000),
        objects_ms: chance.between(0, 6_000),
    }
}

/// KubeStellar goes away, then the active stage gets other clusters: the Binding stays the one of the older generation.
fn changed_while_unheard(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        soak: Some("1m"),
        ..small(vec![1, 1 + chance.below(2)])
    };
    let down_ms = chance.between(90_000, 200_000);
    let actions = vec![
        (after_open(0, chance, (14_000, 50_000)), silent(down_ms, chance)),
        (later(chance, 10, 4_000), Action::EditPolicy(PolicyEdit::Wider)),
    ];
    (setting, actions)
}

/// KubeStellar has a backlog of BindingPolicies. It copies the generation of one whose clusters were just changed when it writes the
/// Binding for the sake of an object.
fn changed_in_a_backlog(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        slow_queue: true,
        ..small(vec![1, 1 + chance.below(2)])
    };
    // While the policy is paused, the stage is judged and does not pass.
    let actions = vec![
        (after_open(0, chance, (0, 6_000)), Action::EditPolicy(PolicyEdit::Pause)),
        (later(chance, 14_000, 30_000), Action::EditPolicy(PolicyEdit::Wider)),
        (later(chance, 0, 300), Action::EditPolicy(PolicyEdit::Resume)),
        (later(chance, 0, 1_500), Action::EditWorkload(0, Edit::Metadata)),
    ];
    (setting, actions)
}

/// KubeStellar restarts, empties the Bindings, and finds the objects one after the other.
fn restarted_beside_two_objects(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let more = [Resource::Deployment, Resource::ConfigMap, Resource::NetworkPolicy];
    let setting = Setting {
        objects: vec![
            Resource::Deployment,
            chance.pick(&more).copied().unwrap_or(Resource::Deployment),
        ],
        soak: chance.pick(&[None, Some("1m")]).copied().flatten(),
        ..small(vec![1, 1])
    };
    let mut actions = Vec::new();
    if setting.soak.is_none() {
        actions.push((after_open(0, chance, (1_000, 3_000)), Action::Unreachable(0, 30_000)));
    }
    let restart = Action::RestartKubeStellar {
        down_ms: chance.between(100, 3_000),
        inventory_ms: chance.between(0, 1_000),
        objects_ms: 6_000,
    };
    actions.push((after_open(0, chance, (9_000, 25_000)), restart));
    (setting, actions)
}

/// KubeStellar restarts while a stage soaks.
fn restarted_in_a_soak(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        soak: Some("1m"),
        waits_only: chance.once_in(3),
        ..small(vec![1 + chance.below(2), 1])
    };
    let down_ms = chance.between(100, 5_000);
    (
        setting,
        vec![(after_open(0, chance, (16_000, 40_000)), silent(down_ms, chance))],
    )
}

/// KubeStellar goes away before the next stage is to be opened, for a time that all other waiting ends within.
fn away_before_the_next_stage(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let has_soak = chance.once_in(2);
    let setting = Setting {
        soak: has_soak.then_some("1m"),
        ..small(vec![1, 1])
    };
    let down_ms = chance.between(150_000, 250_000);
    let mut actions = Vec::new();
    if !has_soak {
        actions.push((
            after_open(0, chance, (500, 5_000)),
            Action::EditPolicy(PolicyEdit::Pause),
        ));
    }
    let (from, to) = if has_soak { (16_000, 20_000) } else { (14_000, 20_000) };
    actions.push((after_open(0, chance, (from, to)), silent(down_ms, chance)));
    if has_soak {
        // What was broken for a moment begins the soak anew.
        let restart = Action::EditPolicy(PolicyEdit::Pause);
        actions.push((later(chance, 1_000, 10_000), restart));
    }
    actions.push((later(chance, 75_000, 120_000), Action::EditPolicy(PolicyEdit::Resume)));
    (setting, actions)
}

/// A leader with a clock ahead accepts a set and ends; a cluster joins before the next one leads.
fn joined_under_a_clock_ahead(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        two_processes: true,
        soak: Some("1m"),
        ..small(vec![1, 2])
    };
    let ahead = chance.below(2);
    let actions = vec![
        (When::At(0), Action::Skew(ahead, 5_000)),
        (When::At(0), Action::Skew(1 - ahead, -5_000)),
        (after_open(0, chance, (3_500, 8_000)), Action::Relabel(1)),
        (later(chance, 0, 2_500), Action::Kill(ahead, 120_000)),
    ];
    (setting, actions)
}

/// A placement is deleted and made anew from its manifest, and the old Binding is still there.
fn put_back_beside_an_old_binding(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        slow_garbage: true,
        waits_only: true,
        soak: Some("10s"),
        ..small(vec![1, 1])
    };
    let actions = vec![
        (after_open(0, chance, (1_000, 11_000)), Action::DeletePlacement(0)),
        (later(chance, 65, 300), Action::PutBackPlacement(0)),
    ];
    (setting, actions)
}

/// All objects leave the selection of a stage that only waits.
fn left_without_objects(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        waits_only: true,
        soak: Some("30s"),
        ..small(vec![1, 1])
    };
    let mut actions = vec![(after_open(0, chance, (0, 20_000)), Action::EditWorkload(0, Edit::Label))];
    if chance.once_in(2) {
        actions.push((later(chance, 75_000, 120_000), Action::EditWorkload(0, Edit::Label)));
    }
    (setting, actions)
}

/// A condition asks for what is wanted, and then for what runs, while that is not available.
fn asked_otherwise(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        has_condition: true,
        ignores_health: true,
        asks_desired: true,
        soak: Some("1m"),
        ..small(vec![1, 1])
    };
    let unwell = if chance.once_in(2) {
        Action::EditWorkload(0, Edit::Broken)
    } else {
        Action::Sicken(0, 0)
    };
    let actions = vec![
        (after_open(0, chance, (2_500, 8_000)), unwell),
        (later(chance, 10_000, 20_000), Action::ChangeQuestion),
    ];
    (setting, actions)
}

/// While no process runs, a user makes our collector show what is desired as if it ran, and not all is well.
fn twisted_and_put_back(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        objects: vec![Resource::StatefulSet],
        soak: chance.pick(&[None, Some("10s")]).copied().flatten(),
        ..small(vec![1, 1])
    };
    let actions = vec![
        (
            after_open(0, chance, (2_500, 3_500)),
            Action::EditWorkload(0, Edit::Broken),
        ),
        (
            later(chance, 6_000, 12_000),
            Action::Kill(0, chance.between(9_000, 20_000)),
        ),
        (later(chance, 0, 1_000), Action::TwistEvidence),
    ];
    (setting, actions)
}

/// A cluster becomes unwell, and a person writes back what it had told before.
fn restored_by_hand(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        soak: Some("1m"),
        ..small(vec![1 + chance.below(2), 1])
    };
    let actions = vec![
        (after_open(0, chance, (14_000, 30_000)), Action::Sicken(0, 0)),
        (later(chance, 7_000, 20_000), Action::RestoreCombined),
    ];
    (setting, actions)
}

/// A condition has no value for one of two clusters, and health is not asked.
fn one_without_a_value(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        has_condition: true,
        ignores_health: true,
        is_lenient: true,
        soak: chance.pick(&[None, Some("30s")]).copied().flatten(),
        ..small(vec![2, 1])
    };
    let actions = vec![(
        after_open(0, chance, (3_000, 9_000)),
        Action::Sicken(chance.below(2), 0),
    )];
    (setting, actions)
}

/// A filter can be evaluated for the first of two objects alone.
fn one_filtered_in_vain(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        objects: vec![Resource::Deployment; 2],
        fails_for_one: true,
        soak: chance.pick(&[None, Some("10s")]).copied().flatten(),
        ..small(vec![1, 1])
    };
    let edit = Action::EditWorkload(chance.below(2), Edit::Spec);
    (setting, vec![(after_open(0, chance, (0, 20_000)), edit)])
}

/// A stage with a soak is put behind the others after the rollout was completed.
fn appended_after_completion(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        soak: Some("10s"),
        ..small(vec![1, 1])
    };
    let when = When::At(chance.between(110_000, 200_000));
    (setting, vec![(when, Action::EditPolicy(PolicyEdit::Append))])
}

/// The policy names a StatusCollector that is not there, and a user takes the name out as status says.
fn misspelt_at_first(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        has_condition: true,
        is_misspelt: true,
        ..small(vec![1 + chance.below(2), 1])
    };
    let when = after_open(0, chance, (20_000, 60_000));
    (setting, vec![(when, Action::EditPolicy(PolicyEdit::Spelling))])
}

/// The active stage gets other clusters, and its clauses are edited before that counts.
fn changed_twice_in_place(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        soak: Some("1m"),
        ..small(vec![1, 1 + chance.below(2)])
    };
    let actions = vec![
        (
            after_open(0, chance, (8_000, 30_000)),
            Action::EditPolicy(PolicyEdit::Wider),
        ),
        (later(chance, 9_000, 25_000), Action::EditPolicy(PolicyEdit::Clause)),
    ];
    (setting, actions)
}

/// The clauses get another StatusCollector, and KubeStellar goes away between the Binding and the CombinedStatus.
fn asked_more_and_unheard(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        soak: Some("1m"),
        ..small(vec![1 + chance.below(2), 1])
    };
    let down_ms = chance.between(60_000, 150_000);
    let actions = vec![
        (
            after_open(0, chance, (14_000, 40_000)),
            Action::EditPolicy(PolicyEdit::Collectors),
        ),
        (later(chance, 2_200, 6_500), silent(down_ms, chance)),
    ];
    (setting, actions)
}

/// A custom resource is unwell, and its conditions cannot be read.
fn unreadable_while_it_works(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        objects: vec![Resource::Widget],
        soak: chance.pick(&[None, Some("30s")]).copied().flatten(),
        ..small(vec![1 + chance.below(2), 1])
    };
    let unwell = if chance.once_in(2) {
        Action::EditWorkload(0, Edit::Broken)
    } else {
        Action::Sicken(0, 0)
    };
    (setting, vec![(after_open(0, chance, (2_000, 6_000)), unwell)])
}

/// An update is pending for so many clusters that status has no room for their names.
fn crowded(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let mut setting = Setting {
        has_long_names: true,
        ..small(vec![CROWD, 2])
    };
    let actions = match chance.below(2) {
        0 => one_is_missing(chance),
        _ => {
            setting.objects = vec![Resource::Deployment; 2];
            setting.slow_reports = true;
            one_has_the_older_object(chance)
        }
    };
    (setting, actions)
}

/// All but one acknowledge.
fn one_is_missing(chance: &mut Seeded) -> Vec<(When, Action)> {
    let away = Action::Unreachable(chance.below(CROWD), chance.between(100_000, 300_000));
    vec![
        (after_open(0, chance, (4_000, 8_000)), away),
        (later(chance, 10, 2_000), Action::EditWorkload(0, Edit::Spec)),
    ]
}

/// The policy is made anew after an update that one cluster has not got; with the next update of another object it gets both.
fn one_has_the_older_object(chance: &mut Seeded) -> Vec<(When, Action)> {
    vec![
        (
            after_open(0, chance, (12_000, 25_000)),
            Action::Unreachable(chance.below(CROWD), chance.between(50_000, 60_000)),
        ),
        (later(chance, 100, 500), Action::EditWorkload(1, Edit::Spec)),
        (later(chance, 2_000, 3_000), Action::RecreatePolicy),
        (later(chance, 0, 100), Action::Kill(0, 5_000)),
        (later(chance, 9_000, 12_000), Action::EditWorkload(0, Edit::Spec)),
    ]
}

/// A filter becomes one that has no value and is then taken out, while a cluster has not reported yet.
fn filter_taken_out_while_a_cluster_is_away(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        has_filter: true,
        ..small(vec![1, 1])
    };
    let filter = || Action::EditPolicy(PolicyEdit::Filter);
    let actions = vec![
        (
            When::AfterOpen(0, chance.between(0, 2_000)),
            Action::Unreachable(0, 200_000),
        ),
        (later(chance, 20_000, 40_000), filter()),
        (later(chance, 2_000, 20_000), filter()),
    ];
    (setting, actions)
}
