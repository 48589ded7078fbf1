//! Workloads that go: their pool matches no more, or has another one. Must not delete on what may be a failure to list.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::children::{Children, child_ref};
use super::facts::{Facts, Pool, Read};
use super::plan::{Draft, Write};
use crate::time::after;

/// So long after NodePools are gone they must still be served: a definition that is being deleted takes its objects with it, one after the
/// other, before it goes.
const GONE_FOR: SignedDuration = SignedDuration::from_secs(30);

/// Deletes the surplus workloads.
pub(super) fn draft(facts: &Facts, (children, pools): (&Children<'_>, &BTreeMap<String, Pool>), draft: &mut Draft) {
    let going = children
        .surplus
        .iter()
        .filter(|(_, view)| view.metadata.deletion_timestamp.is_none());
    for (pool, view) in going {
        let of_pool = (!pools.contains_key(*pool)).then(|| facts.gone_since.get(*pool));
        let of_all = are_pools_gone(children).then_some(facts.no_pools_since.as_ref());
        // What this process has not seen is not known.
        let Some(since) = of_pool.into_iter().chain(of_all).collect::<Option<Vec<_>>>() else {
            continue;
        };
        match since.into_iter().max().map(|since| after(*since, GONE_FOR)) {
            Some(until) if !is_proven(facts, until) => draft.wake(until.max(facts.now)),
            _ => draft.writes.extend(child_ref(pool, view).map(Write::DeleteChild)),
        }
    }
}

fn is_proven(facts: &Facts, until: Timestamp) -> bool {
    match facts.read {
        Read::Cached => facts.now >= until,
        Read::Anew { began_at } => began_at >= until,
    }
}

/// Whether no pool matches, and workloads are there.
pub(super) fn are_pools_gone(children: &Children<'_>) -> bool {
    children.wanted.is_empty() && !children.surplus.is_empty()
}
