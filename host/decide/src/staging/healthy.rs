//! The health check of a stage: in how many of its clusters every kept object is healthy, and the first that is not. Must not
//! know the rules of kinds; those are in [`crate::health`].

use stagegate_api::BoundObject;

use super::binding_part::Placed;
use super::bound;
use super::finding::Finding;
use super::judge::Judging;
use super::reason::Reason;
use crate::health::{Health, health};

impl Judging<'_> {
    /// One finding over all kept objects in all destinations, which are sorted. It names a failed rollout rather than an
    /// unfinished one; among equals the first object in the Binding's order, and its first cluster.
    pub(super) fn health(&self, placed: &Placed<'_>, kept: &[&BoundObject], destinations: &[&str]) -> Finding {
        if destinations.is_empty() {
            let text = format!("Binding {} names no cluster", placed.stage.placement);
            return Finding::unknown(Reason::NoDestinations, text);
        }
        let mut is_healthy = vec![true; destinations.len()];
        let (mut failed, mut progressing) = (None, None);
        for object in kept {
            let rows = self
                .subject(placed, object)
                .and_then(|(subject, _)| subject.reported_rows(destinations));
            let rows = match rows {
                Ok(rows) => rows,
                Err(finding) => return finding,
            };
            // `reported_rows` has one row for each destination, in the same order.
            for (row, is_healthy) in rows.iter().zip(&mut is_healthy) {
                let (first, text) = match health(&object.group, &object.resource, row) {
                    Health::Healthy => continue,
                    Health::Progressing(text) => (&mut progressing, text),
                    Health::Failed(text) => (&mut failed, text),
                };
                *is_healthy = false;
                first.get_or_insert_with(|| format!("{}: {} {text}", row.cluster, bound::key(object)));
            }
        }
        let total = destinations.len();
        let healthy = is_healthy.into_iter().filter(|is_healthy| *is_healthy).count();
        let noun = if total == 1 { "cluster" } else { "clusters" };
        let (reason, first) = match (failed, progressing) {
            (Some(first), _) => (Reason::HealthFailed, first),
            (None, Some(first)) => (Reason::Unhealthy, first),
            (None, None) if total == 1 => return Finding::pass(Reason::Healthy, "1 cluster healthy"),
            (None, None) => return Finding::pass(Reason::Healthy, format!("all {total} clusters healthy")),
        };
        Finding::hold(reason, format!("{healthy} of {total} {noun} healthy; {first}"))
    }
}
