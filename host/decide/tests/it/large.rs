//! Policies so large that status has no room for all that is known of them.

use serde_json::{Value, json};
use stagegate_decide::staging::Write;

use crate::world::{Answers, Change, Outcome, base, joined, settle, short, status_after};

/// So many names of so many characters do not fit beside each other into half of the room for pending updates.
const CLUSTERS: usize = 600;

fn cluster(n: usize) -> String {
    format!("{n:04}-{}", "long-name".repeat(26))
}

/// The base world, its stage in many clusters.
fn in_many_clusters() -> Value {
    let mut world = base();
    let names: Vec<String> = (0..CLUSTERS).map(cluster).collect();
    let destinations: Vec<Value> = names.iter().map(|name| json!({"clusterId": name})).collect();
    let members = names.iter().map(|name| format!("cluster {name}"));
    let members: Vec<String> = members.chain(["deployments.apps default/web".to_owned()]).collect();
    world["policy"]["object"]["status"]["stages"][0]["destinations"] = json!(names);
    world["bindings"]["shop.stage.dev"]["observed"]["members"] = json!(members);
    world["bindings"]["shop.stage.dev"]["object"]["object"]["spec"]["destinations"] = json!(destinations);
    set_rows(&mut world, |_| ("2026-01-01T00:00:05Z", "1"));
    world
}

/// What each cluster has reported: when, and which generation.
fn set_rows(world: &mut Value, reported: impl Fn(usize) -> (&'static str, &'static str)) {
    let text = |text: &str| json!({"type": "String", "string": text});
    let object = &mut world["combined"]["default/web-uid.dev-uid"]["object"];
    let version = object["metadata"]["resourceVersion"]
        .as_str()
        .and_then(|text| text.parse::<u64>().ok());
    object["metadata"]["resourceVersion"] = json!((version.unwrap() + 1).to_string());
    let rows = (0..CLUSTERS).map(|n| {
        let (at, generation) = reported(n);
        let conditions =
            json!({"type": "Object", "object": ["Available=True", "Progressing=True:NewReplicaSetAvailable"]});
        let counts = std::iter::repeat_n(text("1"), 5);
        let cells = [text(&cluster(n)), text(at), text(generation)]
            .into_iter()
            .chain(counts);
        json!({"columns": cells.chain([text(""), conditions]).collect::<Vec<_>>()})
    });
    object["results"][1]["rows"] = rows.collect();
}

fn update(world: &mut Value, generation: i64) -> Answers {
    let version = (40 + generation).to_string();
    let binding = &mut world["bindings"]["shop.stage.dev"]["object"]["object"];
    binding["spec"]["workload"]["namespaceScope"][0]["resourceVersion"] = json!(version);
    let objects = json!({"deployments.apps default/web": {
        "uid": "web-uid", "resourceVersion": version, "generation": generation, "metadataDigest": "first",
        "editedAt": format!("2026-01-01T00:09:5{generation}Z"),
    }});
    serde_json::from_value(json!({"objects": objects})).unwrap()
}

fn decided(world: &Value, answers: &Answers) -> Outcome {
    settle(world.clone(), None, answers, &Change::default()).unwrap()
}

/// The world with the status that came of it.
fn after(mut world: Value, outcome: &Outcome, now: &str) -> Value {
    world["policy"]["object"]["status"] = joined(&status_after(&outcome.plan, &outcome.facts));
    world["now"] = json!(now);
    world
}

fn opens(outcome: &Outcome) -> bool {
    outcome
        .plan
        .writes
        .iter()
        .any(|write| short(write) == "open shop.stage.prod")
}

fn pending(outcome: &Outcome) -> Value {
    json!(status_after(&outcome.plan, &outcome.facts).stages[0].objects[0].pending_updates)
}

#[test]
fn an_update_of_which_status_has_no_room_for_the_names_is_owed_until_the_last_cluster_acknowledges_it() {
    let mut world = in_many_clusters();
    let answers = update(&mut world, 2);
    let outcome = decided(&world, &answers);
    let entry = pending(&outcome)[0].clone();
    assert_eq!(
        (
            &entry["clusters"],
            &entry["unacknowledged"],
            &entry["observedGeneration"]
        ),
        (&json!([]), &json!(1), &json!("1"))
    );
    assert!(!opens(&outcome));

    let last = CLUSTERS - 1;
    let mut world = after(world, &outcome, "2026-01-01T00:10:20Z");
    set_rows(&mut world, |n| {
        if n == last {
            ("2026-01-01T00:00:05Z", "1")
        } else {
            ("2026-01-01T00:10:10Z", "2")
        }
    });
    let outcome = decided(&world, &answers);
    assert_eq!(
        pending(&outcome)[0],
        entry,
        "one has not, and nothing is written of those that have"
    );
    assert!(!opens(&outcome));

    let mut world = after(world, &outcome, "2026-01-01T00:10:40Z");
    set_rows(&mut world, |_| ("2026-01-01T00:10:30Z", "2"));
    let outcome = decided(&world, &answers);
    assert_eq!(pending(&outcome), json!([]));
    assert!(opens(&outcome));
}

#[test]
fn beside_an_update_without_names_an_object_that_is_new_owes_what_its_reports_are_too_old_for() {
    let mut world = in_many_clusters();
    update(&mut world, 2);
    world["placements"]["shop.stage.dev"]["object"]["metadata"]["creationTimestamp"] = json!("2026-01-01T00:09:55Z");
    let bound = &mut world["bindings"]["shop.stage.dev"]["object"]["object"]["spec"]["workload"]["namespaceScope"];
    let mut api = bound[0].clone();
    (api["name"], api["resourceVersion"]) = (json!("api"), json!("41"));
    bound.as_array_mut().unwrap().push(api);
    let mut combined = world["combined"]["default/web-uid.dev-uid"].clone();
    combined["object"]["metadata"]["name"] = json!("api-uid.dev-uid");
    combined["object"]["metadata"]["labels"]["status.kubestellar.io/name"] = json!("api");
    world["combined"]["default/api-uid.dev-uid"] = combined;
    let meta = |uid: &str, version: &str, at: &str| json!({"uid": uid, "resourceVersion": version, "generation": 2, "metadataDigest": "first", "editedAt": at});
    let objects = json!({
        "deployments.apps default/web": meta("web-uid", "42", "2026-01-01T00:09:52Z"),
        "deployments.apps default/api": meta("api-uid", "41", "2026-01-01T00:09:50Z"),
    });
    let answers: Answers = serde_json::from_value(json!({"objects": objects})).unwrap();
    let outcome = decided(&world, &answers);
    let known = json!(status_after(&outcome.plan, &outcome.facts).stages[0].objects);
    assert_eq!(
        known[0]["pendingUpdates"][0]["clusters"],
        json!([]),
        "web has no room for names"
    );
    assert_eq!(
        known[1]["pendingUpdates"][0]["clusters"].as_array().map(Vec::len),
        Some(CLUSTERS)
    );
    assert!(!opens(&outcome));
}

#[test]
fn of_two_updates_each_moves_the_generation_or_nothing_follows_for_two_minutes() {
    let mut world = in_many_clusters();
    world["watchingSince"] = json!("2026-01-01T00:00:00Z");
    update(&mut world, 2);
    let answers = update(&mut world, 3);
    let outcome = decided(&world, &answers);
    assert_eq!(pending(&outcome)[0]["unacknowledged"], json!(2));

    let mut world = after(world, &outcome, "2026-01-01T00:10:20Z");
    set_rows(&mut world, |_| ("2026-01-01T00:10:10Z", "2"));
    assert!(!opens(&decided(&world, &answers)), "it may be the first one");
    world["now"] = json!("2026-01-01T00:12:10Z");
    assert!(!opens(&decided(&world, &answers)), "the second one may be on its way");
    set_rows(&mut world, |_| ("2026-01-01T00:10:11Z", "2"));
    world["now"] = json!("2026-01-01T00:12:11Z");
    assert!(opens(&decided(&world, &answers)), "transport has merged them");

    world["now"] = json!("2026-01-01T00:10:20Z");
    set_rows(&mut world, |_| ("2026-01-01T00:10:10Z", "3"));
    assert!(opens(&decided(&world, &answers)));
}

#[test]
fn a_cluster_that_reported_another_generation_or_has_joined_is_named() {
    let mut world = in_many_clusters();
    set_rows(&mut world, |n| ("2026-01-01T00:00:05Z", if n == 7 { "5" } else { "1" }));
    let answers = update(&mut world, 2);
    let outcome = decided(&world, &answers);
    let updates = pending(&outcome);
    assert_eq!(
        (&updates[0]["clusters"], &updates[0]["except"]),
        (&json!([]), &json!([cluster(7)]))
    );
    assert_eq!(
        (&updates[1]["clusters"], &updates[1]["observedGeneration"]),
        (&json!([cluster(7)]), &json!("5"))
    );

    // The last cluster was not accepted before.
    let mut world = after(world, &outcome, "2026-01-01T00:10:20Z");
    let last = CLUSTERS - 1;
    world["policy"]["object"]["status"]["stages"][0]["destinations"]
        .as_array_mut()
        .unwrap()
        .pop();
    set_rows(&mut world, |n| match n {
        7 => ("2026-01-01T00:10:10Z", "6"),
        n if n == last => ("2026-01-01T00:10:10Z", "1"),
        _ => ("2026-01-01T00:10:10Z", "2"),
    });
    let updates = pending(&decided(&world, &answers));
    assert_eq!(
        updates[0]["clusters"],
        json!([cluster(last)]),
        "another BindingPolicy may have brought what it reports"
    );
    world["now"] = json!("2026-01-01T00:12:20Z");
    assert_eq!(
        pending(&decided(&world, &answers)),
        json!([]),
        "so long after the update, transport has nothing older to deliver"
    );
    world["now"] = json!("2026-01-01T00:10:20Z");
    set_rows(&mut world, |n| match n {
        7 => ("2026-01-01T00:10:10Z", "6"),
        n if n == last => ("2026-01-01T00:00:05Z", "1"),
        _ => ("2026-01-01T00:10:10Z", "2"),
    });
    let updates = pending(&decided(&world, &answers));
    assert_eq!(
        updates[0]["clusters"],
        json!([cluster(last)]),
        "its report is from before the update"
    );
    // Rows are in the order of the clusters.
    let rows = &mut world["combined"]["default/web-uid.dev-uid"]["object"]["results"][1]["rows"];
    rows.as_array_mut().unwrap().pop();
    let updates = pending(&decided(&world, &answers));
    assert_eq!(
        (&updates[0]["clusters"], &updates[0]["unacknowledged"]),
        (&json!([cluster(last)]), &json!(2)),
        "its first report may be about the version before"
    );
}

#[test]
fn a_policy_of_which_status_has_no_room_for_the_stages_stalls_with_the_numbers_and_moves_nothing() {
    let mut world = base();
    let object = |n: usize| {
        let name = format!("{n:04}-{}", "long-name".repeat(26));
        json!({"group": "apps", "resource": "deployments", "namespace": "default", "name": name, "uid": name, "generation": 1, "resourceVersion": "41", "baseline": "50"})
    };
    let web = world["policy"]["object"]["status"]["stages"][0]["objects"][0].clone();
    let objects: Vec<Value> = std::iter::once(web).chain((1..1_024).map(object)).collect();
    let stages = &mut world["policy"]["object"]["status"]["stages"];
    stages[0]["objects"] = json!(objects);
    let passing: Vec<String> = (0..8).map(|n| format!("stage-{n}")).collect();
    stages[0]["passingSince"] = json!("2026-01-01T00:01:00Z");
    let mut more: Vec<Value> = passing
        .iter()
        .map(|name| json!({"name": name, "state": "Passed", "revision": "$revision", "bindingPolicy": {"name": format!("shop.stage.{name}"), "uid": format!("{name}-uid")}, "objects": objects}))
        .collect();
    stages.as_array_mut().unwrap().append(&mut more);
    for name in passing {
        let mut placement = world["placements"]["shop.stage.dev"].clone();
        placement["object"]["metadata"]["name"] = json!(format!("shop.stage.{name}"));
        placement["object"]["metadata"]["uid"] = json!(format!("{name}-uid"));
        world["placements"][format!("shop.stage.{name}")] = placement;
        let stages = &mut world["policy"]["object"]["spec"]["stages"];
        let stage = json!({"name": name, "clusterSelectors": [{"matchLabels": {"env": "dev"}}]});
        stages.as_array_mut().unwrap().insert(0, stage);
    }
    world["policy"]["object"]["spec"]["previousStages"] = json!("Keep");
    let outcome = decided(&world, &Answers::default());
    let status = status_after(&outcome.plan, &outcome.facts);
    assert_eq!(status.reason.as_deref(), Some("StatusTooLarge"));
    let stalled = status.conditions.iter().find(|it| it.type_ == "Stalled").unwrap();
    assert!(
        stalled.status == "True" && stalled.message.contains("10 stages with 8194 objects"),
        "{}",
        stalled.message
    );
    assert!(
        outcome
            .plan
            .writes
            .iter()
            .all(|write| matches!(write, Write::Status { .. }))
    );
    assert_eq!(status.stages[0].objects.len(), 1_024, "what is known stays");
    assert_eq!(status.stages[0].passing_since, None);
}
