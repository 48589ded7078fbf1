//! The health check of a stage: how many of its clusters run every kept object as they should, and the first that does not.
//! Must not know the rules of kinds, see [`crate::health`].

use stagegate_api::EvidenceRow;

use super::finding::Finding;
use super::reason::Reason;
use crate::counted::counted;
use crate::health::{Health, health};
use crate::names::ObjectKey;

/// The health of the objects that were counted so far, by cluster.
#[derive(Debug)]
pub(crate) struct Tally {
    /// By the place of the cluster among the sorted destinations.
    is_healthy: Vec<bool>,
    /// The first rollout that has failed, and the first that goes on.
    failed: Option<String>,
    progressing: Option<String>,
}

/// An object and how it is delivered.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) key: ObjectKey,
    /// Updates of it do not reach the clusters.
    pub(crate) is_create_only: bool,
}

impl Tally {
    pub(crate) fn of_clusters(count: usize) -> Self {
        Self {
            is_healthy: vec![true; count],
            failed: None,
            progressing: None,
        }
    }

    /// Counts an object: there is one row for each destination, in the same order.
    pub(crate) fn add(&mut self, object: &Counted, rows: &[EvidenceRow]) {
        for (row, is_healthy) in rows.iter().zip(&mut self.is_healthy) {
            let (first, text) = match health(&object.key.group, &object.key.resource, row) {
                Health::Healthy => continue,
                Health::Progressing(text) => (&mut self.progressing, text),
                Health::Failed(text) => (&mut self.failed, text),
            };
            *is_healthy = false;
            // A version that would run is none that can arrive.
            let kept = if object.is_create_only {
                " (createOnly: updates of it do not reach the cluster)"
            } else {
                ""
            };
            first.get_or_insert_with(|| format!("{}: {} {text}{kept}", row.cluster, object.key));
        }
    }

    /// How many of the clusters run every object as they should.
    pub(crate) fn healthy(&self) -> usize {
        self.is_healthy.iter().filter(|is_healthy| **is_healthy).count()
    }

    /// One finding over all objects. A failed rollout is named before one that is still in progress. Of several objects the first
    /// that is bound is named, with its first cluster.
    pub(crate) fn finding(self) -> Finding {
        let total = self.is_healthy.len();
        let healthy = self.healthy();
        let (reason, first) = match (self.failed, self.progressing) {
            (Some(first), _) => (Reason::HealthFailed, first),
            (None, Some(first)) => (Reason::Unhealthy, first),
            (None, None) if total == 0 => {
                return Finding::unknown(Reason::NoDestinations, "the Binding names no cluster");
            }
            (None, None) if total == 1 => return Finding::pass(Reason::Healthy, "1 cluster healthy"),
            (None, None) => return Finding::pass(Reason::Healthy, format!("all {total} clusters healthy")),
        };
        Finding::hold(
            reason,
            format!("{healthy} of {} healthy; {first}", counted(total, "cluster")),
        )
    }
}
