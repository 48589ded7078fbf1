//! What the stager written in Go leaves behind, found by a host that starts there: BindingPolicies without annotations and
//! without the host's collector, one, several or none, and an `activeStage` that may say anything. They are adopted,
//! the latest stage that has one is the active one, and no cluster loses what it runs before its turn.

mod cases;

use std::time::Duration;

use kube::ResourceExt as _;
use serde_json::{Value, json};
use stagegate_api::{Phase, annotation, evidence};
use stagegate_embedded::clusters::Presence;

use self::cases::CASES;
use super::Matrix;
use crate::harness::seeded::budget;
use crate::harness::{Pace, World, cluster, deployment_of, shop, workload};

/// How long a rollout of three stages may take.
const ROLLOUT_S: u64 = 240;
/// How long a policy that needs a human is watched.
const WATCHED_S: u64 = 80;

/// A stage that has a BindingPolicy, and what is other about it than the policy would have it now.
type Placed = (&'static str, fn(&mut Value));

struct Case {
    name: &'static str,
    policy: fn() -> String,
    placed: &'static [Placed],
    /// `status.activeStage`; empty: lost.
    says: &'static str,
    then: Then,
}

/// What becomes of it. `truth` says for the clusters of each environment when they got the workload (+) and lost it (-).
#[derive(Clone, Copy)]
enum Then {
    /// This stage is the active one, and the rollout completes.
    GoesOnAt(&'static str, Truth),
    /// The same, and stages between are never active.
    JumpsTo(&'static str, Truth),
    /// A human has to say what is meant; the condition has these words.
    Stalls(&'static [&'static str], Truth),
}

type Truth = &'static [(&'static str, &'static str)];

/// A host killed after as many writes is started again; 0: it is left alone.
async fn taken_over(case: &Case, killed_after: u64) {
    let mut world = World::start_without_host(Pace::Fast).await;
    leave(&world, case).await;
    let uids = uids(&world).await;
    if killed_after > 0 {
        world.tap.cut_after(killed_after);
    }
    world.start_host().await;
    // One that stalls has few writes; then nothing falls dry.
    if killed_after > 0
        && tokio::time::timeout(Duration::from_secs(10), world.tap.dry())
            .await
            .is_ok()
    {
        world.kill_host();
        world.tap.flow_again();
        world.start_host().await;
    }
    world.tap.flow_again();
    if matches!(case.then, Then::JumpsTo(..)) {
        world.waive("no-skip", "a later stage is at the revision already");
    }
    match case.then {
        Then::GoesOnAt(stage, truth) | Then::JumpsTo(stage, truth) => {
            // A host that was killed may have brought it further.
            if killed_after == 0 {
                world.until("web", 10, |status| status.phase.is_some()).await;
                let now = world.status("web").await.active_stage;
                assert!(
                    matches!(case.then, Then::JumpsTo(..)) || now.as_deref() == Some(stage),
                    "at {now:?}"
                );
                is_adopted(&world, case, &uids).await;
            }
            world.until_phase("web", Phase::Completed, ROLLOUT_S).await;
            let settled = async || histories(&world) == truth_of(truth, &world);
            world.until_so(&format!("clusters are {truth:?}"), 30, settled).await;
            world.pass(60).await;
            assert_eq!(histories(&world), truth_of(truth, &world));
        }
        Then::Stalls(words, truth) => {
            world.pass(WATCHED_S).await;
            let status = world.status("web").await;
            let told = status
                .conditions
                .iter()
                .find(|condition| condition.type_ == "Stalled")
                .unwrap();
            assert_eq!(told.status, "True", "{}", told.message);
            for word in words {
                assert!(told.message.contains(word), "no {word:?} in {:?}", told.message);
            }
            assert_eq!(histories(&world), truth_of(truth, &world));
        }
    }
}

/// Everything as the Go stager leaves it, brought to the clusters by then.
async fn leave(world: &World, case: &Case) {
    world.apply(&shop()).await;
    let shared = cluster("shared-1", "dev", "{readyAfter: 1s}");
    let text = (case.policy)();
    if text.contains("also:") {
        world
            .apply(&shared.replacen("{env: dev}", "{env: dev, also: test}", 1))
            .await;
    }
    world.apply(&workload("web")).await;
    world.apply(&text).await;
    let policy = serde_json::to_value(world.policies().get("web").await.unwrap()).unwrap();
    let namespace = kube::Api::<k8s_openapi::api::core::v1::Namespace>::all(world.client.clone());
    let namespace_uid = namespace.get("shop").await.unwrap().uid().unwrap();
    for (stage, other) in case.placed {
        let selectors = policy["spec"]["stages"].as_array().unwrap().iter();
        let of_stage = selectors.clone().find(|one| one["name"] == *stage);
        let mut placement = json!({
            "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy",
            "metadata": {"name": format!("web.stage.{stage}"), "ownerReferences": [{
                "apiVersion": policy["apiVersion"], "kind": policy["kind"], "name": "web", "uid": policy["metadata"]["uid"],
            }]},
            "spec": {
                "clusterSelectors": of_stage.map_or(json!([]), |stage| stage["clusterSelectors"].clone()),
                "downsync": policy["spec"]["downsync"],
            },
        });
        other(&mut placement);
        let text = placement.to_string().replace("$namespace", &namespace_uid);
        world.create(&serde_json::from_str(&text).unwrap()).await.unwrap();
    }
    if !case.says.is_empty() {
        let status = json!({"status": {"activeStage": case.says}});
        let patch = kube::api::Patch::Merge(status);
        world
            .policies()
            .patch_status("web", &Default::default(), &patch)
            .await
            .unwrap();
    }
    world.pass(10).await;
}

/// By name, of all BindingPolicies.
async fn uids(world: &World) -> Vec<(String, Option<String>)> {
    let all = world.binding_policies().list(&Default::default()).await.unwrap();
    all.iter()
        .map(|placement| (placement.name_any(), placement.uid()))
        .collect()
}

/// The active stage's BindingPolicy is the one that was left, and carries what the host needs.
async fn is_adopted(world: &World, case: &Case, left: &[(String, Option<String>)]) {
    let (Then::GoesOnAt(stage, _) | Then::JumpsTo(stage, _)) = case.then else {
        return;
    };
    let name = format!("web.stage.{stage}");
    let fenced = async || {
        let placement = world.binding_policies().get_opt(&name).await.unwrap();
        placement.is_some_and(|placement| {
            let collectors = placement.spec.downsync.iter().map(|clause| &clause.status_collectors);
            placement.annotations().contains_key(annotation::REVISION)
                && placement.annotations().contains_key(annotation::BASELINE_VERSION)
                && collectors
                    .into_iter()
                    .all(|names| names.contains(&evidence::collector_name()))
        })
    };
    world.until_so(&format!("{name} is fenced"), 5, fenced).await;
    if let Some((_, uid)) = left.iter().find(|(known, _)| *known == name) {
        let now = world.binding_policies().get(&name).await.unwrap();
        assert_eq!(now.uid(), *uid, "{name} is adopted, not made anew");
    }
}

/// Of every cluster: when it got the workload (+) and lost it (-).
fn histories(world: &World) -> Vec<(String, String)> {
    let truth = world.clusters.truth();
    let of_cluster = |cluster: &String| {
        let changes = truth.history.iter();
        let of_object = changes.filter(|change| change.cluster == *cluster && change.object == deployment_of("web"));
        let marks = of_object.map(|change| match change.presence {
            Presence::Present => '+',
            Presence::Absent => '-',
        });
        (cluster.clone(), marks.collect())
    };
    truth.clusters.keys().map(of_cluster).collect()
}

/// The same as it is expected of every cluster.
fn truth_of(expected: Truth, world: &World) -> Vec<(String, String)> {
    let of_cluster = |cluster: &String| {
        let env = cluster.split('-').next();
        let (_, marks) = expected.iter().find(|(name, _)| Some(*name) == env).unwrap();
        (cluster.clone(), (*marks).to_owned())
    };
    world.clusters.truth().clusters.keys().map(of_cluster).collect()
}

#[tokio::test(start_paused = true)]
async fn what_the_go_stager_left_is_taken_over_without_taking_anything_away() {
    let mut matrix = Matrix::new("take-over");
    for case in CASES {
        matrix.run(case.name, taken_over(case, 0)).await;
    }
    matrix.end();
}

#[tokio::test(start_paused = true)]
async fn a_host_killed_while_it_takes_over_ends_where_an_undisturbed_one_ends() {
    let mut matrix = Matrix::new("take-over by a host that is killed");
    for case in CASES {
        for nth in 1..=2 * budget() {
            let name = format!("{}, killed after write {nth}", case.name);
            matrix.run(&name, taken_over(case, nth)).await;
        }
    }
    matrix.end();
}
