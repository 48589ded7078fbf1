//! Who owns the fields of an object that server-side apply is to change. Must not read or write anything.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use serde_json::{Map, Value, json};

/// Its annotations, such as a Deployment's revision, are its own.
const WORKLOAD_CONTROLLERS: &str = "kube-controller-manager";

/// The entries with one of `manager`'s that applies, in place of those that updated the object itself. An apply removes only what its own
/// manager has applied; what another one has updated would stay for ever (client-go solves this alike, in `csaupgrade`).
pub fn taken_over(entries: Vec<ManagedFieldsEntry>, manager: &str) -> Vec<ManagedFieldsEntry> {
    let is_taken = |entry: &ManagedFieldsEntry| {
        let is_ours = entry.manager.as_deref() == Some(manager);
        let is_of_object = entry.subresource.as_deref().unwrap_or_default().is_empty();
        let is_update = entry.operation.as_deref() == Some("Update");
        is_of_object && (is_ours || is_update && entry.manager.as_deref() != Some(WORKLOAD_CONTROLLERS))
    };
    let (taken, mut kept): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_taken);
    let mut fields = json!({});
    for entry in &taken {
        if let Some(FieldsV1(of_entry)) = &entry.fields_v1 {
            merge(&mut fields, of_entry);
        }
    }
    let time = taken
        .iter()
        .filter_map(|entry| entry.time.clone())
        .max_by_key(|time| time.0);
    kept.push(ManagedFieldsEntry {
        api_version: Some("apps/v1".to_owned()),
        fields_type: Some("FieldsV1".to_owned()),
        fields_v1: Some(FieldsV1(fields)),
        manager: Some(manager.to_owned()),
        operation: Some("Apply".to_owned()),
        subresource: None,
        time,
    });
    kept
}

fn merge(into: &mut Value, from: &Value) {
    let (Value::Object(into), Value::Object(from)) = (into, from) else {
        return;
    };
    for (key, value) in from {
        merge(into.entry(key.clone()).or_insert_with(|| Map::new().into()), value);
    }
}
