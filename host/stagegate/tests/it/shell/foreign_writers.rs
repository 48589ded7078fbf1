//! Our `binding` and `combine` where KubeStellar's own controllers are, or come.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use stagegate::options::{ControllerName, Delays, Options};
use stagegate::start::{self, RunningControllers};
use stagegate_api::{Binding, BindingPolicy, crd};
use stagegate_clock::TokioClock;
use stagegate_embedded::Server;

use super::world::resource;

const API_VERSION: &str = "control.kubestellar.io/v1alpha1";

fn server() -> Server {
    let server = Server::new(TokioClock::shared());
    server.install_crds(crd::all_for_playground()).unwrap();
    server.log_commits();
    server
}

async fn start(server: &Server, controllers: &[ControllerName]) -> RunningControllers {
    let options = Options {
        controllers: BTreeSet::from_iter(controllers.iter().copied()),
        delays: Delays {
            binding_ms: 100,
            combine_ms: 100,
        },
        ..Options::default()
    };
    start::start(server.client(), TokioClock::shared(), options)
        .await
        .unwrap()
}

/// Writes of ours so far.
fn written(server: &Server) -> usize {
    let commits = server.commits(0).into_iter();
    let ours = commits.filter(|commit| commit.request().is_some_and(|it| it.manager.starts_with("stagegate-")));
    ours.count()
}

/// Creates an object under somebody's name.
async fn create(server: &Server, manager: &str, object: Value) {
    let api_version = object["apiVersion"].as_str().unwrap_or(API_VERSION);
    let kind = resource(api_version, object["kind"].as_str().unwrap());
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(server.client(), namespace, &kind),
        None => Api::all_with(server.client(), &kind),
    };
    let params = PostParams {
        field_manager: Some(manager.to_owned()),
        ..PostParams::default()
    };
    api.create(&params, &serde_json::from_value(object).unwrap())
        .await
        .unwrap();
}

fn policy(name: &str, finalizers: &[&str]) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "BindingPolicy", "metadata": {"name": name, "finalizers": finalizers},
        "spec": {"downsync": [{"resources": ["configmaps"]}]},
    })
}

fn binding(name: &str) -> Value {
    json!({"apiVersion": API_VERSION, "kind": "Binding", "metadata": {"name": name}, "spec": {"workload": {}}})
}

fn combined(name: &str) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "CombinedStatus", "metadata": {"name": name, "namespace": "default"},
        "results": [{"name": "count", "columnNames": ["count"]}],
    })
}

const KUBESTELLAR: &str = "bindingpolicy.kubestellar.io/kscontroller";
const BOTH: &[ControllerName] = &[ControllerName::Binding, ControllerName::Combine];

/// What it says of why it cannot go on; `None`: it goes on for a minute.
async fn says(running: &mut RunningControllers) -> Option<String> {
    let failed = tokio::time::timeout(Duration::from_secs(60), running.failed()).await;
    failed.ok().map(|error| error.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_trace_of_kubestellar_at_the_start_keeps_our_parts_from_writing_anything() {
    let traces = [
        (
            "controller-manager",
            policy("theirs", &[KUBESTELLAR]),
            "BindingPolicy theirs",
        ),
        ("Binding", binding("theirs"), "Binding theirs"),
        ("Status", combined("theirs"), "CombinedStatus default/theirs"),
    ];
    for (manager, object, named) in traces {
        for controllers in [&BOTH[..1], &BOTH[1..], BOTH] {
            let server = server();
            // One that they would write a Binding for at once.
            create(&server, "kubectl", policy("web", &[])).await;
            create(&server, manager, object.clone()).await;
            let mut running = start(&server, controllers).await;
            let said = says(&mut running).await.unwrap_or_default();
            assert!(
                said.contains(named) && said.contains("--controllers staging"),
                "{named}: {said}"
            );
            assert_eq!(written(&server), 0, "{named} {controllers:?}");
        }
        let server = server();
        create(&server, manager, object).await;
        let mut running = start(&server, &[ControllerName::Staging]).await;
        assert_eq!(says(&mut running).await, None, "staging works beside KubeStellar");
    }
}

#[tokio::test(start_paused = true)]
async fn kubestellar_that_comes_later_is_left_alone_from_then_on() {
    let comings: [(&str, &str, Value); 2] = [
        (
            "BindingPolicy",
            "KubeStellar",
            json!({"metadata": {"finalizers": [KUBESTELLAR]}}),
        ),
        (
            "Binding",
            "Binding",
            json!({"spec": {"destinations": [{"clusterId": "theirs"}]}}),
        ),
    ];
    for (kind, manager, patch) in comings {
        let server = server();
        let mut running = start(&server, BOTH).await;
        create(&server, "kubectl", policy("web", &[])).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let bindings: Api<Binding> = Api::all(server.client());
        assert!(bindings.get_opt("web").await.unwrap().is_some());
        let api: Api<DynamicObject> = Api::all_with(server.client(), &resource(API_VERSION, kind));
        let params = PatchParams {
            field_manager: Some(manager.to_owned()),
            ..PatchParams::default()
        };
        api.patch("web", &params, &Patch::Merge(patch)).await.unwrap();
        let before = written(&server);
        let said = says(&mut running).await.unwrap_or_default();
        assert!(said.contains(&format!("{kind} web")), "{said}");
        // Everything that would make ours write, if they still did.
        let policies: Api<BindingPolicy> = Api::all(server.client());
        let other = json!({"spec": {"clusterSelectors": [{}], "downsync": [{"resources": ["secrets"]}]}});
        policies
            .patch("web", &PatchParams::default(), &Patch::Merge(other))
            .await
            .unwrap();
        create(&server, "kubectl", policy("another", &[])).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(written(&server), before, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_our_own_parts_and_people_have_written_is_no_trace() {
    let server = server();
    for manager in ["kubectl-edit", "transport-controller", "stagegate-binding"] {
        create(&server, manager, binding(manager)).await;
    }
    create(&server, "stagegate-combine", combined("ours")).await;
    create(&server, "kubectl", policy("web", &[])).await;
    for _start in 0..3 {
        let mut running = start(&server, BOTH).await;
        assert_eq!(says(&mut running).await, None);
        running.stop().await;
    }
    let policies: Api<BindingPolicy> = Api::all(server.client());
    let finalizers = policies
        .get("web")
        .await
        .unwrap()
        .metadata
        .finalizers
        .unwrap_or_default();
    assert_eq!(finalizers, Vec::<String>::new(), "a deletion waits for nobody");
    assert!(written(&server) > 0);
}
