//! Nothing fails and no cluster is away: the rollout completes within a stated time. Must not carry anything out.

use super::{Plot, later, small};
use crate::queue::Millis;
use crate::script::{Action, Edit, Setting, When};
use crate::seeded::Seeded;

pub const PLOTS: &[Plot] = &[
    updated_for_the_first_time,
    updated_after_a_cluster_joined,
    joins_with_the_version_of_an_update,
    updated_without_a_time_while_nothing_can_be_read,
];

/// The longest that a rollout takes that has no silence to wait for.
const AT_ONCE_MS: Millis = 90_000;

/// The object is updated for the first time when the first stage's cluster has reported the version before.
fn updated_for_the_first_time(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        done_within_ms: AT_ONCE_MS,
        ..small(vec![1, 1])
    };
    let when = When::AfterOpen(0, chance.between(6_000, 8_500));
    (setting, vec![(when, Action::EditWorkload(0, Edit::Spec))])
}

/// A cluster of the second stage is labelled for the first one, has reported, and the object is updated.
fn updated_after_a_cluster_joined(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        soak: Some("1m"),
        // Two minutes more if a cluster of the second stage reports in the very second of its opening.
        done_within_ms: 4 * AT_ONCE_MS,
        ..small(vec![1, 2])
    };
    let actions = vec![
        (When::AfterOpen(0, chance.between(14_000, 30_000)), Action::Relabel(1)),
        (later(chance, 8_000, 15_000), Action::EditWorkload(0, Edit::Spec)),
    ];
    (setting, actions)
}

/// The object is updated, and then a cluster that has none of it is labelled for the stage. Its first report comes late.
fn joins_with_the_version_of_an_update(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        soak: Some("1m"),
        slow_reports: true,
        done_within_ms: 5 * AT_ONCE_MS,
        ..small(vec![1, 2])
    };
    let actions = vec![
        (
            When::AfterOpen(0, chance.between(28_000, 42_000)),
            Action::EditWorkload(0, Edit::Spec),
        ),
        (later(chance, 4_000, 15_000), Action::Relabel(1)),
    ];
    (setting, actions)
}

/// While no workload object can be read, an update that leaves no time is made, and a cluster that gets it some seconds later reports on it.
fn updated_without_a_time_while_nothing_can_be_read(chance: &mut Seeded) -> (Setting, Vec<(When, Action)>) {
    let setting = Setting {
        soak: Some("1m"),
        done_within_ms: 5 * AT_ONCE_MS,
        ..small(vec![1, 1])
    };
    let actions = vec![
        (
            When::AfterOpen(0, chance.between(14_000, 30_000)),
            Action::RefuseReads(chance.between(35_000, 45_000)),
        ),
        (
            When::AfterPrevious(0),
            Action::Undelivered(0, chance.between(14_000, 18_000)),
        ),
        (later(chance, 500, 1_000), Action::EditWorkload(0, Edit::Removal)),
    ];
    (setting, actions)
}
