//! The list of versions that a Binding may name, and whether it names just these. Must not know which ones it should name.

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use stagegate_api::{ADMITTED_VERSIONS, Binding, BoundObject};

use crate::staging::input::binding_view;

/// The list that names just these versions.
pub fn list_of(objects: &[&BoundObject]) -> String {
    let entries = objects.iter().map(|object| {
        let BoundObject {
            group,
            resource,
            name,
            resource_version,
            ..
        } = object;
        let namespace = object.namespace.as_deref().unwrap_or_default();
        format!("{group}/{resource}/{namespace}/{name}@{resource_version}")
    });
    entries.collect::<Vec<_>>().join(" ")
}

/// The list of the Binding's annotation; `None`: nothing holds it.
pub fn list(binding: &Binding) -> Option<&str> {
    binding.annotations().get(ADMITTED_VERSIONS).map(String::as_str)
}

/// The list that the Binding's workload would have.
pub fn named(binding: &Binding) -> String {
    list_of(&binding_view::objects(binding))
}

/// The first object that the Binding names otherwise than its list.
pub fn first_unlisted(binding: &Binding) -> Option<&BoundObject> {
    let listed: BTreeSet<&str> = list(binding)?.split(' ').collect();
    let mut objects = binding.spec.workload.objects();
    objects.find(|object| !listed.contains(list_of(&[object]).as_str()))
}

/// Whether the Binding names just what its annotation lists.
pub fn is_held_as_listed(binding: &Binding) -> bool {
    list(binding).is_some_and(|list| list == named(binding))
}
