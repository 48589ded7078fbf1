//! What stands in the API server: policies, their workload, and what KubeStellar would make of their placements. The shapes are those
//! of KubeStellar v0.30 and of the original stager's sample. Must not write anything.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use stagegate_api::{CollectorResult, evidence, label, stage_binding_policy_name};

/// Where the workload is.
pub const NAMESPACE: &str = "workload";
/// The one collector that policies name.
pub const COLLECTOR: &str = "deployments-aggregator";
/// The stages, in order.
pub const STAGES: [&str; 2] = ["dev", "prod"];
/// The value for which the condition is true.
pub const PASSING: u32 = 1;

/// The policy of this number, and its Deployment.
pub fn name(number: usize) -> String {
    format!("web-{number:05}")
}

/// The BindingPolicy of a stage.
pub fn placement(number: usize, stage: usize) -> String {
    stage_binding_policy_name(&name(number), STAGES[stage])
}

/// The one cluster of a stage.
pub fn cluster(stage: usize) -> String {
    format!("{}1", STAGES[stage])
}

/// As on the original stager's module page, its condition included.
pub fn policy(number: usize, api_version: &str) -> Value {
    let condition = "combinedStatus.results.exists(r, r.name == 'deployments-aggregator' && \
        r.rows.exists(row, row.columns.exists(col, col.type == 'Number' && col.float == '1')))";
    json!({
        "apiVersion": api_version,
        "kind": "StagedBindingPolicy",
        "metadata": {"name": name(number)},
        "spec": {
            "downsync": [{"statusCollectors": [COLLECTOR], "objectSelectors": [{"matchLabels": {"app": name(number)}}]}],
            "stages": [
                {
                    "name": STAGES[0],
                    "clusterSelectors": [{"matchLabels": {"env": STAGES[0]}}],
                    "filter": "downsyncClause.resource == \"deployments\"",
                    "condition": condition,
                },
                {"name": STAGES[1], "clusterSelectors": [{"matchLabels": {"env": STAGES[1]}}]},
            ],
        },
    })
}

pub fn collector() -> Value {
    json!({
        "apiVersion": "control.kubestellar.io/v1alpha1",
        "kind": "StatusCollector",
        "metadata": {"name": COLLECTOR},
        "spec": {
            "combinedFields": [{"name": "sum", "type": "SUM", "subject": "returned.status.availableReplicas"}],
            "limit": 20,
        },
    })
}

pub fn deployment(number: usize) -> Value {
    let labels = json!({"app": name(number)});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name(number), "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "web"}]},
            },
        },
    })
}

/// A placement as it stands, and the workload that it is about.
#[derive(Clone, Debug)]
pub struct Placed {
    pub number: usize,
    pub stage: usize,
    pub uid: String,
    pub deployment: Stored,
}

/// What the API server said of an object that it took.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    pub uid: String,
    pub resource_version: String,
}

/// What a Binding says.
#[derive(Clone, Debug)]
pub struct Bound {
    /// Of the BindingPolicy, too.
    pub name: String,
    /// The BindingPolicy's uid.
    pub owner: String,
    /// Of the Deployment.
    pub number: usize,
    pub resource_version: String,
    pub clusters: Vec<String>,
    pub collectors: Vec<String>,
}

impl Bound {
    pub fn binding(&self) -> Value {
        let destinations = self.clusters.iter().map(|cluster| json!({"clusterId": cluster}));
        json!({
            "apiVersion": "control.kubestellar.io/v1alpha1",
            "kind": "Binding",
            "metadata": {
                "name": self.name,
                "ownerReferences": [{
                    "apiVersion": "control.kubestellar.io/v1alpha1",
                    "kind": "BindingPolicy",
                    "name": self.name,
                    "uid": self.owner,
                    "controller": true,
                    "blockOwnerDeletion": false,
                }],
            },
            "spec": {
                "destinations": destinations.collect::<Vec<_>>(),
                "workload": {"namespaceScope": [{
                    "group": "apps",
                    "version": "v1",
                    "resource": "deployments",
                    "namespace": NAMESPACE,
                    "name": name(self.number),
                    "resourceVersion": self.resource_version,
                    "statusCollectors": self.collectors,
                }]},
            },
        })
    }
}

impl Placed {
    pub fn name(&self) -> String {
        placement(self.number, self.stage)
    }

    /// As of KubeStellar.
    pub fn combined_name(&self) -> String {
        format!("{}.{}", self.deployment.uid, self.uid)
    }

    pub fn binding(&self) -> Value {
        let bound = Bound {
            name: self.name(),
            owner: self.uid.clone(),
            number: self.number,
            resource_version: self.deployment.resource_version.clone(),
            clusters: vec![cluster(self.stage)],
            collectors: vec![COLLECTOR.to_owned(), evidence::collector_name()],
        };
        bound.binding()
    }

    pub fn combined(&self, api_version: &str, answer: Answer) -> Value {
        json!({
            "apiVersion": api_version,
            "kind": "CombinedStatus",
            "metadata": {
                "name": self.combined_name(),
                "namespace": NAMESPACE,
                "labels": {
                    label::API_GROUP: "apps",
                    label::RESOURCE: "deployments",
                    label::NAMESPACE: NAMESPACE,
                    label::NAME: name(self.number),
                    label::BINDING_POLICY: self.name(),
                },
                "ownerReferences": [{
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "name": name(self.number),
                    "uid": self.deployment.uid,
                }],
            },
            "results": results(self.stage, answer),
        })
    }
}

/// What a cluster has reported.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answer {
    /// What the condition asks for.
    pub asked: u32,
    /// Replicas that are ready and available.
    pub available: u32,
}

impl Answer {
    pub const PASSING: Answer = Answer {
        asked: PASSING,
        available: PASSING,
    };
}

/// What the two collectors say when the stage's cluster has just reported.
pub fn results(stage: usize, answer: Answer) -> Value {
    let columns = evidence::collector_spec().select.iter().map(|column| &column.name);
    let (names, row): (Vec<_>, Vec<_>) = columns.map(|name| (name, reported(name, stage, answer))).unzip();
    json!([
        {
            "name": COLLECTOR,
            "columnNames": ["sum"],
            "rows": [{"columns": [{"type": "Number", "float": answer.asked.to_string()}]}],
        },
        {"name": evidence::collector_name(), "columnNames": names, "rows": [{"columns": row}]},
    ])
}

/// The controller would hold every policy on evidence that it cannot read, and the benchmark would measure that.
pub fn check_evidence() -> anyhow::Result<()> {
    let results: Vec<CollectorResult> = serde_json::from_value(results(0, Answer::PASSING))?;
    let results = results
        .iter()
        .filter(|result| evidence::is_evidence_collector(&result.name));
    for view in results.map(evidence::read) {
        let malformed = view.malformed.unwrap_or_default();
        anyhow::ensure!(
            malformed.is_empty(),
            "the evidence of this benchmark cannot be read: {malformed}"
        );
    }
    Ok(())
}

/// One column of evidence, as a Deployment of one replica fills it. A column that is not listed here is null.
fn reported(column: &str, stage: usize, answer: Answer) -> Value {
    let text = |value: &str| json!({"type": "String", "string": value});
    match column {
        "cluster" => text(&cluster(stage)),
        "at" => text(
            &Timestamp::from_second(Timestamp::now().as_second())
                .unwrap_or_default()
                .to_string(),
        ),
        "gen" | "desired" | "total" | "updated" => text("1"),
        "ready" | "available" => text(&answer.available.to_string()),
        "phase" => text(""),
        "conditions" => {
            json!({"type": "Object", "object": ["Progressing=True:NewReplicaSetAvailable", "Available=True"]})
        }
        _ => json!({"type": "Null"}),
    }
}
