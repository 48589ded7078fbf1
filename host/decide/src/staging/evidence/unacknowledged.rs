//! What is said of updates that clusters have not acknowledged. Must not decide which those are.

use jiff::Timestamp;
use stagegate_api::{ObjectStatus, PendingUpdate, UnacknowledgedUpdates};

use crate::checks::finding::Finding;
use crate::checks::reason::Reason;
use crate::names::ClusterName;
use crate::staging::evidence::acknowledgements::UpdateTracker;
use crate::staging::evidence::pending::{self, Pending};
use crate::time::after;

impl UpdateTracker<'_> {
    /// The first pending update that holds the stage, if any, else why reports are in doubt; and when that may change by itself.
    pub fn missing(&self, record: &ObjectStatus, unseen: UnacknowledgedUpdates) -> Option<Finding> {
        self.held_by_update(record, unseen)
            .or_else(|| self.in_doubt(record, unseen))
    }

    /// The first pending update that holds the stage.
    pub fn held_by_update(&self, record: &ObjectStatus, unseen: UnacknowledgedUpdates) -> Option<Finding> {
        let window = self.settings.unseen_update();
        let (mut overdue, mut pending): (Option<Finding>, Option<Finding>) = (None, None);
        for update in record.pending_updates.iter().filter(|update| self.is_of_stage(update)) {
            let updated = self.updated_at(record);
            let rows = self
                .pending_clusters(update)
                .into_iter()
                .map(|cluster| self.row(cluster));
            let known = Pending::of(update);
            let reported = rows
                .filter_map(|row| self.reported_after_update(row, updated, &known))
                .max();
            let silent_since = if pending::is_unnamed(update) {
                self.all_silent_since(update, updated)
            } else {
                known.silent_since(reported)
            };
            let last = update.acknowledged_at.as_ref().unwrap_or(&update.edited_at).0;
            let since = silent_since.unwrap_or_else(|| last.max(update.since.0));
            let is_over = self.now.duration_since(since) >= window;
            if unseen == UnacknowledgedUpdates::Ignore && self.may_be_ignored(update, updated) {
                continue;
            }
            // An overdue one comes first: only a human can end it.
            if is_over && silent_since.is_none() {
                overdue.get_or_insert_with(|| self.overdue(update));
            } else {
                // With `Ignore` the time counts from the first of several updates, so that frequent updates do not put it off.
                let first = after(update.since.0, window);
                let ends = match unseen {
                    UnacknowledgedUpdates::Ignore if first > self.now => first.min(after(since, window)),
                    _ => after(since, window),
                };
                pending.get_or_insert_with(|| self.pending(update).wake_at(ends));
            }
        }
        overdue.or(pending)
    }

    /// Why reports may be of an older version although no update is pending.
    pub fn in_doubt(&self, record: &ObjectStatus, unseen: UnacknowledgedUpdates) -> Option<Finding> {
        self.doubtful()
            .or_else(|| self.unremembered())
            // Not with `Ignore`: an object that is updated all the time never goes two minutes without an update.
            .or_else(|| {
                self.brought_before_update(record)
                    .filter(|_| unseen == UnacknowledgedUpdates::Wait)
                    .filter(|_| !(self.is_released_in_place && self.is_content_changed(Some(record)).is_some()))
            })
            .or_else(|| self.of_another_object())
            .or_else(|| self.of_replaced_object(record))
    }

    /// Whether it is pending for clusters of the stage, not only for some that have left.
    fn is_of_stage(&self, update: &PendingUpdate) -> bool {
        pending::is_unnamed(update) || !self.pending_clusters(update).is_empty()
    }

    /// The clusters of the stage for which it is pending by name.
    fn pending_clusters<'u>(&self, update: &'u PendingUpdate) -> Vec<ClusterName<&'u str>> {
        let names = update.clusters.iter().map(|cluster| ClusterName::of(cluster));
        names.filter(|cluster| self.clusters.all.contains(cluster)).collect()
    }

    /// Whether `Ignore` passes over this entry: the first of its updates is two minutes old, and so is the last one, or an acknowledgement
    /// has followed it.
    fn may_be_ignored(&self, update: &PendingUpdate, updated: Option<Timestamp>) -> bool {
        let is_over = |time: Timestamp| self.now.duration_since(time) >= self.settings.unseen_update();
        let is_acknowledged = || {
            if pending::is_unnamed(update) {
                // `Ignore` does not ask whether the last update was delivered before that report: the flag would.
                let one_by_one = PendingUpdate {
                    in_quick_succession: false,
                    ..update.clone()
                };
                self.all_silent_since(&one_by_one, updated).is_some()
            } else {
                update.acknowledged_at.is_some()
            }
        };
        is_over(update.since.0) && (is_over(update.edited_at.0) || is_acknowledged())
    }

    fn overdue(&self, update: &PendingUpdate) -> Finding {
        let is_of_several = update.in_quick_succession && update.acknowledged_at.is_some();
        let (which, why) = if is_of_several {
            let delivered = self.settings.delivery().as_secs();
            let why = format!(
                "the last report may be of an earlier version: it is from within {delivered} s of the last update, or from before \
                 KubeStellar had seen that"
            );
            ("every update", why)
        } else {
            let silence = self.settings.unseen_update().as_secs();
            ("the update", format!("no status moved within {silence} s"))
        };
        Finding::unknown(
            Reason::UpdateAcknowledgementOverdue,
            format!(
                "{} not acknowledged {which} of {} (generation {}): {why}; {}, or set \
                 unacknowledgedUpdates: Ignore on this stage",
                have(&self.pending_clusters(update)),
                self.key(),
                self.found.generation.unwrap_or_default(),
                if self.bound.create_only {
                    self.remedy()
                } else {
                    "update the object once more when the cluster reports again"
                }
            ),
        )
    }

    fn pending(&self, update: &PendingUpdate) -> Finding {
        let count = match update.unacknowledged {
            1 => "1 update".to_owned(),
            count => format!("{count} updates"),
        };
        Finding::unknown(
            Reason::UpdateUnacknowledged,
            format!(
                "{} not acknowledged {count} of {} (generation {})",
                have(&self.pending_clusters(update)),
                self.key(),
                self.found.generation.unwrap_or_default()
            ),
        )
    }
}

/// The clusters as the subject of a sentence.
fn have(clusters: &[ClusterName<&str>]) -> String {
    match clusters {
        [] => "some clusters have".to_owned(),
        [one] => format!("cluster {one} has"),
        [one, other] => format!("clusters {one} and {other} have"),
        [one, rest @ ..] => format!("cluster {one} and {} others have", rest.len()),
    }
}
