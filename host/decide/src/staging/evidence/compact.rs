//! Pending updates of an object where status has no room for the names of its clusters: one entry without names for most of them,
//! which were alike when the object was updated. The entry stays until the last of them has acknowledged, and every round reads from
//! the rows anew which ones have. All others are tracked by name. Must not be used where the names have room: by name, merged
//! acknowledgements are counted, too.

use crate::time::round_up_to_second;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use stagegate_api::{EvidenceRow, ObjectStatus, PendingUpdate};

use crate::names::ClusterName;
use crate::staging::evidence::acknowledgements::{Begun, UpdateTracker};
use crate::staging::evidence::pending::{self, ByCluster, Pending, covers};
use crate::staging::evidence::reports::{at_of, is_acknowledgement};

impl UpdateTracker<'_> {
    /// The record, brought up to date as by [`UpdateTracker::advance`].
    pub(crate) fn advance_compactly(&self, recorded: Option<&ObjectStatus>) -> ObjectStatus {
        let Begun {
            mut record,
            edits,
            recorded,
            is_made_anew,
            pending,
        } = self.begin(recorded);
        let edited_at = record.edited_at.as_ref().map(|time| time.0);
        let (mut unnamed, named): (Vec<PendingUpdate>, Vec<PendingUpdate>) =
            pending.iter().cloned().partition(|update| update.clusters.is_empty());
        let mut required = pending::by_cluster(&named, &self.clusters.all);
        self.name_those_of_their_own(&mut unnamed, &mut required);
        let is_new = |required: &ByCluster, cluster: ClusterName<&str>| {
            !required.contains_key(cluster.text()) && !unnamed.iter().any(|update| covers(update, cluster))
        };
        let mut new = ByCluster::new();
        if edits > 0 {
            let update = self.update(edits, is_made_anew, recorded);
            new.clone_from(&required);
            self.require_acknowledgements(&mut new, update, recorded);
            let mut known = new.clone();
            known.retain(|cluster, _| required.contains_key(cluster));
            new.retain(|cluster, _| is_new(&required, cluster.borrowed()));
            required = known;
            for entry in &mut unnamed {
                self.follow(entry, edits);
            }
        } else {
            let mut old_reports = self.old_reports(&record, recorded);
            old_reports.retain(|((cluster, _), _)| is_new(&required, *cluster));
            for ((cluster, row), mut pending) in old_reports {
                if self.is_still_pending(&mut pending, row, edited_at) {
                    new.insert(cluster.owned(), pending);
                }
            }
        }
        self.acknowledge(&mut required, edited_at);
        if unnamed.is_empty() {
            unnamed.extend(self.without_names(&mut new));
        }
        required.extend(new);
        unnamed.retain(|entry| !self.is_acknowledged_by_all(entry, edited_at));
        record.pending_updates = unnamed;
        record.pending_updates.extend(pending::grouped(required));
        record
    }

    /// Takes the clusters out of an entry without names that are not like the others any more: those that have joined since, which
    /// may report a generation of their own and may have missed nothing, and those that have lost the object, which count generations
    /// from 1 again.
    fn name_those_of_their_own(&self, unnamed: &mut [PendingUpdate], required: &mut ByCluster) {
        for entry in unnamed {
            let known = Pending::of(entry);
            let of_entry = self.reported_by(&self.clusters.all);
            let of_entry = of_entry.filter(|(cluster, _)| covers(entry, *cluster));
            let mut except = BTreeSet::new();
            for (cluster, row) in of_entry {
                if self.has_joined(cluster) {
                    except.insert(cluster.to_string());
                } else if row.is_some_and(|row| at_of(row).is_none()) {
                    except.insert(cluster.to_string());
                    required.insert(cluster.owned(), known.clone());
                }
            }
            except.extend(entry.except.drain(..));
            entry.except = except.into_iter().collect();
        }
    }

    /// Whether the cluster is new to the stage; until a set has been accepted, whether the Binding names it late.
    fn has_joined(&self, cluster: ClusterName<&str>) -> bool {
        let is_accepted = self.clusters.new.len() < self.clusters.all.len();
        let joined = if is_accepted {
            &self.clusters.new
        } else {
            &self.clusters.late
        };
        joined.contains(&cluster)
    }

    /// Adds updates to an entry.
    fn follow(&self, entry: &mut PendingUpdate, edits: i64) {
        let mut known = Pending::of(entry);
        known.follow(edits, self.found.edited_at, self.settings.unseen_update());
        entry.unacknowledged = known.unacknowledged;
        entry.in_quick_succession = known.in_quick_succession;
        entry.edited_at = round_up_to_second(self.now);
        entry.acknowledged_at = None;
    }

    /// Takes the clusters that have the same pending and reported the same generation out of `required`, if they are more than half of the
    /// stage, and returns an entry without names for them.
    fn without_names(&self, required: &mut ByCluster) -> Option<PendingUpdate> {
        let mut alike: BTreeMap<Pending, (Vec<ClusterName>, i64)> = BTreeMap::new();
        for (cluster, pending) in required.iter() {
            let Some(at) = pending.reported_at.filter(|_| !self.has_joined(cluster.borrowed())) else {
                continue;
            };
            let of = Pending {
                reported_at: None,
                ..pending.clone()
            };
            let (clusters, newest) = alike.entry(of).or_default();
            clusters.push(cluster.clone());
            *newest = at.max(*newest);
        }
        let (pending, (clusters, newest)) = alike.into_iter().max_by_key(|(_, (clusters, _))| clusters.len())?;
        if clusters.len() * 2 <= self.clusters.all.len() {
            return None;
        }
        let mut others = self.clusters.all.clone();
        for cluster in &clusters {
            others.remove(&cluster.borrowed());
            required.remove(cluster);
        }
        let of = Pending {
            reported_at: Some(newest),
            ..pending
        };
        Some(PendingUpdate {
            except: others.iter().map(ClusterName::to_string).collect(),
            ..of.entry(Vec::new())
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
            let silent_since = self.silent_since(row, edited_at, &pending);
            has_acknowledged(&pending, row)
                || silent_since.is_some_and(|since| self.now.duration_since(since) >= window)
        };
        self.reported_by(&self.clusters.all)
            .filter(move |(cluster, row)| !except.contains(cluster) && !row.is_some_and(&has))
            .map(|(cluster, _)| cluster)
    }

    /// Since when silence counts as an acknowledgement by the last of the clusters of an entry without names that have not acknowledged
    /// its updates. `None`: it does not for one of them.
    pub(crate) fn all_silent_since(&self, entry: &PendingUpdate, edited_at: Option<Timestamp>) -> Option<Timestamp> {
        let pending = Pending::of(entry);
        let mut since = self
            .unacknowledged(entry, edited_at)
            .map(|cluster| self.silent_since(self.row(cluster)?, edited_at, &pending));
        let first = since.next()??;
        since.try_fold(first, |last, since| Some(last.max(since?)))
    }

    /// Since when this process has seen nothing come of a report that may be the last one: one that is in doubt, or that acknowledges
    /// one of several updates. Of which update a later report is, the entry does not tell, so it starts the wait again.
    fn silent_since(&self, row: &EvidenceRow, edited_at: Option<Timestamp>, pending: &Pending) -> Option<Timestamp> {
        let after_update = self.reported_after_update(Some(row), edited_at, pending);
        let in_doubt = || {
            let reported = Timestamp::from_second(at_of(row)?).ok()?;
            Some(pending.silent_since(after_update)?.max(reported))
        };
        let of_one = || {
            let one = Pending {
                unacknowledged: 1,
                ..pending.clone()
            };
            let is_of_one = !self.is_other_version() && has_acknowledged(&one, row);
            Some(after_update.filter(|_| is_of_one)?.max(self.watching_since?))
        };
        in_doubt().or_else(of_one)
    }
}

/// Whether the row acknowledges all that is pending. Each update moves the generation by one at least, or transport has merged them:
/// then silence tells. A generation that has gone back is of an object that the cluster has lost and got again.
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
