//! Which BindingPolicies a reading asks for.

use serde_json::{Value, json};
use stagegate_decide::staging::placements_to_read;

use crate::staging_properties::{set, world_in};
use crate::world;

const DEV: &str = "shop.stage.dev";
const PROD: &str = "shop.stage.prod";

/// What it is about, what is different, and what is read.
type Row<'a> = (&'a str, &'a [(&'a str, Value)], &'a [&'a str]);

/// In the world where the second stage is open and the first one has passed, with these changes; `null` takes away.
fn read_in(changes: &[(&str, Value)]) -> Vec<String> {
    let mut world = world_in(&["prod-open"]);
    for (pointer, value) in changes {
        set((*pointer).to_owned(), value.clone()).apply(&mut world).unwrap();
    }
    for placement in [DEV, PROD] {
        let placements = world["placements"].as_object_mut().unwrap();
        placements.retain(|name, value| name != placement || !value.is_null());
    }
    placements_to_read(&world::facts(world).unwrap()).into_iter().collect()
}

#[test]
fn a_placement_is_read_if_it_is_judged_or_the_watch_differs_from_what_status_records() {
    let closed = json!([]);
    let dev_selectors = "/placements/shop.stage.dev/object/spec/clusterSelectors";
    let prod_selectors = "/placements/shop.stage.prod/object/spec/clusterSelectors";
    let dev_uid = "/placements/shop.stage.dev/object/metadata/uid";
    let dev_record = "/policy/object/status/stages/0/bindingPolicy";
    let prod_state = "/policy/object/status/stages/1/state";
    let rows: &[Row<'_>] = &[
        ("as status has it, what is judged is read", &[], &[PROD]),
        (
            "one that has passed was closed",
            &[(dev_selectors, closed.clone())],
            &[DEV, PROD],
        ),
        (
            "one that has passed was made anew",
            &[(dev_uid, json!("other"))],
            &[DEV, PROD],
        ),
        (
            "one that has passed is gone",
            &[("/placements/shop.stage.dev", Value::Null)],
            &[DEV, PROD],
        ),
        (
            "one whose removal status has recorded is there",
            &[(dev_record, Value::Null)],
            &[DEV, PROD],
        ),
        (
            "an active one is closed",
            &[(prod_selectors, closed.clone())],
            &[DEV, PROD],
        ),
        (
            "a failed one is closed",
            &[(prod_selectors, closed.clone()), (prod_state, json!("Failed"))],
            &[DEV, PROD],
        ),
        (
            "an active one is gone",
            &[("/placements/shop.stage.prod", Value::Null)],
            &[DEV, PROD],
        ),
    ];
    for (what, changes, expected) in rows {
        assert_eq!(read_in(changes), *expected, "{what}");
    }
}

#[test]
fn a_closed_placement_is_not_read_while_its_turn_has_not_come_unless_status_records_nothing_of_it() {
    let mut world = world::base();
    let read = placements_to_read(&world::facts(world.clone()).unwrap());
    assert!(!read.contains(PROD), "{read:?}");
    let stages = world.pointer_mut("/policy/object/status/stages").unwrap();
    stages.as_array_mut().unwrap().pop();
    let read = placements_to_read(&world::facts(world).unwrap());
    assert!(read.contains(PROD), "{read:?}");
}
