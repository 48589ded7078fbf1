//! NodePool (OpenYurt's): a group of nodes. Only its name, labels and taints are ever looked at, which all its versions have.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::Taint;
use kube::Resource;
use kube::core::{DynamicResourceScope, ObjectMeta};
use serde::{Deserialize, Serialize};

use super::OPENYURT_GROUP;

/// What is read of a NodePool, in any version: the version is the type's dynamic part, for example `v1beta2`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct NodePool {
    /// As the API server has it.
    pub metadata: ObjectMeta,
    /// Part of its spec.
    pub spec: NodePoolSpec,
}

/// Part of a NodePool's spec.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct NodePoolSpec {
    /// That OpenYurt puts on the nodes of the pool.
    pub taints: Vec<Taint>,
}

impl Resource for NodePool {
    type DynamicType = String;
    type Scope = DynamicResourceScope;

    fn kind(_: &String) -> Cow<'_, str> {
        "NodePool".into()
    }

    fn group(_: &String) -> Cow<'_, str> {
        OPENYURT_GROUP.into()
    }

    fn version(version: &String) -> Cow<'_, str> {
        version.into()
    }

    fn plural(_: &String) -> Cow<'_, str> {
        "nodepools".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
