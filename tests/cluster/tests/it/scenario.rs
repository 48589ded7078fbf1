//! A scenario as its file writes it, and how it is worked through. Must not know how a back end works.
//!
//! A file of `scenarios/` is one case: what is there, and steps, each of which does something or waits for something. It runs on every back end that
//! it names; by itself on all.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use serde::Deserialize;
use serde_json::{Value, json};
use stagegate_api::evidence;
use stagegate_cluster_tests::audit::Right;

use crate::gates;
use crate::like;
use crate::world::{Backend, Part, World};

/// How often a state is looked at while it is waited for.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Scenario {
    /// One sentence: what is shown.
    pub about: String,
    #[serde(default = "Backend::all")]
    pub on: Vec<Backend>,
    /// Files and folders of the repository that are applied first.
    #[serde(default)]
    pub files: Vec<String>,
    /// Sample gates: each as the ConfigMap of its name that `stagegate gate configmap` prints.
    #[serde(default)]
    pub gates: Vec<String>,
    /// Applied after them.
    #[serde(default)]
    pub objects: Vec<Value>,
    pub steps: Vec<Step>,
    /// By back end: what the API server refuses the hosts, as `get secrets`. Exactly that; elsewhere nothing.
    #[serde(default)]
    refused: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Step {
    Apply(Value),
    /// A merge patch.
    Patch {
        of: Reference,
        to: Value,
    },
    Delete(Reference),
    /// Until the object is so.
    Wait {
        #[serde(rename = "for")]
        of: Reference,
        #[serde(flatten)]
        expected: Expected,
        #[serde(default = "minute")]
        within_s: u64,
    },
    /// The object is so all the time.
    Stays {
        #[serde(rename = "as")]
        of: Reference,
        #[serde(flatten)]
        expected: Expected,
        for_s: u64,
    },
    /// Until there is an Event that is so.
    Told(Value),
    /// The stages that the policy had as active ones, from its beginning.
    Went {
        policy: String,
        through: Vec<String>,
    },
    /// Since it came into a first cluster the workload has always been in some cluster.
    NeverMissing {
        resource: String,
        name: String,
    },
    /// Until these are the images of the Deployment that the cluster has run from the beginning, in this order.
    Ran {
        cluster: String,
        name: String,
        images: Vec<String>,
        #[serde(default = "minute")]
        within_s: u64,
    },
    Has(Has),
    /// The exit code of `kubectl stagegate status` is 0, and these texts are in what it prints.
    Status {
        of: String,
        says: Vec<String>,
    },
    /// The ManifestWork that brings an object of this name to the cluster.
    DeleteCarrier {
        cluster: String,
        name: String,
    },
    /// Another client pauses and resumes the policy and annotates it, until a refused write makes the controller read it.
    Contend(Reference),
    Kill(Part),
    Start(Part),
    /// So many seconds.
    Pause(u64),
}

fn minute() -> u64 {
    60
}

/// Until the clusters of each group have the object alike, those of different groups have it otherwise, and some have no such object.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Has {
    resource: String,
    name: String,
    #[serde(default)]
    alike: Vec<Vec<String>>,
    #[serde(default)]
    absent: Vec<String>,
    #[serde(default = "minute")]
    within_s: u64,
}

/// An object, by its name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Reference {
    pub kind: String,
    pub name: String,
    pub namespace: Option<String>,
    /// Of kinds that are none of ours, KubeStellar's and the core's.
    pub api_version: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Expected {
    Like(Value),
    Absent(bool),
}

/// Kinds that scenarios need not write the group of.
const KINDS: &[(&str, &str)] = &[
    ("StagedBindingPolicy", "community.kubestellar.io/v1alpha1"),
    ("SimulatedCluster", "playground.community.kubestellar.io/v1alpha1"),
    ("BindingPolicy", "control.kubestellar.io/v1alpha1"),
    ("Binding", "control.kubestellar.io/v1alpha1"),
    ("CombinedStatus", "control.kubestellar.io/v1alpha1"),
    ("StatusCollector", "control.kubestellar.io/v1alpha1"),
    ("WorkStatus", "control.kubestellar.io/v1alpha1"),
    ("Deployment", "apps/v1"),
    ("ConfigMap", "v1"),
    ("Secret", "v1"),
    ("Namespace", "v1"),
];
/// Nothing else takes a host longer to say.
const TOLD_MAX: Duration = Duration::from_secs(60);

impl Scenario {
    /// # Errors
    /// A file that is none.
    pub fn read(path: &Path) -> anyhow::Result<Scenario> {
        // The name of the program's own collector follows from its spec.
        let text = std::fs::read_to_string(path)?.replace("$evidence", &evidence::collector_name());
        serde_saphyr::from_str(&text).with_context(|| format!("reading {}", path.display()))
    }

    /// # Errors
    /// The first step that does not hold, with the story so far.
    pub async fn run(&self, world: &mut World) -> anyhow::Result<()> {
        for file in &self.files {
            world.apply_file(file).await?;
        }
        for gate in &self.gates {
            apply(&world.client(), &gates::config_map(gate)?).await?;
        }
        for object in &self.objects {
            apply(&world.client(), object).await?;
        }
        for (number, step) in self.steps.iter().enumerate() {
            let done = step.work(world).await;
            done.with_context(|| format!("step {} ({step:?})", number + 1))?;
            world.check().context("something has ended")?;
        }
        world.judge()
    }

    /// What the API server must have refused on this back end.
    pub fn refused(&self, backend: Backend) -> BTreeSet<String> {
        self.refused.get(backend.name()).cloned().unwrap_or_default()
    }
}

impl Step {
    async fn work(&self, world: &mut World) -> anyhow::Result<()> {
        let client = world.client();
        match self {
            Step::Apply(object) => apply(&client, object).await,
            Step::Patch { of, to } => {
                let api = of.api(&client);
                api.patch(&of.name, &PatchParams::default(), &Patch::Merge(to)).await?;
                Ok(())
            }
            Step::Delete(of) => {
                of.api(&client).delete(&of.name, &DeleteParams::default()).await?;
                Ok(())
            }
            Step::Wait { of, expected, within_s } => of.wait(&client, expected, *within_s).await,
            Step::Stays { of, expected, for_s } => of.stays(&client, expected, *for_s).await,
            Step::Told(event) => told(&client, event).await,
            Step::Went { policy, through } => {
                let seen = world.story().stages_of(policy);
                ensure!(seen == *through, "{policy} went through {seen:?}");
                Ok(())
            }
            Step::NeverMissing { resource, name } => world.never_missing(resource, name),
            Step::Ran {
                cluster,
                name,
                images,
                within_s,
            } => ran(world, (cluster, name, images), *within_s).await,
            Step::Has(has) => has.wait(world).await,
            Step::Status { of, says } => {
                let printed = world.plugin(&["status", of])?;
                let missing: Vec<&String> = says.iter().filter(|text| !printed.contains(*text)).collect();
                ensure!(missing.is_empty(), "{missing:?} is not in:\n{printed}");
                Ok(())
            }
            Step::DeleteCarrier { cluster, name } => delete_carrier(&client, cluster, name).await,
            Step::Contend(policy) => contend(&client, policy, world).await,
            Step::Kill(part) => {
                world.story().catch_up(&client).await?;
                world.kill(*part)
            }
            Step::Start(part) => world.start_again(*part).await,
            Step::Pause(seconds) => {
                tokio::time::sleep(Duration::from_secs(*seconds)).await;
                Ok(())
            }
        }
    }
}

impl Reference {
    pub fn api(&self, client: &Client) -> Api<DynamicObject> {
        let known = KINDS.iter().find(|(kind, _)| *kind == self.kind);
        let version = self.api_version.as_deref().or(known.map(|(_, version)| *version));
        let version = version.unwrap_or_else(|| panic!("{} needs an apiVersion", self.kind));
        api(client, (version, &self.kind), self.namespace.as_deref())
    }

    async fn faults(&self, client: &Client, expected: &Expected) -> anyhow::Result<Vec<String>> {
        let found = self.api(client).get_opt(&self.name).await?;
        Ok(match (expected, found) {
            (Expected::Like(wanted), Some(found)) => like::faults(wanted, &serde_json::to_value(&found)?),
            (Expected::Like(_), None) => vec!["it does not exist".to_owned()],
            (Expected::Absent(true), Some(_)) => vec!["it exists".to_owned()],
            (Expected::Absent(true), None) => Vec::new(),
            (Expected::Absent(false), found) => found
                .is_none()
                .then(|| "it does not exist".to_owned())
                .into_iter()
                .collect(),
        })
    }

    async fn wait(&self, client: &Client, expected: &Expected, within_s: u64) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            // An API server that is being started again refuses connections.
            let faults = match self.faults(client, expected).await {
                Ok(faults) if faults.is_empty() => return Ok(()),
                Ok(faults) => faults,
                Err(error) => vec![format!("{error:#}")],
            };
            if begun.elapsed() > Duration::from_secs(within_s) {
                let found = self.api(client).get_opt(&self.name).await.ok().flatten();
                let status = found.map(|found| found.data["status"].clone()).unwrap_or_default();
                let text = format!("not within {within_s} s: {faults:?}; status: {status}");
                return Err(TooLate(text).into());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn stays(&self, client: &Client, expected: &Expected, for_s: u64) -> anyhow::Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(for_s) {
            let faults = self.faults(client, expected).await?;
            ensure!(faults.is_empty(), "after {:?}: {faults:?}", begun.elapsed());
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }
}

impl Has {
    async fn wait(&self, world: &World) -> anyhow::Result<()> {
        let begun = Instant::now();
        // The playground keeps its truth to itself.
        while let Some(seen) = world.contents(&self.resource, &self.name) {
            if self.is_so(&seen) {
                break;
            }
            if begun.elapsed() > Duration::from_secs(self.within_s) {
                return Err(TooLate(format!("not within {} s: clusters have {seen:?}", self.within_s)).into());
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// By cluster: the digest of the contents.
    fn is_so(&self, seen: &BTreeMap<String, String>) -> bool {
        let contents = |group: &Vec<String>| group.iter().map(|cluster| seen.get(cluster)).collect();
        let groups: Vec<BTreeSet<Option<&String>>> = self.alike.iter().map(contents).collect();
        let all: BTreeSet<Option<&String>> = groups.iter().flatten().copied().collect();
        groups.iter().all(|group| group.len() == 1)
            && all.len() == groups.len()
            && !all.contains(&None)
            && !self.absent.iter().any(|cluster| seen.contains_key(cluster))
    }
}

async fn ran(world: &World, (cluster, name, images): (&str, &str, &[String]), within_s: u64) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        // The playground keeps its truth to itself.
        let Some(seen) = world.images(cluster, name) else {
            return Ok(());
        };
        if seen == images {
            return Ok(());
        }
        ensure!(images.starts_with(&seen), "{cluster} has run {seen:?}");
        if begun.elapsed() > Duration::from_secs(within_s) {
            return Err(TooLate(format!("not within {within_s} s: {cluster} has run {seen:?}")).into());
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn delete_carrier(client: &Client, cluster: &str, name: &str) -> anyhow::Result<()> {
    let works = api(
        client,
        ("work.open-cluster-management.io/v1", "ManifestWork"),
        Some(cluster),
    );
    let carries = |work: &&DynamicObject| work.data["spec"]["workload"]["manifests"][0]["metadata"]["name"] == name;
    let listed = works.list(&ListParams::default()).await?.items;
    let carrier = listed.iter().find(carries);
    let carrier = carrier.with_context(|| format!("no ManifestWork brings {name} to {cluster}"))?;
    works.delete(&carrier.name_any(), &DeleteParams::default()).await?;
    Ok(())
}

/// Only chance puts a write of the controller between two edits, so they repeat until one is refused.
async fn contend(client: &Client, policy: &Reference, world: &World) -> anyhow::Result<()> {
    let api = policy.api(client);
    let begun = Instant::now();
    for number in 0_u32.. {
        let edit = json!({"spec": {"paused": number % 2 == 0}});
        let note = json!({"metadata": {"annotations": {"writer": number.to_string()}}});
        for patch in [edit, note] {
            api.patch(&policy.name, &PatchParams::default(), &Patch::Merge(patch))
                .await?;
        }
        let is_read = |right: &Right| right.to_string() == "get stagedbindingpolicies.community.kubestellar.io";
        if number % 2 == 1 && world.used()?.rights.iter().any(is_read) {
            return Ok(());
        }
        ensure!(
            begun.elapsed() < TOLD_MAX,
            "policy {}: no write of the controller was refused in {} rounds of two edits",
            policy.name,
            number + 1
        );
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// What was waited for has not come. Other than with every other failure, that is all that is known.
#[derive(Debug)]
pub struct TooLate(String);

impl fmt::Display for TooLate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TooLate {}

async fn told(client: &Client, wanted: &Value) -> anyhow::Result<()> {
    // Those about cluster-scoped objects live there.
    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    let begun = Instant::now();
    loop {
        let told = serde_json::to_value(events.list(&ListParams::default()).await?.items)?;
        let faults = like::faults(&json!([wanted]), &told);
        if faults.is_empty() {
            return Ok(());
        }
        ensure!(begun.elapsed() < TOLD_MAX, "nobody has told: {faults:?}");
        tokio::time::sleep(LOOK).await;
    }
}

/// Server-side apply, as `kubectl apply --server-side` does it; a definition that was installed just now may take a moment.
///
/// # Errors
/// What the server says.
pub async fn apply(client: &Client, object: &Value) -> anyhow::Result<()> {
    let member = |path: &str| object.pointer(path).and_then(Value::as_str);
    let (version, kind) = (member("/apiVersion"), member("/kind"));
    let (version, kind) = version.zip(kind).context("an object without apiVersion or kind")?;
    let name = member("/metadata/name").context("an object without a name")?;
    let api = api(client, (version, kind), member("/metadata/namespace"));
    let begun = Instant::now();
    loop {
        match api
            .patch(name, &PatchParams::apply("scenario").force(), &Patch::Apply(object))
            .await
        {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 503) && begun.elapsed().as_secs() < 10 => {
                tokio::time::sleep(LOOK).await;
            }
            Err(error) => return Err(error).with_context(|| format!("applying {kind} {name}")),
        }
    }
}

fn api(client: &Client, (version, kind): (&str, &str), namespace: Option<&str>) -> Api<DynamicObject> {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}
