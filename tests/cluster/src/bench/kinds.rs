//! The kinds that a controller works on. Must not write anything.

use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use stagegate_api::{BindingPolicy, CombinedStatus, StagedBindingPolicy};

use super::objects::NAMESPACE;

#[derive(Clone, Debug)]
pub struct Kinds {
    pub policies: ApiResource,
    pub placements: ApiResource,
    pub combined: ApiResource,
}

impl Kinds {
    pub fn all() -> Kinds {
        Kinds {
            policies: ApiResource::erase::<StagedBindingPolicy>(&()),
            placements: ApiResource::erase::<BindingPolicy>(&()),
            combined: ApiResource::erase::<CombinedStatus>(&()),
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
