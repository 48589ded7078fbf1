//! Objects that are made anew, clusters that move, placements that go and come. Must not carry anything out.

use super::{Plot, later};
use crate::script::{Action, Edit, PolicyEdit, Setting, When};
use crate::seeded::Seeded;
use crate::server::Resource;

/// One is listed three times, because few of its runs reach what it is for.
pub const PLOTS: &[Plot] = &[
    placement_anew_while_pending,
    joins_while_pending,
    joins_before_the_first_set,
    joins_from_a_placement_that_is_gone,
    joins_from_a_placement_that_is_gone_with_a_late_report,
    joins_from_a_stage_that_is_gone,
    joins_from_a_stage_that_is_gone_with_a_late_report,
    joins_with_a_new_report_of_an_old_version,
    made_anew_while_away,
    made_anew_after_the_loss_of_an_updated_one,
    made_anew_after_the_loss_while_away,
    made_anew_after_the_loss_in_a_new_attempt,
    made_anew_while_nobody_looks,
    made_anew_while_an_update_is_pending,
    made_anew_before_a_new_policy,
    made_anew_under_create_only,
    made_anew_before_the_first_look,
    placed_again_after_a_report_of_an_old_version,
    placed_again_between_reports_of_an_old_version,
    placed_again_while_kubestellar_is_away,
    placed_again_while_kubestellar_is_away,
    placed_again_while_kubestellar_is_away,
    lost_and_given_back_while_pending,
];

/// One that comes and goes, and one that stays, so that the set without the first can be accepted.
const TWO_OBJECTS: [Resource; 2] = [Resource::Deployment, Resource::Deployment];

type Actions = Vec<(When, Action)>;

/// Two stages that stay active for a while: what happens in them happens before they pass.
fn two_stages(clusters: [usize; 2], objects: &[Resource], keeps_previous: bool) -> Setting {
    Setting {
        clusters: clusters.to_vec(),
        shares: vec![false, false],
        objects: objects.to_vec(),
        soak: Some("2m"),
        keeps_previous,
        ..Setting::default()
    }
}

/// The same for long enough that the policy is no longer young: what a young one placed before is not known.
fn two_old_stages(clusters: [usize; 2], objects: &[Resource]) -> Setting {
    Setting {
        soak: Some("4m"),
        ..two_stages(clusters, objects, false)
    }
}

/// When the policy is old enough, while the first stage is still active.
fn late(chance: &mut Seeded) -> When {
    When::AfterOpen(0, chance.between(122_000, 150_000))
}

/// Two updates within seconds: the first cluster reports on the first one and is out of reach when the second one comes. One stays pending,
/// and silence cannot stand for it: its report may be of either.
fn leave_the_second_pending(begin: When, chance: &mut Seeded) -> Actions {
    vec![
        (begin, Action::EditWorkload(0, Edit::Spec)),
        (
            later(chance, 3_500, 6_500),
            Action::Unreachable(0, chance.between(250_000, 400_000)),
        ),
        (later(chance, 0, 2_000), Action::EditWorkload(0, Edit::Spec)),
    ]
}

/// A placement is closed, or deleted, while one of its clusters has to acknowledge an update.
fn placement_anew_while_pending(chance: &mut Seeded) -> (Setting, Actions) {
    let begin = late(chance);
    let mut actions = leave_the_second_pending(begin, chance);
    let when = later(chance, 3_000, 12_000);
    match chance.below(3) {
        0 => actions.push((when, Action::ClosePlacement(0))),
        1 => actions.push((when, Action::DeletePlacement(0))),
        _ => {
            actions.push((when, Action::EditPolicy(PolicyEdit::Pause)));
            actions.push((later(chance, 50, 2_000), Action::ClosePlacement(0)));
            actions.push((later(chance, 3_000, 12_000), Action::EditPolicy(PolicyEdit::Resume)));
        }
    }
    (
        two_old_stages([1 + chance.below(2), 1], &[Resource::Deployment]),
        actions,
    )
}

/// A cluster with a pending update in the first stage is given to the second one, which is judged.
fn joins_while_pending(chance: &mut Seeded) -> (Setting, Actions) {
    let mut actions = leave_the_second_pending(When::AfterOpen(1, chance.between(8_000, 30_000)), chance);
    actions.push((later(chance, 3_000, 15_000), Action::Relabel(0)));
    (two_stages([2, 1], &[Resource::Deployment], true), actions)
}

/// The same before the second stage has its first set of clusters: it has lost one at once, so the set has to stay for 30 s.
fn joins_before_the_first_set(chance: &mut Seeded) -> (Setting, Actions) {
    let mut actions = vec![(When::AfterOpen(1, chance.between(2_300, 5_000)), Action::Relabel(3))];
    let begin = later(chance, 0, 4_000);
    actions.extend(leave_the_second_pending(begin, chance));
    actions.push((later(chance, 2_500, 10_000), Action::Relabel(0)));
    (two_stages([2, 2], &[Resource::Deployment], chance.once_in(2)), actions)
}

/// A cluster with a pending update under a placement that is gone is given to the second stage.
fn joins_from_a_placement_that_is_gone(chance: &mut Seeded) -> (Setting, Actions) {
    let mut actions = leave_the_second_pending(When::AfterOpen(1, chance.between(5_000, 25_000)), chance);
    actions.push((later(chance, 3_000, 6_000), Action::DeletePlacement(0)));
    actions.push((later(chance, 3_000, 12_000), Action::Relabel(0)));
    (two_stages([2, 1], &[Resource::Deployment], true), actions)
}

/// Two updates within seconds: the first cluster gets only the first one, and reports on it when both are made. How long nothing else comes
/// tells nothing then.
fn leave_the_second_undelivered(begin: When, chance: &mut Seeded) -> Actions {
    vec![
        (begin, Action::EditWorkload(0, Edit::Spec)),
        (
            later(chance, 3_500, 6_500),
            Action::Undelivered(0, chance.between(300_000, 400_000)),
        ),
        (later(chance, 0, 500), Action::EditWorkload(0, Edit::Spec)),
        (later(chance, 1_000, 5_000), Action::Sicken(0, 0)),
        (later(chance, 500, 2_000), Action::Recover(0, 0)),
    ]
}

/// The same of a cluster that reports late on the first update.
fn joins_from_a_placement_that_is_gone_with_a_late_report(chance: &mut Seeded) -> (Setting, Actions) {
    let mut actions = leave_the_second_undelivered(When::AfterOpen(1, chance.between(5_000, 25_000)), chance);
    actions.push((later(chance, 3_000, 6_000), Action::DeletePlacement(0)));
    actions.push((later(chance, 3_000, 12_000), Action::Relabel(0)));
    (two_stages([2, 1], &[Resource::Deployment], true), actions)
}

/// The first stage is taken out of the policy and its placement left; then a cluster of it that misses updates is given to the other
/// stage.
fn joins_from_a_stage_that_is_gone(chance: &mut Seeded) -> (Setting, Actions) {
    let mut actions = vec![(
        When::AfterOpen(1, chance.between(8_000, 25_000)),
        Action::EditPolicy(PolicyEdit::RemoveFirstStage),
    )];
    let begin = later(chance, 500, 5_000);
    actions.extend(leave_the_second_pending(begin, chance));
    actions.push((later(chance, 3_000, 12_000), Action::Relabel(0)));
    (two_stages([2, 1], &[Resource::Deployment], true), actions)
}

/// The same of a cluster that reports late on the first update.
fn joins_from_a_stage_that_is_gone_with_a_late_report(chance: &mut Seeded) -> (Setting, Actions) {
    let mut actions = vec![(
        When::AfterOpen(1, chance.between(8_000, 25_000)),
        Action::EditPolicy(PolicyEdit::RemoveFirstStage),
    )];
    let begin = later(chance, 500, 5_000);
    actions.extend(leave_the_second_undelivered(begin, chance));
    actions.push((later(chance, 3_000, 12_000), Action::Relabel(0)));
    (two_stages([2, 1], &[Resource::Deployment], true), actions)
}

/// A cluster whose placement is gone keeps an old version and reports on it, then it is given to the second stage. That one has lost a
/// cluster, so its set has to stay for 30 s, and the report is there before the set is accepted.
fn joins_with_a_new_report_of_an_old_version(chance: &mut Seeded) -> (Setting, Actions) {
    let actions = vec![
        (
            When::AfterOpen(1, chance.between(8_000, 25_000)),
            Action::Undelivered(0, 110_000),
        ),
        (later(chance, 0, 1_000), Action::DeletePlacement(0)),
        (later(chance, 0, 4_000), Action::EditWorkload(0, Edit::Spec)),
        (later(chance, 4_000, 9_000), Action::Sicken(0, 0)),
        (later(chance, 0, 10_000), Action::Relabel(0)),
        (later(chance, 0, 1_500), Action::Relabel(3)),
    ];
    (two_stages([2, 2], &[Resource::Deployment], true), actions)
}

/// An object is deleted and made anew while a cluster that has the old one is out of reach.
fn made_anew_while_away(chance: &mut Seeded) -> (Setting, Actions) {
    let actions = vec![
        (
            When::AfterOpen(0, chance.between(12_000, 40_000)),
            Action::Unreachable(0, chance.between(100_000, 300_000)),
        ),
        (later(chance, 0, 4_000), Action::DeleteWorkload(0)),
        (later(chance, 2_100, 20_000), Action::RecreateWorkload(0)),
    ];
    (
        two_stages([1 + chance.below(2), 1], &[Resource::Deployment], false),
        actions,
    )
}

/// An object that was updated is deleted, the set without it accepted, and then it is made anew. A cluster still has the old one and
/// reports on it: of a generation that the new one has not had, so it is known to be old however long nothing else comes.
fn made_anew_after_the_loss_of_an_updated_one(chance: &mut Seeded) -> (Setting, Actions) {
    let mut actions = vec![(late(chance), Action::EditWorkload(0, Edit::Spec))];
    let begin = later(chance, 12_000, 20_000);
    actions.extend(lose_and_make_anew((begin, Action::Undelivered(0, 220_000)), chance));
    actions.push((later(chance, 9_000, 25_000), Action::Sicken(0, 0)));
    actions.push((later(chance, 60_000, 100_000), Action::Recover(0, 0)));
    (two_old_stages([1 + chance.below(2), 1], &TWO_OBJECTS), actions)
}

/// The same of an object that was never updated, and the cluster says nothing.
fn made_anew_after_the_loss_while_away(chance: &mut Seeded) -> (Setting, Actions) {
    let away = Action::Unreachable(0, chance.between(150_000, 250_000));
    let begin = late(chance);
    let actions = lose_and_make_anew((begin, away), chance);
    (two_old_stages([1 + chance.below(2), 1], &TWO_OBJECTS), actions)
}

/// The same, and there is a new attempt, in which every report is looked at until all have reported. Then the cluster reports.
fn made_anew_after_the_loss_in_a_new_attempt(chance: &mut Seeded) -> (Setting, Actions) {
    let begin = late(chance);
    let mut actions = lose_and_make_anew((begin, Action::Undelivered(0, 115_000)), chance);
    actions.push((later(chance, 0, 1_000), Action::EditPolicy(PolicyEdit::Clause)));
    actions.push((later(chance, 9_000, 25_000), Action::Sicken(0, 0)));
    (two_old_stages([1 + chance.below(2), 1], &TWO_OBJECTS), actions)
}

/// Between the two, the set without the object is accepted.
fn lose_and_make_anew(begin: (When, Action), chance: &mut Seeded) -> Actions {
    vec![
        begin,
        (later(chance, 0, 1_000), Action::DeleteWorkload(0)),
        (later(chance, 33_000, 40_000), Action::RecreateWorkload(0)),
    ]
}

/// An object that was updated is made anew while no process runs. A cluster still has the old one and reports on it, again and again.
fn made_anew_while_nobody_looks(chance: &mut Seeded) -> (Setting, Actions) {
    let actions = vec![
        (
            When::AfterOpen(0, chance.between(12_000, 20_000)),
            Action::EditWorkload(0, Edit::Spec),
        ),
        (later(chance, 10_000, 15_000), Action::Undelivered(0, 260_000)),
        (When::AfterPrevious(0), Action::Kill(0, chance.between(25_000, 40_000))),
        (later(chance, 0, 1_000), Action::DeleteWorkload(0)),
        (later(chance, 2_100, 4_000), Action::RecreateWorkload(0)),
        (later(chance, 4_500, 10_000), Action::Sicken(0, 0)),
        (later(chance, 70_000, 120_000), Action::Recover(0, 0)),
    ];
    (
        two_stages([1 + chance.below(2), 1], &[Resource::Deployment], false),
        actions,
    )
}

/// A cluster has an update and cannot tell before the object is made anew; it tells before it has the new one.
fn made_anew_while_an_update_is_pending(chance: &mut Seeded) -> (Setting, Actions) {
    let away = chance.between(25_000, 60_000);
    let actions = vec![
        (late(chance), Action::EditWorkload(0, Edit::Spec)),
        (later(chance, 2_500, 5_000), Action::Unreachable(0, away)),
        (When::AfterPrevious(0), Action::Undelivered(0, away + 30_000)),
        (later(chance, 0, 3_000), Action::DeleteWorkload(0)),
        (later(chance, 2_100, 5_000), Action::RecreateWorkload(0)),
    ];
    let setting = two_old_stages([1, 1], &[Resource::Deployment]);
    (
        Setting {
            slow_reports: true,
            ..setting
        },
        actions,
    )
}

/// An object that was updated is made anew, and right after it the policy. A cluster still has the old one, and reports on it to the new
/// placement.
fn made_anew_before_a_new_policy(chance: &mut Seeded) -> (Setting, Actions) {
    let actions = vec![
        (
            When::AfterOpen(0, chance.between(12_000, 20_000)),
            Action::EditWorkload(0, Edit::Spec),
        ),
        (later(chance, 10_000, 15_000), Action::Undelivered(0, 300_000)),
        (later(chance, 0, 1_000), Action::DeleteWorkload(0)),
        (later(chance, 2_100, 5_000), Action::RecreateWorkload(0)),
        (later(chance, 500, 10_000), Action::RecreatePolicy),
        // Before anything of the new placement is looked at.
        (When::AfterOpen(1, chance.between(0, 1_500)), Action::Sicken(0, 0)),
        (later(chance, 300, 2_000), Action::Recover(0, 0)),
    ];
    (two_stages([1, 1], &[Resource::Deployment], false), actions)
}

/// An object that is only created is made anew, so a cluster keeps the old one; then updates shall be delivered again.
fn made_anew_under_create_only(chance: &mut Seeded) -> (Setting, Actions) {
    let actions = vec![
        (
            When::At(chance.between(0, 200)),
            Action::EditPolicy(PolicyEdit::CreateOnly),
        ),
        (
            When::AfterOpen(0, chance.between(12_000, 30_000)),
            Action::Undelivered(0, 110_000),
        ),
        (later(chance, 0, 1_000), Action::DeleteWorkload(0)),
        (later(chance, 2_100, 5_000), Action::RecreateWorkload(0)),
        (later(chance, 4_500, 12_000), Action::Sicken(0, 0)),
        (later(chance, 0, 15_000), Action::EditPolicy(PolicyEdit::CreateOnly)),
    ];
    (
        two_stages([1 + chance.below(2), 1], &[Resource::Deployment], false),
        actions,
    )
}

/// The Binding names an object that cannot be read yet. When it can be read it is another one of that name.
fn made_anew_before_the_first_look(chance: &mut Seeded) -> (Setting, Actions) {
    let actions = vec![
        (
            When::AfterOpen(0, chance.between(0, 500)),
            Action::RefuseReads(chance.between(25_000, 35_000)),
        ),
        (later(chance, 5_000, 9_000), Action::Undelivered(0, 100_000)),
        (
            When::AfterPrevious(0),
            Action::LateWatch(0, 2, chance.between(7_000, 12_000)),
        ),
        (When::AfterPrevious(0), Action::Relist(0)),
        (later(chance, 0, 1_000), Action::DeleteWorkload(0)),
        (later(chance, 2_100, 4_000), Action::RecreateWorkload(0)),
        (later(chance, 4_000, 15_000), Action::Sicken(0, 0)),
    ];
    (
        two_stages([1 + chance.below(2), 1], &[Resource::Deployment], false),
        actions,
    )
}

/// A new rollout begins, the last stage's placement is deleted, and then the object is updated. A cluster of the last stage keeps the
/// old version and reports on it before the stage is opened again.
fn placed_again_after_a_report_of_an_old_version(chance: &mut Seeded) -> (Setting, Actions) {
    let mut actions = place_again(chance);
    actions.push((later(chance, 4_000, 20_000), Action::Sicken(1, 0)));
    (two_stages_without_soak(), actions)
}

/// The same, with a report at about the time of the update, and another one after the stage is opened.
fn placed_again_between_reports_of_an_old_version(chance: &mut Seeded) -> (Setting, Actions) {
    let mut actions = place_again(chance);
    actions.push((later(chance, 0, 1_900), Action::Sicken(1, 0)));
    let after = When::AfterOpen(2, chance.between(9_500, 30_000));
    actions.push((after, Action::Recover(1, 0)));
    (two_stages_without_soak(), actions)
}

/// The same, with a report after the stage is opened, but before KubeStellar names the object there again.
fn placed_again_while_kubestellar_is_away(chance: &mut Seeded) -> (Setting, Actions) {
    let mut actions = place_again(chance);
    let restart = Action::RestartKubeStellar {
        down_ms: chance.between(8_000, 20_000),
        inventory_ms: chance.between(0, 3_000),
        objects_ms: chance.between(0, 3_000),
    };
    actions.push((When::AfterOpen(2, chance.between(0, 1_500)), restart));
    actions.push((later(chance, 500, 6_000), Action::Sicken(1, 0)));
    (two_stages_without_soak(), actions)
}

fn two_stages_without_soak() -> Setting {
    Setting {
        soak: None,
        ..two_stages([1, 1], &[Resource::Deployment], true)
    }
}

fn place_again(chance: &mut Seeded) -> Actions {
    vec![
        (
            When::AfterOpen(1, chance.between(25_000, 40_000)),
            Action::Undelivered(1, 125_000),
        ),
        (later(chance, 0, 500), Action::EditPolicy(PolicyEdit::Clause)),
        (later(chance, 0, 1_000), Action::DeletePlacement(1)),
        (later(chance, 1_000, 4_000), Action::EditWorkload(0, Edit::Spec)),
    ]
}

/// A cluster with a pending update leaves the stage, loses the object, and comes back. It counts generations anew then.
fn lost_and_given_back_while_pending(chance: &mut Seeded) -> (Setting, Actions) {
    let actions = vec![
        (late(chance), Action::EditWorkload(0, Edit::Spec)),
        (later(chance, 0, 1_500), Action::Relabel(0)),
        (later(chance, 4_500, 9_000), Action::Relabel(0)),
        (
            When::AfterPrevious(0),
            Action::Undelivered(0, chance.between(8_000, 20_000)),
        ),
    ];
    (two_old_stages([1, 1], &[Resource::Deployment]), actions)
}
