//! A world in one process and in virtual time: API server, simulated clusters, our stand-ins for KubeStellar, and the
//! host with its real code paths, each of which can be stopped and started apart. Must not look into any of them:
//! it sees what a user sees, the truth of the clusters excepted.

mod fixture;
mod interceptor;
mod kubestellar;
pub mod schedule;
pub mod seeded;
mod tap;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::Value;
use stagegate::manifests;
use stagegate::options::{ControllerName, Delays, Options};
use stagegate::start::{self, RunningControllers};
use stagegate_api::{
    BindingPolicy, CombinedStatus, Phase, SimulatedCluster, StageState, StagedBindingPolicy, StagedBindingPolicyStatus,
    StatusCollector, crd,
};
use stagegate_clock::{SharedClock, TokioClock};
use stagegate_embedded::Server;
use stagegate_embedded::clusters::{self, Clusters, ObjectRef};
use stagegate_sandbox::{Cache, Sandbox, SandboxOptions};
use tokio::time::Instant;

pub use fixture::{
    GATES, NAMESPACE, WELL, cluster, deployment_of, gate, gated, image, policy, put_gate, shop, shortest, staged,
    workload,
};
pub use tap::{Call, Disturbance, Tap};

use crate::invariants::{self, Run, Violation};

/// How often a condition that is waited for is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// How fast everything but the host is; the host's settle time goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// The playground's.
    Fast,
    /// KubeStellar's own delays.
    KubeStellar,
}

impl Pace {
    fn delays(self) -> Delays {
        match self {
            Self::Fast => Delays {
                binding_ms: 100,
                combine_ms: 100,
            },
            Self::KubeStellar => Delays::default(),
        }
    }

    fn settle_ms(self) -> i64 {
        match self {
            Self::Fast => 200,
            Self::KubeStellar => 3_000,
        }
    }

    /// How long news of a cluster may take to be a row of a CombinedStatus.
    fn news_take(self) -> SignedDuration {
        match self {
            Self::Fast => SignedDuration::from_secs(1),
            Self::KubeStellar => SignedDuration::from_secs(10),
        }
    }
}

pub struct World {
    pub server: Server,
    pub client: Client,
    pub clusters: clusters::RunningClusters,
    pub tap: Tap,
    clock: SharedClock,
    pace: Pace,
    host: Option<RunningControllers>,
    parts: Option<RunningControllers>,
    /// When the host ran, by start and end.
    host_ran: Vec<(Timestamp, Option<Timestamp>)>,
    waived: BTreeMap<&'static str, &'static str>,
}

impl World {
    pub async fn start(pace: Pace) -> World {
        let mut world = Self::start_without_host(pace).await;
        world.start_host().await;
        world
    }

    /// A world whose API server holds Bindings at the versions that they list.
    pub async fn start_held(pace: Pace) -> World {
        let mut world = Self::start_without_host(pace).await;
        stagegate::held_bindings::install(&world.client).await.unwrap();
        world.start_host().await;
        world
    }

    pub async fn start_without_host(pace: Pace) -> World {
        Self::start_with(pace, TokioClock::shared(), crd::all_for_playground()).await
    }

    /// A world without a host that begins at a time of its own: the machine's is another one in each run.
    pub async fn start_at(wall: Timestamp, pace: Pace) -> World {
        let clock = Arc::new(TokioClock::starting_at(wall));
        Self::start_with(pace, clock, crd::all_for_playground()).await
    }

    /// A world whose API server takes anything under the named resource, as one without its schema would.
    pub async fn start_loose(plural: &str) -> World {
        let mut definitions = crd::all_for_playground();
        for definition in definitions
            .iter_mut()
            .filter(|definition| definition.spec.names.plural == plural)
        {
            for version in &mut definition.spec.versions {
                let anything = serde_json::json!({"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }});
                version.schema = serde_json::from_value(anything).unwrap();
            }
        }
        let mut world = Self::start_with(Pace::Fast, TokioClock::shared(), definitions).await;
        world.start_host().await;
        world
    }

    async fn start_with(
        pace: Pace,
        clock: SharedClock,
        definitions: Vec<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition>,
    ) -> World {
        let server = Server::new(clock.clone());
        server.install_crds(definitions).unwrap();
        server.log_commits();
        let client = server.client();
        let clusters = Clusters::start(client.clone(), clock.clone(), clusters::Settings::default());
        let tap = Tap::new(server.router(), "host");
        let mut world = World {
            server,
            client,
            clusters,
            tap,
            clock,
            pace,
            host: None,
            parts: None,
            host_ran: Vec::new(),
            waived: BTreeMap::new(),
        };
        world.start_parts().await;
        world
    }

    // -- the processes

    pub async fn start_host(&mut self) {
        self.try_start_host().await.unwrap();
    }

    /// A host whose first request fails does not start: whoever runs it starts it again.
    pub async fn try_start_host(&mut self) -> anyhow::Result<()> {
        let options = self.host_options();
        self.host = Some(start::start(self.tap.client(), self.clock.clone(), options).await?);
        self.note_host();
        Ok(())
    }

    /// Of a host that the test starts itself.
    pub fn host_options(&self) -> Options {
        Options {
            controllers: BTreeSet::from([ControllerName::Staging]),
            settle_ms: self.pace.settle_ms(),
            sandbox: sandbox(),
            ..Options::default()
        }
    }

    pub async fn start_parts(&mut self) {
        self.start_parts_through(self.client.clone()).await;
    }

    async fn start_parts_through(&mut self, client: Client) {
        let options = Options {
            controllers: BTreeSet::from([ControllerName::Binding, ControllerName::Combine]),
            delays: self.pace.delays(),
            adds_finalizer: true,
            ..Options::default()
        };
        self.parts = Some(start::start(client, self.clock.clone(), options).await.unwrap());
    }

    pub fn host(&self) -> &RunningControllers {
        self.host.as_ref().expect("the host runs")
    }

    pub async fn stop_host(&mut self) {
        if let Some(host) = self.host.take() {
            host.stop().await;
            self.note_end_of_host();
        }
    }

    /// As `kill -9` would: nothing is finished.
    pub fn kill_host(&mut self) {
        drop(self.host.take());
        self.note_end_of_host();
    }

    /// From now on there is a host.
    pub fn note_host(&mut self) {
        self.host_ran.push((self.clock.now(), None));
    }

    pub fn clock(&self) -> SharedClock {
        self.clock.clone()
    }

    fn note_end_of_host(&mut self) {
        if let Some((_, end)) = self.host_ran.last_mut() {
            end.get_or_insert(self.clock.now());
        }
    }

    pub async fn restart_host(&mut self) {
        self.stop_host().await;
        self.start_host().await;
    }

    pub async fn stop_parts(&mut self) {
        if let Some(parts) = self.parts.take() {
            parts.stop().await;
        }
    }

    pub async fn restart_parts(&mut self) {
        self.stop_parts().await;
        self.start_parts().await;
    }

    /// As KubeStellar 0.30 does it: before it has seen the workload again, each Binding is written without objects and clusters.
    pub async fn restart_parts_that_empty_bindings(&mut self) {
        self.stop_parts().await;
        kubestellar::empty_bindings(&self.client).await;
        let client = kubestellar::client_that_knows_changed_bindings(&self.client, self.server.router()).await;
        self.start_parts_through(client).await;
    }

    /// From now on a CombinedStatus is left as it is where KubeStellar 0.30 sees no change.
    pub async fn restart_parts_that_compare_one_way(&mut self) {
        self.stop_parts().await;
        let client = kubestellar::client_that_compares_one_way(self.server.router());
        self.start_parts_through(client).await;
    }

    // -- what a user does

    /// Creates every document of the text.
    pub async fn apply(&self, text: &str) {
        for document in documents(text) {
            if let Err(error) = self.create(&document).await {
                panic!("{error}: {document}");
            }
        }
    }

    pub async fn create(&self, document: &Value) -> kube::Result<DynamicObject> {
        let member = |name: &str| document[name].as_str().unwrap_or_default();
        let (group, version) = member("apiVersion")
            .split_once('/')
            .unwrap_or(("", member("apiVersion")));
        let gvk = GroupVersionKind::gvk(group, version, member("kind"));
        let (resource, _) = kube::discovery::pinned_kind(&self.client, &gvk).await?;
        let api: Api<DynamicObject> = match document["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        api.create(
            &PostParams::default(),
            &serde_json::from_value(document.clone()).unwrap(),
        )
        .await
    }

    pub async fn edit_policy(&self, name: &str, patch: Value) {
        self.merge(&self.policies(), name, patch).await;
    }

    pub async fn edit_cluster(&self, name: &str, spec: Value) {
        let clusters: Api<SimulatedCluster> = Api::all(self.client.clone());
        self.merge(&clusters, name, serde_json::json!({"spec": spec})).await;
    }

    pub async fn edit_deployment(&self, name: &str, patch: Value) {
        self.merge(&self.deployments(), name, patch).await;
    }

    pub async fn edit_collector(&self, name: &str, spec: Value) {
        let collectors: Api<StatusCollector> = Api::all(self.client.clone());
        self.merge(&collectors, name, serde_json::json!({"spec": spec})).await;
    }

    /// Where gates are taken from; the host allows this one namespace.
    pub async fn apply_gates_namespace(&self) {
        self.apply(&format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {GATES}}}"))
            .await;
    }

    /// Creates or replaces a ConfigMap that holds the component under `gate.wasm`.
    pub async fn put_gate(&self, name: &str, component: &[u8]) {
        put_gate(&self.client, name, component).await;
    }

    pub fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), GATES)
    }

    pub async fn merge<K: Clone + DeserializeOwned + std::fmt::Debug>(&self, api: &Api<K>, name: &str, patch: Value) {
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    pub async fn delete<K: Clone + DeserializeOwned + std::fmt::Debug>(&self, api: &Api<K>, name: &str) {
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    // -- what a user sees

    pub fn policies(&self) -> Api<StagedBindingPolicy> {
        Api::all(self.client.clone())
    }

    pub fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub fn binding_policies(&self) -> Api<BindingPolicy> {
        Api::all(self.client.clone())
    }

    pub fn combined(&self) -> Api<CombinedStatus> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub async fn status(&self, policy: &str) -> StagedBindingPolicyStatus {
        self.policies().get(policy).await.unwrap().status.unwrap_or_default()
    }

    /// Which stages have an open BindingPolicy.
    pub async fn open(&self, policy: &str) -> Vec<String> {
        let prefix = format!("{policy}.stage.");
        let all = self.binding_policies().list(&Default::default()).await.unwrap();
        let open = all
            .items
            .into_iter()
            .filter(|placement| !placement.spec.cluster_selectors.is_empty());
        open.filter_map(|placement| placement.name_any().strip_prefix(&prefix).map(str::to_owned))
            .collect()
    }

    /// The Events about a policy, by reason: the notes.
    pub async fn events(&self, policy: &str) -> BTreeMap<String, Vec<String>> {
        let all = Api::<Event>::all(self.client.clone())
            .list(&Default::default())
            .await
            .unwrap();
        let mut by_reason = BTreeMap::<String, Vec<String>>::new();
        for event in all.items {
            if event.regarding.as_ref().and_then(|regarding| regarding.name.as_deref()) == Some(policy) {
                by_reason
                    .entry(event.reason.unwrap_or_default())
                    .or_default()
                    .push(event.note.unwrap_or_default());
            }
        }
        by_reason
    }

    pub fn is_in(&self, cluster: &str, object: &ObjectRef) -> bool {
        self.clusters.truth().present(cluster, object).is_some()
    }

    pub fn writes(&self) -> u64 {
        self.server.requests().writes()
    }

    // -- waiting

    /// Waits until the policy's status is as `is` says, for at most `seconds` of virtual time.
    pub async fn until(&self, policy: &str, seconds: u64, is: impl Fn(&StagedBindingPolicyStatus) -> bool) {
        let end = Instant::now() + Duration::from_secs(seconds);
        loop {
            let status = self.status(policy).await;
            if is(&status) {
                return;
            }
            if Instant::now() >= end {
                panic!(
                    "{policy} not so within {seconds} s:\n{}\n{}",
                    report(&status),
                    self.picture().await
                );
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    pub async fn until_phase(&self, policy: &str, phase: Phase, seconds: u64) {
        self.until(policy, seconds, |status| status.phase == Some(phase)).await;
    }

    pub async fn until_stage(&self, policy: &str, stage: &str, seconds: u64) {
        self.until(policy, seconds, |status| status.active_stage.as_deref() == Some(stage))
            .await;
    }

    /// Waits for anything else.
    pub async fn until_so(&self, what: &str, seconds: u64, is: impl AsyncFn() -> bool) {
        let end = Instant::now() + Duration::from_secs(seconds);
        while !is().await {
            if Instant::now() >= end {
                panic!("not within {seconds} s: {what}\n{}", self.picture().await);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Looks, some hundred times, that the policy's status stays as `is` says.
    pub async fn stays(&self, policy: &str, seconds: u64, is: impl Fn(&StagedBindingPolicyStatus) -> bool) {
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end {
            let status = self.status(policy).await;
            assert!(
                is(&status),
                "{policy} did not stay so for {seconds} s:\n{}",
                report(&status)
            );
            tokio::time::sleep(LOOK.max(Duration::from_secs(seconds) / 300)).await;
        }
    }

    pub async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// The stage is the active one, it is open, and it does not move on for `seconds`.
    pub async fn holds(&self, policy: &str, stage: &str, seconds: u64) {
        self.stays(policy, seconds, |status| {
            status.active_stage.as_deref() == Some(stage) && status.phase != Some(Phase::Completed)
        })
        .await;
        assert!(
            self.open(policy).await.contains(&stage.to_owned()),
            "{stage} is not placed"
        );
    }

    // -- what must hold

    /// From now on this rule may be broken here; `because` is for the reader.
    pub fn waive(&mut self, rule: &'static str, because: &'static str) {
        assert!(
            invariants::RULES.iter().any(|(known, _)| *known == rule),
            "there is no rule {rule}"
        );
        self.waived.insert(rule, because);
    }

    /// The rules that were broken so far, and how often each was asked.
    pub fn violations(&self) -> (Vec<Violation>, BTreeMap<&'static str, usize>) {
        let (mut violations, looked) = invariants::check(&Run {
            commits: &self.server.commits(0),
            truth: &self.clusters.truth(),
            host_ran: &self.host_ran,
            ended_at: self.clock.now(),
            news_take: self.pace.news_take(),
        });
        violations.retain(|violation| !self.waived.contains_key(violation.rule));
        (violations, looked)
    }

    /// What a failing test prints: placements and clusters.
    async fn picture(&self) -> String {
        let placements = self.binding_policies().list(&Default::default()).await.unwrap();
        let open = |placement: &BindingPolicy| !placement.spec.cluster_selectors.is_empty();
        let names: Vec<_> = placements
            .iter()
            .map(|placement| (placement.name_any(), open(placement)))
            .collect();
        let truth = self.clusters.truth().clusters;
        let held: Vec<_> = truth
            .iter()
            .map(|(name, objects)| (name, objects.keys().map(ToString::to_string).collect::<Vec<_>>()))
            .collect();
        format!("placements (open?): {names:?}\nclusters: {held:?}")
    }
}

impl Drop for World {
    /// Every scenario is judged by the same rules, whatever it is about.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let (violations, _) = self.violations();
        let lines: Vec<String> = violations.iter().take(8).map(ToString::to_string).collect();
        assert!(
            lines.is_empty(),
            "{} rule(s) broken:\n{}",
            violations.len(),
            lines.join("\n")
        );
    }
}

/// The reason word and all messages of a status, as one text.
pub fn said(status: &StagedBindingPolicyStatus) -> String {
    let conditions = status
        .conditions
        .iter()
        .map(|condition| format!("{}: {}", condition.reason, condition.message));
    let checks = status.stages.iter().flat_map(|stage| &stage.checks);
    let checks = checks.map(|check| format!("{}: {}", check.reason, check.message));
    conditions.chain(checks).collect::<Vec<_>>().join("\n")
}

pub fn state_of(status: &StagedBindingPolicyStatus, stage: &str) -> Option<StageState> {
    status
        .stages
        .iter()
        .find(|record| record.name == stage)
        .map(|record| record.state)
}

fn report(status: &StagedBindingPolicyStatus) -> String {
    format!(
        "{:?}/{:?} at {:?}\n{}",
        status.phase,
        status.reason,
        status.active_stage,
        said(status)
    )
}

/// Children of the real binary. What one test had compiled, the others find.
pub fn sandbox() -> Arc<Sandbox> {
    let cache = Cache::open(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("gate-cache")).unwrap();
    Sandbox::new(SandboxOptions {
        program: PathBuf::from(env!("CARGO_BIN_EXE_stagegate")),
        cache: Some(cache),
        ..SandboxOptions::default()
    })
}

fn documents(text: &str) -> Vec<Value> {
    let file = manifests::File {
        path: PathBuf::from("scenario.yaml"),
        text: text.to_owned(),
    };
    manifests::parse(file)
        .unwrap()
        .into_iter()
        .map(|manifest| manifest.value)
        .collect()
}
