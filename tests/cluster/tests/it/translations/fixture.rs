//! A file of `translations/`: what is there, edits, and marks at which both sides are compared. Must not know how either side works.
//!
//! In a file `$own` stands for the file's name; what it makes is called so, because all files share the servers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context as _;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::scenario::{Reference, apply};

const OWN: &str = "$own";
/// Who writes WorkStatuses in the status agent's place.
const AGENT: &str = "agent";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Fixture {
    #[serde(skip)]
    pub name: String,
    #[serde(skip)]
    pub names: Names,
    /// One sentence: what both do alike.
    pub about: String,
    /// The inventory: labels by name.
    #[serde(default)]
    clusters: BTreeMap<String, BTreeMap<String, String>>,
    /// Namespaces first, then these.
    #[serde(default)]
    objects: Vec<Value>,
    pub steps: Vec<Step>,
}

/// Of what is compared.
#[derive(Debug, Default)]
pub struct Names {
    pub policies: BTreeSet<String>,
    pub collectors: BTreeSet<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Step {
    Apply(Value),
    /// A merge patch.
    Patch {
        of: Reference,
        to: Value,
    },
    Delete(Reference),
    /// A cluster reports an object's status, or that it has none.
    Report {
        from: String,
        of: Subject,
        status: Option<Value>,
    },
    /// A cluster's report goes.
    Withdraw {
        from: String,
        of: Subject,
    },
    Mark(Mark),
}

/// The workload object that a report is about.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Subject {
    api_version: String,
    kind: String,
    resource: String,
    namespace: Option<String>,
    name: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Mark {
    pub name: String,
    /// What both show: without it two sides that do nothing were equal. A list is as it is written; null is absence.
    pub shows: Value,
    #[serde(default)]
    pub differs: Vec<Difference>,
}

/// A difference that is meant. It must be there, as it is written here.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Difference {
    /// A JSON pointer into what is shown.
    at: String,
    because: String,
    #[serde(default)]
    theirs: Value,
    #[serde(default)]
    ours: Value,
}

impl Fixture {
    /// # Errors
    /// A file that is none.
    pub fn read(path: &Path) -> anyhow::Result<Fixture> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path)?.replace(OWN, &name);
        let read: Result<Fixture, _> = serde_saphyr::from_str(&text);
        let mut fixture = read.with_context(|| format!("reading {}", path.display()))?;
        let applied = fixture.steps.iter().filter_map(|step| match step {
            Step::Apply(object) => Some(object),
            _ => None,
        });
        fixture.names = Names::of(fixture.objects.iter().chain(applied));
        fixture.name = name;
        Ok(fixture)
    }

    /// The inventory and the objects.
    ///
    /// # Errors
    /// What the server says.
    pub async fn begin(&self, client: &Client) -> anyhow::Result<()> {
        for (name, labels) in &self.clusters {
            for object in cluster(name, labels) {
                apply(client, &object).await?;
            }
        }
        for object in &self.objects {
            apply(client, object).await?;
        }
        Ok(())
    }
}

/// An inventory entry, and the namespace in which it reports.
pub fn cluster(name: &str, labels: &BTreeMap<String, String>) -> [Value; 2] {
    [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": name, "labels": labels}, "spec": {"hubAcceptsClient": true},
        }),
    ]
}

impl Names {
    pub fn of<'a>(objects: impl Iterator<Item = &'a Value>) -> Names {
        let mut names = Names::default();
        for object in objects {
            let name = object
                .pointer("/metadata/name")
                .and_then(Value::as_str)
                .unwrap_or_default();
            match object["kind"].as_str() {
                Some("BindingPolicy") => names.policies.insert(name.to_owned()),
                Some("StatusCollector") => names.collectors.insert(name.to_owned()),
                _ => false,
            };
        }
        names
    }
}

impl Step {
    /// # Errors
    /// What the server says.
    pub async fn work(&self, client: &Client) -> anyhow::Result<()> {
        match self {
            Step::Apply(object) => apply(client, object).await,
            Step::Patch { of, to } => {
                of.api(client)
                    .patch(&of.name, &PatchParams::default(), &Patch::Merge(to))
                    .await?;
                Ok(())
            }
            Step::Delete(of) => {
                of.api(client).delete(&of.name, &DeleteParams::default()).await?;
                Ok(())
            }
            Step::Report { from, of, status } => of.report(client, from, status.as_ref()).await,
            Step::Withdraw { from, of } => {
                work_statuses(client, from)
                    .delete(&of.report_name(), &DeleteParams::default())
                    .await?;
                Ok(())
            }
            Step::Mark(_) => Ok(()),
        }
    }
}

impl Subject {
    async fn report(&self, client: &Client, from: &str, status: Option<&Value>) -> anyhow::Result<()> {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", &self.api_version));
        let name = self.report_name();
        let identity = json!({
            "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "WorkStatus", "metadata": {"name": name, "namespace": from},
        });
        let mut object = identity.clone();
        object["spec"] = json!({"sourceRef": {
            "group": group, "version": version, "resource": self.resource, "kind": self.kind,
            "namespace": self.namespace.as_deref().unwrap_or_default(), "name": self.name,
        }});
        apply(client, &object).await?;
        if let Some(status) = status {
            let mut reported = identity;
            reported["status"] = status.clone();
            let by_agent = PatchParams::apply(AGENT).force();
            work_statuses(client, from)
                .patch_status(&name, &by_agent, &Patch::Apply(&reported))
                .await?;
        }
        Ok(())
    }

    /// As the agent's: another one for the same name in another namespace.
    fn report_name(&self) -> String {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        format!("{}-{namespace}-{}", self.kind.to_lowercase(), self.name)
    }
}

fn work_statuses(client: &Client, cluster: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "control.kubestellar.io",
        "v1alpha1",
        "WorkStatus",
    ));
    Api::namespaced_with(client.clone(), cluster, &resource)
}

impl Mark {
    /// What is not as it should be.
    pub fn faults(&self, mut theirs: Value, mut ours: Value) -> Vec<String> {
        let mut faults = Vec::new();
        for (side, shown) in [("KubeStellar", &theirs), ("stagegate", &ours)] {
            let mut missing = Vec::new();
            compare("", &self.shows, shown, &mut missing);
            faults.extend(missing.iter().map(|fault| format!("{side}: {fault}")));
        }
        for difference in &self.differs {
            faults.extend(difference.faults(&mut theirs, &mut ours));
        }
        let patch = json_patch::diff(&theirs, &ours);
        for change in patch.0 {
            let at = change.path().to_string();
            let of = |side: &Value| side.pointer(&at).map_or("absent".to_owned(), Value::to_string);
            faults.push(format!("{at}: KubeStellar {}, stagegate {}", of(&theirs), of(&ours)));
        }
        faults
    }
}

impl Difference {
    /// Takes itself out of both.
    fn faults(&self, theirs: &mut Value, ours: &mut Value) -> Vec<String> {
        let mut faults = Vec::new();
        for (side, shown, expected) in [("KubeStellar", theirs, &self.theirs), ("stagegate", ours, &self.ours)] {
            let found = take(shown, &self.at);
            if found != *expected {
                faults.push(format!(
                    "{}: {side} has {found}, not {expected}, although {}",
                    self.at, self.because
                ));
            }
        }
        if self.theirs == self.ours {
            faults.push(format!("{}: this is no difference", self.at));
        }
        faults
    }
}

/// Removes what is there; null: nothing.
fn take(from: &mut Value, at: &str) -> Value {
    let Some((parent, member)) = at.rsplit_once('/') else {
        return Value::Null;
    };
    let parent = from.pointer_mut(parent).and_then(Value::as_object_mut);
    parent.and_then(|parent| parent.remove(member)).unwrap_or_default()
}

/// Every member of `wanted` is there; all else is equal.
fn compare(path: &str, wanted: &Value, found: &Value, faults: &mut Vec<String>) {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            for (name, wanted) in wanted {
                compare(
                    &format!("{path}/{name}"),
                    wanted,
                    found.get(name).unwrap_or_default(),
                    faults,
                );
            }
        }
        _ if wanted == found => {}
        _ => faults.push(format!("{path} is {found}, not {wanted}")),
    }
}
