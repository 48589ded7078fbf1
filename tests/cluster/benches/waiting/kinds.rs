//! The kinds that one controller works on. The floor has copies of its own, in another group, so that both run on one server without
//! seeing each other. Must not write anything.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, ResourceExt as _};
use stagegate_api::{BindingPolicy, CombinedStatus, StagedBindingPolicy, crd};

use crate::objects::NAMESPACE;

/// Of the copies.
const FLOOR: &str = "floor.stagegate.test";

#[derive(Clone, Debug)]
pub struct Kinds {
    pub policies: ApiResource,
    pub placements: ApiResource,
    pub combined: ApiResource,
}

impl Kinds {
    pub fn ours() -> Kinds {
        Kinds {
            policies: ApiResource::erase::<StagedBindingPolicy>(&()),
            placements: ApiResource::erase::<BindingPolicy>(&()),
            combined: ApiResource::erase::<CombinedStatus>(&()),
        }
    }

    pub fn floor() -> Kinds {
        let copied = |kind: ApiResource| ApiResource {
            group: FLOOR.to_owned(),
            api_version: format!("{FLOOR}/{}", kind.version),
            ..kind
        };
        let ours = Kinds::ours();
        Kinds {
            policies: copied(ours.policies),
            placements: copied(ours.placements),
            combined: copied(ours.combined),
        }
    }

    pub fn policies(&self, client: &Client) -> Api<DynamicObject> {
        Api::all_with(client.clone(), &self.policies)
    }

    pub fn placements(&self, client: &Client) -> Api<DynamicObject> {
        Api::all_with(client.clone(), &self.placements)
    }

    pub fn combined(&self, client: &Client) -> Api<DynamicObject> {
        Api::namespaced_with(client.clone(), NAMESPACE, &self.combined)
    }
}

/// The same schemas, so that a write costs the server the same.
pub fn copied_definitions() -> Vec<CustomResourceDefinition> {
    let plurals = Kinds::ours();
    let plurals = [&plurals.policies, &plurals.placements, &plurals.combined].map(|kind| kind.plural.clone());
    let copied = |mut definition: CustomResourceDefinition| {
        definition.metadata.name = Some(format!("{}.{FLOOR}", definition.spec.names.plural));
        definition.metadata.annotations = None;
        definition.spec.group = FLOOR.to_owned();
        definition
    };
    crd::ours()
        .into_iter()
        .chain(crd::foreign())
        .filter(|definition| {
            plurals
                .iter()
                .any(|plural| definition.name_any().starts_with(&format!("{plural}.")))
        })
        .map(copied)
        .collect()
}
