//! One process with everything in it, under paused time: server, simulated clusters, controllers.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, ListParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use stagegate::manifests;
use stagegate::options::{ControllerName, Delays, Options};
use stagegate::start::{self, Counters, RunningControllers};
use stagegate_api::{Phase, StagedBindingPolicy, crd};
use stagegate_clock::TokioClock;
use stagegate_decide::staging::GateNamespaces;
use stagegate_embedded::{Server, clusters};

use crate::guests;
use crate::harness::sandbox;

pub struct World {
    pub server: Server,
    pub client: Client,
    pub running: RunningControllers,
    clusters: clusters::RunningClusters,
}

pub fn options() -> Options {
    Options {
        controllers: BTreeSet::from([
            ControllerName::Staging,
            ControllerName::Binding,
            ControllerName::Combine,
        ]),
        settle_ms: 200,
        delays: Delays {
            binding_ms: 100,
            combine_ms: 100,
        },
        adds_finalizer: true,
        gate_namespaces: GateNamespaces::All,
        sandbox: sandbox(),
        ..Options::default()
    }
}

impl World {
    pub async fn start() -> Self {
        Self::start_with(crd::all_for_playground()).await
    }

    pub async fn start_with(definitions: Vec<CustomResourceDefinition>) -> Self {
        let server = Server::new(TokioClock::shared());
        server.install_crds(definitions).unwrap();
        let through = server.client();
        Self::start_on(server, through).await
    }

    /// The controllers reach the server by a client of their own.
    pub async fn start_on(server: Server, through: Client) -> Self {
        Self::run_on(server, through, options()).await
    }

    /// With metrics of each policy.
    pub async fn start_with_series_of_each_policy() -> Self {
        let server = Server::new(TokioClock::shared());
        server.install_crds(crd::all_for_playground()).unwrap();
        let through = server.client();
        let options = Options {
            has_series_of_each_policy: true,
            ..options()
        };
        Self::run_on(server, through, options).await
    }

    async fn run_on(server: Server, through: Client, options: Options) -> Self {
        let clock = TokioClock::shared();
        let client = server.client();
        let clusters = clusters::Clusters::start(client.clone(), clock.clone(), clusters::Settings::default());
        let running = start::start(through, clock, options).await.unwrap();
        Self {
            server,
            client,
            clusters,
            running,
        }
    }

    /// Ends everything but the server.
    pub async fn stop(self) {
        self.running.stop().await;
        self.clusters.stop().await;
    }

    pub fn counters(&self) -> Counters {
        self.running.counters()
    }

    /// Creates every object of the text's documents.
    pub async fn create(&self, text: &str) {
        create(&self.client, text).await;
    }

    pub async fn policy(&self, name: &str) -> StagedBindingPolicy {
        Api::<StagedBindingPolicy>::all(self.client.clone())
            .get(name)
            .await
            .unwrap()
    }

    /// As stored, whatever the rest of the object is.
    pub async fn status(&self, name: &str) -> serde_json::Value {
        let resource = resource("community.kubestellar.io/v1alpha1", "StagedBindingPolicy");
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        api.get(name).await.unwrap().data["status"].take()
    }

    /// What was told about the policy.
    pub async fn events(&self, name: &str) -> Vec<Event> {
        let api: Api<Event> = Api::all(self.client.clone());
        let events = api.list(&ListParams::default()).await.unwrap();
        let about = |event: &Event| event.regarding.as_ref().and_then(|about| about.name.clone());
        events
            .items
            .into_iter()
            .filter(|event| about(event).as_deref() == Some(name))
            .collect()
    }

    /// Waits (virtual time) until the policy is as `is` says.
    pub async fn until(&self, name: &str, limit: Duration, is: impl Fn(&StagedBindingPolicy) -> bool) {
        let end = tokio::time::Instant::now() + limit;
        loop {
            let policy = self.policy(name).await;
            if is(&policy) {
                return;
            }
            assert!(
                tokio::time::Instant::now() < end,
                "not within {limit:?}; status: {:#?}",
                policy.status
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub async fn until_phase(&self, name: &str, phase: Phase, limit: Duration) {
        self.until(name, limit, |policy| {
            policy.status.as_ref().and_then(|status| status.phase) == Some(phase)
        })
        .await;
    }
}

pub async fn create(client: &Client, text: &str) {
    let file = manifests::File {
        path: PathBuf::from("inline.yaml"),
        text: text.to_owned(),
    };
    for manifest in manifests::parse(file).unwrap() {
        let object: DynamicObject = serde_json::from_value(manifest.value.clone()).unwrap();
        let resource = resource(manifest.api_version(), manifest.kind());
        let api: Api<DynamicObject> = match manifest.namespace() {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        api.create(&PostParams::default(), &object).await.unwrap();
    }
}

pub fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let plural = match kind {
        "StagedBindingPolicy" => "stagedbindingpolicies".to_owned(),
        "BindingPolicy" => "bindingpolicies".to_owned(),
        "CombinedStatus" | "WorkStatus" => format!("{}es", kind.to_lowercase()),
        other => format!("{}s", other.to_lowercase()),
    };
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        plural,
    }
}

/// The manifests of the sample below `deploy/examples`, and the ConfigMap that its gate needs.
pub fn three_stages() -> Vec<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/examples/three-stages");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let gate = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "min-available", "namespace": "stagegate-gates"},
        "binaryData": {"gate.wasm": ByteString(guests::wasm("gate_min_available"))},
    });
    let texts = paths.into_iter().map(|path| std::fs::read_to_string(path).unwrap());
    texts.chain([gate.to_string()]).collect()
}

/// The sample's policy alone.
pub fn three_stages_policy() -> String {
    let is_policy = |text: &String| text.contains("kind: StagedBindingPolicy");
    three_stages().into_iter().find(is_policy).unwrap()
}
