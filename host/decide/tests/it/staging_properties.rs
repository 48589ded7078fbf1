//! What must hold of every decision, tried on the worlds of all cases and on seeded changes of them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use stagegate_api::staged_status::MAX_RECORDED;
use stagegate_decide::precondition::Precondition;
use stagegate_decide::staging::{Plan, Verdict, Write, decide};

use crate::seeded::Seeded;
use crate::staging::beginnings;
use crate::world::{self, Answers, Change, Outcome, settle, short, status_after};

const COMBINED: &str = "/combined/default~1web-uid.dev-uid/object";
const DEV: &str = "/placements/shop.stage.dev/object";
const BINDING: &str = "/bindings/shop.stage.dev";

pub fn world_in(names: &[&str]) -> Value {
    let mut world = world::base();
    for name in names {
        Change::named(name).unwrap().apply(&mut world).unwrap();
    }
    world
}

pub fn set(pointer: String, value: Value) -> Change {
    Change {
        unset: Vec::new(),
        set: BTreeMap::from([(pointer, value)]),
    }
}

pub fn unset(pointer: String) -> Change {
    Change {
        unset: vec![pointer],
        set: BTreeMap::new(),
    }
}

/// Proof taken away from the first stage: rows, results, objects, versions, owners.
pub fn losses() -> Vec<Change> {
    let row = |index: usize| format!("{COMBINED}/results/1/rows/{index}");
    let cell = |index: usize, column: usize| format!("{}/columns/{column}/string", row(index));
    let invalid = || json!({"invalid": {"error": "torn"}});
    let mut losses = vec![
        unset("/combined/default~1web-uid.dev-uid".to_owned()),
        set("/combined/default~1web-uid.dev-uid".to_owned(), invalid()),
        set(format!("{BINDING}/object"), invalid()),
        set("/placements/shop.stage.dev".to_owned(), invalid()),
        set("/placements/shop.stage.prod".to_owned(), invalid()),
        set("/policy/invalid".to_owned(), json!("torn")),
        set(format!("{BINDING}/object"), Value::Null),
        unset(BINDING.to_owned()),
        unset("/collectors/available".to_owned()),
        unset("/evidenceCollector".to_owned()),
        set("/evidenceCollector/object/spec".to_owned(), json!({"limit": 20})),
        set("/evidenceCollector/object/metadata/labels".to_owned(), json!({})),
        set(
            format!("{COMBINED}/results/0/rowErrors"),
            json!([{"wec": {"clusterId": "dev-1"}, "columnName": "sum", "error": "e"}]),
        ),
        set(
            format!("{COMBINED}/results/1/rowErrors"),
            json!([{"wec": {"clusterId": "dev-1"}, "columnName": "at", "error": "e"}]),
        ),
        set(
            format!("{COMBINED}/results/0/aggregationErrors"),
            json!([{"columnName": "sum", "error": "e"}]),
        ),
        set(
            format!("{COMBINED}/results/0/rows/0/columns/0"),
            json!({"type": "String", "string": "failed to evaluate"}),
        ),
        set(format!("{COMBINED}/results/0/name"), json!("other")),
        set(
            format!("{COMBINED}/results/1/name"),
            json!("stagegate-evidence-00000000"),
        ),
        set(format!("{COMBINED}/metadata/resourceVersion"), json!("1")),
        set(format!("{COMBINED}/metadata/resourceVersion"), json!("")),
        set(format!("{COMBINED}/metadata/labels"), json!({})),
        set(format!("{DEV}/status/observedGeneration"), json!(1)),
        set(format!("{DEV}/metadata/uid"), json!("")),
        set(format!("{DEV}/metadata/resourceVersion"), json!("")),
        set(format!("{DEV}/metadata/ownerReferences"), json!([])),
        set(
            format!("{BINDING}/object/object/metadata/ownerReferences/0/uid"),
            json!("older"),
        ),
        set(
            format!("{BINDING}/object/object/spec/workload/namespaceScope/0/statusCollectors"),
            json!([]),
        ),
        Change {
            unset: vec![format!("{BINDING}/object/object/spec/destinations/1")],
            set: BTreeMap::from([(format!("{BINDING}/observed/since"), json!("2026-01-01T00:10:00Z"))]),
        },
        Change {
            unset: vec![format!("{BINDING}/object/object/spec/workload/namespaceScope/0")],
            set: BTreeMap::from([(format!("{BINDING}/observed/since"), json!("2026-01-01T00:10:00Z"))]),
        },
    ];
    for index in 0..2 {
        losses.push(unset(row(index)));
        losses.push(set(format!("{}/columns", row(index)), json!([])));
        losses.push(set(cell(index, 0), json!("")));
        losses.push(set(cell(index, 1), json!("")));
        losses.push(set(cell(index, 1), json!("1970-01-01T00:00:00Z")));
        losses.push(set(cell(index, 1), json!("0001-01-01T00:00:00Z")));
        losses.push(set(cell(index, 4), json!("failed to evaluate")));
    }
    losses
}

/// Whether anything is placed, or a stage has newly passed.
pub fn moves(outcome: &Outcome) -> bool {
    let before = outcome.facts.policy.object.status.clone().unwrap_or_default();
    let passed = |stages: &[stagegate_api::StageStatus]| {
        stages
            .iter()
            .filter(|stage| stage.state == stagegate_api::StageState::Passed)
            .count()
    };
    outcome.plan.writes.iter().any(Write::places)
        || passed(&status_after(&outcome.plan, &outcome.facts).stages) > passed(&before.stages)
}

fn outcome(world: Value, answers: &Answers) -> Outcome {
    settle(world, None, answers, &Change::default()).unwrap()
}

#[test]
fn whatever_proof_is_taken_away_nothing_is_placed() {
    let world = world::base();
    assert!(
        moves(&outcome(world.clone(), &Answers::default())),
        "the base world is one that moves"
    );
    for (index, loss) in losses().iter().enumerate() {
        let mut world = world.clone();
        loss.apply(&mut world).unwrap();
        let outcome = outcome(world, &Answers::default());
        assert!(!moves(&outcome), "loss {index}: {:?} {:?}", loss.set, loss.unset);
    }
    for verdict in [
        Verdict::False { because: None },
        Verdict::Unknown {
            message: "no".to_owned(),
        },
    ] {
        let answers = Answers {
            condition: Some(verdict),
            ..Answers::default()
        };
        assert!(!moves(&outcome(world.clone(), &answers)));
    }
}

#[test]
fn more_losses_never_place_what_fewer_did_not() {
    let losses = losses();
    let mut seeded = Seeded::new(1);
    for run in 0..100 {
        let mut order: Vec<usize> = (0..losses.len()).collect();
        seeded.shuffle(&mut order);
        let mut world = world::base();
        let mut applied = Vec::new();
        for index in order.into_iter().take(6) {
            // What an earlier loss took away cannot be taken away again.
            let mut next = world.clone();
            if losses[index].apply(&mut next).is_err() {
                continue;
            }
            world = next;
            applied.push(index);
            if world::facts(world.clone()).is_err() {
                break;
            }
            assert!(
                !moves(&outcome(world.clone(), &Answers::default())),
                "run {run}: losses {applied:?}"
            );
        }
        assert!(!applied.is_empty());
    }
}

#[test]
fn a_placement_is_removed_only_while_the_next_one_has_proof() {
    let pointer = "/combined/default~1web-uid.prod-uid/object";
    let removes = |world: Value| {
        let outcome = outcome(world, &Answers::default());
        outcome
            .plan
            .writes
            .iter()
            .any(|write| matches!(write, Write::Remove { .. }))
    };
    let world = world_in(&["prod-open", "dev-shared"]);
    assert!(removes(world.clone()), "this world is one that removes");
    let losses = [
        unset("/combined/default~1web-uid.prod-uid".to_owned()),
        set(
            "/combined/default~1web-uid.prod-uid".to_owned(),
            json!({"invalid": {"error": "torn"}}),
        ),
        unset(format!("{pointer}/results/1")),
        unset(format!("{pointer}/results/1/rows/1")),
        set(format!("{pointer}/results/1/rows/1/columns/1/string"), json!("")),
        set(
            format!("{pointer}/results/1/rows/1/columns/1/string"),
            json!("1970-01-01T00:00:00Z"),
        ),
        set(
            format!("{pointer}/results/1/rows/1/columns/1/string"),
            json!("0001-01-01T00:00:00Z"),
        ),
        set(
            format!("{pointer}/results/1/rowErrors"),
            json!([{"wec": {"clusterId": "dev-1"}, "columnName": "at", "error": "e"}]),
        ),
        set(format!("{pointer}/metadata/labels"), json!({})),
        set(
            "/bindings/shop.stage.prod/object".to_owned(),
            json!({"invalid": {"error": "torn"}}),
        ),
        set("/bindings/shop.stage.prod/object".to_owned(), Value::Null),
        set(
            "/bindings/shop.stage.prod/object/object/status/observedGeneration".to_owned(),
            json!(1),
        ),
        set(
            "/bindings/shop.stage.prod/object/object/metadata/ownerReferences/0/uid".to_owned(),
            json!("older"),
        ),
        set(
            "/placements/shop.stage.prod/object/status/observedGeneration".to_owned(),
            json!(1),
        ),
        set(
            "/placements/shop.stage.prod".to_owned(),
            json!({"invalid": {"error": "torn"}}),
        ),
        set("/policy/object/spec/paused".to_owned(), json!(true)),
    ];
    for (index, loss) in losses.iter().enumerate() {
        let mut world = world.clone();
        loss.apply(&mut world).unwrap();
        assert!(!removes(world), "loss {index}");
    }
}

#[test]
fn order_means_nothing() {
    let mut seeded = Seeded::new(2);
    for (name, world, answers, anew) in beginnings() {
        let before = settle(world.clone(), None, &answers, &anew).unwrap();
        let mut shuffled = world;
        for list in ["/bindings", "/combined"] {
            shuffle_lists(&mut seeded, shuffled.pointer_mut(list).unwrap_or(&mut Value::Null));
        }
        // A case may change a row by its place when it reads anew.
        if !anew.set.is_empty() {
            continue;
        }
        let after = settle(shuffled, None, &answers, &anew).unwrap();
        // Which of several missing proofs is named first may depend on the order.
        let seen = |outcome: &Outcome| {
            let status = status_after(&outcome.plan, &outcome.facts);
            let writes: Vec<String> = outcome.plan.writes.iter().map(short).collect();
            (writes, status.phase, outcome.plan.wake_at)
        };
        assert_eq!(seen(&before), seen(&after), "{name}");
    }
}

/// Rows, results, destinations and objects, but not the columns of a row, whose order is their meaning.
fn shuffle_lists(seeded: &mut Seeded, value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.iter_mut().for_each(|item| shuffle_lists(seeded, item));
            seeded.shuffle(items);
        }
        Value::Object(members) => {
            let members = members
                .iter_mut()
                .filter(|(key, _)| *key != "columns" && *key != "columnNames");
            members.for_each(|(_, member)| shuffle_lists(seeded, member));
        }
        _ => {}
    }
}

#[test]
fn nothing_is_written_twice() {
    for (name, world, answers, anew) in beginnings() {
        let first = settle(world, None, &answers, &anew).unwrap();
        let mut world = first.world.clone();
        world["policy"]["object"]["status"] = world::joined(&status_after(&first.plan, &first.facts));
        let second = settle(world.clone(), Some(&first.facts), &answers, &Change::default()).unwrap();
        let known = second.facts.policy.object.status.clone();
        let again = second.plan.writes.iter().any(|write| match write {
            Write::Status { status, .. } => Some(status.as_ref()) != known.as_ref(),
            _ => false,
        });
        // What was created, opened or removed is not in the world yet, so the same is to be done again.
        let deeds = |plan: &Plan| {
            let deeds = plan
                .writes
                .iter()
                .filter(|write| !matches!(write, Write::Status { .. }));
            deeds.map(short).collect::<Vec<_>>()
        };
        assert!(!again, "{name}: {:?}", second.plan.writes);
        assert_eq!(deeds(&first.plan), deeds(&second.plan), "{name}");
    }
}

#[test]
fn every_write_is_conditional_on_a_version_that_was_read() {
    let mut seen = 0;
    for (name, world, answers, anew) in beginnings() {
        let outcome = settle(world, None, &answers, &anew).unwrap();
        for write in &outcome.plan.writes {
            let Some(Precondition { uid, resource_version }) = precondition(write) else {
                continue;
            };
            assert!(!uid.is_empty() && !resource_version.is_empty(), "{name}: {write:?}");
            seen += 1;
        }
    }
    assert!(seen > 200, "{seen} conditional writes");
}

/// A create carries none: it fails where there is something of its name, and places nothing.
fn precondition(write: &Write) -> Option<&Precondition> {
    match write {
        Write::CreateEvidenceCollector(_) => None,
        Write::CreateClosed(policy) => {
            assert!(policy.spec.cluster_selectors.is_empty(), "{policy:?}");
            None
        }
        Write::Open(placement) | Write::Update(placement) | Write::Adopt(placement) | Write::Fence(placement) => {
            Some(&placement.precondition)
        }
        Write::Release(hold) | Write::Hold(hold) => Some(&hold.precondition),
        Write::Unhold { precondition, .. }
        | Write::RestoreEvidenceCollector { precondition, .. }
        | Write::Remove { precondition, .. }
        | Write::Status { precondition, .. } => Some(precondition),
    }
}

#[test]
fn a_placement_is_always_announced_by_status_first() {
    for (name, world, answers, anew) in beginnings() {
        let outcome = settle(world, None, &answers, &anew).unwrap();
        if outcome.plan.writes.iter().any(Write::places) {
            assert!(matches!(outcome.plan.writes[0], Write::Status { .. }), "{name}");
        }
        let placed = outcome.plan.writes.iter().filter(|write| write.places()).count();
        assert!(placed <= 1, "{name}: one placement at a time");
    }
}

#[test]
fn a_torn_world_is_decided_on_without_harm() {
    let mut seeded = Seeded::new(3);
    let mut decided = 0;
    for (name, world, answers, _) in beginnings() {
        for _ in 0..6 {
            let mut torn = world.clone();
            let mut leaves = Vec::new();
            collect_leaves(&torn, &mut String::new(), &mut leaves);
            let leaf = leaves[seeded.below(leaves.len())].clone();
            let values = [
                json!(""),
                json!(null),
                json!("0"),
                json!(i64::MAX),
                json!("9999-12-30T22:00:00Z"),
                json!("-009999-01-02T01:59:59Z"),
                json!("1970-01-01T00:00:00Z"),
                json!([]),
            ];
            *torn.pointer_mut(&leaf).unwrap() = values[seeded.below(values.len())].clone();
            // Many such worlds are no facts at all; decoding them is not what is tried here.
            let Ok(outcome) = settle(torn, None, &answers, &Change::default()) else {
                continue;
            };
            decided += 1;
            for precondition in outcome.plan.writes.iter().filter_map(precondition) {
                assert!(!precondition.uid.is_empty(), "{name}: {leaf}");
                assert!(!precondition.resource_version.is_empty(), "{name}: {leaf}");
            }
        }
    }
    assert!(decided > 500, "{decided} worlds decided on");
}

fn collect_leaves(value: &Value, at: &mut String, leaves: &mut Vec<String>) {
    let length = at.len();
    let members: Vec<(String, &Value)> = match value {
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| (index.to_string(), item))
            .collect(),
        Value::Object(members) => members.iter().map(|(key, member)| (key.clone(), member)).collect(),
        _ => return leaves.push(at.clone()),
    };
    for (key, member) in members {
        at.push('/');
        at.push_str(&key.replace('~', "~0").replace('/', "~1"));
        collect_leaves(member, at, leaves);
        at.truncate(length);
    }
}

#[test]
fn decisions_share_nothing_and_wait_for_nobody() {
    let worlds: Vec<Value> = beginnings()
        .into_iter()
        .map(|(_, world, _, _)| world)
        .take(50)
        .collect();
    let facts: Vec<_> = worlds.into_iter().map(|world| world::facts(world).unwrap()).collect();
    let alone: Vec<String> = facts.iter().map(|facts| json!(decide(facts)).to_string()).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for (facts, alone) in facts.iter().zip(&alone) {
                    assert_eq!(json!(decide(facts)).to_string(), *alone);
                }
            });
        }
    });
}

#[test]
fn a_combined_status_too_large_to_be_stored_is_not_judged() {
    let mut world = world::base();
    let long = "x".repeat(stagegate_decide::staging::COMBINED_STATUS_BYTES_MAX);
    set(
        format!("{COMBINED}/results/0/rows/0/columns/0"),
        json!({"type": "String", "string": long}),
    )
    .apply(&mut world)
    .unwrap();
    let outcome = outcome(world, &Answers::default());
    assert_eq!(
        status_after(&outcome.plan, &outcome.facts).reason.as_deref(),
        Some("CombinedStatusTooLarge")
    );
}

#[test]
fn a_binding_of_more_clusters_than_status_can_record_is_not_judged() {
    let mut world = world::base();
    let clusters: Vec<Value> = (0..=1024)
        .map(|number| json!({"clusterId": format!("dev-{number}")}))
        .collect();
    set(format!("{BINDING}/object/object/spec/destinations"), json!(clusters))
        .apply(&mut world)
        .unwrap();
    let outcome = outcome(world, &Answers::default());
    assert_eq!(
        status_after(&outcome.plan, &outcome.facts).reason.as_deref(),
        Some("TooManyObjects")
    );
}

#[test]
fn a_long_list_of_objects_that_prove_nothing_ends_in_a_number() {
    let mut world = world::base();
    for number in 0..70 {
        let object = json!({
            "group": "", "version": "v1", "resource": "configmaps", "namespace": "default", "name": format!("settings-{number}"),
            "resourceVersion": "1",
        });
        set(
            format!("{BINDING}/object/object/spec/workload/namespaceScope/-"),
            object,
        )
        .apply(&mut world)
        .unwrap();
    }
    let outcome = outcome(world, &Answers::default());
    let not_evaluated = status_after(&outcome.plan, &outcome.facts).stages[0]
        .not_evaluated
        .clone();
    assert_eq!((not_evaluated.len(), not_evaluated[63].as_str()), (64, "and 7 more"));
}

#[test]
fn status_holds_no_more_objects_than_the_crd_takes_however_many_have_come_and_gone() {
    let gone = |number: usize| json!({"group": "", "resource": "configmaps", "namespace": "default", "name": format!("settings-{number}"), "uid": format!("settings-{number}"), "metadataDigest": "first", "resourceVersion": "1", "collectors": [], "baseline": "50"});
    for worlds in [
        &["prod-open", "dev-removed", "completed"][..],
        &["prod-open", "dev-removed", "prod-judged"],
    ] {
        let mut world = world_in(worlds);
        let objects = "/policy/object/status/stages/1/objects";
        let web = world.pointer(&format!("{objects}/0")).unwrap().clone();
        let known: Vec<Value> = (1..MAX_RECORDED).map(gone).chain([web]).collect();
        set(objects.to_owned(), json!(known)).apply(&mut world).unwrap();
        let new = json!({"group": "", "version": "v1", "resource": "configmaps", "namespace": "default", "name": "settings-new", "resourceVersion": "1"});
        let bound = "/bindings/shop.stage.prod/object/object/spec/workload/namespaceScope/-";
        set(bound.to_owned(), new).apply(&mut world).unwrap();
        set(
            "/bindings/shop.stage.prod/observed/since".to_owned(),
            world["now"].clone(),
        )
        .apply(&mut world)
        .unwrap();
        let outcome = outcome(world, &Answers::default());
        let status = status_after(&outcome.plan, &outcome.facts);
        let names: Vec<&str> = status.stages[1]
            .objects
            .iter()
            .map(|object| object.name.as_str())
            .collect();
        assert!(names.len() <= MAX_RECORDED, "{} objects", names.len());
        assert!(names.contains(&"web") && names.contains(&"settings-new"));
    }
}

#[test]
fn an_entry_of_pending_updates_names_no_more_clusters_than_the_crd_takes() {
    let mut world = world_in(&["prod-open", "dev-removed", "completed"]);
    let names = |prefix: &str| (0..600).map(|number| format!("{prefix}-{number}")).collect::<Vec<_>>();
    let clusters: Vec<Value> = names("new").iter().map(|name| json!({"clusterId": name})).collect();
    let bound = "/bindings/shop.stage.prod/object/object/spec";
    let changes = [
        (format!("{bound}/destinations"), json!(clusters)),
        (
            format!("{bound}/workload/namespaceScope/0/resourceVersion"),
            json!("42"),
        ),
        (
            "/policy/object/status/stages/1/destinations".to_owned(),
            json!(names("old")),
        ),
    ];
    for (pointer, value) in changes {
        set(pointer, value).apply(&mut world).unwrap();
    }
    let edited = json!({"objects": {"deployments.apps default/web": {"uid": "web-uid", "resourceVersion": "42", "generation": 2, "metadataDigest": "first"}}});
    let outcome = outcome(world, &serde_json::from_value(edited).unwrap());
    let status = status_after(&outcome.plan, &outcome.facts);
    let named: Vec<usize> = status.stages[1].objects[0]
        .pending_updates
        .iter()
        .map(|update| update.clusters.len())
        .collect();
    assert_eq!(named.iter().sum::<usize>(), 1200);
    assert!(named.iter().all(|named| *named <= MAX_RECORDED), "{named:?}");
}
