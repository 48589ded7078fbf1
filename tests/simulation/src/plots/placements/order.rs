//! What is opened, kept and taken away, and by whom. Must not carry anything out.

use crate::plots::later;
use crate::queue::Millis;
use crate::script::{Action, Edit, PolicyEdit, Setting, When};
use crate::seeded::Seeded;
use crate::server::Resource;

/// Three soaks of a minute, and some 35 s for each of the stages; not a fourth soak.
const DONE_MS: Millis = 325_000;

/// Two or three stages without anything special.
fn setting(chance: &mut Seeded) -> Setting {
    let stages = 2 + chance.below(2);
    Setting {
        clusters: vec![1; stages],
        shares: vec![false; stages],
        objects: vec![if chance.once_in(3) {
            Resource::StatefulSet
        } else {
            Resource::Deployment
        }],
        late_watches: chance.once_in(4),
        ..Setting::default()
    }
}

fn often(chance: &mut Seeded, times: usize) -> bool {
    !chance.once_in(times)
}

/// Two stages have a cluster in common, and the transport, the cluster or KubeStellar is slow to bring what the second one places.
pub fn shared_cluster(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let mut setting = Setting {
        transport_tells: often(chance, 4),
        slow_transport: often(chance, 3),
        slow_queue: chance.once_in(3),
        ignores_health: chance.once_in(2),
        has_filter: chance.once_in(4),
        soak: often(chance, 4).then_some("10s"),
        ..setting(chance)
    };
    if setting.ignores_health {
        setting.soak.get_or_insert("10s");
    }
    setting.shares[1] = true;
    let mut actions = vec![(
        When::At(chance.between(0, 200_000)),
        Action::EditWorkload(0, Edit::Metadata),
    )];
    match chance.below(4) {
        0 => actions.push((
            When::AfterOpen(0, chance.between(0, 9_000)),
            Action::Unreachable(0, chance.between(20_000, 200_000)),
        )),
        1 => actions.push((
            When::AfterOpen(1, chance.between(0, 9_000)),
            Action::Unreachable(0, chance.between(20_000, 200_000)),
        )),
        2 => actions.push((
            When::AfterOpen(1, chance.between(0, 9_000)),
            Action::EditWorkload(0, Edit::Spec),
        )),
        _ => {}
    }
    (setting, actions)
}

/// A new rollout begins while the placements of the one before are there, and a user moves its first stage, which is open, behind the
/// others. One of those shares a cluster with the stage before it, and its placement was edited by hand.
pub fn reordered(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        clusters: vec![1; 3],
        shares: vec![false, false, true],
        soak: chance.once_in(2).then_some("10s"),
        slow_queue: chance.once_in(3),
        ..setting(chance)
    };
    let actions = vec![
        (
            When::AfterOpen(2, chance.between(0, 7_000)),
            Action::EditPolicy(PolicyEdit::Clause),
        ),
        // The first stage's cluster is out of reach, so that the stage passes only after the reordering.
        (When::AfterPrevious(0), Action::Unreachable(0, 400_000)),
        (
            When::AfterPrevious(chance.between(500, 4_000)),
            Action::EditPlacement(2),
        ),
        (
            When::AfterPrevious(chance.between(2_000, 20_000)),
            Action::EditPolicy(PolicyEdit::Reorder),
        ),
    ];
    (setting, actions)
}

/// All stages are open at a revision, a user edits the policy and takes the edit back. The first stage begins anew then, and the second
/// one shares a cluster with it.
pub fn taken_back(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        clusters: vec![1; 3],
        shares: vec![false, true, false],
        soak: chance.once_in(2).then_some("10s"),
        slow_queue: chance.once_in(2),
        ..setting(chance)
    };
    let actions = vec![
        (
            When::AfterOpen(2, chance.between(0, 3_000)),
            Action::EditPolicy(PolicyEdit::Clause),
        ),
        (
            When::AfterPrevious(chance.between(50, 4_000)),
            Action::EditPolicy(PolicyEdit::Clause),
        ),
    ];
    (setting, actions)
}

/// An edit is taken back as in [`taken_back`], and a person takes the annotations of a placement away while its stage soaks anew.
pub fn stripped(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let (mut setting, mut actions) = taken_back(chance);
    setting.soak = Some("10s");
    setting.keeps_previous = chance.once_in(2);
    let position = chance.below(2);
    let action = if chance.once_in(2) {
        Action::StripPlacement(position)
    } else {
        Action::ReplacePlacement(position)
    };
    actions.push((When::AfterPrevious(chance.between(1_000, 20_000)), action));
    (setting, actions)
}

/// Two stages that stay placed, with a soak that is long enough for KubeStellar to go away in it.
fn two_kept(chance: &mut Seeded) -> Setting {
    Setting {
        clusters: vec![1; 2],
        shares: vec![false; 2],
        soak: Some("2m"),
        keeps_previous: true,
        ..setting(chance)
    }
}

/// KubeStellar stops, and knows everything as soon as it is back.
fn away_for(down_ms: Millis) -> Action {
    Action::RestartKubeStellar {
        down_ms,
        inventory_ms: 0,
        objects_ms: 0,
    }
}

/// All stages are open, a user edits the clauses, and KubeStellar goes away for the rest of the first stage's soak.
pub fn edited_before_kubestellar_is_away(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = two_kept(chance);
    let actions = vec![
        (
            When::AfterOpen(1, chance.between(5_000, 20_000)),
            Action::EditPolicy(PolicyEdit::Clause),
        ),
        (
            When::AfterPrevious(chance.between(40_000, 70_000)),
            away_for(chance.between(120_000, 300_000)),
        ),
    ];
    (setting, actions)
}

/// All stages were open, a user edits the clauses, and takes that back when the second stage is open again. KubeStellar has nothing to write
/// for the whole soak of that stage, so it is asked for a sign of life by the last one's placement, which stays.
pub fn taken_back_before_a_long_soak(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        clusters: vec![1; 3],
        shares: vec![false; 3],
        soak: Some("1m"),
        done_within_ms: DONE_MS,
        ..setting(chance)
    };
    let actions = vec![
        (
            When::AfterOpen(2, chance.between(5_000, 20_000)),
            Action::EditPolicy(PolicyEdit::Clause),
        ),
        (
            When::AfterOpen(4, chance.between(18_000, 45_000)),
            Action::EditPolicy(PolicyEdit::Clause),
        ),
    ];
    (setting, actions)
}

/// While the second stage soaks, a user pauses the policy, edits the clauses, takes that back and resumes. Meanwhile the first stage is the
/// active one, nobody judges the second, and its cluster is not well for a while.
pub fn taken_back_in_a_soak(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        soak: Some("1m"),
        ..setting(chance)
    };
    let actions = vec![
        (
            When::AfterOpen(1, chance.between(10_000, 30_000)),
            Action::EditPolicy(PolicyEdit::Pause),
        ),
        (later(chance, 500, 3_000), Action::EditPolicy(PolicyEdit::Clause)),
        (later(chance, 2_000, 5_000), Action::Sicken(1, 0)),
        (later(chance, 5_000, 20_000), Action::Recover(1, 0)),
        (later(chance, 3_000, 9_000), Action::EditPolicy(PolicyEdit::Clause)),
        (later(chance, 500, 3_000), Action::EditPolicy(PolicyEdit::Resume)),
    ];
    (setting, actions)
}

/// Both stages are open, and a user takes an edit of the clauses back. Then a person takes the annotations of the last placement away, and
/// KubeStellar goes away for the rest of the first stage's soak.
pub fn stripped_before_kubestellar_is_away(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = two_kept(chance);
    let actions = vec![
        (
            When::AfterOpen(1, chance.between(5_000, 20_000)),
            Action::EditPolicy(PolicyEdit::Clause),
        ),
        (
            When::AfterPrevious(chance.between(3_000, 10_000)),
            Action::EditPolicy(PolicyEdit::Clause),
        ),
        (
            When::AfterPrevious(chance.between(15_000, 40_000)),
            Action::StripPlacement(1),
        ),
        (
            When::AfterPrevious(chance.between(2_000, 20_000)),
            away_for(chance.between(150_000, 300_000)),
        ),
    ];
    (setting, actions)
}

/// A rollout is completed, and then a user adds a stage behind its last one.
pub fn appended(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let mut setting = setting(chance);
    setting.shares[1] = chance.once_in(3);
    let actions = vec![(
        When::At(chance.between(50_000, 200_000)),
        Action::EditPolicy(PolicyEdit::Append),
    )];
    (setting, actions)
}

/// The policy is deleted in the middle of a rollout, and a finalizer of another owner keeps it for a while.
pub fn deleted(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = setting(chance);
    let nth = chance.below(2);
    let actions = vec![(
        When::AfterOpen(nth, chance.between(0, 20_000)),
        Action::DeletePolicySlowly(chance.between(1_000, 120_000)),
    )];
    (setting, actions)
}

/// While the stage before it is judged, a user opens the placement of a later one.
pub fn opened_by_hand(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        clusters: vec![1; 3],
        shares: vec![false; 3],
        soak: Some("10s"),
        slow_transport: chance.once_in(2),
        ..setting(chance)
    };
    let actions = vec![(
        When::AfterOpen(1, chance.between(1_100, 8_000)),
        Action::EditPlacement(2),
    )];
    (setting, actions)
}

/// While the first stage soaks, a user opens the placement of the next one and deletes the one of the first.
pub fn opened_by_hand_and_deleted(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        soak: Some("1m"),
        ..setting(chance)
    };
    let actions = vec![
        (
            When::AfterOpen(0, chance.between(2_000, 30_000)),
            Action::EditPlacement(1),
        ),
        (later(chance, 500, 10_000), Action::DeletePlacement(0)),
    ];
    (setting, actions)
}

/// A process takes over whose watch of policies is late: it does not know the last edit, which the one before it has followed.
pub fn stale_view(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        two_processes: true,
        soak: Some("1m"),
        ..setting(chance)
    };
    let late: Millis = chance.between(60_000, 200_000);
    let edits = [PolicyEdit::Soak, PolicyEdit::Pause, PolicyEdit::Previous];
    let edit = chance.pick(&edits).copied().unwrap_or(PolicyEdit::Soak);
    let (first, second) = if chance.once_in(2) { (0, 1) } else { (1, 0) };
    let actions = vec![
        (
            When::AfterOpen(0, chance.between(1_500, 9_000)),
            Action::LateWatch(first, 0, late),
        ),
        (When::AfterPrevious(chance.between(0, 1_000)), Action::EditPolicy(edit)),
        (
            When::AfterPrevious(chance.between(500, 9_000)),
            Action::Kill(second, chance.between(20_000, 90_000)),
        ),
    ];
    (setting, actions)
}

/// A process stands still between a decision to open a stage and the write, and meanwhile a user pauses the policy.
pub fn paused_meanwhile(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        two_processes: true,
        slow_requests: true,
        ..setting(chance)
    };
    // An odd time: the request that hangs arrives after three quarters of it.
    let long = chance.between(14_000, 40_000) * 2 + 1;
    let actions = vec![
        (
            When::AfterDecision(chance.below(2), chance.between(0, 1_500)),
            Action::PauseProcess(chance.below(2), long),
        ),
        (
            When::AfterPrevious(chance.between(0, 8_000)),
            Action::EditPolicy(PolicyEdit::Pause),
        ),
    ];
    (setting, actions)
}
