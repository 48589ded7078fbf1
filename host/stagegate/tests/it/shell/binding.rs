//! The binding controller's watches: which kinds, and when.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use stagegate_api::{Binding, BindingPolicy, crd};
use stagegate_clock::TokioClock;
use stagegate_embedded::Server;

use super::wire::{Fault, Verb, Wire};
use super::world::World;

/// What kube asks for.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

const WIDGETS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.shop.example}
spec:
  group: shop.example
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

const POLICY: &str = "
apiVersion: control.kubestellar.io/v1alpha1
kind: BindingPolicy
metadata: {name: shop}
spec: {downsync: [{apiGroup: shop.example, resources: [widgets]}]}
";

const WIDGET: &str = "
apiVersion: shop.example/v1
kind: Widget
metadata: {name: one, namespace: default}
";

/// What discovery says now.
async fn groups(client: &Client) -> String {
    let request = http::Request::get("/apis").header(http::header::ACCEPT, AGGREGATED);
    client.request_text(request.body(Vec::new()).unwrap()).await.unwrap()
}

async fn bound(world: &World) -> Vec<String> {
    let bindings: Api<Binding> = Api::all(world.client.clone());
    let binding = bindings.get_opt("shop").await.unwrap();
    binding
        .iter()
        .flat_map(|it| it.spec.workload.objects())
        .map(|object| object.name.clone())
        .collect()
}

/// What discovery says before anything is made, too.
async fn on_a_wire() -> (World, Wire, String) {
    let server = Server::new(TokioClock::shared());
    server.install_crds(crd::all_for_playground()).unwrap();
    let wire = Wire::new(server.router());
    let before = groups(&server.client()).await;
    let world = World::start_on(server, wire.client()).await;
    (world, wire, before)
}

/// The same, with one widget that is bound.
async fn one_bound() -> (World, Wire, String) {
    let (world, wire, before) = on_a_wire().await;
    world.create(WIDGETS).await;
    world.create(WIDGET).await;
    world.create(POLICY).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(bound(&world).await, ["one"]);
    (world, wire, before)
}

#[tokio::test(start_paused = true)]
async fn a_kind_whose_definition_comes_after_the_policy_is_bound_without_a_restart() {
    let world = World::start().await;
    world.create(POLICY).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.create(WIDGETS).await;
    world.create(WIDGET).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(bound(&world).await, ["one"]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_bound_though_discovery_tells_of_it_only_seconds_after_its_definition() {
    let (world, wire, before) = on_a_wire().await;
    world.create(POLICY).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    wire.fault(Verb::Get, "/apis", Fault::Replay(before.into()));
    world.create(WIDGETS).await;
    world.create(WIDGET).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(bound(&world).await.is_empty());
    wire.mend(Verb::Get, "/apis");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(bound(&world).await, ["one"]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let asked = wire.count(Verb::Get, "");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(wire.count(Verb::Get, ""), asked, "it is not asked for ever");
}

#[tokio::test(start_paused = true)]
async fn a_kind_stays_bound_while_one_of_several_servers_is_behind_the_others() {
    let (world, wire, before) = one_bound().await;
    world
        .create(&WIDGETS.replace("widget", "gadget").replace("Widget", "Gadget"))
        .await;
    tokio::time::sleep(Duration::from_millis(75)).await;
    wire.fault(Verb::Get, "/apis", Fault::Replay(before.into()));
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(bound(&world).await, ["one"]);
    }
    wire.mend(Verb::Get, "/apis");
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(bound(&world).await, ["one"]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_gets_another_version_is_bound_once_though_discovery_is_late() {
    let (world, wire, _) = one_bound().await;
    let before = groups(&world.client).await;
    wire.fault(Verb::Get, "/apis", Fault::Replay(before.into()));
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let version = |name: &str, stored: bool| {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        json!({"name": name, "served": true, "storage": stored, "schema": schema})
    };
    let both = json!({"spec": {"versions": [version("v1", true), version("v2", false)]}});
    let by = PatchParams::default();
    definitions
        .patch("widgets.shop.example", &by, &Patch::Merge(both))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    wire.mend(Verb::Get, "/apis");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let bindings: Api<Binding> = Api::all(world.client.clone());
    let workload = bindings.get("shop").await.unwrap().spec.workload;
    let versions: Vec<&str> = workload.objects().map(|object| object.version.as_str()).collect();
    assert_eq!(versions, ["v2"]);
}

#[tokio::test(start_paused = true)]
async fn only_kinds_that_a_clause_asks_for_are_watched() {
    let world = World::start().await;
    world.create(WIDGETS).await;
    world.create(POLICY).await;
    world.create(WIDGET).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(bound(&world).await, ["one"]);
    let log = world.server.requests();
    assert_eq!(log.count("list", "widgets.shop.example"), 1);
    for untouched in ["secrets", "deployments.apps", "jobs.batch"] {
        assert_eq!(log.count("list", untouched), 0, "{untouched}");
    }
    let policies: Api<BindingPolicy> = Api::all(world.client.clone());
    let nothing = json!({"spec": {"downsync": [{"apiGroup": "shop.example", "resources": ["gadgets"]}]}});
    policies
        .patch("shop", &Default::default(), &kube::api::Patch::Merge(nothing))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let watches = world.server.requests().count("watch", "widgets.shop.example");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(
        world.server.requests().count("watch", "widgets.shop.example"),
        watches,
        "its watch has ended"
    );
    assert!(bound(&world).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn after_a_stop_nothing_is_asked_any_more() {
    let world = World::start().await;
    world.create(WIDGETS).await;
    world.create(POLICY).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (server, start) = (world.server.clone(), tokio::time::Instant::now());
    world.stop().await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    let before = server.requests().counts;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(server.requests().counts, before);
}
