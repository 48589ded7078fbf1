//! Workloads that go: their pool matches no more, or has another one. Must not delete on what may be a failure to list.

use jiff::SignedDuration;

use super::children::{Children, child_ref};
use super::facts::{Facts, Read};
use super::plan::{Draft, Write};
use crate::time::after;

/// When all pools are gone at once, so long later NodePools must still be served: a definition that is being deleted takes its objects
/// with it before it goes.
const GONE_FOR: SignedDuration = SignedDuration::from_secs(30);

/// Deletes the surplus workloads.
pub(super) fn draft(facts: &Facts, children: &Children<'_>, draft: &mut Draft) {
    let going = children
        .surplus
        .iter()
        .filter(|(_, view)| view.metadata.deletion_timestamp.is_none());
    let mut going = going
        .filter_map(|(pool, view)| child_ref(pool, view).map(Write::DeleteChild))
        .peekable();
    if going.peek().is_none() {
        return;
    }
    if are_pools_gone(children) {
        let Some(since) = facts.no_pools_since else { return };
        let until = after(since, GONE_FOR);
        let is_proven = match facts.read {
            Read::Cached => facts.now >= until,
            Read::Anew { began_at } => began_at >= until,
        };
        if !is_proven {
            draft.wake(until.max(facts.now));
            return;
        }
    }
    draft.writes.extend(going);
}

/// Whether no pool matches, and workloads are there.
pub(super) fn are_pools_gone(children: &Children<'_>) -> bool {
    children.wanted.is_empty() && !children.surplus.is_empty()
}
