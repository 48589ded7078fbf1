//! What status says of a stage that goes on, has given up, or is not evaluated. Must not carry anything out.

use crate::script::{Action, Edit, Setting, When};
use crate::seeded::Seeded;
use crate::server::Resource;

fn setting(chance: &mut Seeded, objects: Vec<Resource>) -> Setting {
    Setting {
        clusters: vec![1 + chance.below(2), 1],
        shares: vec![false, false],
        objects,
        ..Setting::default()
    }
}

/// A rollout does not go on, and its cluster says after a while that it has given it up.
pub fn given_up(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        short_deadlines: true,
        ..setting(chance, vec![Resource::Deployment])
    };
    let actions = vec![
        (
            When::At(chance.between(0, 30_000)),
            Action::EditWorkload(0, Edit::Broken),
        ),
        (
            When::AfterPrevious(chance.between(30_000, 200_000)),
            Action::EditWorkload(0, Edit::Spec),
        ),
    ];
    (setting, actions)
}

/// A Job that runs for a while, alone or beside something else.
pub fn job(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let mut objects = vec![Resource::Job];
    if chance.once_in(3) {
        objects.push(Resource::Deployment);
    }
    let setting = Setting {
        slow_rollouts: true,
        short_deadlines: true,
        ..setting(chance, objects)
    };
    let actions = vec![(
        When::At(chance.between(0, 60_000)),
        Action::EditWorkload(0, Edit::Metadata),
    )];
    (setting, actions)
}

/// So much is bound that what is known of it has no room in status.
pub fn crowd(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        clusters: vec![1; 2],
        keeps_previous: true,
        // As many as are too much in the first stage, so that no status is ever that large; and few, because such runs are slow.
        crowd: if chance.once_in(3) { 66 } else { 6 },
        ..setting(chance, vec![Resource::Deployment])
    };
    let actions = vec![(
        When::At(chance.between(0, 60_000)),
        Action::EditWorkload(0, Edit::Metadata),
    )];
    (setting, actions)
}

/// An object that no cluster reports on has a name that changes a terminal.
pub fn hostile_names(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = setting(chance, vec![Resource::Deployment, Resource::Role]);
    let actions = vec![(When::At(chance.between(0, 60_000)), Action::EditWorkload(0, Edit::Spec))];
    (setting, actions)
}
