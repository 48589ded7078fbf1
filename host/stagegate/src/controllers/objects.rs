//! Workload objects as Bindings and WorkStatuses name them. Must not read anything.

use kube::core::ApiResource;
use stagegate_api::BoundObject;
use stagegate_decide::names::ObjectKey;

/// A kind known by its plural only: no request needs its singular name.
pub fn api_resource(group: &str, version: &str, plural: &str) -> ApiResource {
    let api_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: String::new(),
        plural: plural.to_owned(),
    }
}

/// Without the version: one object has several.
pub fn object_key(object: &BoundObject) -> ObjectKey {
    ObjectKey {
        group: object.group.clone(),
        resource: object.resource.clone(),
        namespace: object.namespace.clone().filter(|namespace| !namespace.is_empty()),
        name: object.name.clone(),
    }
}
