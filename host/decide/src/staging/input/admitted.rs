//! The list of versions that a Binding may name, and whether it names just these. Must not know which ones it should name.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use stagegate_api::{ADMITTED_VERSIONS, Binding, BoundObject};

use crate::names::ResourceVersion;
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

/// The objects of which the Binding names a newer version than its list: something did not hold it. What a release has admitted and
/// KubeStellar has not written yet is older there.
pub fn newer_than_listed(binding: &Binding) -> Vec<&BoundObject> {
    let entries = list(binding).into_iter().flat_map(|list| list.split(' '));
    let listed: BTreeMap<&str, ResourceVersion<&str>> = entries
        .filter_map(|entry| entry.rsplit_once('@'))
        .map(|(object, version)| (object, ResourceVersion::of(version)))
        .collect();
    let is_newer = |object: &&BoundObject| {
        let entry = list_of(&[object]);
        let known = entry.rsplit_once('@').and_then(|(object, _)| listed.get(object));
        known.is_some_and(|known| binding_view::resource_version(object).is_newer_than(known) == Some(true))
    };
    binding.spec.workload.objects().filter(is_newer).collect()
}

/// Whether the Binding names just what its annotation lists.
pub fn is_held_as_listed(binding: &Binding) -> bool {
    list(binding).is_some_and(|list| list == named(binding))
}
