//! Reports that may be about an older version, because the placement or the policy was created too late to have a record of that
//! version, or because the placement itself brought it before an update. They count when transport has nothing more to deliver. Must
//! not record anything.

use jiff::{SignedDuration, Timestamp};
use stagegate_api::{EvidenceRow, ObjectStatus, Reported};

use crate::checks::finding::Finding;
use crate::checks::reason::Reason;
use crate::staging::evidence::acknowledgements::UpdateTracker;
use crate::staging::evidence::reports::first_not_before;
use crate::staging::input::Observed;
use crate::time::{after, later};

impl<'a> UpdateTracker<'a> {
    /// The finding while a report may be about an older version or an older object, because it was made for another placement
    /// before this one. An update that only removes fields leaves no timestamp, so there may have been one since. The report
    /// counts when the placement is so old that transport has nothing more to deliver, or when the cluster reports again. If the
    /// report may be older than the last update, the cluster also has to acknowledge the generation.
    pub(crate) fn doubtful(&self) -> Option<Finding> {
        if !self.is_unproven || self.bound.create_only {
            return None;
        }
        // What was never updated has one version; its report may still be about an object of the same name.
        let is_of_it = |row: &EvidenceRow| {
            let made = self.found.made_at.filter(|_| self.generation() == Some(1));
            made.is_some_and(|made| self.reported_after(row, made).is_some())
        };
        let in_doubt_since = self.in_doubt_since();
        let mut rows = self.rows.iter().filter_map(|row| Some((row, in_doubt_since(row)?)));
        let (row, since) = rows.find(|(row, _)| !is_of_it(row))?;
        let ends = after(since, self.settings.unseen_update());
        let text = format!(
            "the last report of cluster {} on {} may be from before the Binding of this stage named both of them, so it may be about an \
             older version: it counts from {ends} on; a new report from the cluster counts earlier",
            row.cluster,
            self.key()
        );
        Some(Finding::unknown(Reason::UpdateUnacknowledged, text).wake_at(ends))
    }

    /// Since when the Binding names the object, if this process has seen the object being added. After a restart KubeStellar may
    /// name it much later than the placement was opened.
    pub(crate) fn bound_since(&self) -> Option<Timestamp> {
        self.known_since.or(self.named_since)
    }

    /// For a report that was made before the placement delivered anything to its cluster, while transport may still have something to
    /// deliver: since when the placement may have delivered something. Such a report is about another placement's object.
    pub(crate) fn in_doubt_since(&self) -> impl Fn(&EvidenceRow) -> Option<Timestamp> + use<'a> {
        // The clusters that the Binding had when this process first saw it may have been named only just before, unless the set with them
        // was accepted earlier.
        let seen_since = self.observed.map(Observed::seen_since);
        self.reports_before_naming(seen_since.filter(|_| self.was_never_proven))
    }

    /// The same, where only what this process has seen counts: it was another placement that brought the object to the cluster.
    pub(crate) fn brought_by_another(&self) -> impl Fn(&EvidenceRow) -> bool + use<'a> {
        let in_doubt_since = self.reports_before_naming(None);
        move |row| in_doubt_since(row).is_some()
    }

    /// `seen_since`: by when the Binding named the clusters of which this process has not seen that it named them.
    fn reports_before_naming(
        &self,
        seen_since: Option<Timestamp>,
    ) -> impl Fn(&EvidenceRow) -> Option<Timestamp> + use<'a> {
        // There may be thousands of rows: what is the same for all of them is computed once.
        let joined = self.observed.map(|observed| &observed.joined);
        // A stage may get its first cluster long after it was opened.
        let last_named_at = joined.and_then(|joined| joined.values().max()).copied().max(seen_since);
        // A clock of ours that is ahead of the server's must not end the wait.
        let placement_since = self
            .placed_since
            .map(|placed| later(self.bound_since(), later(self.opened_at, placed)))
            .filter(|since| self.now < after(later(last_named_at, *since), self.settings.unseen_update()));
        let made_before = self.placed_since.map(|placed| {
            let opened = self.opened_at.map_or(placed.as_second(), |opened| {
                placed.as_second().max(opened.as_second().saturating_sub(1))
            });
            let bound = self.bound_since().map(|bound| self.first_not_before(bound));
            bound.map_or(opened, |bound| opened.max(bound))
        });
        let (now, settings) = (self.now, self.settings);
        let (clusters, settled_at) = (self.clusters, self.settled_at);
        move |row| {
            let Reported::At { seconds } = row.at else { return None };
            let (placement_since, made_before) = placement_since.zip(made_before)?;
            let named_at = joined
                .and_then(|joined| joined.get(&row.cluster))
                .copied()
                .or(seen_since);
            let is_accepted = !clusters.new.contains(&row.cluster.borrowed());
            let accepted_at = settled_at.filter(|_| is_accepted);
            let named_at = named_at.map(|named| accepted_at.map_or(named, |accepted| named.min(accepted)));
            let since = later(named_at, placement_since);
            let made_before = named_at.map_or(made_before, |named| made_before.max(first_not_before(named, settings)));
            (seconds < made_before && now < after(since, settings.unseen_update())).then_some(since)
        }
    }

    /// The finding while a cluster may still get, or report, the version before an update, and this policy has no record from before that
    /// update: another policy may have placed the object, or this one before it was deleted and created again.
    pub(crate) fn unremembered(&self) -> Option<Finding> {
        let window = self.settings.unseen_update();
        let is_updated = |generation| generation > 1;
        let updated = (self.found.edited_at)
            .filter(|_| self.is_unproven && !self.bound.create_only && self.generation().is_some_and(is_updated))?;
        let ends = after(updated, window);
        let is_before_placement = self.placed_since.is_some_and(|placed| updated <= placed);
        if !(is_before_placement && self.is_policy_too_young(updated) && self.now < ends) {
            return None;
        }
        let row = self.rows.iter().find(|row| matches!(row.at, Reported::At { .. }))?;
        let text = format!(
            "{} was updated at {updated}, shortly before this policy placed it: the report of cluster {} may be about an older \
             version that another BindingPolicy delivered; the report counts from {ends} on",
            self.key(),
            row.cluster
        );
        Some(Finding::unknown(Reason::UpdateUnacknowledged, text).wake_at(ends))
    }

    /// The finding while a report may be about the version before an update, because the placement had already brought that version. A
    /// cluster that comes back with a version from an earlier placement first reports that one, then the one that this placement
    /// brought first. A cluster that got the object from this placement alone reports that one, then the update. Both report twice, so
    /// the number of reports does not tell them apart. Once every cluster has been found to report, no older version can come up.
    pub(crate) fn brought_before_update(&self, record: &ObjectStatus) -> Option<Finding> {
        // At generation 2 the object has one older version: the first report of a cluster that comes back is about it, the second is not.
        let has_two_older = |generation| generation > 2;
        let updated = (record.edited_at.as_ref().map(|time| time.0)).filter(|_| {
            self.was_never_proven && !self.bound.create_only && self.generation().is_some_and(has_two_older)
        })?;
        let ends = after(updated, self.settings.unseen_update());
        let is_since_opening = self.may_bring_since().is_some_and(|since| updated > since);
        // A Binding that was empty for a while has lost what it named before; the record has the version of the first sight.
        let is_other_than_at_first = record.resource_version.as_deref() != Some(&self.bound.resource_version);
        let is_unknown_before = self.is_found_at_start || self.is_named_after_loss || is_other_than_at_first;
        let may_have_brought_other = self.may_have_brought_another_version() || is_unknown_before;
        if !(is_since_opening && may_have_brought_other && self.now < ends) {
            return None;
        }
        let row = self.rows.iter().find(|row| matches!(row.at, Reported::At { .. }))?;
        let text = format!(
            "{} was updated at {updated}, after this policy placed it: the report of cluster {} may be about the version before \
             the update; the report counts from {ends} on, unless the object is updated again, or at once with unacknowledgedUpdates: \
             Ignore on this stage",
            self.key(),
            row.cluster
        );
        Some(Finding::unknown(Reason::UpdateUnacknowledged, text).wake_at(ends))
    }

    /// Since when the placement may have brought something to clusters. A process that has just started may have seen it open much later
    /// than it was opened; clocks may differ by the settle time.
    pub(crate) fn may_bring_since(&self) -> Option<Timestamp> {
        let settle = self.settings.settle();
        let opened =
            (self.opened_at.filter(|_| !self.is_found_at_start)).and_then(|opened| opened.checked_sub(settle).ok());
        Some(later(opened, self.placed_since?))
    }

    /// The finding while a cluster reports a later generation than the object has had: the report is about an older object of this name,
    /// of which this policy has no record, unless something in the cluster edits the object.
    pub(crate) fn of_another_object(&self) -> Option<Finding> {
        let window = self.settings.unseen_update();
        let made = (self.found.made_at).filter(|_| self.is_unproven && self.generation() == Some(1))?;
        let ends = after(made, window);
        if !self.is_policy_too_young(made) || self.now >= ends {
            return None;
        }
        let row = self.rows.iter().find(|row| self.is_of_later_generation(row))?;
        let text = format!(
            "cluster {} reports generation {} of {}, which has generation 1 and was made at {made}: the report may be about an older \
             object of this name; it counts from {ends} on",
            row.cluster,
            row.r#gen,
            self.key()
        );
        Some(Finding::unknown(Reason::UpdateUnacknowledged, text).wake_at(ends))
    }

    /// The finding while a cluster's last report is from before KubeStellar named the object, if the Binding had named an older object, was
    /// empty for a while as in a restart of KubeStellar, and then named this one. No time tells of that where the first look at the
    /// object came after it was made anew.
    pub(crate) fn of_replaced_object(&self, record: &ObjectStatus) -> Option<Finding> {
        let is_counted = self.is_unproven && !self.bound.create_only && self.generation() == Some(1);
        let observed = self.observed.filter(|_| is_counted)?;
        let named = (self.bound_since()).filter(|named| observed.lost_at.is_some_and(|lost| lost <= *named))?;
        let seen_since = observed.seen_since();
        // The API server's time of creation has whole seconds, cut off.
        let made = (self.found.made_at).filter(|made| after(*made, SignedDuration::from_secs(1)) > seen_since)?;
        // The record has the version that the Binding named at the first look.
        let has_named_another = record.resource_version.as_deref() != Some(&self.bound.resource_version);
        let row = (self.rows.iter()).find(|row| has_named_another && self.reported_before(row, named))?;
        let text = format!(
            "cluster {} has not reported on {} since that was deleted and created again at {made}: its last report is about the object \
             before it; {}",
            row.cluster,
            self.key(),
            self.remedy()
        );
        Some(Finding::unknown(Reason::NotReported, text))
    }

    /// Whether the cluster reports a later generation than the object has had: of an older object of this name, unless something in
    /// the cluster edits the object.
    pub(crate) fn is_of_later_generation(&self, row: &EvidenceRow) -> bool {
        let reported = row.r#gen.parse::<i64>();
        reported.is_ok_and(|reported| self.generation().is_some_and(|generation| reported > generation))
    }

    /// Whether the policy cannot have a record of what was delivered before that time: it was made after it, or shortly before.
    fn is_policy_too_young(&self, time: Timestamp) -> bool {
        let window = self.settings.unseen_update();
        self.policy_since.is_some_and(|made| after(made, window) > time)
    }
}
