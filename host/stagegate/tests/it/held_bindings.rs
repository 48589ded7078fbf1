//! The shipped admission policy of staged updates on the embedded API server: Bindings as large as KubeStellar's can be are held, too. What it
//! answers to each kind of write is compared with a real server in `tests/cluster/requests/admission-hold.yaml`.

use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use stagegate::held_bindings;
use stagegate_api::crd;
use stagegate_clock::TokioClock;
use stagegate_embedded::Server;

const ADMITTED: &str = "community.kubestellar.io/admitted-versions";
/// Of each scope; names are as long as they are seen in practice.
const MANY: usize = 512;

async fn server() -> (Server, Client) {
    let server = Server::new(TokioClock::shared());
    server.install_crds(crd::all_for_playground()).unwrap();
    let client = server.client();
    held_bindings::install(&client).await.unwrap();
    (server, client)
}

fn bindings(client: Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("control.kubestellar.io", "v1alpha1", "Binding");
    Api::all_with(client, &ApiResource::from_gvk(&kind))
}

/// Objects of both scopes, the last one at its own version.
fn workload(last: &str) -> Value {
    let name = |index: usize| format!("an-object-with-a-long-name-{index:04}");
    let cluster_scope = (0..MANY).map(|index| {
        json!({
            "group": "rbac.authorization.k8s.io", "version": "v1", "resource": "clusterroles",
            "name": name(index), "resourceVersion": "1234567",
        })
    });
    let namespace_scope = (0..MANY).map(|index| {
        let version = if index + 1 == MANY { last } else { "1234567" };
        json!({
            "group": "apps", "version": "v1", "resource": "deployments", "namespace": "a-namespace-of-a-team",
            "name": name(index), "resourceVersion": version,
        })
    });
    json!({
        "clusterScope": cluster_scope.collect::<Vec<_>>(),
        "namespaceScope": namespace_scope.collect::<Vec<_>>(),
    })
}

/// The annotation that admits this workload.
fn list(workload: &Value) -> String {
    let text = |entry: &Value, member: &str| entry[member].as_str().unwrap_or_default().to_owned();
    let entries = ["clusterScope", "namespaceScope"].map(|scope| workload[scope].as_array().expect("a list"));
    let entries = entries.into_iter().flatten().map(|entry| {
        let [group, resource, namespace, name, version] =
            ["group", "resource", "namespace", "name", "resourceVersion"].map(|member| text(entry, member));
        format!("{group}/{resource}/{namespace}/{name}@{version}")
    });
    entries.collect::<Vec<_>>().join(" ")
}

async fn write(api: &Api<DynamicObject>, patch: Value) -> Result<(), String> {
    match api.patch("large", &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 403 => Err(status.message),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_binding_of_a_thousand_objects_is_held_to_its_list() {
    let (_server, client) = server().await;
    let api = bindings(client);
    let (old, new) = (workload("1234567"), workload("1234568"));
    let binding = json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "Binding",
        "metadata": {"name": "large", "annotations": {ADMITTED: list(&old)}},
        "spec": {"workload": old, "destinations": [{"clusterId": "prod1"}]},
    });
    let binding = serde_json::from_value(binding).unwrap();
    api.create(&PostParams::default(), &binding).await.unwrap();

    let refused = write(&api, json!({"spec": {"workload": new}})).await.unwrap_err();
    assert!(
        refused.contains("stagegate-held-bindings")
            && refused.contains("this Binding is held by a staged update: spec.workload"),
        "{refused}"
    );
    let both = json!({"metadata": {"annotations": {ADMITTED: list(&new)}}, "spec": {"workload": new}});
    let refused = write(&api, both).await.unwrap_err();
    assert!(
        refused.contains("spec.workload"),
        "the new list admits itself: {refused}"
    );
    let emptied = write(&api, json!({"spec": {"destinations": []}})).await.unwrap_err();
    assert!(emptied.contains("spec.destinations may not be emptied"), "{emptied}");
    let joined = json!({"spec": {"destinations": [{"clusterId": "prod1"}, {"clusterId": "prod2"}]}});
    write(&api, joined).await.unwrap();
    write(&api, json!({"metadata": {"annotations": {ADMITTED: list(&new)}}}))
        .await
        .unwrap();
    write(&api, json!({"spec": {"workload": new}})).await.unwrap();
}
