//! Conditional writes, for every controller alike: create, replace, patch, delete. Must not repeat a write.

use std::fmt::Debug;

use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use stagegate_decide::staging::Precondition;

use crate::shell::events::REPORTER;
use crate::shell::request::{RequestError, request};

/// The object that a write is about and the version it was decided on.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub name: &'a str,
    pub precondition: &'a Precondition,
}

/// In a patch, uid and resourceVersion are preconditions: any other object is refused with 409.
pub fn metadata(precondition: &Precondition) -> Value {
    json!({"uid": precondition.uid, "resourceVersion": precondition.resource_version})
}

/// The value for a merge patch that replaces it whole: a member that it does not have is removed.
pub fn whole<T: Serialize>(value: &T, members: &[&str]) -> Value {
    let mut whole: Map<String, Value> = members
        .iter()
        .map(|member| ((*member).to_owned(), Value::Null))
        .collect();
    if let Ok(Value::Object(present)) = serde_json::to_value(value) {
        whole.extend(present);
    }
    Value::Object(whole)
}

/// A merge patch of the object itself.
pub async fn patch<K>(api: &Api<K>, name: &str, body: Value) -> Result<(), RequestError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let (params, body) = (patching(), Patch::Merge(body));
    let what = format!("patch {} {name}", K::plural(&()));
    request(what, api.patch(name, &params, &body)).await.map(drop)
}

/// Replaces the status, whose top-level members are `members`.
pub async fn patch_status<K, S>(
    api: &Api<K>,
    target: Target<'_>,
    status: &S,
    members: &[&str],
) -> Result<(), RequestError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    S: Serialize,
{
    let body = json!({"metadata": metadata(target.precondition), "status": whole(status, members)});
    let (params, body) = (patching(), Patch::Merge(body));
    let what = format!("patch status of {} {}", K::plural(&()), target.name);
    request(what, api.patch_status(target.name, &params, &body))
        .await
        .map(drop)
}

/// Deletes that version of it; one that is gone already is fine.
pub async fn delete<K>(api: &Api<K>, target: Target<'_>) -> Result<(), RequestError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(target.precondition.uid.clone()),
            resource_version: Some(target.precondition.resource_version.clone()),
        }),
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    let what = format!("delete {} {}", K::plural(&()), target.name);
    match request(what, api.delete(target.name, &params)).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Creates it; a name that is taken is a conflict.
pub async fn create<K>(api: &Api<K>, object: &K) -> Result<(), RequestError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug,
{
    let what = format!(
        "create {} {}",
        K::plural(&()),
        object.meta().name.as_deref().unwrap_or_default()
    );
    request(what, api.create(&posting(), object)).await.map(drop)
}

/// Puts it in place of the version that it carries.
pub async fn replace<K>(api: &Api<K>, object: &K) -> Result<(), RequestError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug,
{
    let name = object.meta().name.as_deref().unwrap_or_default();
    request(
        format!("replace {} {name}", K::plural(&())),
        api.replace(name, &posting(), object),
    )
    .await
    .map(drop)
}

fn posting() -> PostParams {
    PostParams {
        field_manager: Some(REPORTER.to_owned()),
        ..PostParams::default()
    }
}

fn patching() -> PatchParams {
    PatchParams {
        field_manager: Some(REPORTER.to_owned()),
        ..PatchParams::default()
    }
}
