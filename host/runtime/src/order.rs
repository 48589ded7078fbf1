//! The order of the versions of one kind, as numbers that a watch counts by. Must not be used across kinds.
//!
//! What a version is, is said by [`ResourceVersion`]. One that is no integer, or one of more than 64 bits, orders nothing, and
//! then nothing is refused for it.

use kube::Resource;
use stagegate_api::ResourceVersion;

pub fn order(resource_version: &str) -> Option<u64> {
    let number = ResourceVersion::of(resource_version).number()?;
    number.try_into().ok()
}

pub fn order_of<T: Resource>(object: &T) -> Option<u64> {
    order(object.meta().resource_version.as_deref()?)
}
