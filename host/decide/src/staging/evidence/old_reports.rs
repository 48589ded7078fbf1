//! Reports of clusters and objects that are new to a stage: which of them may be older than the last update. Must not look at clusters
//! and objects that were accepted before.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use stagegate_api::{EvidenceRow, ObjectStatus, Reported};

use crate::names::ClusterName;
use crate::staging::evidence::acknowledgements::{Reporting, Requirement, UpdateTracker};
use crate::staging::evidence::combined_status::Subject;
use crate::staging::evidence::pending::{self, Pending};
use crate::staging::evidence::reports::at_of;
use crate::staging::input::recorded::{self, is_unbound};
use crate::time::{after, round_up_to_second};

impl Subject<'_> {
    /// When the next cluster will have been without a report for 30 s. It counts as unreachable then, and status must record that
    /// before its first report comes, so the stage is evaluated.
    pub(crate) fn next_unreachable(&self) -> Option<Timestamp> {
        let (observed, record, facts) = (self.observed()?, self.placed.record, self.placed.facts);
        let object = self.named().and_then(|named| named.named_since.or(named.since));
        let accepted: BTreeSet<ClusterName<&str>> = recorded::destinations(record).collect();
        let due = |row: &EvidenceRow| {
            let cluster = row.cluster.borrowed();
            let accepted_at = record.settled_at.as_ref().filter(|_| accepted.contains(&cluster));
            let named = observed.named_at((cluster, accepted_at.map(|time| time.0)), object);
            after(named, facts.settings.first_report())
        };
        let unreported = self.rows().iter().filter(|row| matches!(row.at, Reported::Never));
        unreported.map(due).filter(|due| *due > facts.now).min()
    }
}

impl<'a> UpdateTracker<'a> {
    /// A cluster or an object that is new to the stage may have a report from before the last update: the cluster was away
    /// meanwhile, or another BindingPolicy placed the object.
    pub(crate) fn old_reports(
        &self,
        record: &ObjectStatus,
        recorded: Option<&ObjectStatus>,
    ) -> Vec<(Reporting<'a>, Pending)> {
        let is_first_sight = recorded.is_none_or(is_unbound) || self.is_unproven;
        // A report that is older than an object which was never updated is about another object of its name.
        let made = self
            .found
            .made_at
            .filter(|_| is_first_sight && self.generation() == Some(1));
        let edited = record.edited_at.as_ref().map(|time| time.0);
        let Some(updated) = edited.or(made).filter(|_| !self.bound.create_only) else {
            return Vec::new();
        };
        let has_accepted = self.clusters.has_accepted();
        // There may be a thousand rows for each object: what is the same for all is computed once, and a cluster is looked up only
        // for a report that is in doubt.
        let now = round_up_to_second(self.now).0;
        let may_have_joined = has_accepted || !is_first_sight;
        let from_before_since = self.in_doubt_since();
        let (not_before, surely_after) = (self.first_not_before(updated), self.first_surely_after(updated));
        // The update was noted for the clusters that the Binding named then; for one that it names only now, nothing is pending from that.
        let is_noted_since_opening = recorded.is_some_and(|recorded| !is_unbound(recorded))
            && self.may_bring_since().is_some_and(|since| updated > since);
        let may_have_missed =
            |cluster| is_noted_since_opening && self.is_recent(updated) && self.clusters.late.contains(&cluster);
        let requirement = |(at, row): (usize, &'a EvidenceRow)| {
            let is_old = at_of(row).is_some_and(|seconds| seconds < not_before);
            // If the report is of this version after all, nothing more will come.
            let in_doubt_since = || {
                let may_be_from_before = may_have_joined && self.may_be_from_before(row, updated);
                if may_be_from_before && self.clusters.new.contains(&row.cluster.borrowed()) {
                    return Some(now);
                }
                let is_surely_after = at_of(row).is_some_and(|seconds| seconds >= surely_after);
                from_before_since(row).filter(|_| is_first_sight && !is_surely_after)
            };
            let acknowledged_at = match (is_old, edited) {
                (true, Some(_)) => None,
                (false, Some(_)) if may_have_missed(row.cluster.borrowed()) => {
                    (at_of(row)? > updated.as_second()).then_some(now)
                }
                // The cluster counts generations of its own from 1 again.
                (true, None) => Some(now),
                (false, Some(_)) => Some(in_doubt_since()?),
                (false, None) => return None,
            };
            let cluster = self.clusters.of_row(at, row)?;
            if !(is_first_sight || self.clusters.new.contains(&cluster)) {
                return None;
            }
            let edits = if is_old { pending::missed(record.generation) } else { 1 };
            let requirement = Requirement {
                edits,
                updated: Some(updated),
                acknowledged_at,
                is_first_version: false,
            };
            Some(((cluster, Some(row)), self.required_of(Some(row), requirement)))
        };
        let unreported = self
            .unreported(updated)
            .filter(|((cluster, _), _)| edited.is_some() && (may_have_joined || may_have_missed(*cluster)));
        let reported = self.rows.iter().enumerate().filter_map(requirement);
        reported.chain(unreported).collect()
    }

    /// Clusters that have just joined and of which no report has come into view, if the object was updated so shortly before that the first
    /// one may be of another placement, which brought the version before the update. A report from after the update is in doubt, just as if
    /// it had been in view when the cluster joined; where the Binding still names another version, this placement may bring that one first.
    fn unreported(&self, updated: Timestamp) -> impl Iterator<Item = (Reporting<'a>, Pending)> {
        let is_recent = self.is_recent(updated);
        let clusters = self.reported_by(&self.clusters.new);
        let unreported = clusters.filter(move |(_, row)| is_recent && row.and_then(at_of).is_none());
        unreported.map(move |(cluster, row)| {
            let requirement = Requirement {
                edits: 1,
                updated: Some(updated),
                acknowledged_at: None,
                is_first_version: false,
            };
            let pending = self.required_of(row, requirement);
            let pending = if self.is_other_version() {
                pending
            } else {
                Pending {
                    edited_at: updated,
                    in_quick_succession: false,
                    ..pending
                }
            };
            ((cluster, row), pending)
        })
    }

    /// Clusters that have reported nothing for so long since the Binding named them that they must have been unreachable. One that comes
    /// back may first report on an older version, which another BindingPolicy brought, or this one before it was deleted and created
    /// again. That report is in doubt: it counts when another one follows it, or when nothing more has come for two minutes.
    pub(crate) fn unreachable(&self, record: &ObjectStatus) -> Vec<(Reporting<'a>, Pending)> {
        let is_updated = self.generation().is_some_and(|generation| generation > 1);
        if !(self.was_never_proven && is_updated) || self.bound.create_only {
            return Vec::new();
        }
        let window = self.settings.first_report();
        let is_unreachable = |(cluster, row): &Reporting<'a>| {
            let has_no_report = row.is_some_and(|row| matches!(row.at, Reported::Never));
            has_no_report
                && self
                    .named_at(*cluster)
                    .is_some_and(|named| self.now >= after(named, window))
        };
        let requirement = Requirement {
            edits: 1,
            updated: None,
            acknowledged_at: None,
            is_first_version: true,
        };
        let now = round_up_to_second(self.now).0;
        let updated = record.edited_at.as_ref().map_or(self.now, |time| time.0);
        let pending = |row| Pending {
            edited_at: updated.min(after(now, SignedDuration::from_secs(-1))),
            ..self.required_of(row, requirement)
        };
        let unreachable = self.reported_by(&self.clusters.all).filter(is_unreachable);
        unreachable
            .map(|(cluster, row)| ((cluster, row), pending(row)))
            .collect()
    }

    /// By when the Binding had named both the cluster and the object.
    fn named_at(&self, cluster: ClusterName<&str>) -> Option<Timestamp> {
        let accepted_at = self.settled_at.filter(|_| !self.clusters.new.contains(&cluster));
        Some(self.observed?.named_at((cluster, accepted_at), self.bound_since()))
    }

    /// Whether the report of a cluster that has just joined may be about the version before the last update, as another BindingPolicy
    /// may have delivered that one. It counts when nothing has come for so long that transport has nothing more to deliver.
    fn may_be_from_before(&self, row: &EvidenceRow, updated: Timestamp) -> bool {
        matches!(row.at, Reported::At { .. }) && self.is_recent(updated)
    }

    /// Whether transport may still deliver something from before that time.
    fn is_recent(&self, updated: Timestamp) -> bool {
        self.now.duration_since(updated) < self.settings.unseen_update()
    }
}
