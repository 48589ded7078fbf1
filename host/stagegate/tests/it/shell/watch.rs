//! Watches that the server breaks, refuses or does not know, and objects that cannot be decoded.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use serde_json::json;
use stagegate::start;
use stagegate_api::{Binding, BindingPolicy, Phase, crd};
use stagegate_clock::TokioClock;
use stagegate_embedded::{Fault, FaultAnswer, Server};

use super::wire::{Fault as OnTheWay, Verb, Wire};
use super::world::{World, create, options, three_stages, three_stages_policy};
use crate::harness::{policy, shop, workload};

const POLICIES: &str = "stagedbindingpolicies.community.kubestellar.io";

/// The watch request is answered so, several times; kube's own watcher would ask for ever with the same version.
async fn a_new_list_follows(code: u16) {
    let (server, clock) = (Server::new(TokioClock::shared()), TokioClock::shared());
    server.install_crds(crd::all_for_playground()).unwrap();
    let broken = Fault {
        times: 4,
        ..Fault::new("watch", POLICIES, FaultAnswer::Status(code))
    };
    server.inject(broken);
    let running = start::start(server.client(), clock, options()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    let lists = server.requests().count("list", POLICIES);
    assert!(lists >= 2, "{lists} list(s) after watch requests answered {code}");
    create(&server.client(), &three_stages_policy()).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let placements: Api<BindingPolicy> = Api::all(server.client());
    assert!(
        placements.get_opt("nginx.stage.dev").await.unwrap().is_some(),
        "the policy was not seen"
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_request_answered_410_leads_to_a_new_list_within_30_s() {
    a_new_list_follows(410).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_request_answered_504_leads_to_a_new_list_within_30_s() {
    a_new_list_follows(504).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_before_every_needed_kind_was_listed_and_a_kind_may_come_late() {
    let (server, clock) = (Server::new(TokioClock::shared()), TokioClock::shared());
    let (late, early): (Vec<_>, Vec<_>) = crd::all_for_playground()
        .into_iter()
        .partition(|crd| crd.spec.names.kind == "CombinedStatus");
    server.install_crds(early).unwrap();
    let running = start::start(server.client(), clock, options()).await.unwrap();
    create(&server.client(), &three_stages_policy()).await;
    let before = server.requests().writes();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(server.requests().writes(), before);
    server.install_crds(late).unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let placements: Api<BindingPolicy> = Api::all(server.client());
    assert!(placements.get_opt("nginx.stage.dev").await.unwrap().is_some());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_cannot_be_decoded_says_so_and_stops_no_other() {
    let world = World::start_with(loosened("StagedBindingPolicy", "spec")).await;
    world
        .create(
            "apiVersion: community.kubestellar.io/v1alpha1\nkind: StagedBindingPolicy\n\
             metadata: {name: odd}\nspec: {downsync: [], stages: none}\n",
        )
        .await;
    for text in three_stages() {
        world.create(&text).await;
    }
    world
        .until_phase("nginx", Phase::Completed, Duration::from_secs(10))
        .await;
    let status = world.status("odd").await;
    assert_eq!(status["reason"], json!("InvalidObject"), "{status}");
    let events = world.events("odd").await;
    assert!(
        events
            .iter()
            .any(|event| event.reason.as_deref() == Some("InvalidObject")),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_cannot_be_decoded_holds_only_the_policies_that_name_it() {
    let world = World::start_with(loosened("StatusCollector", "spec")).await;
    world
        .create(
            "apiVersion: control.kubestellar.io/v1alpha1\nkind: StatusCollector\n\
             metadata: {name: odd}\nspec: {select: none, limit: 1}\n",
        )
        .await;
    for text in three_stages() {
        world.create(&text).await;
    }
    let policy = three_stages_policy().replace("name: nginx\n", "name: other\n");
    world
        .create(&policy.replace("[deployments-aggregator,", "[odd, deployments-aggregator,"))
        .await;
    world
        .until_phase("nginx", Phase::Completed, Duration::from_secs(10))
        .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let status = world.status("other").await;
    assert_eq!(status["activeStage"], json!("dev"), "{status}");
    assert_eq!(status["reason"], json!("StatusCollectorMissing"), "{status}");
}

/// The definitions, one with a part that takes anything.
fn loosened(kind: &str, part: &str) -> Vec<CustomResourceDefinition> {
    let mut definitions = crd::all_for_playground();
    let definition = definitions.iter_mut().find(|crd| crd.spec.names.kind == kind).unwrap();
    let mut value = serde_json::to_value(&*definition).unwrap();
    let schema = &mut value["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema.as_object_mut().unwrap().remove("x-kubernetes-validations");
    schema["properties"][part] = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    *definition = serde_json::from_value(value).unwrap();
    definitions
}

/// One object of every kind that the controllers watch, and its plural.
const ODD: &[(&str, &str)] = &[
    (
        "stagedbindingpolicies",
        "{apiVersion: community.kubestellar.io/v1alpha1, kind: StagedBindingPolicy, metadata: {name: odd}, spec: \
         {paused: true, downsync: [{resources: [none]}], stages: [{name: dev, clusterSelectors: [{matchLabels: {a: b}}]}]}}",
    ),
    (
        "bindingpolicies",
        "{apiVersion: control.kubestellar.io/v1alpha1, kind: BindingPolicy, metadata: {name: odd}, spec: {}}",
    ),
    (
        "bindings",
        "{apiVersion: control.kubestellar.io/v1alpha1, kind: Binding, metadata: {name: odd}, spec: {workload: {}}}",
    ),
    (
        "statuscollectors",
        "{apiVersion: control.kubestellar.io/v1alpha1, kind: StatusCollector, metadata: {name: odd}, spec: {limit: 1}}",
    ),
    (
        "combinedstatuses",
        "{apiVersion: control.kubestellar.io/v1alpha1, kind: CombinedStatus, metadata: {name: odd, namespace: default}}",
    ),
    (
        "workstatuses",
        "{apiVersion: control.kubestellar.io/v1alpha1, kind: WorkStatus, metadata: {name: odd, namespace: default}, \
         spec: {}}",
    ),
    (
        "managedclusters",
        "{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: odd}, \
         spec: {hubAcceptsClient: true}}",
    ),
    ("namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: odd}}"),
];

#[tokio::test(start_paused = true)]
async fn one_object_of_any_kind_that_cannot_be_decoded_stops_no_rollout() {
    for (plural, odd) in ODD {
        for is_early in [true, false] {
            let server = Server::new(TokioClock::shared());
            server.install_crds(crd::all_for_playground()).unwrap();
            let wire = Wire::new(server.router());
            for verb in [Verb::Get, Verb::List, Verb::Watch] {
                wire.fault(verb, plural, OnTheWay::Garble("odd"));
            }
            if is_early {
                create(&server.client(), odd).await;
            }
            let world = World::start_on(server, wire.client()).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            if !is_early {
                create(&world.client, odd).await;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            for text in [shop(), workload("web"), policy("web")] {
                world.create(&text).await;
            }
            world
                .until_phase("web", Phase::Completed, Duration::from_secs(60))
                .await;
            world.stop().await;
        }
    }
    crate::tell(&format!("undecodable objects: {} cases", ODD.len() * 2));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_goes_and_comes_back_takes_no_other_with_it() {
    let server = Server::new(TokioClock::shared());
    server.install_crds(crd::all_for_playground()).unwrap();
    let wire = Wire::new(server.router());
    let world = World::start_on(server, wire.client()).await;
    for text in [shop(), workload("web"), policy("web")] {
        world.create(&text).await;
    }
    world
        .until_phase("web", Phase::Completed, Duration::from_secs(60))
        .await;
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let name = "combinedstatuses.control.kubestellar.io";
    definitions.delete(name, &Default::default()).await.unwrap();
    let asked = wire.count(Verb::List, "combinedstatuses");
    tokio::time::sleep(Duration::from_secs(120)).await;
    let asked = wire.count(Verb::List, "combinedstatuses") - asked;
    assert!(
        (10..=60).contains(&asked),
        "{asked} lists in two minutes of a kind that is not there"
    );
    world
        .create(
            "{apiVersion: control.kubestellar.io/v1alpha1, kind: BindingPolicy, metadata: {name: by-hand}, spec: {}}",
        )
        .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let bindings: Api<Binding> = Api::all(world.client.clone());
    assert!(
        bindings.get_opt("by-hand").await.unwrap().is_some(),
        "other kinds are not followed"
    );
    for text in [workload("second"), policy("second")] {
        world.create(&text).await;
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    let again = crd::all_for_playground()
        .into_iter()
        .filter(|crd| crd.metadata.name.as_deref() == Some(name));
    world.server.install_crds(again.collect()).unwrap();
    world
        .until_phase("second", Phase::Completed, Duration::from_secs(120))
        .await;
}
