//! In how many clusters of a stage nothing is missing while something is in others: for people who watch a rollout. Must not decide
//! anything.

use std::collections::BTreeSet;

use stagegate_api::{BoundObject, ObjectStatus, StageStatus};

use crate::health::{Health, health};
use crate::names::ClusterName;
use crate::staging::evidence::{Clusters, ObjectTracker, Placed, Subject, UpdateTracker, pending};

/// The clusters that have reported on every one of the objects, in this placement and with every update acknowledged, and where every
/// one is healthy if the stage requires that. Zero where it is not known which reports count. The destinations are sorted; each object
/// comes with its entry in the record.
pub(crate) fn count(
    tracker: &ObjectTracker<'_>,
    placed: &Placed<'_>,
    (kept, sorted): (&[(&BoundObject, &ObjectStatus)], &[ClusterName<&str>]),
    record: &StageStatus,
) -> usize {
    let clusters = Clusters::without_new(sorted.iter().copied().collect());
    let mut is_ready = vec![true; sorted.len()];
    for (object, entry) in kept {
        let Ok((subject, found)) = tracker.subject(placed, object) else {
            return 0;
        };
        if !is_of_placement(&subject, entry) {
            return 0;
        }
        let updates = UpdateTracker::of(&subject, found, &clusters).of_record(record);
        let unseen = placed.stage.unacknowledged_updates;
        if updates.in_doubt(entry, unseen).is_some() {
            // Of which clusters is not known.
            return 0;
        }
        let is_held = updates.held_by_update(entry, unseen).is_some();
        let behind = if is_held {
            behind(entry, sorted)
        } else {
            BTreeSet::new()
        };
        for (cluster, is_ready) in sorted.iter().zip(&mut is_ready) {
            *is_ready = *is_ready && is_ready_in(&subject, *cluster) && !behind.contains(cluster);
        }
    }
    is_ready.into_iter().filter(|is_ready| *is_ready).count()
}

/// The clusters that have not acknowledged an update of the object.
fn behind<'a>(entry: &'a ObjectStatus, sorted: &[ClusterName<&'a str>]) -> BTreeSet<ClusterName<&'a str>> {
    let names = |listed: &'a [String]| listed.iter().map(|name| ClusterName::of(name.as_str()));
    let mut behind = BTreeSet::new();
    for update in &entry.pending_updates {
        behind.extend(names(&update.clusters));
        if pending::is_unnamed(update) {
            let except: BTreeSet<_> = names(&update.except).collect();
            behind.extend(sorted.iter().copied().filter(|cluster| !except.contains(cluster)));
        }
    }
    behind
}

/// Whether the object's CombinedStatus was written for this placement, and asks every cluster.
fn is_of_placement(subject: &Subject<'_>, entry: &ObjectStatus) -> bool {
    let is_newer = |view| {
        subject
            .require_size(view)
            .and_then(|()| subject.require_newer(view, entry))
            .and_then(|()| subject.require_ours(view))
    };
    subject
        .combined()
        .and_then(is_newer)
        .and_then(|()| subject.require_bound())
        .is_ok()
}

/// Whether the cluster has reported on the object, once, and what the stage requires.
fn is_ready_in(subject: &Subject<'_>, cluster: ClusterName<&str>) -> bool {
    let rows = subject.rows();
    let from = rows.partition_point(|row| row.cluster.borrowed() < cluster);
    let mut its = rows[from..].iter().take_while(|row| row.cluster.borrowed() == cluster);
    let (Some(row), None) = (its.next(), its.next()) else {
        return false;
    };
    let bound = subject.bound;
    let is_healthy = || matches!(health(&bound.group, &bound.resource, row), Health::Healthy);
    subject.require_reported(row).is_ok() && (!subject.placed.stage.requires_health() || is_healthy())
}
