//! Pending updates of an object where status has no room for the names of its clusters: one entry without names for the clusters of
//! which the same was known when the object was updated, if they are more than half of the stage. It stays until the last of them
//! has acknowledged; every round reads from the rows anew which ones have. All others are tracked by name. Must not be used where
//! the names have room: an entry without names does not keep which clusters have acknowledged some of its updates.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use stagegate_api::{EvidenceRow, ObjectStatus, PendingUpdate};

use crate::names::ClusterName;
use crate::staging::evidence::acknowledgements::{Begun, UpdateTracker};
use crate::staging::evidence::pending::{self, ByCluster, Pending, covers};
use crate::staging::evidence::reports::{at_of, is_acknowledgement};

impl UpdateTracker<'_> {
    /// The record, brought up to date as by [`UpdateTracker::advance`].
    pub(crate) fn advance_compactly(&self, before: Option<&ObjectStatus>) -> ObjectStatus {
        let Begun {
            mut record,
            edits,
            recorded,
            is_made_anew,
            pending,
        } = self.begin(before);
        let edited_at = self.updated_at(&record);
        let (mut unnamed, named): (Vec<PendingUpdate>, Vec<PendingUpdate>) =
            pending.iter().cloned().partition(pending::is_unnamed);
        let mut required = pending::by_cluster(&named, &self.clusters.all);
        self.take_out_unlike_clusters(&mut unnamed, &mut required);
        let mut is_regrouped = edits > 0;
        if edits > 0 {
            // Clusters that have acknowledged what was pending are unlike the others now: all are looked at by name, and grouped anew.
            let edited_before = recorded
                .and_then(|recorded| recorded.edited_at.as_ref())
                .map(|time| time.0);
            for entry in unnamed.drain(..) {
                let pending = Pending::of(&entry);
                let unacknowledged = self.unacknowledged(&entry, edited_before);
                let unacknowledged = unacknowledged.map(|cluster| (cluster.owned(), pending.clone()));
                pending::add_more(&mut required, unacknowledged);
            }
            self.require_updates(&mut required, (before, recorded), (edits, is_made_anew));
        } else {
            let is_covered = |cluster: ClusterName<&str>| unnamed.iter().any(|entry| covers(entry, cluster));
            let mut old_reports = self.old_reports(&record, recorded);
            old_reports.retain(|((cluster, _), _)| !required.contains_key(cluster.text()) && !is_covered(*cluster));
            for ((cluster, row), mut pending) in old_reports {
                if self.is_still_pending(&mut pending, row, edited_at) {
                    is_regrouped |= unnamed.is_empty();
                    required.insert(cluster.owned(), pending);
                }
            }
        }
        self.acknowledge(&mut required, edited_at);
        if is_regrouped {
            unnamed.extend(self.take_alike(&mut required));
        }
        unnamed.retain(|entry| !self.is_acknowledged_by_all(entry, edited_at));
        record.pending_updates = unnamed;
        record.pending_updates.extend(pending::grouped(required));
        record
    }

    /// Takes out of each entry without names the clusters that are no longer like the others. One that has joined since may report a
    /// generation of its own and may have missed nothing. One that has lost the object counts generations from 1 again, and is tracked
    /// by name from now on.
    fn take_out_unlike_clusters(&self, unnamed: &mut [PendingUpdate], required: &mut ByCluster) {
        for entry in unnamed {
            let known = Pending::of(entry);
            let mut unlike = Vec::new();
            for (cluster, row) in self.reported_by(&self.clusters.all) {
                if !covers(entry, cluster) {
                    continue;
                }
                let is_lost = row.is_some_and(|row| at_of(row).is_none() || has_gone_back(&known, row));
                if self.has_joined(cluster) {
                    unlike.push(cluster.to_string());
                } else if is_lost {
                    unlike.push(cluster.to_string());
                    pending::add_more(required, [(cluster.owned(), known.clone())]);
                }
            }
            pending::add_exceptions(entry, unlike);
        }
    }

    /// Whether the cluster is new to the stage; until a set has been accepted, whether the Binding names it late.
    pub(crate) fn has_joined(&self, cluster: ClusterName<&str>) -> bool {
        let joined = if self.clusters.has_accepted() {
            &self.clusters.new
        } else {
            &self.clusters.late
        };
        joined.contains(&cluster)
    }

    /// Takes the largest group of clusters of which the same is known out of `required`, if it is more than half of the stage, and
    /// returns an entry without names for it. A cluster that has joined, or has reported no status, stays there by name.
    fn take_alike(&self, required: &mut ByCluster) -> Option<PendingUpdate> {
        let mut alike: BTreeMap<Pending, (Vec<ClusterName>, i64)> = BTreeMap::new();
        for (cluster, pending) in required.iter() {
            let Some(at) = pending.reported_at.filter(|_| !self.has_joined(cluster.borrowed())) else {
                continue;
            };
            let key = Pending {
                reported_at: None,
                ..pending.clone()
            };
            let (clusters, newest) = alike.entry(key).or_default();
            clusters.push(cluster.clone());
            *newest = at.max(*newest);
        }
        let (key, (clusters, newest)) = alike.into_iter().max_by_key(|(_, (clusters, _))| clusters.len())?;
        if clusters.len() * 2 <= self.clusters.all.len() {
            return None;
        }
        let mut others = self.clusters.all.clone();
        for cluster in &clusters {
            others.remove(&cluster.borrowed());
            required.remove(cluster);
        }
        let pending = Pending {
            reported_at: Some(newest),
            ..key
        };
        Some(PendingUpdate {
            except: others.iter().map(ClusterName::to_string).collect(),
            ..pending.entry(Vec::new())
        })
    }

    fn is_acknowledged_by_all(&self, entry: &PendingUpdate, edited_at: Option<Timestamp>) -> bool {
        self.unacknowledged(entry, edited_at).next().is_none()
    }

    /// The clusters of an entry without names that have not acknowledged its updates, by their rows of now.
    fn unacknowledged<'s>(
        &'s self,
        entry: &'s PendingUpdate,
        edited_at: Option<Timestamp>,
    ) -> impl Iterator<Item = ClusterName<&'s str>> {
        let pending = Pending::of(entry);
        let except: BTreeSet<ClusterName<&str>> = entry.except.iter().map(|name| ClusterName::of(name)).collect();
        let window = self.settings.unseen_update();
        let has = move |row: &EvidenceRow| {
            let silent_since = self.row_silent_since(row, edited_at, &pending);
            let is_old = edited_at.is_some_and(|edited| self.reported_before(row, edited));
            (has_acknowledged(&pending, row) && !is_old)
                || silent_since.is_some_and(|since| self.now.duration_since(since) >= window)
        };
        self.reported_by(&self.clusters.all)
            .filter(move |(cluster, row)| !except.contains(cluster) && !row.is_some_and(&has))
            .map(|(cluster, _)| cluster)
    }

    /// Since when every cluster of an entry without names that has not acknowledged its updates has been silent, counted from the last of
    /// them. `None`: silence does not count for one of them, or all have acknowledged.
    pub(crate) fn all_silent_since(&self, entry: &PendingUpdate, edited_at: Option<Timestamp>) -> Option<Timestamp> {
        let pending = Pending::of(entry);
        let mut since = self
            .unacknowledged(entry, edited_at)
            .map(|cluster| self.row_silent_since(self.row(cluster)?, edited_at, &pending));
        let first = since.next()??;
        since.try_fold(first, |last, since| Some(last.max(since?)))
    }

    /// Since when nothing has followed a report that may be about the last update: one that is in doubt, or one that acknowledges only one
    /// of several updates. After the latter, only silence that this process has seen counts. The entry does not tell which update a
    /// later report is about, so a later report starts the wait again.
    fn row_silent_since(
        &self,
        row: &EvidenceRow,
        edited_at: Option<Timestamp>,
        pending: &Pending,
    ) -> Option<Timestamp> {
        let after_update = self.reported_after_update(Some(row), edited_at, pending);
        let in_doubt = || {
            let silent_since = pending.silent_since(after_update)?;
            let is_as_before = pending.observed_generation == row.r#gen;
            let reported = Timestamp::from_second(at_of(row)?).ok()?;
            Some(if is_as_before {
                silent_since
            } else {
                silent_since.max(reported)
            })
        };
        let after_one = || {
            let one = Pending {
                unacknowledged: 1,
                ..pending.clone()
            };
            let acknowledges_one = !self.is_other_version() && has_acknowledged(&one, row);
            Some(after_update.filter(|_| acknowledges_one)?.max(self.watching_since?))
        };
        in_doubt().or_else(after_one)
    }
}

/// Whether the cluster counts generations of another object than before, or counts them only since.
fn has_gone_back(pending: &Pending, row: &EvidenceRow) -> bool {
    let before = &pending.observed_generation;
    let generations = row.r#gen.parse::<i64>().ok().zip(before.parse::<i64>().ok());
    generations.map_or(*before != row.r#gen, |(now, before)| now < before)
}

/// Whether the row acknowledges all that is pending. Each update moves the generation by one at least, or transport has merged them:
/// then silence tells.
fn has_acknowledged(pending: &Pending, row: &EvidenceRow) -> bool {
    if pending.observed_generation.is_empty() && row.r#gen.is_empty() {
        return pending.unacknowledged == 1 && is_acknowledgement(pending, row);
    }
    let moved = row
        .r#gen
        .parse::<i64>()
        .ok()
        .zip(pending.observed_generation.parse::<i64>().ok());
    moved.is_some_and(|(now, before)| now.saturating_sub(before) >= pending.unacknowledged)
        && at_of(row).is_some_and(|at| pending.reported_at.is_some_and(|before| at >= before))
}
