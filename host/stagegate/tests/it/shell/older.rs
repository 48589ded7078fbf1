//! Readings from a server that is behind: what it answers is older than what the watches have told.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::body::Bytes;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::json;
use stagegate::options::{ControllerName, Options};
use stagegate::start::{self, RunningControllers};
use stagegate_api::{BindingPolicy, Phase, StagedBindingPolicy, StagedBindingPolicyStatus, crd};
use stagegate_clock::TokioClock;
use stagegate_embedded::{Server, clusters};

use super::wire::{Fault, Verb, Wire};
use super::world::{World, create, options};
use crate::harness::{NAMESPACE, policy, shop, workload};

const KUBESTELLAR: &str = "/apis/control.kubestellar.io/v1alpha1";

/// Everything that the last round before a placement reads and a watch also reports. The policy is not read: the first write is
/// conditional on the version that the watch has reported.
fn readings() -> Vec<(Verb, String)> {
    vec![
        (
            Verb::List,
            format!("{KUBESTELLAR}/namespaces/{NAMESPACE}/combinedstatuses"),
        ),
        (Verb::Get, format!("{KUBESTELLAR}/bindings/web.stage.dev")),
        (Verb::Get, format!("{KUBESTELLAR}/bindingpolicies/web.stage.dev")),
        (Verb::List, format!("{KUBESTELLAR}/statuscollectors")),
    ]
}

async fn read(client: &Client, path: &str) -> Bytes {
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    client.request_text(request).await.unwrap().into()
}

/// A new version of the object at the path, by somebody else.
async fn touch(client: &Client, kind: &str, name: &str) {
    let gvk = GroupVersionKind::gvk("control.kubestellar.io", "v1alpha1", kind);
    let (resource, _) = kube::discovery::pinned_kind(client, &gvk).await.unwrap();
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let patch = Patch::Merge(json!({"metadata": {"labels": {"touched": "x"}}}));
    api.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_answer_older_than_what_a_watch_told_is_no_reading_and_is_told_of() {
    let mut wrong = Vec::new();
    for (verb, path) in readings() {
        let server = Server::new(TokioClock::shared());
        server.install_crds(crd::all_for_playground()).unwrap();
        let wire = Wire::new(server.router());
        let world = World::start_on(server, wire.client()).await;
        for text in [
            shop().replace("readyAfter: 1s", "readyAfter: 30s"),
            workload("web"),
            policy("web"),
        ] {
            world.create(&text).await;
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        let old = read(&world.client, &path).await;
        for (kind, name) in [
            ("Binding", "web.stage.dev"),
            ("BindingPolicy", "web.stage.dev"),
            ("StatusCollector", "worst"),
        ] {
            touch(&world.client, kind, name).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        wire.fault(verb, &path, Fault::Replay(old));
        // Its clusters are ready, and the watches say so.
        tokio::time::sleep(Duration::from_secs(45)).await;
        let status = world.status("web").await;
        if status["activeStage"] != json!("dev") {
            wrong.push(format!(
                "{path}: went on to {} on an old reading",
                status["activeStage"]
            ));
        }
        let events = world.events("web").await;
        let told = events.iter().any(|event| {
            let note = event.note.as_deref().unwrap_or_default();
            event.reason.as_deref() == Some("ReadFailed") && note.contains("answered from an older state")
        });
        if !told {
            wrong.push(format!("{path}: no Event says why the stage waits"));
        }
        wire.mend(verb, &path);
        // Nothing tells that the server has caught up: the reading is tried again.
        let mended = tokio::time::Instant::now();
        while world.status("web").await["activeStage"] == json!("dev") {
            if mended.elapsed() > Duration::from_secs(61) {
                wrong.push(format!("{path}: stuck after the server had caught up"));
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        if wrong.is_empty() {
            world
                .until_phase("web", Phase::Completed, Duration::from_secs(120))
                .await;
        }
        world.stop().await;
    }
    crate::tell(&format!("readings from an older state: {} cases", readings().len()));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_policy_whose_watch_tells_nothing_new_is_read_from_the_server_after_a_refused_write() {
    let server = Server::new(TokioClock::shared());
    server.install_crds(crd::all_for_playground()).unwrap();
    for text in [shop(), workload("web"), policy("web")] {
        create(&server.client(), &text).await;
    }
    let wire = Wire::new(server.router());
    // Its list comes, and nothing after it: not even what the controller itself writes.
    wire.fault(Verb::Watch, "stagedbindingpolicies", Fault::Swallow);
    let world = World::start_on(server, wire.client()).await;
    world
        .until_phase("web", Phase::Completed, Duration::from_secs(45))
        .await;
    world.stop().await;
}

/// Everything in one process, but for the staging controller's watch of BindingPolicies: after its list it tells nothing.
struct Silenced {
    server: Server,
    wire: Wire,
    controllers: [RunningControllers; 2],
    clusters: clusters::RunningClusters,
}

impl Silenced {
    /// The first stage of the policy is open and waits for its clusters, and the placement of the second one is closed.
    async fn start(policy: &str) -> Self {
        let server = Server::new(TokioClock::shared());
        server.install_crds(crd::all_for_playground()).unwrap();
        let before = World::start_on(server.clone(), server.client()).await;
        let shop = shop().replace("readyAfter: 1s", "readyAfter: 30s");
        for text in [&*shop, &workload("web"), policy] {
            before.create(text).await;
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        before.stop().await;
        let wire = Wire::new(server.router());
        wire.fault(Verb::Watch, "bindingpolicies", Fault::Swallow);
        let only = |controllers: &[ControllerName]| Options {
            controllers: controllers.iter().copied().collect(),
            ..options()
        };
        let clock = TokioClock::shared();
        let staging = start::start(wire.client(), clock.clone(), only(&[ControllerName::Staging]));
        let staging = staging.await.unwrap();
        let others = [ControllerName::Binding, ControllerName::Combine];
        let others = start::start(server.client(), clock.clone(), only(&others))
            .await
            .unwrap();
        Self {
            clusters: clusters::Clusters::start(server.client(), clock, clusters::Settings::default()),
            server,
            wire,
            controllers: [staging, others],
        }
    }

    async fn status(&self) -> StagedBindingPolicyStatus {
        let policies: Api<StagedBindingPolicy> = Api::all(self.server.client());
        policies.get("web").await.unwrap().status.unwrap()
    }

    async fn is_open(&self, placement: &str) -> bool {
        let placements: Api<BindingPolicy> = Api::all(self.server.client());
        !placements
            .get(placement)
            .await
            .unwrap()
            .spec
            .cluster_selectors
            .is_empty()
    }

    async fn stop(self) {
        for controllers in self.controllers {
            controllers.stop().await;
        }
        self.clusters.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stage_keeps_what_status_knows_of_it_while_the_watch_of_placements_tells_nothing() {
    let soaked = policy("web").replace("  - name: prod", "    soak: 20s\n  - name: prod");
    let world = Silenced::start(&soaked).await;
    let mut soaking_since = BTreeSet::new();
    for _ in 0..180 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let status = world.status().await;
        soaking_since.extend(status.stages[1].passing_since.as_ref().map(|time| time.0));
    }
    assert_eq!(world.status().await.phase, Some(Phase::Completed));
    assert_eq!(
        soaking_since.len(),
        1,
        "the soak began more than once: {soaking_since:?}"
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_reading_that_is_ahead_of_the_watch_reads_all_placements() {
    let world = Silenced::start(&policy("web")).await;
    touch(&world.server.client(), "BindingPolicy", "web.stage.dev").await;
    // What the watch has of this one may be older than what was read of the other one, so nothing moves without it.
    let next = format!("{KUBESTELLAR}/bindingpolicies/web.stage.test");
    world.wire.fault(Verb::Get, &next, Fault::Status(500));
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert!(
        !world.is_open("web.stage.test").await,
        "opened on placements of two moments"
    );
    world.wire.mend(Verb::Get, &next);
    tokio::time::sleep(Duration::from_secs(180)).await;
    assert_eq!(world.status().await.phase, Some(Phase::Completed));
    world.stop().await;
}
