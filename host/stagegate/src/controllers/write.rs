//! Conditional writes, for every controller alike: create, replace, patch, delete. Must not repeat a write.

use std::fmt::Debug;

use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::core::PartialObjectMeta;
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use stagegate_decide::precondition::Precondition;
use stagegate_runtime::request::{RequestError, request};

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

/// What is written by patches and deletes: of the answer only the metadata is read, because an object that cannot be
/// decoded must not make a write look failed.
pub type Patches<K> = Api<PartialObjectMeta<K>>;

/// Writes under one field manager's name.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    pub manager: &'static str,
}

impl Writer {
    /// A merge patch of the object itself. Gives the version that it has then.
    pub async fn patch<K>(&self, api: &Patches<K>, name: &str, body: Value) -> Result<Option<String>, RequestError>
    where
        K: Kind,
    {
        let (params, body) = (self.patching(), Patch::Merge(body));
        let what = format!("patch {} {name}", K::plural(&()));
        let patched = request(what, api.patch(name, &params, &body)).await?;
        Ok(patched.metadata.resource_version)
    }

    /// Replaces the status; `status` is [`whole`]. Gives the version that the object has then.
    pub async fn patch_status<K>(
        &self,
        api: &Patches<K>,
        target: Target<'_>,
        status: Value,
    ) -> Result<Option<String>, RequestError>
    where
        K: Kind,
    {
        let body = json!({"metadata": metadata(target.precondition), "status": status});
        let (params, body) = (self.patching(), Patch::Merge(body));
        let what = format!("patch status of {} {}", K::plural(&()), target.name);
        let patched = request(what, api.patch_status(target.name, &params, &body)).await?;
        Ok(patched.metadata.resource_version)
    }

    /// Creates it, and gives its version; a name that is taken is a conflict.
    pub async fn create<K: Kind + Serialize>(&self, api: &Api<K>, object: &K) -> Result<Option<String>, RequestError> {
        let what = format!(
            "create {} {}",
            K::plural(&()),
            object.meta().name.as_deref().unwrap_or_default()
        );
        let created = request(what, api.create(&self.posting(), object)).await?;
        Ok(created.meta().resource_version.clone())
    }

    /// Puts it in place of the version that it carries.
    pub async fn replace<K: Kind + Serialize>(&self, api: &Api<K>, object: &K) -> Result<(), RequestError> {
        let name = object.meta().name.as_deref().unwrap_or_default();
        let what = format!("replace {} {name}", K::plural(&()));
        request(what, api.replace(name, &self.posting(), object))
            .await
            .map(drop)
    }

    fn posting(&self) -> PostParams {
        PostParams {
            field_manager: Some(self.manager.to_owned()),
            ..PostParams::default()
        }
    }

    fn patching(&self) -> PatchParams {
        PatchParams {
            field_manager: Some(self.manager.to_owned()),
            ..PatchParams::default()
        }
    }
}

/// Of that version alone, with what it owns.
pub fn deletion_of(precondition: &Precondition) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(precondition.uid.to_string()),
            resource_version: Some(precondition.resource_version.to_string()),
        }),
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    }
}

/// Deletes that version of it; one that is gone already is fine.
pub async fn delete<K: Kind>(api: &Patches<K>, target: Target<'_>) -> Result<(), RequestError> {
    let params = deletion_of(target.precondition);
    let what = format!("delete {} {}", K::plural(&()), target.name);
    match request(what, api.delete(target.name, &params)).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// A kind that is known when the program is compiled.
pub trait Kind: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug {}

impl<K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug> Kind for K {}
