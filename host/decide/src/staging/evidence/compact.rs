//! Pending updates of an object where status has no room for the names of its clusters: one entry for all clusters that reported
//! the same generation before the update. The entry stays until the last of them has acknowledged, and every round reads from the
//! rows anew which ones have. Must not be used where the names have room: by name, merged acknowledgements are counted, too.

use crate::time::round_up_to_second;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use stagegate_api::{EvidenceRow, ObjectStatus, PendingUpdate, Reported};

use crate::names::ClusterName;
use crate::staging::evidence::acknowledgements::{Begun, UpdateTracker};
use crate::staging::evidence::pending::{Pending, covers, is_compact};
use crate::staging::evidence::reports::{at_of, is_acknowledgement};

/// Clusters that reported the same generation.
#[derive(Default)]
struct Alike<'a> {
    clusters: Vec<ClusterName<&'a str>>,
    /// The newest of their reports, in seconds since 1970.
    at: i64,
}

impl UpdateTracker<'_> {
    /// The record, brought up to date as by [`UpdateTracker::advance`]. `None`: what is pending does not fit this form, because a
    /// cluster has not reported a status yet.
    pub(crate) fn advance_compactly(&self, recorded: Option<&ObjectStatus>) -> Option<ObjectStatus> {
        let Begun {
            mut record,
            edits,
            recorded,
            pending,
            ..
        } = self.begin(recorded);
        // An entry without names counts how often a generation moves. That of an update which may not have been made does not.
        let is_doubt = recorded.is_none() && self.known_since.is_none() && self.unseen_update_since().is_some();
        let edits = if is_doubt { 0 } else { edits };
        let mut updates = pending.to_vec();
        let edited_at = record.edited_at.as_ref().map(|time| time.0);
        self.except_new_clusters(&mut updates, edited_at)?;
        if edits > 0 {
            let now = round_up_to_second(self.now);
            for update in &mut updates {
                let mut known = Pending::of(update);
                known.follow(edits, self.found.edited_at, self.settings.unseen_update());
                update.unacknowledged = known.unacknowledged;
                update.in_quick_succession = known.in_quick_succession;
                update.edited_at = now.clone();
                update.acknowledged_at = None;
            }
            if updates.is_empty() {
                updates = self.compact(&self.clusters.all, edits)?;
            } else {
                let is_covered = |cluster: ClusterName<&str>| updates.iter().any(|update| covers(update, cluster));
                let all = self.clusters.all.iter().copied();
                let others = all.filter(|cluster| !is_covered(*cluster)).collect();
                updates.extend(self.compact(&others, edits)?);
            }
        }
        updates.retain(|update| !self.is_acknowledged_by_all(update, edited_at));
        record.pending_updates = updates;
        Some(record)
    }

    /// A cluster that has joined since the updates were made reports a generation of its own: it is no part of an entry without
    /// names, and has to acknowledge it only if its report is from before the last update. While it has no row, nothing tells, and it
    /// is one like the others. So it is with a cluster that the Binding names late, before a set was accepted: its report must surely be from
    /// after the update.
    fn except_new_clusters(&self, updates: &mut Vec<PendingUpdate>, edited_at: Option<Timestamp>) -> Option<()> {
        let is_accepted = self.clusters.new.len() < self.clusters.all.len();
        let joined = if is_accepted {
            &self.clusters.new
        } else {
            &self.clusters.late
        };
        if joined.is_empty() || !is_compact(updates) {
            return Some(());
        }
        let mut pending_clusters = BTreeSet::new();
        for update in updates.iter_mut().filter(|update| update.clusters.is_empty()) {
            let known: BTreeSet<String> = update.except.drain(..).collect();
            let joined: Vec<ClusterName<&str>> = joined
                .iter()
                .copied()
                .filter(|cluster| !known.contains(cluster.text()) && self.row(*cluster).is_some())
                .collect();
            pending_clusters.extend(joined.iter().copied());
            let all: BTreeSet<String> = known
                .into_iter()
                .chain(joined.iter().map(ClusterName::to_string))
                .collect();
            update.except = all.into_iter().collect();
        }
        let rows = self.reported_by(&pending_clusters);
        let is_old = |row: &EvidenceRow| {
            edited_at.is_some_and(|edited| {
                if is_accepted {
                    self.reported_before(row, edited)
                } else {
                    !self.is_surely_after(row, edited)
                }
            })
        };
        let pending_clusters = rows
            .filter(|(_, row)| row.is_some_and(is_old))
            .map(|(cluster, _)| cluster)
            .collect();
        updates.extend(self.compact(&pending_clusters, 1)?);
        Some(())
    }

    /// Entries for these clusters: one for each generation that they report, the most common one without names if it is that of
    /// more than half of the stage.
    fn compact(&self, clusters: &BTreeSet<ClusterName<&str>>, edits: i64) -> Option<Vec<PendingUpdate>> {
        let mut by_generation: BTreeMap<&str, Alike<'_>> = BTreeMap::new();
        for (cluster, row) in self.reported_by(clusters) {
            let Reported::At { seconds } = row?.at else { return None };
            let alike = by_generation.entry(row?.r#gen.as_str()).or_default();
            alike.clusters.push(cluster);
            alike.at = alike.at.max(seconds);
        }
        let all = &self.clusters.all;
        let now = round_up_to_second(self.now);
        let entries = by_generation.into_iter().map(|(generation, alike)| {
            let texts = |names: &mut dyn Iterator<Item = ClusterName<&str>>| {
                names.map(|cluster| cluster.to_string()).collect::<Vec<_>>()
            };
            let is_most = alike.clusters.len() * 2 > all.len();
            let mut named = alike.clusters.iter().copied();
            let (clusters, except) = if alike.clusters.len() == all.len() {
                (Vec::new(), Vec::new())
            } else if is_most {
                let named: BTreeSet<ClusterName<&str>> = named.collect();
                (Vec::new(), texts(&mut all.difference(&named).copied()))
            } else {
                (texts(&mut named), Vec::new())
            };
            PendingUpdate {
                clusters,
                except,
                unacknowledged: edits,
                observed_generation: generation.to_owned(),
                reported_at: alike.at.to_string(),
                since: now.clone(),
                edited_at: now.clone(),
                acknowledged_at: None,
                in_quick_succession: edits > 1,
            }
        });
        Some(entries.collect())
    }

    fn is_acknowledged_by_all(&self, update: &PendingUpdate, edited_at: Option<Timestamp>) -> bool {
        self.unacknowledged(update, edited_at).next().is_none()
    }

    /// The clusters of an entry that have not acknowledged its updates, by their rows of now.
    fn unacknowledged<'s>(
        &'s self,
        update: &'s PendingUpdate,
        edited_at: Option<Timestamp>,
    ) -> impl Iterator<Item = ClusterName<&'s str>> {
        let pending = Pending::of(update);
        let set = |names: &'s [String]| names.iter().map(|cluster| ClusterName::of(cluster)).collect();
        let (except, names): (BTreeSet<_>, BTreeSet<_>) = (set(&update.except), set(&update.clusters));
        let is_of_it = move |cluster: &ClusterName<&'s str>| {
            if names.is_empty() {
                !except.contains(cluster)
            } else {
                names.contains(cluster)
            }
        };
        let has = move |row: &EvidenceRow| {
            // A cluster that has joined may come with a report from before the update.
            let is_old = edited_at.is_some_and(|edited| self.reported_before(row, edited));
            (has_acknowledged(&pending, row) && !is_old)
                || edited_at.is_some_and(|edited| self.is_silent_since(row, edited, &pending))
        };
        self.reported_by(&self.clusters.all)
            .filter(move |(cluster, row)| is_of_it(cluster) && !row.is_some_and(&has))
            .map(|(cluster, _)| cluster)
    }

    /// The report is later than the last update, and nothing has come for so long that transport has nothing more to deliver.
    fn is_silent_since(&self, row: &EvidenceRow, edited_at: Timestamp, pending: &Pending) -> bool {
        let edited_at = self.found.edited_at.map_or(edited_at, |found| found.max(edited_at));
        let reported = self
            .reported_after(row, edited_at)
            .and_then(|_| self.reported_after_update(Some(row), Some(edited_at), pending));
        reported.is_some_and(|at| self.now.duration_since(at) >= self.settings.unseen_update())
    }
}

/// Whether the row acknowledges all that is pending. Of several updates each moves the generation by one at least, or transport has
/// merged them: then silence tells.
fn has_acknowledged(pending: &Pending, row: &EvidenceRow) -> bool {
    if pending.unacknowledged == 1 {
        return is_acknowledgement(pending, row);
    }
    let moved = row
        .r#gen
        .parse::<i64>()
        .ok()
        .zip(pending.observed_generation.parse::<i64>().ok());
    moved.is_some_and(|(now, before)| now.saturating_sub(before) >= pending.unacknowledged)
        && at_of(row).is_some_and(|at| pending.reported_at.is_some_and(|before| at >= before))
}
