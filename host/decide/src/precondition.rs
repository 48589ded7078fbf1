//! Which version of which object a write is about. Must not know any kind.

use kube::core::ObjectMeta;
use serde::Serialize;

use crate::names::{ResourceVersion, Uid};

/// The API server refuses the write for any other version (409 Conflict).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Precondition {
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub resource_version: ResourceVersion,
}

impl Precondition {
    /// Of this version of the object; `None`: it did not come from a server.
    pub fn of(metadata: &ObjectMeta) -> Option<Self> {
        Some(Self {
            uid: metadata.uid.clone()?.into(),
            resource_version: metadata.resource_version.clone()?.into(),
        })
    }
}
