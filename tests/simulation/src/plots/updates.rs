//! Updates of objects and the reports that may or may not acknowledge them. Must not carry anything out.

use super::{Plot, later};
use crate::queue::Millis;
use crate::script::{Action, Edit, PolicyEdit, Setting, When};
use crate::seeded::Seeded;
use crate::server::Resource;

/// A plot that shows its point in few of its runs is listed more than once.
pub const PLOTS: &[Plot] = &[
    away_since_before_the_update,
    away_with_the_first_of_two_updates,
    looked_at_late,
    policy_made_anew_while_a_cluster_is_away,
    reported_before_the_binding_named_it,
    leaves_and_returns_while_away,
    policy_made_anew_and_looked_at_late,
    opened_long_after_it_was_made,
    back_with_the_first_of_two_updates,
    back_with_the_first_of_two_updates,
    back_with_the_first_of_two_updates,
    policy_made_anew_right_after_an_update,
    reports_what_it_had_to_a_new_policy,
    reports_what_it_had_right_after_the_opening,
    reports_what_it_had_before_the_binding_named_it,
    updated_while_nobody_works,
    labelled_before_the_first_sight,
    updated_all_the_time,
    away_after_the_first_report,
    report_missing_for_a_moment,
    updated_while_one_stage_creates_only,
    updated_while_one_stage_creates_only,
    looked_at_late,
    reported_before_the_binding_named_it,
    labelled_before_the_first_sight,
];

/// Longer than any wait of the rules.
const LONG_MS: Millis = 280_000;

/// Two stages with one object, and one or two clusters in the first.
fn two_stages(chance: &mut Seeded) -> Setting {
    Setting {
        clusters: vec![1 + chance.below(2), 1],
        shares: vec![false, false],
        objects: vec![Resource::Deployment],
        soak: chance.pick(&[None, None, Some("30s")]).copied().flatten(),
        slow_rollouts: chance.once_in(3),
        slow_reports: chance.once_in(4),
        ..Setting::default()
    }
}

fn edit(kind: Edit) -> Action {
    Action::EditWorkload(0, kind)
}

/// A cluster goes out of reach, then the object is updated, and the stage is judged while it is away or back.
fn away_since_before_the_update(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        clusters: vec![1 + chance.below(2), 1],
        shares: vec![false, false],
        objects: vec![Resource::Deployment],
        ..Setting::default()
    };
    let actions = vec![
        (
            When::AfterOpen(0, chance.between(0, 9_000)),
            Action::Unreachable(0, chance.between(100_000, 300_000)),
        ),
        (later(chance, 0, 3_000), edit(Edit::Spec)),
    ];
    (setting, actions)
}

/// Two updates follow each other within seconds, and the cluster may go out of reach when it has the first. Transport may also merge
/// them: then only a further update tells that the cluster has both.
fn away_with_the_first_of_two_updates(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let is_merged = chance.once_in(3);
    let gap = if is_merged { (100, 1_500) } else { (2_200, 6_000) };
    let mut actions = vec![
        (When::AfterOpen(0, chance.between(3_500, 9_000)), edit(Edit::Spec)),
        (later(chance, gap.0, gap.1), edit(Edit::Spec)),
    ];
    if !is_merged {
        actions.push((
            later(chance, 300, 4_000),
            Action::Unreachable(0, chance.between(160_000, LONG_MS)),
        ));
    }
    (two_stages(chance), actions)
}

/// Who opens a placement ends, and the object is updated before anybody looks at the Binding.
fn looked_at_late(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let stage = chance.below(2);
    // Of the first stage nothing is on record yet: an update of which no time tells is known to who has watched alone.
    let update = if chance.once_in(2) { Edit::Spec } else { Edit::Removal };
    let setting = Setting {
        clusters: vec![1, 1],
        two_processes: stage == 0 && (update == Edit::Removal || chance.once_in(3)),
        slow_rollouts: false,
        slow_reports: false,
        ..two_stages(chance)
    };
    let first = if chance.once_in(4) { Edit::Metadata } else { Edit::Spec };
    let process = if setting.two_processes { chance.below(2) } else { 0 };
    // The other one takes over when the lease is over.
    let shortest = if setting.two_processes { 20_000 } else { 9_000 };
    let mut actions = in_a_second_life(edit(first));
    actions.extend([
        (
            // When it has noted that the placement is open, and before there is a Binding.
            When::AfterOpen(2 + stage, chance.between(900, 2_000)),
            Action::Kill(process, chance.between(shortest, 40_000)),
        ),
        (later(chance, 1_500, 4_500), edit(update)),
        (
            later(chance, 0, 2_000),
            Action::Unreachable(stage, chance.between(60_000, LONG_MS)),
        ),
    ]);
    (setting, actions)
}

/// The policy is made anew when the object is so old that its creation, or this update of it, is not taken for one of several updates.
fn in_a_second_life(first: Action) -> Vec<(When, Action)> {
    vec![(When::At(0), first), (When::At(260_000), Action::RecreatePolicy)]
}

/// A cluster is away, the object is updated, and the policy is made anew, so that nothing is known from before the update.
fn policy_made_anew_while_a_cluster_is_away(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let update = chance.pick(&[Edit::Spec, Edit::Spec, Edit::Removal]).copied();
    let update = edit(update.unwrap_or(Edit::Spec));
    let anew = Action::RecreatePolicy;
    let away = Action::Unreachable(0, chance.between(200_000, 400_000));
    let mut actions = vec![(When::AfterOpen(0, chance.between(8_000, 40_000)), away)];
    if chance.once_in(2) {
        actions.push((later(chance, 5_000, 20_000), update));
        actions.push((later(chance, 0, 140_000), anew));
    } else {
        actions.push((later(chance, 5_000, 140_000), anew));
        actions.push((later(chance, 50, 4_000), update));
    }
    (two_stages(chance), actions)
}

/// KubeStellar is late, so a cluster reports after an update what it had before, and it is away when the update is delivered.
fn reported_before_the_binding_named_it(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        objects_late_ms: 25_000,
        slow_rollouts: true,
        slow_reports: chance.once_in(2),
        ..two_stages(chance)
    };
    let mut actions = in_a_second_life(edit(Edit::Metadata));
    actions.push((When::AfterOpen(2, chance.between(2_500, 12_000)), edit(Edit::Spec)));
    actions.push((
        later(chance, 3_000, 9_000),
        Action::Unreachable(0, chance.between(160_000, LONG_MS)),
    ));
    if chance.once_in(4) {
        let restart = Action::RestartKubeStellar {
            down_ms: chance.between(500, 20_000),
            inventory_ms: 500,
            objects_ms: 1_000,
        };
        actions.push((later(chance, 0, 20_000), restart));
    }
    (setting, actions)
}

/// A cluster that is away leaves its stage and returns, and the object is updated meanwhile.
fn leaves_and_returns_while_away(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        clusters: vec![2, 1],
        soak: Some("1m"),
        ..two_stages(chance)
    };
    let actions = vec![
        (
            When::AfterOpen(0, chance.between(14_000, 40_000)),
            Action::Unreachable(0, chance.between(120_000, LONG_MS)),
        ),
        (later(chance, 500, 4_000), Action::Relabel(0)),
        (later(chance, 500, 6_000), edit(Edit::Spec)),
        (later(chance, 500, 12_000), Action::Relabel(0)),
    ];
    (setting, actions)
}

/// A cluster is away since before the policy was made anew, and the object is updated between the Binding and the first look at it.
fn policy_made_anew_and_looked_at_late(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        two_processes: true,
        ..two_stages(chance)
    };
    let actions = vec![
        (
            When::AfterOpen(1, chance.between(0, 6_000)),
            Action::Unreachable(0, 420_000),
        ),
        (later(chance, 20_000, 120_000), Action::RecreatePolicy),
        (
            When::AfterOpen(2, chance.between(0, 700)),
            Action::Kill(chance.below(2), 60_000),
        ),
        (later(chance, 2_500, 10_000), edit(Edit::Spec)),
    ];
    (setting, actions)
}

/// A later stage is opened long after its placement was made, and its cluster tells of an older version that no record knows.
fn opened_long_after_it_was_made(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        clusters: vec![1, 1],
        soak: chance.pick(&[Some("1m"), Some("90s")]).copied().flatten(),
        slow_rollouts: false,
        ..two_stages(chance)
    };
    let actions = vec![
        (
            When::AfterOpen(1, chance.between(8_000, 20_000)),
            Action::Unreachable(1, 500_000),
        ),
        (later(chance, 0, 5_000), edit(Edit::Removal)),
        (later(chance, 100, 5_000), Action::RecreatePolicy),
        (
            When::AfterOpen(3, chance.between(0, 1_500)),
            Action::Kill(0, chance.between(8_000, 25_000)),
        ),
    ];
    (setting, actions)
}

/// A cluster that has not had an update when its stage is opened gets it late, when the object has been updated once more.
fn back_with_the_first_of_two_updates(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        clusters: vec![1, 1],
        soak: chance.pick(&[None, None, None, Some("90s")]).copied().flatten(),
        slow_rollouts: false,
        slow_reports: true,
        objects_late_ms: 9_000,
        slow_transport: true,
        ..two_stages(chance)
    };
    let mut actions = vec![
        (
            When::AfterOpen(1, chance.between(6_000, 24_000)),
            Action::Unreachable(1, 500_000),
        ),
        (later(chance, 5_000, 9_000), edit(Edit::Spec)),
        (later(chance, 125_000, 140_000), Action::RecreatePolicy),
    ];
    // The cluster reports the version it had, and then gets the first of the two updates while the second one is on its way.
    let undelivered = chance.between(8_000, 20_000);
    let opened = When::AfterOpen(3, chance.between(0, 1_500));
    actions.push((opened, Action::Undelivered(1, undelivered)));
    if chance.once_in(2) {
        let away_for = undelivered + chance.between(1_000, 5_000);
        actions.push((When::AfterPrevious(0), Action::Kill(0, away_for)));
    }
    actions.push((When::AfterPrevious(0), Action::Reachable(1)));
    actions.push((
        When::AfterPrevious(undelivered - chance.between(0, 3_000)),
        edit(Edit::Spec),
    ));
    if chance.once_in(2) {
        actions.push((later(chance, 5_000, 12_000), Action::Unreachable(1, LONG_MS)));
    }
    (setting, actions)
}

/// A policy is made anew right after an update that a cluster gets late; until then the cluster keeps reporting the version it had.
fn policy_made_anew_right_after_an_update(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        clusters: vec![1, 1],
        slow_rollouts: false,
        slow_reports: chance.once_in(2),
        ..two_stages(chance)
    };
    let first = (
        When::AfterOpen(1, chance.between(125_000, 150_000)),
        Action::Undelivered(1, chance.between(40_000, 100_000)),
    );
    let kind = chance.pick(&[Edit::Spec, Edit::Spec, Edit::Removal]).copied();
    let actions = vec![
        first,
        (later(chance, 0, 1_000), Action::Sicken(1, 0)),
        (later(chance, 500, 4_000), edit(kind.unwrap_or(Edit::Spec))),
        (later(chance, 500, 20_000), Action::RecreatePolicy),
        (When::AfterOpen(2, chance.between(5_000, 25_000)), Action::Recover(1, 0)),
    ];
    (setting, actions)
}

/// Two stages of one cluster each; the second one's gets nothing for a while, and reports what it had.
fn undelivered() -> (Setting, Action) {
    let setting = Setting {
        clusters: vec![1, 1],
        shares: vec![false, false],
        objects: vec![Resource::Deployment],
        ..Setting::default()
    };
    (setting, Action::Undelivered(1, 500_000))
}

/// A cluster does not get an update and reports what it had, shortly before or after its stage is opened for a policy that was made anew.
fn reports_what_it_had_to_a_new_policy(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let (setting, undelivered) = undelivered();
    let setting = Setting {
        soak: Some("30s"),
        ..setting
    };
    let opening = 2 + chance.below(2);
    let actions = vec![
        (When::AfterOpen(1, chance.between(8_000, 20_000)), undelivered),
        (later(chance, 0, 5_000), edit(Edit::Spec)),
        (later(chance, 125_000, 150_000), Action::RecreatePolicy),
        (
            When::AfterOpen(opening, chance.between(3_000, 20_000)),
            Action::Sicken(1, 0),
        ),
        (later(chance, 500, 4_000), Action::Recover(1, 0)),
    ];
    (setting, actions)
}

/// A cluster gets nothing any more, and its placement is made anew. The first stage is unwell for two minutes, so that the update is no
/// longer recent when the second one is opened; `reported` follows the update.
fn with_a_new_placement(chance: &mut Seeded, reported: Option<Action>) -> (Setting, Vec<(When, Action)>) {
    let (setting, undelivered) = undelivered();
    let mut actions = vec![
        (When::AfterOpen(1, chance.between(120_000, 150_000)), undelivered),
        (later(chance, 0, 500), Action::EditPolicy(PolicyEdit::Clause)),
        (later(chance, 0, 1_000), Action::DeletePlacement(1)),
        (later(chance, 1_000, 4_000), edit(Edit::Spec)),
    ];
    actions.extend(reported.map(|reported| (later(chance, 0, 1_500), reported)));
    actions.push((later(chance, 2_000, 4_000), Action::Sicken(0, 0)));
    actions.push((later(chance, 125_000, 140_000), Action::Recover(0, 0)));
    (setting, actions)
}

/// A cluster reports what it had so soon after an update that, as clocks may differ, the report may be from before it, and once more when
/// its stage has been opened.
fn reports_what_it_had_right_after_the_opening(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let (setting, mut actions) = with_a_new_placement(chance, Some(Action::Sicken(1, 0)));
    let opened = When::AfterOpen(3, chance.between(12_000, 25_000));
    actions.push((opened, Action::Recover(1, 0)));
    (setting, actions)
}

/// A cluster reports what it had when its stage has been opened, and before KubeStellar names the object there.
fn reports_what_it_had_before_the_binding_named_it(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let (setting, mut actions) = with_a_new_placement(chance, None);
    let restart = Action::RestartKubeStellar {
        down_ms: chance.between(500, 2_000),
        inventory_ms: 500,
        objects_ms: chance.between(20_000, 25_000),
    };
    actions.push((When::AfterOpen(3, chance.between(0, 1_000)), restart));
    actions.push((later(chance, 12_000, 15_000), Action::Sicken(1, 0)));
    actions.push((later(chance, 500, 2_000), Action::Recover(1, 0)));
    (setting, actions)
}

/// KubeStellar and the controller are away when the object is updated, and a cluster goes on to report what it had before.
fn updated_while_nobody_works(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        slow_rollouts: true,
        ..two_stages(chance)
    };
    let mut actions = in_a_second_life(edit(Edit::Metadata));
    let restart = Action::RestartKubeStellar {
        down_ms: chance.between(45_000, 100_000),
        inventory_ms: 500,
        objects_ms: 1_000,
    };
    actions.extend([
        (When::AfterOpen(2, chance.between(3_200, 7_000)), restart),
        (
            later(chance, 0, 1_000),
            Action::Kill(0, chance.between(135_000, 170_000)),
        ),
        (later(chance, 0, 1_000), edit(Edit::Spec)),
        (later(chance, 5_000, 20_000), Action::Unreachable(0, LONG_MS)),
    ]);
    (setting, actions)
}

/// An object that is never updated gets other labels before the Binding is looked at for the first time.
fn labelled_before_the_first_sight(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        objects_late_ms: 25_000,
        ..two_stages(chance)
    };
    let actions = vec![
        (When::AfterOpen(0, chance.between(0, 2_500)), edit(Edit::Metadata)),
        (later(chance, 0, 2_000), edit(Edit::Metadata)),
    ];
    (setting, actions)
}

/// An object is updated all the time, and the first two updates are merged on their way.
fn updated_all_the_time(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        accepts_unseen: true,
        soak: None,
        ..two_stages(chance)
    };
    let mut actions = vec![
        (When::AfterOpen(0, chance.between(3_500, 8_000)), edit(Edit::Spec)),
        (later(chance, 100, 1_500), edit(Edit::Spec)),
    ];
    let every = chance.between(75_000, 95_000);
    actions.extend((0..6).map(|_| (When::AfterPrevious(every), edit(Edit::Spec))));
    (setting, actions)
}

/// A cluster tells for the first time what it runs and goes out of reach, and then the object is updated.
fn away_after_the_first_report(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        slow_reports: false,
        slow_rollouts: false,
        ..two_stages(chance)
    };
    let actions = vec![
        (
            When::AfterOpen(0, chance.between(2_800, 5_500)),
            Action::Unreachable(0, chance.between(160_000, LONG_MS)),
        ),
        (later(chance, 0, 1_500), edit(Edit::Spec)),
    ];
    (setting, actions)
}

/// A cluster goes out of reach with the first of two updates, and KubeStellar starts and misses its report for a moment.
fn report_missing_for_a_moment(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        soak: Some("1m"),
        late_reports: true,
        slow_rollouts: true,
        slow_reports: false,
        ..two_stages(chance)
    };
    let restart = Action::RestartKubeStellar {
        down_ms: chance.between(200, 3_000),
        inventory_ms: 500,
        objects_ms: 500,
    };
    let actions = vec![
        (When::AfterOpen(0, chance.between(9_000, 30_000)), edit(Edit::Spec)),
        (later(chance, 10_000, 20_000), edit(Edit::Spec)),
        (
            later(chance, 1_000, 3_000),
            Action::Unreachable(0, chance.between(200_000, LONG_MS)),
        ),
        (later(chance, 6_000, 20_000), restart),
    ];
    (setting, actions)
}

/// While KubeStellar is away, the selectors and `createOnly` are edited, a cluster moves and the object is updated. Then the stages change
/// places, and KubeStellar is away again: it may have seen `createOnly` of one of the two open placements only.
fn updated_while_one_stage_creates_only(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        clusters: vec![2, 2],
        soak: Some("10s"),
        ..two_stages(chance)
    };
    let away = |down_ms: Millis, inventory_ms: Millis| Action::RestartKubeStellar {
        down_ms,
        inventory_ms,
        objects_ms: 1_000,
    };
    let actions = vec![
        (When::AfterOpen(1, chance.between(2_000, 8_000)), away(110_000, 7_000)),
        (later(chance, 500, 3_000), Action::EditPolicy(PolicyEdit::Selectors)),
        (
            later(chance, 10_000, 60_000),
            Action::EditPolicy(PolicyEdit::CreateOnly),
        ),
        (later(chance, 500, 5_000), Action::Relabel(2)),
        (later(chance, 0, 1_000), edit(Edit::Spec)),
        (later(chance, 60_000, 110_000), Action::EditPolicy(PolicyEdit::Reorder)),
        (later(chance, 500, 3_000), away(70_000, 2_000)),
    ];
    (setting, actions)
}
