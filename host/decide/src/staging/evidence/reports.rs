//! When a cluster reported, compared with times of other clocks. Must not judge what that means.

use jiff::Timestamp;
use stagegate_api::{EvidenceRow, ObjectStatus, Reported};

use crate::staging::evidence::acknowledgements::UpdateTracker;
use crate::staging::evidence::pending::Pending;
use crate::staging::input::{Settings, binding_view};
use crate::time::after;

impl UpdateTracker<'_> {
    /// When the object was last updated in the clusters, if a time tells it. A held stage gets an edit some time after it was made.
    pub(crate) fn updated_at(&self, record: &ObjectStatus) -> Option<Timestamp> {
        let is_held = self.is_content_changed(Some(record)).is_some();
        record.edited_at.as_ref().map(|time| time.0).filter(|_| !is_held)
    }

    /// Whether the cluster's last report is surely older than `time`.
    pub(crate) fn reported_before(&self, row: &EvidenceRow, time: Timestamp) -> bool {
        matches!(row.at, Reported::At { seconds } if seconds < self.first_not_before(time))
    }

    /// See [`first_not_before`].
    pub(crate) fn first_not_before(&self, time: Timestamp) -> i64 {
        first_not_before(time, self.settings)
    }

    /// Whether the cluster's last report is surely older than the last update of which a time tells.
    pub(crate) fn is_from_before_update(&self, row: &EvidenceRow) -> bool {
        let is_updated = self.generation().is_some_and(|generation| generation > 1);
        let updated = self.found.edited_at.filter(|_| is_updated);
        updated.is_some_and(|updated| self.reported_before(row, updated))
    }

    /// When the cluster last reported, if that is surely after the update at `edited_at` and not before KubeStellar had seen that
    /// update: no cluster can have had it earlier.
    pub(crate) fn reported_after(&self, row: &EvidenceRow, edited_at: Timestamp) -> Option<Timestamp> {
        let Reported::At { seconds } = row.at else { return None };
        let is_before = |named: Timestamp| seconds < named.as_second();
        let is_named = self.found.resource_version.borrowed() == binding_view::resource_version(self.bound);
        if !is_named || self.named_since.is_some_and(is_before) {
            return None;
        }
        self.is_surely_after(row, edited_at)
            .then(|| Timestamp::from_second(seconds).ok())
            .flatten()
    }

    /// Whether the report is later than the update by more than clocks may differ.
    pub(crate) fn is_surely_after(&self, row: &EvidenceRow, edited_at: Timestamp) -> bool {
        matches!(row.at, Reported::At { seconds } if seconds >= self.first_surely_after(edited_at))
    }

    /// Reports of this second and of later ones are later than the update by more than clocks may differ.
    pub(crate) fn first_surely_after(&self, edited_at: Timestamp) -> i64 {
        let end = edited_at.as_second().saturating_add(1).saturating_mul(1_000);
        seconds_rounded_up(end.saturating_add(self.settings.settle_ms))
    }

    /// When the cluster reported, if that is after the last update. An earlier acknowledgement, for instance one made just before
    /// the cluster became unreachable, says nothing about that update. Both times are whole seconds. There is no allowance for
    /// clocks that differ: a cluster that finishes within seconds does not report again, so its stage would never pass.
    ///
    /// Nor does a report that is surely older than KubeStellar's first naming of the version: no cluster can have had it then.
    ///
    /// After updates in quick succession only a report counts by which the last of them was delivered: an earlier one may be of an
    /// update before it, and then silence would be that of a cluster that cannot be reached.
    pub(crate) fn reported_after_update(
        &self,
        row: Option<&EvidenceRow>,
        updated: Option<Timestamp>,
        pending: &Pending,
    ) -> Option<Timestamp> {
        let row = row?;
        let seconds = at_of(row)?;
        if self.named_since.is_some_and(|named| self.reported_before(row, named)) {
            return None;
        }
        let is_after = if pending.in_quick_succession {
            seconds > after(updated.unwrap_or(pending.edited_at), self.settings.delivery()).as_second()
        } else {
            updated.is_none_or(|updated| seconds > updated.as_second())
        };
        Timestamp::from_second(seconds).ok().filter(|_| is_after)
    }
}

/// Reports of earlier seconds than this are surely older than `time`. Reports have whole seconds; clocks of API servers may differ by
/// the settle time.
pub(crate) fn first_not_before(time: Timestamp, settings: Settings) -> i64 {
    let end = time.as_millisecond().saturating_sub(settings.settle_ms);
    seconds_rounded_up(end).saturating_sub(1)
}

/// Whether the row is about another state of the object than the recorded one. `at` has whole seconds, so an acknowledgement
/// within the same second counts if `gen` differs; an older one never does.
pub(crate) fn is_acknowledgement(pending: &Pending, row: &EvidenceRow) -> bool {
    let Some(seconds) = at_of(row) else { return false };
    let before = pending.reported_at;
    if pending.observed_generation.is_empty() && row.r#gen.is_empty() {
        return before.is_none_or(|before| seconds > before);
    }
    !row.r#gen.is_empty() && pending.observed_generation != row.r#gen && before.is_none_or(|before| seconds >= before)
}

/// When the status last moved, in seconds since 1970.
pub(crate) const fn at_of(row: &EvidenceRow) -> Option<i64> {
    match row.at {
        Reported::At { seconds } => Some(seconds),
        Reported::Never | Reported::WithoutStatus => None,
    }
}

const fn seconds_rounded_up(milliseconds: i64) -> i64 {
    milliseconds.div_euclid(1_000) + (milliseconds.rem_euclid(1_000) > 0) as i64
}
