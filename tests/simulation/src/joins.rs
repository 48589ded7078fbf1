//! Clusters that join a stage before they have reported on an update, and what they report later. Must not judge health.

use std::collections::BTreeMap;

use stagegate_api::{StageStatus, StagedBindingPolicyStatus};
use stagegate_decide::names::ObjectKey;
use stagegate_decide::staging::{Plan, Write};

use crate::alarm::{Row, rows};
use crate::controller::talk::Talk;
use crate::kubestellar::KubeStellar;
use crate::queue::{Millis, millis};
use crate::server::Content;
use crate::versions::{CLOCKS_MS, UNTOLD_MS};

/// A cluster, an object, and a version of it.
type Told = (String, String, u64);

/// For each cluster that joined without a report on an object, and the object's version then: when the set with the cluster was accepted.
#[derive(Clone, Debug, Default)]
pub struct Joins(BTreeMap<Told, Millis>);

impl Joins {
    /// Called when everything that a reading led to has been done.
    pub fn finished(&mut self, talk: &Talk, plan: &Plan, kubestellar: &KubeStellar) {
        let facts = &talk.facts;
        let status = plan.writes.iter().find_map(|write| match write {
            Write::Status { status, .. } => Some(&**status),
            _ => None,
        });
        let Some(status) = status else { return };
        for stage in &status.stages {
            let before = record(facts.policy.object.status.as_ref(), &stage.name);
            let before = before.map(|record| &record.destinations[..]).unwrap_or_default();
            // Those of the first set have not joined: others wait for them.
            if before.is_empty() || stage.destinations.iter().all(|cluster| before.contains(cluster)) {
                continue;
            }
            let is_new = |row: &Row| {
                let cluster = &row.told.0;
                stage.destinations.contains(cluster) && !before.contains(cluster) && row.truth.is_none()
            };
            for row in rows(talk, &stage.name, kubestellar).into_iter().filter(is_new) {
                self.0.entry(row.told).or_insert(millis(facts.now));
            }
        }
    }

    /// Whether a cluster's first report may be about the version before this one, as far as an observer can know: it joined soon after the
    /// update before the last one without having reported on it, and the last one soon followed.
    pub fn may_tell_of_older(
        &self,
        (cluster, object): (&str, &ObjectKey),
        content: Content,
        before: Option<u64>,
    ) -> bool {
        let is_soon = |later: Millis, earlier: Millis| (0..UNTOLD_MS - CLOCKS_MS).contains(&(later - earlier));
        let joined = before.and_then(|id| self.0.get(&(cluster.to_owned(), object.to_string(), id)));
        let between = joined.zip(content.replaced);
        between.is_some_and(|(joined, update)| is_soon(*joined, update) && is_soon(content.made_at, *joined))
    }
}

fn record<'s>(status: Option<&'s StagedBindingPolicyStatus>, stage: &str) -> Option<&'s StageStatus> {
    status?.stages.iter().find(|record| record.name == stage)
}
