//! Edited objects: whether every cluster has answered each edit of an object. Must not judge what they answered.
//!
//! The only trace of an edit that comes back from a cluster is `gen` (observedGeneration there, counted by the
//! cluster) and `at` (when its status last changed, whole seconds). A cluster owes an answer for each edit; transport
//! may merge edits, so one answer is enough if none follows for a while.

use std::collections::BTreeMap;

use jiff::Timestamp;
use stagegate_api::{BoundObject, EvidenceRow, ObjectStatus, PendingUpdate, Reported, UnseenUpdates};

use super::evidence::Subject;
use super::facts::{ObjectMeta, Settings};
use super::finding::Finding;
use super::reason::Reason;
use super::slot::after;
use super::{bound, record};

/// Whether an entry is of the time before the placement was opened: no Binding has been compared with it.
pub(super) fn is_unbound(recorded: &ObjectStatus) -> bool {
    recorded.resource_version.is_none()
}

/// What is known of one object while its stage is judged.
#[derive(Clone, Copy, Debug)]
pub struct Edited<'a> {
    pub bound: &'a BoundObject,
    pub found: &'a ObjectMeta,
    /// The evidence rows of its CombinedStatus; empty while there is none.
    pub rows: &'a [EvidenceRow],
    pub destinations: &'a [&'a str],
    /// When the placement's BindingPolicy was made, by the API server's clock and in whole seconds.
    pub placed_since: Option<Timestamp>,
    pub now: Timestamp,
    pub settings: Settings,
}

impl<'a> Edited<'a> {
    pub fn of(subject: &Subject<'a>, found: &'a ObjectMeta, destinations: &'a [&'a str]) -> Self {
        let facts = subject.placed.facts;
        Self {
            bound: subject.bound,
            found,
            rows: subject.rows(),
            destinations,
            placed_since: (subject.placed.own.object.metadata.creation_timestamp.as_ref()).map(|time| time.0),
            now: facts.now,
            settings: facts.settings,
        }
    }

    /// The record after what is seen now: new edits become debts, answers pay them.
    pub fn advance(&self, recorded: Option<&ObjectStatus>) -> ObjectStatus {
        let is_other = |recorded: &ObjectStatus| recorded.uid != self.found.uid;
        let is_made_anew = recorded.is_some_and(is_other);
        let recorded = recorded.filter(|recorded| !is_other(recorded));
        let mut record = self.identity(recorded);
        // An object under an older one's name reaches the clusters as an edit of it: what they last said is about the
        // older one.
        let edits = match self.found.generation {
            Some(_) if is_made_anew => 1,
            _ => self.edits_since(recorded),
        };
        if edits > 0 && !self.bound.create_only {
            self.owe(&mut record, edits);
        }
        self.collect_answers(&mut record);
        record
    }

    fn identity(&self, recorded: Option<&ObjectStatus>) -> ObjectStatus {
        // While nothing is delivered (createOnly), the last delivered generation stays on record: a later change of
        // createOnly then finds the debt.
        let generation = match recorded {
            Some(recorded) if self.bound.create_only => recorded.generation,
            _ => self.found.generation,
        };
        ObjectStatus {
            group: self.bound.group.clone(),
            resource: self.bound.resource.clone(),
            namespace: bound::key(self.bound).namespace,
            name: self.bound.name.clone(),
            uid: self.found.uid.clone(),
            generation,
            // A status write moves the version but is no edit: it is kept only where it stands for a first sight.
            resource_version: recorded
                .and_then(|recorded| recorded.resource_version.clone())
                .or_else(|| Some(self.bound.resource_version.clone())),
            mark: self.found.generation.is_none().then(|| self.found.mark.clone()),
            // What the baseline is about: both are renewed together when the placement settles.
            collectors: recorded.map(|recorded| recorded.collectors.clone()).unwrap_or_default(),
            baseline: recorded.and_then(|recorded| recorded.baseline.clone()),
            updates: recorded.map(|recorded| recorded.updates.clone()).unwrap_or_default(),
        }
    }

    fn edits_since(&self, recorded: Option<&ObjectStatus>) -> i64 {
        let Some(generation) = self.found.generation else {
            return 0;
        };
        // KubeStellar saw the version in the Binding before its transport read the object; if the object has moved since,
        // what was delivered may be the older one.
        let has_moved = recorded.is_none_or(is_unbound) && self.found.resource_version != self.bound.resource_version;
        match recorded.and_then(|recorded| recorded.generation) {
            Some(before) if before == generation => i64::from(has_moved),
            // Generations only grow while the uid stays; anything else is at least one edit.
            Some(before) => generation.saturating_sub(before).max(1),
            None if recorded.is_none() => i64::from(has_moved || self.may_be_edited_since_placed(generation)),
            None => 0,
        }
    }

    /// Nobody has seen the object while its placement was opened: it may have been delivered as it was before an edit. The
    /// opening is not before the BindingPolicy was made, and both times are the server's.
    fn may_be_edited_since_placed(&self, generation: i64) -> bool {
        let is_before = |(edited, placed)| edited < placed;
        generation > 1 && !self.found.edited_at.zip(self.placed_since).is_some_and(is_before)
    }

    fn owe(&self, record: &mut ObjectStatus, edits: i64) {
        for cluster in self.destinations {
            let row = self.rows.iter().find(|row| row.cluster == *cluster);
            let (gen_seen, at_seen) = row.map_or((String::new(), String::new()), |row| {
                (row.r#gen.clone(), at_text(&row.at))
            });
            match record.updates.iter_mut().find(|update| update.cluster == *cluster) {
                Some(update) => {
                    update.owed = update.owed.saturating_add(edits);
                    update.edited_at = record::from(self.now);
                    update.answered_at = None;
                }
                None => {
                    // A cluster that never answered owes its first answer, too: it may be about the older version.
                    let first = i64::from(row.is_none_or(|row| matches!(row.at, Reported::Never)));
                    record.updates.push(PendingUpdate {
                        cluster: (*cluster).to_owned(),
                        owed: edits.saturating_add(first),
                        r#gen: gen_seen,
                        at: at_seen,
                        edited_at: record::from(self.now),
                        answered_at: None,
                    });
                }
            }
        }
    }

    fn collect_answers(&self, record: &mut ObjectStatus) {
        let window = self.settings.unseen_update();
        record.updates.retain_mut(|update| {
            if !self.destinations.contains(&update.cluster.as_str()) {
                return false;
            }
            if let Some(row) = self.rows.iter().find(|row| row.cluster == update.cluster)
                && is_answer(update, row)
            {
                let is_older = self.is_older(update, row);
                update.owed = update.owed.saturating_sub(1);
                update.r#gen = row.r#gen.clone();
                update.at = at_text(&row.at);
                // It was there all along, unseen: merged answers are waited for from a real one only.
                update.answered_at = (!is_older).then(|| record::from(self.now));
            }
            let merged = update
                .answered_at
                .as_ref()
                .is_some_and(|answered| self.now.duration_since(answered.0) >= window);
            update.owed > 0 && !merged
        });
    }

    /// Whether a cluster of which no row was readable when the edit was seen had said this long before it.
    fn is_older(&self, update: &PendingUpdate, row: &EvidenceRow) -> bool {
        let Reported::At { seconds } = row.at else { return false };
        let is_first = update.at.is_empty() && update.r#gen.is_empty();
        is_first
            && Timestamp::from_second(seconds.saturating_add(1))
                .is_ok_and(|at| after(at, self.settings.settle()) < update.edited_at.0)
    }

    /// The first debt that keeps the object from counting, if any, and when that may change by itself.
    pub fn missing(&self, record: &ObjectStatus, unseen: UnseenUpdates) -> Option<Finding> {
        let window = self.settings.unseen_update();
        let mut waiting: BTreeMap<Reason, Finding> = BTreeMap::new();
        for update in &record.updates {
            let since = update.answered_at.as_ref().unwrap_or(&update.edited_at).0;
            let over = self.now.duration_since(since) >= window;
            let cluster = &update.cluster;
            let finding = if over && update.answered_at.is_none() {
                if matches!(unseen, UnseenUpdates::Accept) {
                    continue;
                }
                Finding::unknown(
                    Reason::UpdateNotSeen,
                    format!(
                        "cluster {cluster} has not answered the edit of {} (generation {}): its status did not \
                        move within {} s; \
                         edit the object once more when the cluster reports again, or set unseenUpdates: Accept on this stage",
                        bound::key(self.bound),
                        self.found.generation.unwrap_or_default(),
                        window.as_secs()
                    ),
                )
            } else {
                Finding::unknown(
                    Reason::UpdatePending,
                    format!(
                        "cluster {cluster} owes {} answer(s) to edits of {} (generation {})",
                        update.owed,
                        bound::key(self.bound),
                        self.found.generation.unwrap_or_default()
                    ),
                )
                .wake_at(after(since, window))
            };
            // The one that nobody but a human ends is named first.
            waiting.entry(finding.reason).or_insert(finding);
        }
        waiting
            .remove(&Reason::UpdateNotSeen)
            .or_else(|| waiting.remove(&Reason::UpdatePending))
    }
}

/// Whether the row tells of another state of the object than the one on record. `at` has whole seconds, so an answer
/// within the same second counts when `gen` differs; an older one never does.
fn is_answer(update: &PendingUpdate, row: &EvidenceRow) -> bool {
    let Reported::At { seconds } = row.at else { return false };
    let before: Option<i64> = update.at.parse().ok();
    if update.r#gen.is_empty() && row.r#gen.is_empty() {
        return before.is_none_or(|before| seconds > before);
    }
    !row.r#gen.is_empty() && row.r#gen != update.r#gen && before.is_none_or(|before| seconds >= before)
}

/// Seconds since 1970 as text; empty for "nothing yet".
fn at_text(at: &Reported) -> String {
    match at {
        Reported::At { seconds } => seconds.to_string(),
        Reported::Never | Reported::WithoutStatus => String::new(),
    }
}
