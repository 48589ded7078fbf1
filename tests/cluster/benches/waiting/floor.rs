//! The floor: a controller that knows no rules. On an event it makes only the writes that no controller could do without: the
//! BindingPolicy of the next stage, the removal of the previous one, and status once. So its figures are what this API server and a
//! Rust client cost. Once it has listed the policies, it must not read anything that its watches have not reported.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use futures::StreamExt as _;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{DynamicObject, ObjectMeta, PartialObjectMeta};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use stagegate_api::{annotation, label, stage_binding_policy_name};
use stagegate_cluster_tests::bench::kinds::Kinds;
use stagegate_cluster_tests::bench::objects::{COLLECTOR, PASSING, STAGES};
use stagegate_cluster_tests::control_plane;
use tokio::sync::Semaphore;

/// Policies worked on at the same time, as many as Stagegate does.
const CONCURRENCY: usize = 16;

#[derive(Clone, Copy, Debug)]
enum Step {
    Status,
    Open(usize),
    Remove(usize),
}

const PLACING: &[Step] = &[Step::Open(0)];
const MOVING: &[Step] = &[Step::Open(1)];
const HANDING_OVER: &[Step] = &[Step::Remove(0), Step::Status];

struct Floor {
    policies: Api<PartialObjectMeta<DynamicObject>>,
    placements: Api<PartialObjectMeta<DynamicObject>>,
    /// Uid and version of policies and placements, as the last answer or event had them.
    versions: Mutex<HashMap<String, Version>>,
    /// Placements whose evidence has been acted on.
    done: Mutex<HashSet<String>>,
    kinds: Kinds,
    seats: Semaphore,
}

#[derive(Clone, Debug, Default)]
struct Version {
    uid: Option<String>,
    resource_version: Option<String>,
}

/// Runs until it is killed.
pub async fn run(kubeconfig: &Path) -> anyhow::Result<()> {
    let client = control_plane::client(kubeconfig).await?;
    let kinds = Kinds::all();
    let floor = Arc::new(Floor {
        policies: Api::all_with(client.clone(), &kinds.policies),
        placements: Api::all_with(client.clone(), &kinds.placements),
        versions: Mutex::default(),
        done: Mutex::default(),
        kinds: kinds.clone(),
        seats: Semaphore::new(CONCURRENCY),
    });
    for policy in floor.policies.list_metadata(&ListParams::default()).await? {
        floor.note(&policy.metadata);
        floor.spawn(policy.name_any(), PLACING);
    }
    let placements = follow_placements(floor.clone(), kinds.placements(&client));
    let evidence = follow_evidence(floor, kinds.combined(&client));
    futures::future::join(placements, evidence).await;
    Ok(())
}

async fn follow_placements(floor: Arc<Floor>, api: Api<DynamicObject>) {
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
    while let Some(event) = events.next().await {
        if let Ok(Event::Apply(placement) | Event::InitApply(placement)) = event {
            floor.note(&placement.metadata);
        }
    }
}

async fn follow_evidence(floor: Arc<Floor>, api: Api<DynamicObject>) {
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
    while let Some(event) = events.next().await {
        if let Ok(Event::Apply(combined) | Event::InitApply(combined)) = event
            && let Some(placement) = combined.labels().get(label::BINDING_POLICY)
            && is_passing(&combined.data)
            && floor.locked_done().insert(placement.clone())
            && let Some((policy, stage)) = placement.split_once(".stage.")
        {
            floor.spawn(
                policy.to_owned(),
                if stage == STAGES[0] { MOVING } else { HANDING_OVER },
            );
        }
    }
}

/// In place of a condition.
fn is_passing(combined: &Value) -> bool {
    let results = combined["results"].as_array().into_iter().flatten();
    let mut of_collector = results.filter(|result| result["name"] == COLLECTOR);
    of_collector.any(|result| result["rows"][0]["columns"][0]["float"].as_str() == Some(&PASSING.to_string()))
}

impl Floor {
    fn spawn(self: &Arc<Self>, policy: String, steps: &'static [Step]) {
        let floor = self.clone();
        tokio::spawn(async move {
            // Nobody closes it.
            let _seat = floor.seats.acquire().await;
            for step in steps {
                if let Err(error) = floor.write(&policy, *step).await {
                    eprintln!("{policy}: {step:?}: {error:#}");
                    return;
                }
            }
        });
    }

    async fn write(&self, policy: &str, step: Step) -> anyhow::Result<()> {
        let patching = PatchParams::default();
        match step {
            Step::Status => {
                let body = json!({"metadata": self.precondition(policy)?, "status": status()});
                let written = self
                    .policies
                    .patch_status(policy, &patching, &Patch::Merge(body))
                    .await?;
                self.note(&written.metadata);
            }
            Step::Open(stage) => {
                let placement = self.open(policy, stage)?;
                // The answer is read as the metadata that is needed of it.
                let request = kube::core::Request::new(self.placements.resource_url());
                let request = request.create(&PostParams::default(), serde_json::to_vec(&placement)?)?;
                let made: PartialObjectMeta<DynamicObject> =
                    self.placements.clone().into_client().request(request).await?;
                self.note(&made.metadata);
            }
            Step::Remove(stage) => {
                let name = stage_binding_policy_name(policy, STAGES[stage]);
                let version = self.version(&name)?;
                let params = DeleteParams {
                    preconditions: Some(Preconditions {
                        uid: version.uid,
                        resource_version: version.resource_version,
                    }),
                    ..DeleteParams::background()
                };
                self.placements.delete(&name, &params).await?;
            }
        }
        Ok(())
    }

    fn open(&self, policy: &str, stage: usize) -> anyhow::Result<Value> {
        let owner = self.version(policy)?;
        let owner = json!({
            "apiVersion": self.kinds.policies.api_version,
            "kind": self.kinds.policies.kind,
            "name": policy,
            "uid": owner.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        });
        Ok(json!({
            "apiVersion": self.kinds.placements.api_version,
            "kind": self.kinds.placements.kind,
            "metadata": {
                "name": stage_binding_policy_name(policy, STAGES[stage]),
                "annotations": annotations(),
                "ownerReferences": [owner],
            },
            "spec": spec(policy, STAGES[stage]),
        }))
    }

    fn note(&self, metadata: &ObjectMeta) {
        let version = Version {
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
        };
        self.locked_versions()
            .insert(metadata.name.clone().unwrap_or_default(), version);
    }

    fn version(&self, name: &str) -> anyhow::Result<Version> {
        let versions = self.locked_versions();
        versions
            .get(name)
            .cloned()
            .with_context(|| format!("{name} is not known"))
    }

    fn precondition(&self, name: &str) -> anyhow::Result<Value> {
        let version = self.version(name)?;
        Ok(json!({"uid": version.uid, "resourceVersion": version.resource_version}))
    }

    fn locked_versions(&self) -> MutexGuard<'_, HashMap<String, Version>> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn locked_done(&self) -> MutexGuard<'_, HashSet<String>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn annotations() -> Value {
    json!({
        annotation::REVISION: "5".repeat(64),
        annotation::ATTEMPT: "1",
        annotation::FENCING_TOKEN: "1.0",
        annotation::BASELINE_VERSION: "123456",
        annotation::OPENED_AT_VERSION: "123456",
    })
}

fn spec(policy: &str, environment: &str) -> Value {
    let clause = json!({
        "statusCollectors": [COLLECTOR, stagegate_api::evidence::collector_name()],
        "objectSelectors": [{"matchLabels": {"app": policy}}],
    });
    json!({"clusterSelectors": [{"matchLabels": {"env": environment}}], "downsync": [clause]})
}

/// Of the size that a two-stage policy's has; something is new in it, or the server would write nothing.
fn status() -> Value {
    let now = k8s_openapi::jiff::Timestamp::now().to_string();
    let condition = |kind: &str| {
        json!({
            "type": kind,
            "status": "True",
            "reason": "Progressing",
            "message": format!("as long as the one that tells people what a stage waits for: {now}"),
            "lastTransitionTime": now,
            "observedGeneration": 1,
        })
    };
    let check = |name: &str| {
        json!({
            "name": name,
            "outcome": "Hold",
            "reason": "ConditionFalse",
            "message": "the condition is false for the first object that it was asked about",
            "checkDigest": "5".repeat(64),
            "evidenceDigest": "5".repeat(64),
            "evaluatedAt": now,
        })
    };
    let stage = |name: &str| {
        json!({
            "name": name,
            "state": "Active",
            "revision": "5".repeat(64),
            "attempt": 1,
            "placedAt": now,
            "settledAt": now,
            "destinations": ["dev1"],
            "checks": [check("filter"), check("condition")],
        })
    };
    let conditions = ["Accepted", "Progressing", "Completed", "Stalled"].map(condition);
    let stages = STAGES.map(stage);
    json!({
        "observedGeneration": 1,
        "activeStage": STAGES[0],
        "phase": "Progressing",
        "reason": "Progressing",
        "conditions": conditions,
        "stages": stages,
    })
}
