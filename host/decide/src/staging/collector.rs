//! The one StatusCollector the host owns, in the clauses it writes. Must not look at what the collector answers.
//!
//! KubeStellar rewrites a CombinedStatus only when rows change, and compares them one way (measured on v0.30). With
//! the evidence columns in every clause, any status change of any cluster changes a row, so the whole CombinedStatus
//! is rewritten with it, fresh errors included.

use kube::ResourceExt as _;
use stagegate_api::evidence::{self, is_evidence_collector};
use stagegate_api::{DownsyncClause, StatusCollector};

/// Marks the collector as ours: one of its name without this label belongs to somebody else.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "stagegate");

/// Our collector, ready to be created.
pub fn object() -> StatusCollector {
    let mut collector = evidence::collector();
    collector
        .labels_mut()
        .insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    collector
}

/// Whether the live one answers what we ask.
pub fn has_our_spec(live: &StatusCollector) -> bool {
    live.spec == evidence::collector_spec()
}

pub fn is_ours(live: &StatusCollector) -> bool {
    live.labels()
        .get(MANAGED_BY.0)
        .is_some_and(|value| value == MANAGED_BY.1)
}

/// The clauses as written into a BindingPolicy: the user's, each with the evidence collector appended.
pub fn with_evidence(clauses: &[DownsyncClause]) -> Vec<DownsyncClause> {
    let mut clauses = without_evidence(clauses);
    for clause in &mut clauses {
        clause.status_collectors.push(evidence::collector_name());
    }
    clauses
}

/// The clauses without any evidence collector, ours of today or of another version.
pub fn without_evidence(clauses: &[DownsyncClause]) -> Vec<DownsyncClause> {
    let mut clauses = clauses.to_vec();
    for clause in &mut clauses {
        clause.status_collectors.retain(|name| !is_evidence_collector(name));
    }
    clauses
}
