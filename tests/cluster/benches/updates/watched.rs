//! When watches told of what: ManifestWorks, Bindings and the stages of a policy. Must not write anything.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;
use stagegate_api::{ADMITTED_VERSIONS, Binding, Phase, StageState, StagedBindingPolicy};
use stagegate_cluster_tests::bench::noted::Noted;
use tokio::task::JoinSet;

/// The watches; they end when it is dropped.
pub struct Watched {
    noted: Arc<Noted<Seen>>,
    _tasks: JoinSet<()>,
}

/// Of one policy, which is the only one.
#[derive(Default)]
struct Seen {
    /// By cluster and Deployment: the image that its ManifestWork carries.
    works: HashMap<(String, String), Since<String>>,
    bindings: HashMap<String, BindingSince>,
    /// Whether it has passed, by its name.
    stages: HashMap<String, Since<bool>>,
    phase: Option<Since<Option<Phase>>>,
}

#[derive(Clone, Debug)]
struct Since<T> {
    is: T,
    at: Instant,
}

/// When each part of a Binding became what it is.
#[derive(Clone, Debug)]
struct BindingSince {
    list: Since<Option<String>>,
    generation: Since<Option<i64>>,
    taken: Since<Option<i64>>,
}

/// When the Binding of a placement last changed.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    pub listed: Instant,
    pub written: Instant,
    pub taken: Instant,
}

impl<T: PartialEq> Since<T> {
    fn note(&mut self, is: T, at: Instant) {
        if self.is != is {
            *self = Since { is, at };
        }
    }
}

impl Watched {
    pub fn start(client: &Client) -> Watched {
        let noted: Arc<Noted<Seen>> = Noted::new();
        let mut tasks = JoinSet::new();
        let kind = GroupVersionKind::gvk("work.open-cluster-management.io", "v1", "ManifestWork");
        let works: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
        let (events, of_works) = (watcher(works, watcher::Config::default()), noted.clone());
        tasks.spawn(async move { of_works.follow(events.default_backoff(), Seen::work).await });
        let bindings: Api<Binding> = Api::all(client.clone());
        let (events, of_bindings) = (watcher(bindings, watcher::Config::default()), noted.clone());
        tasks.spawn(async move { of_bindings.follow(events.default_backoff(), Seen::binding).await });
        let policies: Api<StagedBindingPolicy> = Api::all(client.clone());
        let (events, of_policies) = (watcher(policies, watcher::Config::default()), noted.clone());
        tasks.spawn(async move { of_policies.follow(events.default_backoff(), Seen::policy).await });
        Watched { noted, _tasks: tasks }
    }

    /// Waits until `what` is there; `None` after `limit`.
    pub async fn wait<T>(&self, limit: Duration, what: impl Fn(&Watched) -> Option<T>) -> Option<T> {
        self.noted.wait(limit, || what(self)).await
    }

    /// When the last of the ManifestWorks was told of; `None`: one of them carries another image, or is not there.
    pub fn carried(&self, clusters: &[String], deployments: &[String], image: &str) -> Option<Instant> {
        let seen = self.noted.lock();
        let mut last = None;
        for cluster in clusters {
            for deployment in deployments {
                let work = seen.works.get(&(cluster.clone(), deployment.clone()))?;
                last = last.max((work.is == image).then_some(work.at)?.into());
            }
        }
        last
    }

    /// When the stage passed, if that was after `since`.
    pub fn passed(&self, stage: &str, since: Instant) -> Option<Instant> {
        let seen = self.noted.lock();
        let stage = seen.stages.get(stage)?;
        (stage.is && stage.at > since).then_some(stage.at)
    }

    /// When the policy was completed, if that was after `since`.
    pub fn completed(&self, since: Instant) -> Option<Instant> {
        let seen = self.noted.lock();
        let phase = seen.phase.as_ref()?;
        (phase.is == Some(Phase::Completed) && phase.at > since).then_some(phase.at)
    }

    pub fn steps(&self, binding: &str) -> Option<Steps> {
        let seen = self.noted.lock();
        let known = seen.bindings.get(binding)?;
        Some(Steps {
            listed: known.list.at,
            written: known.generation.at,
            taken: known.taken.at,
        })
    }
}

impl Seen {
    fn work(&mut self, work: &DynamicObject, at: Instant) {
        let cluster = work.namespace().unwrap_or_default();
        let manifests = work.data["spec"]["workload"]["manifests"].as_array();
        for manifest in manifests.into_iter().flatten() {
            let text = |path: &str| manifest.pointer(path).and_then(Value::as_str).unwrap_or_default();
            let key = (cluster.clone(), text("/metadata/name").to_owned());
            let image = text("/spec/template/spec/containers/0/image").to_owned();
            let known = self.works.entry(key).or_insert(Since { is: String::new(), at });
            known.note(image, at);
        }
    }

    fn binding(&mut self, binding: &Binding, at: Instant) {
        let list = binding.annotations().get(ADMITTED_VERSIONS).cloned();
        let generation = binding.metadata.generation;
        let taken = binding.status.as_ref().map(|status| status.observed_generation);
        let known = self.bindings.entry(binding.name_any()).or_insert(BindingSince {
            list: Since { is: None, at },
            generation: Since { is: None, at },
            taken: Since { is: None, at },
        });
        known.list.note(list, at);
        known.generation.note(generation, at);
        known.taken.note(taken, at);
    }

    fn policy(&mut self, policy: &StagedBindingPolicy, at: Instant) {
        let status = policy.status.clone().unwrap_or_default();
        for stage in status.stages {
            let known = self.stages.entry(stage.name).or_insert(Since { is: false, at });
            known.note(stage.state == StageState::Passed, at);
        }
        let phase = self.phase.get_or_insert(Since { is: None, at });
        phase.note(status.phase, at);
    }
}
