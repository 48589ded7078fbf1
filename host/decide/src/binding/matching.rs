//! Which objects a BindingPolicy's clauses select, and how those travel.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use stagegate_api::{BoundObject, DownsyncClause};

use super::{Candidate, Labels, is_watched};
use crate::selector::Selector;

/// A BindingPolicy's clauses, read once for many objects.
#[derive(Clone, Debug)]
pub struct Clauses<'a>(Vec<Clause<'a>>);

#[derive(Clone, Debug)]
struct Clause<'a> {
    criteria: &'a DownsyncClause,
    namespace_selectors: Selectors,
    object_selectors: Selectors,
}

/// Alternatives. `None` when the clause names none, which lets everything through; unlike a list of which none could
/// be read, which lets nothing through.
type Selectors = Option<Vec<Selector>>;

impl<'a> Clauses<'a> {
    /// Of all clauses of a BindingPolicy.
    pub fn new(clauses: &'a [DownsyncClause]) -> Self {
        let read = |criteria: &'a DownsyncClause| Clause {
            criteria,
            namespace_selectors: readable(criteria.namespace_selectors.as_deref()),
            object_selectors: readable(criteria.object_selectors.as_deref()),
        };
        Self(clauses.iter().map(read).collect())
    }

    /// The object as the Binding names it: everything that any matching clause asks for. `None` when none matches.
    pub fn bind(&self, object: &Candidate, namespaces: &BTreeMap<String, Labels>) -> Option<BoundObject> {
        if !is_watched(&object.group, &object.resource) {
            return None;
        }
        let mut matching = self
            .0
            .iter()
            .filter(|clause| clause.matches(object, namespaces))
            .peekable();
        matching.peek()?;
        let mut bound = BoundObject {
            group: object.group.clone(),
            version: object.version.clone(),
            resource: object.resource.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            resource_version: object.resource_version.clone(),
            ..BoundObject::default()
        };
        for Clause { criteria, .. } in matching {
            bound.create_only |= criteria.create_only;
            bound.want_singleton_reported_state |= criteria.want_singleton_reported_state;
            bound.want_multi_wec_reported_state |= criteria.want_multi_wec_reported_state;
            bound.status_collectors.extend_from_slice(&criteria.status_collectors);
        }
        bound.status_collectors.sort();
        bound.status_collectors.dedup();
        Some(bound)
    }
}

impl Clause<'_> {
    fn matches(&self, object: &Candidate, namespaces: &BTreeMap<String, Labels>) -> bool {
        let criteria = self.criteria;
        // A cluster-scoped object has the namespace "", so that only `*` or a literal "" matches it.
        let namespace = object.namespace.as_deref().unwrap_or_default();
        criteria.api_group.as_ref().is_none_or(|group| *group == object.group)
            && lists(criteria.resources.as_deref(), &object.resource)
            && lists(criteria.namespaces.as_deref(), namespace)
            && lists(criteria.object_names.as_deref(), &object.name)
            && self
                .namespace_selectors
                .as_ref()
                .is_none_or(|any| namespace_matches(any, namespace, namespaces))
            && self
                .object_selectors
                .as_ref()
                .is_none_or(|any| any.iter().any(|one| one.matches(&object.labels)))
    }
}

fn lists(list: Option<&[String]>, name: &str) -> bool {
    let list = list.unwrap_or_default();
    list.is_empty() || list.iter().any(|entry| entry == "*" || entry == name)
}

/// An empty selector lets everything through, cluster-scoped objects too; any other needs the Namespace's labels.
fn namespace_matches(any: &[Selector], namespace: &str, namespaces: &BTreeMap<String, Labels>) -> bool {
    any.iter().any(Selector::is_empty)
        || namespaces
            .get(namespace)
            .is_some_and(|labels| any.iter().any(|one| one.matches(labels)))
}

/// A selector that cannot be read is skipped, as KubeStellar skips it.
fn readable(selectors: Option<&[LabelSelector]>) -> Selectors {
    let selectors = selectors.filter(|selectors| !selectors.is_empty())?;
    Some(
        selectors
            .iter()
            .filter_map(|selector| Selector::try_from(selector).ok())
            .collect(),
    )
}
