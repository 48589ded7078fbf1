//! The small shop that scenarios roll out: clusters, workload, collectors, a policy of three stages.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use stagegate_embedded::clusters::ObjectRef;

pub const NAMESPACE: &str = "shop";
/// Where gates are.
pub const GATES: &str = "stagegate-gates";

/// Two dev clusters, one for tests, two for production; collectors; no workload yet.
pub fn shop() -> String {
    let clusters = [
        ("dev-1", "dev"),
        ("dev-2", "dev"),
        ("test-1", "test"),
        ("prod-1", "prod"),
        ("prod-2", "prod"),
    ];
    let clusters: Vec<_> = clusters
        .iter()
        .map(|(name, env)| cluster(name, env, "{readyAfter: 1s}"))
        .collect();
    format!(
        "{}\n---\n{}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {NAMESPACE}}}\n",
        clusters.join("\n---\n"),
        collectors()
    )
}

/// `spec` in flow style.
pub fn cluster(name: &str, env: &str, spec: &str) -> String {
    format!(
        "apiVersion: playground.community.kubestellar.io/v1alpha1\nkind: SimulatedCluster\n\
         metadata: {{name: {name}, labels: {{env: {env}}}}}\nspec: {spec}"
    )
}

/// `worst` is the lowest number of available replicas of any cluster, `total` their sum.
fn collectors() -> &'static str {
    "\
apiVersion: control.kubestellar.io/v1alpha1
kind: StatusCollector
metadata: {name: worst}
spec:
  combinedFields: [{name: available, type: MIN, subject: returned.status.availableReplicas}]
  limit: 20
---
apiVersion: control.kubestellar.io/v1alpha1
kind: StatusCollector
metadata: {name: total}
spec:
  combinedFields: [{name: available, type: SUM, subject: returned.status.availableReplicas}]
  limit: 20"
}

/// A Deployment of two replicas that policies select by `app`.
pub fn workload(app: &str) -> String {
    format!(
        "\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {app}, namespace: {NAMESPACE}, labels: {{app: {app}}}}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: {app}}}}}
  template:
    metadata: {{labels: {{app: {app}}}}}
    spec: {{containers: [{{name: {app}, image: 'registry.example/{app}:1'}}]}}
"
    )
}

/// The condition of all stages here: no cluster has fewer than two replicas available.
pub const WELL: &str = "combinedStatus.results.exists(r, r.name == 'worst' && r.rows.exists(row, \
                        row.columns.exists(col, col.type == 'Number' && double(col.float) >= 2.0)))";

/// Three stages, dev, test and prod; each goes on when the worst cluster has two replicas available.
pub fn policy(app: &str) -> String {
    let stage = |name: &str| {
        format!(
            "  - name: {name}\n    clusterSelectors: [{{matchLabels: {{env: {name}}}}}]\n    condition: \"{WELL}\"\n"
        )
    };
    format!(
        "\
apiVersion: community.kubestellar.io/v1alpha1
kind: StagedBindingPolicy
metadata: {{name: {app}}}
spec:
  downsync:
  - apiGroup: apps
    resources: [deployments]
    namespaces: [{NAMESPACE}]
    objectSelectors: [{{matchLabels: {{app: {app}}}}}]
    statusCollectors: [worst, total]
  stages:
{}{}{}",
        stage("dev"),
        stage("test"),
        stage("prod")
    )
}

/// The policy of three stages, whose edits go through them, too.
pub fn staged(app: &str) -> String {
    policy(app).replace(
        "spec:\n  downsync",
        "spec:\n  updates: Staged\n  previousStages: Keep\n  downsync",
    )
}

/// A patch of the workload's version.
pub fn image(app: &str, tag: u32) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": app, "image": format!("registry.example/{app}:{tag}")}]}}}})
}

/// The shortest policy: three stages with only a name and clusters, so that health decides.
pub fn shortest(app: &str) -> String {
    let stage = |name: &str| format!("  - {{name: {name}, clusterSelectors: [{{matchLabels: {{env: {name}}}}}]}}\n");
    format!(
        "\
apiVersion: community.kubestellar.io/v1alpha1
kind: StagedBindingPolicy
metadata: {{name: {app}}}
spec:
  downsync:
  - objectSelectors: [{{matchLabels: {{app: {app}}}}}]
  stages:
{}{}{}",
        stage("dev"),
        stage("test"),
        stage("prod")
    )
}

/// A gate whose component is `gate.wasm` of the ConfigMap of its name.
pub fn gate(name: &str, config: &Value) -> Value {
    json!({"name": name, "config": config, "module": {"configMap": {
        "namespace": GATES, "name": name, "key": "gate.wasm",
    }}})
}

/// The policy of three stages, the first of which this gate guards, too.
pub fn gated(app: &str, gate: &Value) -> String {
    policy(app).replacen("    condition:", &format!("    gates: [{gate}]\n    condition:"), 1)
}

pub fn deployment_of(app: &str) -> ObjectRef {
    ObjectRef::namespaced("apps", "deployments", NAMESPACE, app)
}

/// Creates or replaces a ConfigMap that holds the component under `gate.wasm`.
pub async fn put_gate(client: &Client, name: &str, component: &[u8]) {
    let mut config_map = ConfigMap {
        binary_data: Some([("gate.wasm".to_owned(), ByteString(component.to_vec()))].into()),
        ..ConfigMap::default()
    };
    config_map.metadata.name = Some(name.to_owned());
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), GATES);
    let made = match api.get_opt(name).await.unwrap() {
        None => api.create(&PostParams::default(), &config_map).await,
        Some(_) => api.replace(name, &PostParams::default(), &config_map).await,
    };
    made.unwrap();
}
