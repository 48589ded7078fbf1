//! Pending updates: those of one object that clusters have not acknowledged. Status groups them, decisions need them by
//! cluster. Must not decide when an update counts as acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use smol_str::SmolStr;
use stagegate_api::staged_status::MAX_RECORDED;
use stagegate_api::{ObjectStatus, PendingUpdate};

use crate::names::ClusterName;
use crate::time::after;

/// The most that the JSON of an entry takes without names, generation and `reportedAt`: three times, a number, and the fields' names.
const ENTRY_BYTES: usize = 243;

/// What one cluster has not acknowledged of one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pending {
    /// How many updates.
    pub unacknowledged: i64,
    /// The generation of the report before the update; empty when there was none.
    pub observed_generation: SmolStr,
    /// When that report was made, in seconds since 1970.
    pub reported_at: Option<i64>,
    /// When the first and the last of the updates were seen. That the cluster lost the object counts as one. Of a cluster that joined later,
    /// when it joined, and when the object was updated.
    pub since: Timestamp,
    pub edited_at: Timestamp,
    pub acknowledged_at: Option<Timestamp>,
    /// An acknowledgement may be of an earlier one of the updates while the last is on its way.
    pub in_quick_succession: bool,
}

pub type ByCluster = BTreeMap<ClusterName, Pending>;

impl Pending {
    pub fn of(update: &PendingUpdate) -> Self {
        Self {
            unacknowledged: update.unacknowledged,
            observed_generation: SmolStr::new(&update.observed_generation),
            reported_at: update.reported_at.parse().ok(),
            since: update.since.0,
            edited_at: update.edited_at.0,
            acknowledged_at: update.acknowledged_at.as_ref().map(|time| time.0),
            in_quick_succession: update.in_quick_succession,
        }
    }

    /// The entry of status that says this of these clusters.
    pub fn entry(&self, clusters: Vec<String>) -> PendingUpdate {
        PendingUpdate {
            clusters,
            except: Vec::new(),
            unacknowledged: self.unacknowledged,
            observed_generation: self.observed_generation.to_string(),
            reported_at: self.reported_at.map(|seconds| seconds.to_string()).unwrap_or_default(),
            since: Time(self.since),
            edited_at: Time(self.edited_at),
            acknowledged_at: self.acknowledged_at.map(Time),
            in_quick_succession: self.in_quick_succession,
        }
    }

    /// The cluster has lost the object, and counts generations from 1 again when it gets it. Its first status may be about an older
    /// version, as with every update of an object that has not been reported on. A report from before `now` may be the one that was
    /// there: while KubeStellar starts, a report is missing for a moment and comes back as it was.
    pub fn forget_report(&mut self, now: Timestamp) {
        if !(self.reported_at.is_none() && self.observed_generation.is_empty()) {
            self.unacknowledged = self.unacknowledged.saturating_add(1);
            (self.reported_at, self.observed_generation) = (None, SmolStr::default());
            self.edited_at = self.edited_at.max(now);
        }
    }

    /// Whether this requires more of the cluster than the other: more reports, or as many and silence replaces fewer of them.
    pub fn outweighs(&self, other: &Self) -> bool {
        let strictness = |pending: &Self| {
            let is_replaced_by_silence = pending.acknowledged_at.is_some();
            (
                pending.unacknowledged,
                !is_replaced_by_silence,
                pending.in_quick_succession,
            )
        };
        strictness(self) > strictness(other)
    }

    /// The time of an acknowledgement, later than the first of the updates: a time that is not means a report in doubt.
    pub fn after_first(&self, acknowledged_at: Timestamp) -> Timestamp {
        acknowledged_at.max(after(self.since, SignedDuration::from_secs(1)))
    }

    /// The time of an acknowledgement that is seen `now`. The first report of a cluster that came later than the update is in doubt if it is
    /// from after the update: then nothing restarts the two minutes, as some statuses move all the time.
    pub fn acknowledged(&mut self, now: Timestamp, is_after_update: bool) -> Timestamp {
        let is_first = self.reported_at.is_none() && self.observed_generation.is_empty();
        let came_later = self.edited_at < self.since && !self.in_quick_succession;
        if is_first && came_later && is_after_update {
            self.since = self.since.max(now);
            return self.since;
        }
        self.after_first(now)
    }

    /// Adds updates, the last of them made at `updated` if a time tells it. A single one is in no succession if it follows the
    /// last one so late that transport had nothing more to deliver.
    pub fn follow(&mut self, edits: i64, updated: Option<Timestamp>, window: SignedDuration) {
        let is_close = updated.is_none_or(|updated| updated.duration_since(self.edited_at.max(self.since)) < window);
        self.in_quick_succession = edits > 1 || is_close;
        self.unacknowledged = self.unacknowledged.saturating_add(edits);
    }

    /// Since when a cluster that has acknowledged one of several updates has acknowledged no other one, if it has reported at all after
    /// the last; or since when its only report has been in doubt.
    pub fn silent_since(&self, reported_after_update: Option<Timestamp>) -> Option<Timestamp> {
        let answered = self.acknowledged_at?;
        if answered <= self.since && !self.in_quick_succession {
            return Some(answered);
        }
        Some(answered.max(reported_after_update?))
    }
}

/// Adds what several sources say of the clusters. Of one cluster, the most counts; of two that say as much, the one that no silence ends.
pub fn add_more(required: &mut ByCluster, others: impl IntoIterator<Item = (ClusterName, Pending)>) {
    for (cluster, pending) in others {
        if required.get(&cluster).is_none_or(|known| pending.outweighs(known)) {
            required.insert(cluster, pending);
        }
    }
}

/// What each cluster has not acknowledged. The stage's clusters stand for those of entries without names.
pub fn by_cluster(updates: &[PendingUpdate], clusters: &BTreeSet<ClusterName<&str>>) -> ByCluster {
    let mut entries = ByCluster::new();
    for update in updates {
        let pending = Pending::of(update);
        if is_unnamed(update) {
            let of_it = clusters.iter().filter(|cluster| covers(update, **cluster));
            add_more(&mut entries, of_it.map(|cluster| (cluster.owned(), pending.clone())));
        } else {
            let names = update
                .clusters
                .iter()
                .map(|cluster| ClusterName::from(cluster.as_str()));
            add_more(&mut entries, names.map(|cluster| (cluster, pending.clone())));
        }
    }
    entries
}

/// Whether an entry is about a cluster of the stage.
pub fn covers(update: &PendingUpdate, cluster: ClusterName<&str>) -> bool {
    let is_in = |names: &[String]| names.iter().any(|name| name == cluster.text());
    if is_unnamed(update) {
        !is_in(&update.except)
    } else {
        is_in(&update.clusters)
    }
}

/// Whether the entry has no names: it stands for all clusters of the stage but its exceptions.
pub const fn is_unnamed(update: &PendingUpdate) -> bool {
    update.clusters.is_empty()
}

pub fn has_unnamed(updates: &[PendingUpdate]) -> bool {
    updates.iter().any(is_unnamed)
}

/// Adds clusters that an entry without names does not stand for.
pub fn add_exceptions(update: &mut PendingUpdate, more: impl IntoIterator<Item = String>) {
    let all: BTreeSet<String> = update.except.drain(..).chain(more).collect();
    update.except = all.into_iter().collect();
}

pub fn grouped(pending: ByCluster) -> Vec<PendingUpdate> {
    let mut groups: BTreeMap<Pending, Vec<String>> = BTreeMap::new();
    for (cluster, pending) in pending {
        groups.entry(pending).or_default().push(cluster.into());
    }
    // Clusters that have left a stage that has passed are not forgotten there, so updates may be pending for more than are ever placed at once.
    let of = |(pending, clusters): (Pending, Vec<String>)| {
        let chunks = clusters.chunks(MAX_RECORDED);
        chunks
            .map(|clusters| pending.entry(clusters.to_vec()))
            .collect::<Vec<_>>()
    };
    groups.into_iter().flat_map(of).collect()
}

/// The size of the entries as JSON, rounded up.
pub fn bytes(updates: &[PendingUpdate]) -> usize {
    let of = |update: &PendingUpdate| {
        let names = update.clusters.iter().chain(&update.except);
        names_bytes(names.map(|cluster| ClusterName::of(cluster)))
            + update.observed_generation.len()
            + update.reported_at.len()
            + ENTRY_BYTES
    };
    updates.iter().map(of).sum()
}

/// The size of a list of names as JSON, rounded up.
pub fn names_bytes<'a>(names: impl Iterator<Item = ClusterName<&'a str>>) -> usize {
    names.map(|name| name.text().len() + 3).sum()
}

/// Removes the pending updates of these clusters, and entries without names.
pub fn drop_clusters(object: &mut ObjectStatus, clusters: &BTreeSet<ClusterName<&str>>) {
    object.pending_updates.retain_mut(|update| {
        update
            .clusters
            .retain(|cluster| !clusters.contains(&ClusterName::of(cluster)));
        !update.clusters.is_empty()
    });
}

/// Takes these clusters out of every entry.
pub fn except_clusters(object: &mut ObjectStatus, clusters: &BTreeSet<ClusterName<&str>>) {
    object.pending_updates.retain_mut(|update| {
        if is_unnamed(update) {
            add_exceptions(update, clusters.iter().map(ClusterName::to_string));
            return true;
        }
        update
            .clusters
            .retain(|cluster| !clusters.contains(&ClusterName::of(cluster)));
        !update.clusters.is_empty()
    });
}

/// Adds entries by name for the clusters that have left and that an entry without names covered: from now on that entry stands for the
/// stage's clusters alone. It does not tell whether they have acknowledged, so they have to do so wherever they go. `except` loses
/// the names of clusters that have left.
pub fn name_left_clusters(
    object: &mut ObjectStatus,
    left: &BTreeSet<ClusterName>,
    clusters: &BTreeSet<ClusterName<&str>>,
) {
    let mut named = Vec::new();
    for update in object.pending_updates.iter_mut().filter(|update| is_unnamed(update)) {
        let covered = left.iter().filter(|cluster| covers(update, cluster.borrowed()));
        let covered: Vec<String> = covered.map(ClusterName::to_string).collect();
        update.except.retain(|name| clusters.contains(&ClusterName::of(name)));
        let pending = Pending::of(update);
        named.extend(covered.chunks(MAX_RECORDED).map(|names| pending.entry(names.to_vec())));
    }
    object.pending_updates.extend(named);
}

/// Whether no update is pending for these clusters.
pub fn is_free(updates: &[PendingUpdate], clusters: &BTreeSet<ClusterName<&str>>) -> bool {
    let is_pending = |update: &PendingUpdate| clusters.iter().any(|cluster| covers(update, *cluster));
    !updates.iter().any(is_pending)
}

/// Removes the pending updates of all other clusters.
pub fn keep_clusters(object: &mut ObjectStatus, clusters: &BTreeSet<ClusterName<&str>>) {
    object.pending_updates.retain_mut(|update| {
        let is_unnamed = is_unnamed(update);
        for names in [&mut update.clusters, &mut update.except] {
            names.retain(|cluster| clusters.contains(&ClusterName::of(cluster)));
        }
        is_unnamed || !update.clusters.is_empty()
    });
}

/// How many updates a cluster may still report one by one if its last report is older than the last update: the one that was on its
/// way when it went out of reach, and the one that transport has for it now. Those between are merged.
pub fn missed(generation: Option<i64>) -> i64 {
    generation.map_or(1, |generation| generation.saturating_sub(1).clamp(1, 2))
}
