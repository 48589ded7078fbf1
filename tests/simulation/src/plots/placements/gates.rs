//! Gates that pass, hold, fail or say nothing, and what must not follow from that. Must not carry anything out.

use crate::gates::{Kind, Manner};
use crate::script::{Action, Edit, PolicyEdit, Setting, When};
use crate::seeded::Seeded;
use crate::server::Resource;

/// One gate in the first stage, most often, or in the second one.
fn setting(chance: &mut Seeded, manner: Manner) -> Setting {
    let mut gates = vec![vec![manner]];
    if chance.once_in(3) {
        gates.insert(0, Vec::new());
    }
    Setting {
        clusters: vec![1 + chance.below(2), 1],
        shares: vec![false, chance.once_in(4)],
        objects: vec![if chance.once_in(3) {
            Resource::StatefulSet
        } else {
            Resource::Deployment
        }],
        has_condition: chance.once_in(3),
        slow_requests: chance.once_in(2),
        soak: chance.once_in(4).then_some("10s"),
        gates,
        ..Setting::default()
    }
}

/// A gate says something else each time, and often nothing that is a verdict, while the evidence changes.
pub fn no_verdict(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let manner = Manner::drawn(chance, Kind::Moody);
    let setting = setting(chance, manner);
    let actions = vec![
        (When::AfterOpen(0, chance.between(0, 12_000)), Action::Sicken(0, 0)),
        (
            When::AfterPrevious(chance.between(0, 30_000)),
            Action::EditWorkload(0, Edit::Spec),
        ),
    ];
    (setting, actions)
}

/// A gate says never, and the process that has asked it ends. The next one has to know.
pub fn never(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let manner = Manner {
        every_ms: chance.between(500, 6_000),
        ..Manner::drawn(chance, Kind::Harsh)
    };
    let setting = Setting {
        two_processes: chance.once_in(2),
        ..setting(chance, manner)
    };
    let mut actions = vec![(
        When::AfterOpen(0, chance.between(5_000, 40_000)),
        Action::Kill(0, chance.between(100, 20_000)),
    )];
    for _ in 0..chance.below(3) {
        actions.push((
            When::AfterPrevious(chance.between(0, 60_000)),
            if chance.once_in(2) {
                Action::EditWorkload(0, Edit::Spec)
            } else {
                Action::Kill(0, chance.between(100, 20_000))
            },
        ));
    }
    (setting, actions)
}

/// A gate says never of the first attempts. An edit of the clauses is another attempt, which the gate passes.
pub fn never_in_the_first_attempt(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let manner = Manner {
        seed: 1,
        ..Manner::drawn(chance, Kind::Late)
    };
    let setting = setting(chance, manner);
    let mut actions = vec![(
        When::AfterOpen(0, chance.between(10_000, 60_000)),
        Action::EditPolicy(PolicyEdit::Clause),
    )];
    if chance.once_in(2) {
        actions.push((
            When::AfterPrevious(chance.between(0, 60_000)),
            Action::EditPolicy(PolicyEdit::Clause),
        ));
    }
    (setting, actions)
}

/// A gate of a stage does not take its config, from the beginning or after a user has put it right in vain.
pub fn wrong_config(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let manner = Manner {
        is_wrong: true,
        ..Manner::drawn(chance, Kind::Moody)
    };
    let mut setting = setting(chance, manner);
    if chance.once_in(2) {
        setting.gates.push(vec![manner]);
    }
    let actions = vec![(
        When::At(chance.between(0, 100_000)),
        if chance.once_in(2) {
            Action::EditWorkload(0, Edit::Spec)
        } else {
            Action::EditPolicy(PolicyEdit::Gates)
        },
    )];
    (setting, actions)
}

/// Only a gate asks for health, and a cluster gives a rollout up.
pub fn health(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let manner = Manner {
        lasts_ms: None,
        ..Manner::drawn(chance, Kind::Health)
    };
    let setting = Setting {
        ignores_health: true,
        short_deadlines: true,
        objects: vec![Resource::Deployment],
        gates: vec![vec![manner]; 1 + chance.below(2)],
        ..setting(chance, manner)
    };
    let actions = vec![
        (When::At(0), Action::EditWorkload(0, Edit::Broken)),
        (
            When::At(chance.between(30_000, 120_000)),
            Action::EditWorkload(0, Edit::Metadata),
        ),
    ];
    (setting, actions)
}
