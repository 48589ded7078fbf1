//! What tells of a run: names of actions, and smaller scripts.

use std::collections::BTreeSet;

use stagegate_simulation::coverage::{Coverage, Moment, Reached};
use stagegate_simulation::run::run;
use stagegate_simulation::script::{Action, Script, When};
use stagegate_simulation::shrink::shrunk;

#[test]
fn every_kind_of_action_is_drawn_and_listed() {
    let drawn = (1..20_000).flat_map(|seed| Script::drawn(seed).actions);
    let drawn: BTreeSet<String> = drawn.map(|(_, action)| action.kind()).collect();
    assert_eq!(drawn, Action::kinds().into_iter().collect());
}

#[test]
fn what_was_reached_is_not_listed_as_missing() {
    let outcome = run(&Script::drawn(1), false);
    let reached: BTreeSet<Reached> = outcome.coverage.counts().map(|(reached, _)| reached.clone()).collect();
    assert!(
        reached.contains(&Reached::Reason("Completed".to_owned())),
        "{reached:?}"
    );
    let missing: BTreeSet<Reached> = outcome.coverage.missing().into_iter().collect();
    assert!(reached.is_disjoint(&missing));
    let all = Coverage::default().missing();
    assert!(all.contains(&Reached::Pair("Kill".to_owned(), Moment::Soaking)));
}

#[test]
fn a_script_is_shrunk_to_what_it_is_needed_for() {
    let is_killed = |(_, action): &(When, Action)| matches!(action, Action::Kill(..));
    let seed = (1..).find(|seed| {
        let script = Script::drawn(*seed);
        script.setting.has_condition && script.actions.len() > 4 && script.actions.iter().any(is_killed)
    });
    let breaks = |script: &Script| script.setting.has_condition && script.actions.iter().any(is_killed);
    let script = shrunk(&Script::drawn(seed.unwrap()), breaks);
    assert_eq!(script.actions.len(), 1, "{:?}", script.actions);
    assert!(is_killed(&script.actions[0]));
    assert!(script.setting.has_condition);
    assert_eq!(script.setting.clusters, [1, 1]);
    assert_eq!(script.setting.objects.len(), 1);
}
