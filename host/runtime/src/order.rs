//! The order of the versions of one kind. Must not be used across kinds.
//!
//! Versions of one kind are integers that grow with every write: so it is wherever etcd stores them, and Kubernetes has
//! promised it since 1.35 (KEP-5504). A version that is no integer orders nothing, and then nothing is refused for it.

use kube::Resource;

pub fn order(resource_version: &str) -> Option<u64> {
    resource_version.parse().ok()
}

pub fn order_of<T: Resource>(object: &T) -> Option<u64> {
    order(object.meta().resource_version.as_deref()?)
}
