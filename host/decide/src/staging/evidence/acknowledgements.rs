//! Updated objects: whether every cluster has acknowledged each update. Must not judge whether the update works there.
//!
//! The only trace of an update that comes back from a cluster is `gen` (observedGeneration there, counted by the
//! cluster) and `at` (when its status last changed, whole seconds). Each update has to be acknowledged by each cluster;
//! transport may merge updates, so one is enough if none follows for a while.

use crate::staging::input::{
    ContentDigest, ObjectMeta, Observed, Settings, binding_view,
    recorded::{has_complete_evidence, has_had_complete_evidence, is_unbound, uid},
};
use crate::time::round_up_to_second;
use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use smol_str::SmolStr;
use stagegate_api::{BoundObject, EvidenceRow, ObjectStatus, PendingUpdate, Reported, StageStatus};

use crate::names::{ClusterName, ObjectKey};
use crate::staging::evidence::clusters::{Clusters, InOrder};
use crate::staging::evidence::combined_status::Subject;
use crate::staging::evidence::pending::{ByCluster, Pending};
use crate::staging::evidence::reports::{at_of, is_acknowledgement};
use crate::staging::evidence::{kinds, pending};
use crate::time::after;

/// The generation by which updates of the object are counted. `None` for a kind without a status, too: no cluster could ever
/// acknowledge an update of it, so it is tracked like a kind without generations.
pub(crate) fn counted_generation(bound: &BoundObject, found: &ObjectMeta) -> Option<i64> {
    found
        .generation
        .filter(|_| !kinds::is_without_status(&bound.group, &bound.resource))
}

/// How many reports more than one an update may bring where the cluster has the object from another placement: that one may bring the
/// update before this one brings the version before it, and then the update once more.
const BROUGHT_AGAIN: i64 = 2;

/// A cluster and its row.
pub(crate) type Reporting<'a> = (ClusterName<&'a str>, Option<&'a EvidenceRow>);

/// What a cluster has to acknowledge from now on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requirement {
    pub(crate) edits: i64,
    /// When the last of the updates was made, if a time tells it.
    pub(crate) updated: Option<Timestamp>,
    /// When an acknowledgement was seen that may be the last one of several updates.
    pub(crate) acknowledged_at: Option<Timestamp>,
    /// The placement has brought no earlier version to any cluster.
    pub(crate) is_first_version: bool,
}

/// Updates that are new.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewUpdates {
    pub(crate) edits: i64,
    /// The server's time of the last of them, if it tells one.
    pub(crate) at: Option<Timestamp>,
    /// It is one that makes the object anew.
    is_made_anew: bool,
}

/// What is known of one object while its stage is judged.
#[derive(Clone, Copy, Debug)]
pub struct UpdateTracker<'a> {
    pub bound: &'a BoundObject,
    pub found: &'a ObjectMeta,
    /// The evidence rows of its CombinedStatus, sorted by cluster; empty while there is none.
    pub rows: &'a [EvidenceRow],
    pub clusters: &'a Clusters<'a>,
    /// When the placement's BindingPolicy was made, by the API server's clock and in whole seconds.
    pub placed_since: Option<Timestamp>,
    /// When the last set of clusters was accepted, by a controller's clock.
    pub settled_at: Option<Timestamp>,
    /// When the placement was first seen open, by a controller's clock; rounded up to whole seconds.
    pub opened_at: Option<Timestamp>,
    /// What this process saw of the Binding.
    pub observed: Option<&'a Observed>,
    /// Since when the Binding names this version of it, by this process's clock; `None`: this process has not seen it named.
    pub named_since: Option<Timestamp>,
    /// A time by which it named this version, by the same clock.
    pub named_not_after: Option<Timestamp>,
    /// Since when the Binding names the object, where this process has seen it name another version of it before.
    pub known_since: Option<Timestamp>,
    /// The Binding was there when this process began to watch: it may have named another version before.
    pub is_found_at_start: bool,
    /// The Binding had lost something before it named this version: it may have named another version of it before.
    pub is_named_after_loss: bool,
    /// Since when this process has been watching without a gap.
    pub watching_since: Option<Timestamp>,
    /// The placement was changed last to bring other versions to the clusters that it had: what these had before is on record.
    pub is_released_in_place: bool,
    /// When the policy was made, by the API server's clock and in whole seconds.
    pub policy_since: Option<Timestamp>,
    /// Not all clusters have been found to report in this attempt: of some the first report is still to be seen.
    pub is_unproven: bool,
    /// At no time in this attempt were all clusters found to report.
    pub was_never_proven: bool,
    pub now: Timestamp,
    pub settings: Settings,
}

/// How an object's record begins in this round.
pub(crate) struct Begun<'r> {
    pub(crate) record: ObjectStatus,
    /// Updates that are new.
    pub(crate) edits: i64,
    pub(crate) recorded: Option<&'r ObjectStatus>,
    /// An older object of this name is known.
    pub(crate) is_made_anew: bool,
    /// The updates that were pending. They stay pending for an object that was made anew: to its clusters, that is one more update.
    pub(crate) pending: &'r [PendingUpdate],
}

impl<'a> UpdateTracker<'a> {
    pub fn of(subject: &Subject<'a>, found: &'a ObjectMeta, clusters: &'a Clusters<'a>) -> Self {
        Self {
            rows: subject.rows(),
            ..Self::without_rows(subject, found, clusters)
        }
    }

    /// The same after the record has changed: a set that was just accepted may have clusters that no check has looked at.
    pub fn of_record(self, record: &StageStatus) -> Self {
        Self {
            settled_at: record.settled_at.as_ref().map(|time| time.0),
            is_unproven: !has_complete_evidence(record),
            was_never_proven: !has_had_complete_evidence(record),
            ..self
        }
    }

    /// Enough to find new updates.
    pub fn without_rows(subject: &Subject<'a>, found: &'a ObjectMeta, clusters: &'a Clusters<'a>) -> Self {
        let facts = subject.placed.facts;
        Self {
            bound: subject.bound,
            found,
            rows: &[],
            clusters,
            placed_since: (subject.placed.own.object.metadata.creation_timestamp.as_ref()).map(|time| time.0),
            settled_at: None,
            opened_at: (subject.placed.record.opened_at.as_ref()).map(|time| time.0),
            observed: subject.observed(),
            named_since: subject.named().and_then(|named| named.since),
            named_not_after: subject.named_not_after(),
            known_since: subject.named().and_then(|named| named.named_since),
            is_found_at_start: subject.is_found_at_start(),
            is_named_after_loss: subject.is_named_after_loss(),
            watching_since: facts.watching_since,
            is_released_in_place: subject.placed.own.is_released_in_place(),
            policy_since: (facts.policy.object.metadata.creation_timestamp.as_ref()).map(|time| time.0),
            is_unproven: true,
            was_never_proven: true,
            now: facts.now,
            settings: facts.settings,
        }
        .of_record(subject.placed.record)
    }

    /// The record, brought up to date: new updates become pending, acknowledged ones are taken off.
    pub fn advance(&self, recorded: Option<&ObjectStatus>) -> ObjectStatus {
        let (record, required) = self.advance_by_cluster(recorded);
        ObjectStatus {
            pending_updates: pending::grouped(required),
            ..record
        }
    }

    /// The same, with the pending updates beside the record.
    pub fn advance_by_cluster(&self, before: Option<&ObjectStatus>) -> (ObjectStatus, ByCluster) {
        let Begun {
            record,
            edits,
            recorded,
            is_made_anew,
            pending,
        } = self.begin(before);
        let has_nothing_pending =
            recorded.is_some_and(|recorded| !is_unbound(recorded) && recorded.pending_updates.is_empty());
        let is_as_before = edits == 0 && has_nothing_pending && self.clusters.new.is_empty();
        if is_as_before && !self.is_unproven {
            return (record, ByCluster::new());
        }
        let is_held = self.is_released_in_place && self.is_content_changed(before).is_some();
        let mut old_reports = self.unreachable(&record);
        // What the clusters of a held stage had before is on record, so no time has to tell.
        old_reports.retain(|((cluster, _), _)| !is_held || self.clusters.new.contains(cluster));
        if edits == 0 && !(is_held && self.clusters.new.is_empty()) {
            old_reports.extend(self.old_reports(&record, recorded));
        }
        if is_as_before && old_reports.is_empty() {
            return (record, ByCluster::new());
        }
        let mut required = pending::by_cluster(pending, &self.clusters.all);
        if edits > 0 {
            self.require_updates(&mut required, (before, recorded), (edits, is_made_anew));
        }
        old_reports.retain(|((cluster, _), _)| !required.contains_key(cluster.text()));
        let updated = self.updated_at(&record);
        self.acknowledge(&mut required, updated);
        for ((cluster, row), mut pending) in old_reports {
            if self.is_still_pending(&mut pending, row, updated) {
                required.insert(cluster.owned(), pending);
            }
        }
        (record, required)
    }

    /// The record without its pending updates, the updates since it was written, and the old record if it is of this object.
    pub(crate) fn begin<'r>(&self, recorded: Option<&'r ObjectStatus>) -> Begun<'r> {
        let pending = recorded.map_or(&[][..], |recorded| &recorded.pending_updates);
        let is_changed = self.is_content_changed(recorded);
        let (recorded, is_made_anew) = self.same_object(recorded);
        let edits = is_changed.map_or_else(|| self.edits(recorded, is_made_anew), i64::from);
        Begun {
            record: self.identity(recorded),
            edits,
            recorded,
            is_made_anew,
            pending,
        }
    }

    /// The new updates, and the time of the last of them.
    pub(crate) fn new_updates(&self, edits: i64, is_made_anew: bool, recorded: Option<&ObjectStatus>) -> NewUpdates {
        let at = match recorded {
            None if is_made_anew => self.found.made_at,
            _ => self.found.edited_at.filter(|_| self.is_time_of_update(recorded)),
        };
        NewUpdates {
            edits,
            at,
            is_made_anew,
        }
    }

    /// Whether there are new updates since the record was written.
    pub(crate) fn is_updated(&self, recorded: Option<&ObjectStatus>) -> bool {
        let is_changed = self.is_content_changed(recorded);
        let (recorded, is_made_anew) = self.same_object(recorded);
        is_changed.unwrap_or_else(|| self.edits(recorded, is_made_anew) > 0)
    }

    /// Whether clusters have to acknowledge the object because its body is not what a held stage had of it before, however often it was
    /// edited meanwhile: only what was admitted has travelled. `None`: the stage is not held, or is not known to have had the object.
    pub(crate) fn is_content_changed(&self, recorded: Option<&ObjectStatus>) -> Option<bool> {
        let now = self.found.content_digest.as_ref()?;
        let recorded = recorded.filter(|recorded| !is_unbound(recorded))?;
        let before = ContentDigest::parse(recorded.content_digest.as_deref()?)?;
        Some(self.generation().is_some() && !self.bound.create_only && now.body != before.body)
    }

    /// The record if it is of this object, and whether an older object of this name is known.
    fn same_object<'r>(&self, recorded: Option<&'r ObjectStatus>) -> (Option<&'r ObjectStatus>, bool) {
        let is_other = |recorded: &ObjectStatus| uid(recorded) != self.found.uid.borrowed();
        let is_made_anew = recorded.map_or_else(|| self.is_known_from_before(), is_other);
        (recorded.filter(|recorded| !is_other(recorded)), is_made_anew)
    }

    /// Updates since the record was written. A new object under an old one's name reaches the clusters as an update: their last
    /// reports are about the old one. So it is with createOnly: KubeStellar may have overlooked that the old one was gone.
    fn edits(&self, recorded: Option<&ObjectStatus>, is_made_anew: bool) -> i64 {
        match self.generation() {
            Some(_) if is_made_anew => 1,
            _ if self.bound.create_only => 0,
            _ => self.edits_since(recorded),
        }
    }

    pub(crate) fn generation(&self) -> Option<i64> {
        counted_generation(self.bound, self.found)
    }

    /// Whether the Binding named the object before this one was made: then it named one that is gone. Creation times are whole
    /// seconds, cut off.
    fn is_known_from_before(&self) -> bool {
        let made = self.found.made_at.map(|made| after(made, SignedDuration::from_secs(1)));
        let named = self.other_named_since();
        made.zip(named).is_some_and(|(made, named)| made > named)
    }

    /// Since when the Binding names the object, if that was another version at first, or is still.
    fn other_named_since(&self) -> Option<Timestamp> {
        self.known_since
            .or(self.named_since.filter(|_| self.is_other_version()))
    }

    pub(crate) fn key(&self) -> ObjectKey {
        binding_view::key(self.bound)
    }

    /// What has to be done so that clusters report on the object.
    pub(crate) const fn remedy(&self) -> &'static str {
        binding_view::remedy(self.bound)
    }

    /// Each of the clusters, and its row. Both are sorted by name.
    pub(crate) fn reported_by<'c>(
        &self,
        clusters: &'c BTreeSet<ClusterName<&'c str>>,
    ) -> impl Iterator<Item = (ClusterName<&'c str>, Option<&'a EvidenceRow>)> {
        let mut rows = InOrder(self.rows);
        clusters.iter().map(move |cluster| (*cluster, rows.row(*cluster)))
    }

    pub fn row(&self, cluster: ClusterName<&str>) -> Option<&'a EvidenceRow> {
        let found = self.rows.binary_search_by(|row| row.cluster.borrowed().cmp(&cluster));
        found.ok().map(|at| &self.rows[at])
    }

    fn identity(&self, recorded: Option<&ObjectStatus>) -> ObjectStatus {
        // While nothing is delivered (createOnly), the last delivered generation stays on record: a later change of
        // createOnly then finds what is pending.
        let generation = match recorded {
            Some(recorded) if self.bound.create_only => recorded.generation,
            _ => self.generation(),
        };
        ObjectStatus {
            group: self.bound.group.clone(),
            resource: self.bound.resource.clone(),
            namespace: self.key().namespace,
            name: self.bound.name.clone(),
            uid: self.found.uid.to_string(),
            generation,
            // A status write changes resourceVersion but is no update, so the version of the first sight is kept as its mark.
            resource_version: recorded
                .and_then(|recorded| recorded.resource_version.clone())
                .or_else(|| Some(self.bound.resource_version.clone())),
            metadata_digest: self.generation().is_none().then(|| self.found.metadata_digest.clone()),
            // The collectors belong to the baseline: both are renewed when the placement settles.
            // No edit travels with createOnly, so the one that did stays on record.
            content_digest: match recorded {
                Some(recorded) if self.bound.create_only => recorded.content_digest.clone(),
                _ => self.found.content_digest.as_ref().map(ToString::to_string),
            },
            collectors: recorded.map(|recorded| recorded.collectors.clone()).unwrap_or_default(),
            baseline: recorded.and_then(|recorded| recorded.baseline.clone()),
            edited_at: self.edited_at(recorded).map(Time),
            pending_updates: Vec::new(),
            before_release: recorded.and_then(|recorded| recorded.before_release.clone()),
            reported_generations: recorded
                .map(|recorded| recorded.reported_generations.clone())
                .unwrap_or_default(),
        }
    }

    /// When the generation last moved, by the API server's clock. The known time is kept while the generation stays: a later
    /// change of labels may move the server's time, but not the generation.
    fn edited_at(&self, recorded: Option<&ObjectStatus>) -> Option<Timestamp> {
        let generation = self.generation().filter(|generation| *generation > 1)?;
        let known = recorded.and_then(|recorded| recorded.edited_at.as_ref());
        if self.bound.create_only && recorded.is_some() {
            // Its generation stays on record too: it would differ in every round.
            return known.map(|time| time.0);
        }
        match recorded {
            Some(recorded) if recorded.generation == Some(generation) && known.is_some() => known.map(|time| time.0),
            Some(recorded) if recorded.generation.is_some_and(|before| before != generation) => {
                // An update that only removes fields leaves no time in managedFields; now is the latest that it can be.
                let edited_at = self.found.edited_at.filter(|_| self.is_time_of_update(Some(recorded)));
                Some(edited_at.unwrap_or_else(|| round_up_to_second(self.now).0))
            }
            _ => self.found.edited_at,
        }
    }

    /// Whether the server's time belongs to the update that moved the generation after the record was written, not to an
    /// earlier one.
    fn is_time_of_update(&self, recorded: Option<&ObjectStatus>) -> bool {
        let Some(recorded) = recorded else { return false };
        let before = recorded.edited_at.as_ref().map(|time| time.0).or(self.found.made_at);
        let edited_at = self.found.edited_at;
        edited_at
            .zip(before)
            .is_some_and(|(edited_at, before)| edited_at > before)
    }

    /// Whether the placement may have brought another version than the current one: the Binding names another one now, has named one
    /// before, or may have done so before this process began to watch.
    pub(crate) fn may_have_brought_another_version(&self) -> bool {
        self.named_since.is_none() || self.known_since.is_some() || self.is_other_version()
    }

    /// Whether the Binding names another version than the object has now.
    pub(crate) fn is_other_version(&self) -> bool {
        self.found.resource_version.borrowed() != binding_view::resource_version(self.bound)
    }

    fn edits_since(&self, recorded: Option<&ObjectStatus>) -> i64 {
        let Some(generation) = self.generation() else {
            return 0;
        };
        // The Binding may name another version than at first because of an update of which no time tells.
        // KubeStellar saw the version in the Binding before its transport read the object; if the object has moved since,
        // what was delivered may be the older one.
        let has_moved = generation > 1 && recorded.is_none_or(is_unbound) && self.is_other_version();
        match recorded.and_then(|recorded| recorded.generation) {
            Some(before) if before == generation => i64::from(has_moved),
            // Generations only grow while the uid stays; anything else is at least one update.
            Some(before) => generation.saturating_sub(before).max(1),
            None if recorded.is_none() => {
                let is_edited = || self.may_be_edited_since_placed() || self.unseen_update_since().is_some();
                i64::from(has_moved || (generation > 1 && is_edited()))
            }
            None => 0,
        }
    }

    /// Since when clusters may have had a version from before an update of which no time tells: since the Binding has named the object,
    /// if this process has seen it name another version, or from now on, if this process has not seen what it named at first.
    pub(crate) fn unseen_update_since(&self) -> Option<Timestamp> {
        let is_unseen = self.is_found_at_start && self.named_since.is_none() && !self.is_other_version();
        let may_be_unseen = is_unseen && !self.may_be_edited_since_placed();
        self.known_since.or_else(|| may_be_unseen.then_some(self.now))
    }

    /// There is no record of the object from when its placement was opened, so an older version of it may have been delivered.
    /// The placement was opened at or after the creation of the BindingPolicy; both times are the server's.
    fn may_be_edited_since_placed(&self) -> bool {
        let is_before = |(edited, placed)| edited < placed;
        !self.found.edited_at.zip(self.placed_since).is_some_and(is_before)
    }

    pub(crate) fn require_acknowledgements(
        &self,
        required: &mut ByCluster,
        updates: NewUpdates,
        recorded: Option<&ObjectStatus>,
    ) {
        let NewUpdates {
            edits,
            at,
            is_made_anew,
        } = updates;
        // Neither this Binding nor the record tells of an earlier version that the placement may have brought.
        let is_first_version = !self.may_have_brought_another_version() && recorded.is_none_or(is_unbound);
        let brought_by_another = self.brought_by_another();
        for (cluster, row) in self.reported_by(&self.clusters.all) {
            let is_of_older_object = is_made_anew && row.is_some_and(|row| self.is_of_later_generation(row));
            let report_after = |time: Option<Timestamp>| {
                let row = row.filter(|_| !is_of_older_object);
                row.zip(time).and_then(|(row, time)| self.reported_after(row, time))
            };
            // No time tells of the update, but the Binding can have named the version only afterwards: a report from after that is from after
            // the update.
            let reported_after_naming = at.is_none().then(|| report_after(self.named_not_after)).flatten();
            let reported_after = report_after(at);
            // The update was made and acknowledged before this process looked: the report is later than the update, and so old that
            // transport has nothing more to deliver. Where this process has not seen the Binding name the version, KubeStellar may
            // have been late, and the report is in doubt.
            if !required.contains_key(cluster.text())
                && self.named_since.is_some()
                && reported_after.is_some_and(|at| self.now.duration_since(at) >= self.settings.unseen_update())
            {
                continue;
            }
            // If the report may cover the update, silence counts as an acknowledgement too; a surely older report cannot.
            let is_old = row.is_some_and(|row| self.is_from_before_update(row));
            let reported_at = reported_after.or(reported_after_naming).or(self
                .other_named_since()
                .or_else(|| self.unseen_update_since())
                .filter(|_| recorded.is_none() && !is_old && !is_of_older_object));
            let acknowledged_at = reported_at.map(|_| round_up_to_second(self.now).0);
            let more = if row.is_some_and(&brought_by_another) {
                BROUGHT_AGAIN
            } else {
                0
            };
            let edits = edits
                .saturating_add(self.missed_before(row, recorded))
                .saturating_add(more);
            let requirement = Requirement {
                edits,
                updated: at,
                acknowledged_at,
                is_first_version,
            };
            self.add(required, (cluster, row), requirement);
        }
        // A cluster that has moved to another stage still gets the update.
        let has_left = |cluster: &ClusterName| !self.clusters.all.contains(&cluster.borrowed());
        for (_, pending) in required.iter_mut().filter(|(cluster, _)| has_left(cluster)) {
            pending.follow(edits, at, self.settings.unseen_update());
            pending.acknowledged_at = None;
        }
    }

    /// What the clusters have to acknowledge of updates that are new since the record `before` was written; `recorded` is that record, if
    /// it is of this object.
    pub(crate) fn require_updates(
        &self,
        required: &mut ByCluster,
        (before, recorded): (Option<&ObjectStatus>, Option<&ObjectStatus>),
        (edits, is_made_anew): (i64, bool),
    ) {
        if self.is_content_changed(before).is_some() {
            self.require_new_reports(required, before);
        } else {
            let updates = self.new_updates(edits, is_made_anew, recorded);
            self.require_acknowledgements(required, updates, recorded);
        }
    }

    /// Updates before the current one that the cluster had not acknowledged when the stage was opened: its report is older than
    /// the last of them. The record that the previous stage handed on has them.
    fn missed_before(&self, row: Option<&EvidenceRow>, recorded: Option<&ObjectStatus>) -> i64 {
        let known = recorded.filter(|recorded| is_unbound(recorded));
        let updated = known.and_then(|known| known.edited_at.as_ref());
        let is_old = row
            .zip(updated)
            .is_some_and(|(row, updated)| self.reported_before(row, updated.0));
        if is_old {
            pending::missed(known.and_then(|known| known.generation))
        } else {
            0
        }
    }

    pub(crate) fn add(&self, required: &mut ByCluster, (cluster, row): Reporting<'_>, requirement: Requirement) {
        if let Some(pending) = required.get_mut(cluster.text()) {
            pending.follow(requirement.edits, requirement.updated, self.settings.unseen_update());
            pending.edited_at = round_up_to_second(self.now).0;
            pending.acknowledged_at = requirement.acknowledged_at;
        } else {
            required.insert(cluster.owned(), self.required_of(row, requirement));
        }
    }

    /// What is pending for a cluster with this row for which nothing was pending.
    pub(crate) fn required_of(&self, row: Option<&EvidenceRow>, requirement: Requirement) -> Pending {
        let Requirement {
            edits,
            updated,
            acknowledged_at,
            is_first_version,
        } = requirement;
        let (now, window) = (round_up_to_second(self.now).0, self.settings.unseen_update());
        // A cluster that has reported no status yet has to send one acknowledgement more: its first status may be about the older
        // version.
        let has_status = row.is_some_and(|row| matches!(row.at, Reported::At { .. }));
        let first = i64::from(!has_status);
        // What is still on its way to a cluster without a status is like an update right before this one.
        let may_get_older = !has_status && !is_first_version;
        Pending {
            unacknowledged: edits.saturating_add(first),
            in_quick_succession: (edits > 1 || may_get_older)
                && updated.is_none_or(|updated| self.now.duration_since(updated) < window),
            observed_generation: row.map(|row| SmolStr::new(&row.r#gen)).unwrap_or_default(),
            reported_at: row.and_then(at_of),
            since: now,
            edited_at: now,
            acknowledged_at: acknowledged_at.map(|answered| answered.min(now)),
        }
    }

    pub(crate) fn acknowledge(&self, required: &mut ByCluster, updated: Option<Timestamp>) {
        let mut rows = InOrder(self.rows);
        required.retain(|cluster, pending| self.is_still_pending(pending, rows.row(cluster.borrowed()), updated));
    }

    /// Notes in `pending` what the cluster's row acknowledges.
    pub(crate) fn is_still_pending(
        &self,
        pending: &mut Pending,
        row: Option<&EvidenceRow>,
        updated: Option<Timestamp>,
    ) -> bool {
        if row.is_some_and(|row| at_of(row).is_none()) {
            pending.forget_report(round_up_to_second(self.now).0);
        }
        if let Some(row) = row.filter(|row| is_acknowledgement(pending, row)) {
            // A report that is older than the update was only unreadable until now. It takes one off the pending number, but
            // only a real acknowledgement starts the wait for merged ones.
            let is_older = pending.reported_at.is_none()
                && pending.observed_generation.is_empty()
                && self.reported_before(row, pending.edited_at);
            if is_older && self.brought_by_another()(row) {
                pending.unacknowledged = pending.unacknowledged.saturating_add(BROUGHT_AGAIN);
            }
            pending.unacknowledged = pending.unacknowledged.saturating_sub(1);
            let now = round_up_to_second(self.now).0;
            let is_after_update = self.reported_after_update(Some(row), updated, pending).is_some();
            pending.acknowledged_at = (!is_older).then(|| pending.acknowledged(now, is_after_update));
            pending.observed_generation = SmolStr::new(&row.r#gen);
            pending.reported_at = at_of(row);
        }
        let silent_since = pending.silent_since(self.reported_after_update(row, updated, pending));
        let is_merged =
            silent_since.is_some_and(|since| self.now.duration_since(since) >= self.settings.unseen_update());
        pending.unacknowledged > 0 && !is_merged
    }
}
