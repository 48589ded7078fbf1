//! The clauses of `spec.downsync`, with and without what the controller adds to them.

use stagegate_api::DownsyncClause;
use stagegate_api::evidence::is_evidence_collector;

use crate::names::Digest;

/// The revision that these clauses are: what a rollout moves. Our collector is no part of it, and neither is the
/// difference between an absent and an empty list, which KubeStellar does not make.
pub fn revision_of(downsync: &[DownsyncClause]) -> Digest {
    let mut clauses = without_evidence(downsync);
    for clause in &mut clauses {
        drop_empty(&mut clause.resources);
        drop_empty(&mut clause.namespaces);
        drop_empty(&mut clause.object_names);
        drop_empty(&mut clause.namespace_selectors);
        drop_empty(&mut clause.object_selectors);
    }
    Digest::of(&clauses)
}

fn drop_empty<T>(list: &mut Option<Vec<T>>) {
    if list.as_ref().is_some_and(Vec::is_empty) {
        *list = None;
    }
}

/// The clauses without any evidence collector, ours of today or of another version.
pub fn without_evidence(clauses: &[DownsyncClause]) -> Vec<DownsyncClause> {
    let mut clauses = clauses.to_vec();
    for clause in &mut clauses {
        clause.status_collectors.retain(|name| !is_evidence_collector(name));
    }
    clauses
}
