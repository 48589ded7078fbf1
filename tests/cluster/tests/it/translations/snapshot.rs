//! What one side has made of a fixture, without what must differ between two servers: uids, versions, times, texts of errors, orders without meaning.
//! Must not change anything.

use std::collections::BTreeMap;

use kube::api::{DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Map, Value, json};
use stagegate_api::label;

use super::fixture::Names;

/// How KubeStellar begins the text of a cell that has no value.
const ERROR_IN_CELL: &str = "failed to evaluate expression";
const LABELS: [&str; 5] = [
    label::API_GROUP,
    label::RESOURCE,
    label::NAMESPACE,
    label::NAME,
    label::BINDING_POLICY,
];

/// By kind, then by policy or collector: what stands in the API server.
///
/// # Errors
/// What the server says.
pub async fn of(client: &Client, names: &Names) -> anyhow::Result<Value> {
    let (policies, bindings, combined, collectors) = futures::try_join!(
        list(client, "BindingPolicy"),
        list(client, "Binding"),
        list(client, "CombinedStatus"),
        list(client, "StatusCollector"),
    )?;
    let mut shown = Shown::default();
    let mut uids = BTreeMap::new();
    for policy in policies.iter().filter(|policy| names.policies.contains(name(policy))) {
        uids.insert(name(policy).to_owned(), text(policy, "/metadata/uid").to_owned());
        shown.policies.insert(name(policy).to_owned(), policy_shown(policy));
    }
    for binding in bindings.iter().filter(|binding| names.policies.contains(name(binding))) {
        shown
            .bindings
            .insert(name(binding).to_owned(), binding_shown(binding, &uids));
    }
    for collector in collectors
        .iter()
        .filter(|collector| names.collectors.contains(name(collector)))
    {
        shown.collectors.insert(
            name(collector).to_owned(),
            json!({"invalid": has_any(collector, "/status/errors")}),
        );
    }
    for status in &combined {
        let policy = label_of(status, label::BINDING_POLICY);
        if names.policies.contains(policy) {
            let of_policy = shown.combined.entry(policy).or_insert_with(|| json!({}));
            of_policy[about(status)] = combined_shown(status, uids.get(policy));
        }
    }
    Ok(json!({
        "policies": shown.policies, "bindings": shown.bindings, "combined": shown.combined, "collectors": shown.collectors,
    }))
}

#[derive(Default)]
struct Shown {
    policies: Map<String, Value>,
    bindings: Map<String, Value>,
    combined: Map<String, Value>,
    collectors: Map<String, Value>,
}

async fn list(client: &Client, kind: &str) -> anyhow::Result<Vec<Value>> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("control.kubestellar.io", "v1alpha1", kind));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let listed = api.list(&ListParams::default()).await?;
    Ok(listed.items.iter().map(|item| json!(item)).collect())
}

/// Without finalizers, which differ on purpose: KubeStellar puts one on each policy, to clear up after it. Garbage collection does that
/// here, so a policy can go though nobody runs who would take a finalizer off.
fn policy_shown(policy: &Value) -> Value {
    json!({
        "observed": policy["status"]["observedGeneration"] == policy["metadata"]["generation"],
        "errors": has_any(policy, "/status/errors"),
        "conditions": conditions(policy),
    })
}

fn binding_shown(binding: &Value, policies: &BTreeMap<String, String>) -> Value {
    let mut owners = binding["metadata"]["ownerReferences"].clone();
    for owner in owners.as_array_mut().into_iter().flatten() {
        let of_policy = policies.get(name(binding)).map(String::as_str) == owner["uid"].as_str();
        owner["uid"] = json!(if of_policy { "the policy's" } else { "another" });
    }
    let destinations = binding["spec"]["destinations"].as_array().into_iter().flatten();
    let mut destinations: Vec<&str> = destinations.filter_map(|one| one["clusterId"].as_str()).collect();
    destinations.sort_unstable();
    let mut objects = Map::new();
    for scope in ["clusterScope", "namespaceScope"] {
        for object in binding["spec"]["workload"][scope].as_array().into_iter().flatten() {
            let (key, shown) = object_shown(object);
            objects.insert(key, shown);
        }
    }
    json!({"owners": owners, "destinations": destinations, "objects": objects, "conditions": conditions(binding)})
}

/// `{}` is an object that is asked for in no special way.
fn object_shown(object: &Value) -> (String, Value) {
    let mut shown = object.clone();
    let members = ["group", "resource", "namespace", "name"].map(|member| object[member].as_str().unwrap_or_default());
    if let Some(shown) = shown.as_object_mut() {
        for member in ["group", "resource", "namespace", "name", "resourceVersion"] {
            shown.remove(member);
        }
        if let Some(collectors) = shown.get_mut("statusCollectors").and_then(Value::as_array_mut) {
            collectors.sort_by_key(Value::to_string);
        }
        shown.retain(|_, value| *value != Value::Bool(false) && value.as_array().is_none_or(|list| !list.is_empty()));
    }
    (key(members), shown)
}

fn combined_shown(status: &Value, policy_uid: Option<&String>) -> Value {
    let mut owners = status["metadata"]["ownerReferences"].clone();
    let object_uid = owners
        .pointer("/0/uid")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    for owner in owners.as_array_mut().into_iter().flatten() {
        // Of the object; its uid is in the name, which is compared.
        owner.as_object_mut().map(|owner| owner.remove("uid"));
    }
    let labels = status["metadata"]["labels"].as_object();
    let others = labels
        .into_iter()
        .flatten()
        .filter(|(label, _)| !LABELS.contains(&label.as_str()));
    let results = status["results"].as_array().into_iter().flatten();
    let by_name: Map<String, Value> = results
        .clone()
        .map(|result| (result_name(result), result_shown(result)))
        .collect();
    json!({
        "namespace": status["metadata"]["namespace"],
        "namedAfterBoth": policy_uid.is_some_and(|policy| name(status) == format!("{object_uid}.{policy}")),
        "labels": labels.map(serde_json::Map::len),
        "otherLabels": others.map(|(label, _)| label.as_str()).collect::<Vec<_>>(),
        "owners": owners,
        "order": results.map(result_name).collect::<Vec<_>>(),
        "results": by_name,
    })
}

fn result_name(result: &Value) -> String {
    text(result, "/name").to_owned()
}

/// Rows in the order of their texts; of errors, the columns: which cluster is named is KubeStellar's hazard.
fn result_shown(result: &Value) -> Value {
    let rows = result["rows"].as_array().into_iter().flatten();
    let mut rows: Vec<String> = rows.map(row_shown).collect();
    rows.sort_unstable();
    json!({
        "columns": result["columnNames"],
        "rows": rows,
        "rowErrors": columns_of(&result["rowErrors"]),
        "aggregationErrors": columns_of(&result["aggregationErrors"]),
    })
}

fn row_shown(row: &Value) -> String {
    let cells = row["columns"].as_array().into_iter().flatten();
    cells.map(cell_shown).collect::<Vec<_>>().join(" | ")
}

fn cell_shown(cell: &Value) -> String {
    let value = |member: &str| cell[member].to_string();
    match cell["type"].as_str().unwrap_or_default() {
        "String" if text(cell, "/string").starts_with(ERROR_IN_CELL) => "error".to_owned(),
        "String" => value("string"),
        "Number" => text(cell, "/float").to_owned(),
        "Bool" => value("bool"),
        "Object" => format!("object {}", value("object")),
        other => other.to_owned(),
    }
}

fn columns_of(errors: &Value) -> Vec<&str> {
    let mut columns: Vec<&str> = errors
        .as_array()
        .into_iter()
        .flatten()
        .map(|error| text(error, "/columnName"))
        .collect();
    columns.sort_unstable();
    columns
}

fn conditions(of: &Value) -> BTreeMap<&str, &str> {
    let conditions = of["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .map(|one| (text(one, "/type"), text(one, "/status")))
        .collect()
}

/// `deployments.apps shop web`; without namespace for a cluster-scoped object.
fn key([group, resource, namespace, name]: [&str; 4]) -> String {
    let point = if group.is_empty() { "" } else { "." };
    let space = if namespace.is_empty() { "" } else { " " };
    format!("{resource}{point}{group}{space}{namespace} {name}")
}

/// The object that a CombinedStatus is about, by its labels.
fn about(status: &Value) -> String {
    key([label::API_GROUP, label::RESOURCE, label::NAMESPACE, label::NAME].map(|name| label_of(status, name)))
}

fn label_of<'a>(object: &'a Value, name: &str) -> &'a str {
    object["metadata"]["labels"][name].as_str().unwrap_or_default()
}

fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn has_any(object: &Value, pointer: &str) -> bool {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .is_some_and(|list| !list.is_empty())
}
