//! Whether what the clusters reported about one object is complete, belongs to this placement, and is new enough.
//! Must not judge whether it is good.

use crate::staging::evidence::binding::destinations_of;
use std::collections::BTreeSet;

use jiff::Timestamp;
use stagegate_api::{
    BoundObject, CollectorView, CombinedStatusView, EvidenceRow, EvidenceView, ObjectStatus, REPORT_NAMESPACE,
    Reported, RowErrorView, StatusCollector, evidence, label,
};

use crate::checks::finding::Finding;
use crate::checks::reason::Reason;
use crate::counted::counted;
use crate::names::{ClusterName, ObjectKey, ResourceVersion};
use crate::staging::evidence::binding::Placed;
use crate::staging::evidence::{collector, kinds};
use crate::staging::input::{Decoded, NamedVersion, ObjectMeta, Observed, binding_view, recorded};
use crate::time::after;

/// etcd refuses larger objects (1.5 MiB), so only a control plane without that bound can hold one.
pub const COMBINED_STATUS_BYTES_MAX: usize = 3 * 512 * 1024;

/// One object of the Binding and its CombinedStatus.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub placed: &'a Placed<'a>,
    pub bound: &'a BoundObject,
    /// What its own control plane says of it.
    pub found: &'a ObjectMeta,
}

impl<'a> Subject<'a> {
    fn key(&self) -> ObjectKey {
        binding_view::key(self.bound)
    }

    /// What this process saw of the version that the Binding names.
    pub fn named(&self) -> Option<&'a NamedVersion> {
        self.observed()?.versions.get(&self.key().to_string())
    }

    /// A time by which the Binding named that version, by this process's clock.
    pub fn named_not_after(&self) -> Option<Timestamp> {
        let named_since = self.named()?.since;
        named_since.or_else(|| self.first_seen())
    }

    /// When this process saw the placement's Binding for the first time.
    fn first_seen(&self) -> Option<Timestamp> {
        self.observed().map(Observed::seen_since)
    }

    /// What this process saw of the placement's Binding.
    pub fn observed(&self) -> Option<&'a Observed> {
        let seen = self.placed.facts.bindings.get(&self.placed.stage.placement)?;
        Some(&seen.observed)
    }

    /// Whether the Binding was there when this process began to watch: it may have named anything before.
    pub fn is_found_at_start(&self) -> bool {
        self.first_seen()
            .zip(self.placed.facts.watching_since)
            .is_some_and(|(seen, watching)| seen <= watching)
    }

    /// Whether the Binding had lost something before it named this version, maybe another version of the object.
    pub fn is_named_after_loss(&self) -> bool {
        let lost_at = self.observed().and_then(|seen| seen.lost_at);
        let named_since = self.named().and_then(|named| named.since);
        lost_at.zip(named_since).is_some_and(|(lost, named)| lost <= named)
    }

    /// KubeStellar: `<object uid>.<BindingPolicy uid>`, in the object's namespace or its own for cluster-scoped ones.
    pub fn combined_name(&self) -> (String, String) {
        let namespace = self.key().namespace.unwrap_or_else(|| REPORT_NAMESPACE.to_owned());
        (namespace, format!("{}.{}", self.found.uid, self.placed.own.uid()))
    }

    /// The CombinedStatus of exactly this object and this placement.
    pub fn combined(&self) -> Result<&'a CombinedStatusView, Finding> {
        let (namespace, name) = self.combined_name();
        let key = self.key();
        match self.placed.facts.combined.get(&format!("{namespace}/{name}")) {
            None => Err(self.no_combined(&namespace, &name)),
            Some(Decoded::Invalid { error }) => Err(Finding::unknown(
                Reason::InvalidObject,
                format!(
                    "CombinedStatus {namespace}/{name} of {key} cannot be read ({error}): delete it, and \
                    KubeStellar writes it anew"
                ),
            )),
            Some(Decoded::Object(view)) if view.metadata.deletion_timestamp.is_some() => Err(Finding::unknown(
                Reason::CombinedStatusMissing,
                format!("CombinedStatus {namespace}/{name} of {key} is being deleted: KubeStellar writes it anew"),
            )),
            Some(Decoded::Object(view)) => {
                self.require_labels(view)?;
                Ok(view)
            }
        }
    }

    /// KubeStellar does not see that an object was deleted and made anew before it wrote the Binding without it: it keeps the old
    /// one's uid, and the garbage collector removes what it writes. (`tests/cluster/recordings/object-made-anew.yaml`)
    fn no_combined(&self, namespace: &str, name: &str) -> Finding {
        let (key, facts) = (self.key(), self.placed.facts);
        let text = format!("no CombinedStatus {namespace}/{name} for {key} yet");
        let placement = &self.placed.stage.placement;
        let placed = &self.placed.own.object.metadata.creation_timestamp;
        let made = self
            .found
            .made_at
            .filter(|made| placed.as_ref().is_some_and(|placed| placed.0 <= *made));
        let set_since = facts.bindings.get(placement).map(|binding| binding.observed.since);
        let due = made
            .zip(set_since)
            .map(|(made, set)| after(made.max(set), facts.settings.combined()));
        match due {
            // While the policy is paused no BindingPolicy is made.
            Some(due) if due <= facts.now && !facts.policy.object.spec.paused => Finding::unknown(
                Reason::CombinedStatusMissing,
                format!(
                    "{text}, and it may never come: KubeStellar does not notice when an object is deleted and made anew within 2 s. \
                    Delete BindingPolicy {placement}; it is made anew, and until then the workload is away from its clusters"
                ),
            ),
            due => {
                let text = format!("{text}: KubeStellar writes it about 7 s after the BindingPolicy is created");
                let finding = Finding::unknown(Reason::CombinedStatusMissing, text);
                match due.filter(|due| *due > facts.now) {
                    Some(due) => finding.wake_at(due),
                    None => finding,
                }
            }
        }
    }

    fn require_labels(&self, view: &CombinedStatusView) -> Result<(), Finding> {
        let key = self.key();
        let wanted = [
            (label::API_GROUP, key.group.as_str()),
            (label::RESOURCE, key.resource.as_str()),
            (label::NAMESPACE, key.namespace.as_deref().unwrap_or_default()),
            (label::NAME, key.name.as_str()),
            (label::BINDING_POLICY, self.placed.stage.placement.as_str()),
        ];
        match wanted.iter().find(|(name, value)| view.label(name) != *value) {
            None => Ok(()),
            Some((name, value)) => Err(Finding::unknown(
                Reason::CombinedStatusNotOwned,
                format!(
                    "the CombinedStatus of {key} has label {name}={:?} and not {value:?}: it was not written by \
                    KubeStellar for \
                     this object; delete it",
                    view.label(name)
                ),
            )),
        }
    }

    /// The rows of our own collector, as far as they can be read.
    pub fn rows(&self) -> &'a [EvidenceRow] {
        let Ok(view) = self.combined() else { return &[] };
        match ours(view).as_slice() {
            [found] => &found.rows,
            _ => &[],
        }
    }

    /// The CombinedStatus, if it is complete and new enough to be judged. The destinations are sorted.
    pub fn proven(
        &self,
        record: &ObjectStatus,
        destinations: &[ClusterName<&str>],
    ) -> Result<&'a CombinedStatusView, Finding> {
        let view = self.combined()?;
        self.require_size(view)?;
        self.require_newer(view, record)?;
        self.require_bound()?;
        // Results of the user's collectors are required only where a check reads them; health does not.
        if self.placed.stage.reads_collectors() {
            self.require_collectors(view)?;
        }
        self.require_ours(view)?;
        self.require_rows(view, destinations)?;
        if self.placed.stage.reads_collectors() {
            self.require_forms(view)?;
            self.require_no_errors(view)?;
        }
        Ok(view)
    }

    /// The baseline is a version of the same kind: that of a list of CombinedStatuses.
    pub(super) fn require_newer(&self, view: &CombinedStatusView, record: &ObjectStatus) -> Result<(), Finding> {
        let version = ResourceVersion::of(view.metadata.resource_version.as_deref().unwrap_or_default());
        let baseline = recorded::baseline(record).unwrap_or_default();
        if version.is_newer_than(&baseline) == Some(true) {
            return Ok(());
        }
        let (version, baseline) = (version.text(), baseline.text());
        Err(Finding::unknown(
            Reason::CombinedStatusStale,
            format!(
                "the CombinedStatus of {} (version {version:?}) is not newer than its placement (baseline \
                {baseline:?}): waiting for a cluster to report; if none does, {}",
                self.key(),
                remedy(view)
            ),
        ))
    }

    fn require_collectors(&self, view: &CombinedStatusView) -> Result<(), Finding> {
        for name in self.users_collectors() {
            self.live(name)?;
            self.require_recombined(name)?;
            match view.collectors.iter().filter(|found| found.name == *name).count() {
                0 => return Err(self.not_combined(name)),
                1 => {}
                _ => return Err(self.malformed(&format!("StatusCollector {name} has several results"))),
            }
        }
        self.require_no_other(view)
    }

    pub(super) fn require_ours(&self, view: &CombinedStatusView) -> Result<(), Finding> {
        let ours = evidence::collector_name();
        if view.evidence.iter().any(|found| found.collector == ours) {
            Ok(())
        } else {
            Err(self.not_combined(&ours))
        }
    }

    /// What a collector said that the Binding does not name (any more) is not kept up to date.
    fn require_no_other(&self, view: &CombinedStatusView) -> Result<(), Finding> {
        let asked = &self.bound.status_collectors;
        match view.collectors.iter().find(|found| !asked.contains(&found.name)) {
            None => Ok(()),
            Some(other) => Err(Finding::unknown(
                Reason::CollectorNotCombined,
                format!(
                    "the CombinedStatus of {} has results of StatusCollector {}, which its Binding does not name: \
                    waiting for KubeStellar to combine anew",
                    self.key(),
                    other.name
                ),
            )),
        }
    }

    fn users_collectors(&self) -> impl Iterator<Item = &'a String> {
        let names = self.bound.status_collectors.iter();
        names.filter(|name| !evidence::is_evidence_collector(name))
    }

    /// Fails for one that is larger than what is judged.
    pub(super) fn require_size(&self, view: &CombinedStatusView) -> Result<(), Finding> {
        if view.size_bytes <= COMBINED_STATUS_BYTES_MAX {
            return Ok(());
        }
        let (key, size) = (self.key(), view.size_bytes);
        let text = format!(
            "the CombinedStatus of {key} has {size} bytes, at most {COMBINED_STATUS_BYTES_MAX} are judged: \
            select fewer columns or add a filter in its StatusCollectors"
        );
        Err(Finding::unknown(Reason::CombinedStatusTooLarge, text))
    }

    /// The Binding must name each collector that all clauses of its BindingPolicy name; which of several clauses select the
    /// object is not known here.
    pub(super) fn require_bound(&self) -> Result<(), Finding> {
        let mut clauses = self
            .placed
            .own
            .object
            .spec
            .downsync
            .iter()
            .map(|clause| &clause.status_collectors);
        let ours = evidence::collector_name();
        let mut common: Vec<&String> = clauses.next().into_iter().flatten().collect();
        for others in clauses {
            common.retain(|name| others.contains(name));
        }
        let is_bound = |name: &&String| self.bound.status_collectors.contains(name);
        match common.into_iter().chain([&ours]).find(|name| !is_bound(name)) {
            None => Ok(()),
            Some(name) => Err(Finding::unknown(
                Reason::CollectorNotCombined,
                format!(
                    "Binding {} does not ask StatusCollector {name} about {}, as its BindingPolicy does: waiting for \
                    KubeStellar to write it anew",
                    self.placed.stage.placement,
                    self.key()
                ),
            )),
        }
    }

    /// The StatusCollector of this name, if KubeStellar asks it.
    fn live(&self, name: &str) -> Result<&'a StatusCollector, Finding> {
        let Some(collector) = self.placed.facts.collectors.get(name) else {
            return Err(Finding::unknown(
                Reason::StatusCollectorMissing,
                format!(
                    "there is no StatusCollector {name}, which spec.downsync names for {}: create it, or \
                    take the name out",
                    self.key()
                ),
            ));
        };
        collector::refused(collector).map_or(Ok(collector), Err)
    }

    /// Each collector's result has as many rows as its form has: one for each cluster, or one for all of them.
    fn require_forms(&self, view: &CombinedStatusView) -> Result<(), Finding> {
        let destinations: BTreeSet<ClusterName<&str>> = destinations_of(self.placed).into_iter().collect();
        for name in self.users_collectors() {
            let spec = &self.live(name)?.spec;
            let wanted = match (spec.select.is_empty(), spec.combined_fields.is_empty()) {
                // A filter drops rows, and groups are as many as there are values.
                (false, true) if spec.filter.is_none() => Some(destinations.len()),
                (true, false) if spec.group_by.is_empty() => Some(1),
                _ => None,
            };
            // A cluster without a value has no row but an error, which `require_no_errors` reports.
            let is_odd = |found: &&CollectorView| {
                found.name == *name
                    && found.row_error.is_none()
                    && wanted.is_some_and(|wanted| found.row_count != wanted)
            };
            if let Some(found) = view.collectors.iter().find(is_odd) {
                return Err(Finding::unknown(
                    Reason::EvidenceMalformed,
                    format!(
                        "the CombinedStatus of {} has {} and not {} of StatusCollector {name}: waiting for \
                        KubeStellar to write it anew",
                        self.key(),
                        counted(found.row_count, "row"),
                        wanted.unwrap_or_default()
                    ),
                ));
            }
        }
        Ok(())
    }

    /// What is there right after a change of the collector still answers the old question.
    fn require_recombined(&self, collector: &str) -> Result<(), Finding> {
        let facts = self.placed.facts;
        let window = facts.settings.collector();
        match facts
            .collectors_changed
            .get(collector)
            .map(|changed| after(*changed, window))
        {
            Some(until) if facts.now < until => Err(Finding::unknown(
                Reason::StatusCollectorChanged,
                format!("StatusCollector {collector} was changed: its answers count from {until:.1}"),
            )
            .wake_at(until)),
            _ => Ok(()),
        }
    }

    fn not_combined(&self, collector: &str) -> Finding {
        let key = self.key();
        Finding::unknown(
            Reason::CollectorNotCombined,
            format!("the CombinedStatus of {key} has no results of StatusCollector {collector} yet"),
        )
    }

    fn malformed(&self, text: &str) -> Finding {
        let key = self.key();
        Finding::unknown(
            Reason::EvidenceMalformed,
            format!("the evidence about {key} cannot be read: {text}"),
        )
    }

    /// The rows of our own collector, if there is a reported one for each of these destinations and no other row. Rows and
    /// destinations are sorted, so that one pass compares them.
    pub fn reported_rows(&self, destinations: &[ClusterName<&str>]) -> Result<&'a [EvidenceRow], Finding> {
        let view = self.combined()?;
        self.require_ours(view)?;
        self.require_rows(view, destinations)?;
        Ok(self.rows())
    }

    fn require_rows(&self, view: &CombinedStatusView, destinations: &[ClusterName<&str>]) -> Result<(), Finding> {
        let key = self.key();
        let ours = ours(view);
        if ours.len() > 1 {
            return Err(self.malformed("its collector has several results"));
        }
        if let Some(text) = ours.iter().find_map(|found| found.malformed.as_ref()) {
            return Err(self.malformed(text));
        }
        // Most often there is one row for each, and one comparison of names is enough: there may be a million.
        let all = ours.first().map_or(&[][..], |found| &found.rows);
        if all.len() == destinations.len()
            && all
                .iter()
                .zip(destinations)
                .all(|(row, cluster)| row.cluster.borrowed() == *cluster)
        {
            return all.iter().try_for_each(|row| self.require_reported(row));
        }
        let mut strange = None;
        let mut rows = all.iter().peekable();
        for cluster in destinations.iter().copied() {
            while let Some(row) = rows.next_if(|row| row.cluster.borrowed() < cluster) {
                strange.get_or_insert(row);
            }
            let Some(row) = rows.next_if(|row| row.cluster.borrowed() == cluster) else {
                return Err(self.no_row(cluster));
            };
            if rows.peek().is_some_and(|next| next.cluster == row.cluster) {
                return Err(Finding::unknown(
                    Reason::EvidenceMalformed,
                    format!("the evidence about {key} has several rows for cluster {cluster}"),
                ));
            }
            self.require_reported(row)?;
        }
        match strange.or_else(|| rows.next()) {
            None => Ok(()),
            Some(row) => Err(Finding::unknown(
                Reason::DestinationsDiffer,
                format!(
                    "the evidence about {key} still has a row for cluster {}, which is no destination: KubeStellar drops it about 5 s \
                     after the Binding; if it stays, {}",
                    row.cluster,
                    remedy(view)
                ),
            )),
        }
    }

    /// KubeStellar adds no row for a placement that was closed and opened within its two seconds.
    fn no_row(&self, cluster: ClusterName<&str>) -> Finding {
        let (key, facts) = (self.key(), self.placed.facts);
        let text = format!("the evidence about {key} has no row for cluster {cluster} yet");
        let binding = facts.bindings.get(&self.placed.stage.placement);
        let due = binding.map(|binding| after(binding.observed.since, facts.settings.combined()));
        match due {
            Some(due) if facts.now < due => Finding::unknown(
                Reason::DestinationsDiffer,
                format!("{text}: KubeStellar adds it about 5 s after the Binding"),
            )
            .wake_at(due),
            _ => Finding::unknown(
                Reason::DestinationsDiffer,
                format!(
                    "{text}, and it may never come: delete StatusCollector {}; it is made anew, and KubeStellar asks every cluster \
                     again",
                    evidence::collector_name()
                ),
            ),
        }
    }

    /// Whether a row says that the cluster has the object. "There, without a status" is an answer only for kinds whose
    /// objects carry none.
    pub fn require_reported(&self, row: &EvidenceRow) -> Result<(), Finding> {
        let bound = self.bound;
        match row.at {
            Reported::At { seconds } if !self.is_of_an_older_object(seconds) => return Ok(()),
            Reported::WithoutStatus if kinds::is_without_status(&bound.group, &bound.resource) => return Ok(()),
            _ => {}
        }
        let key = self.key();
        match row.at {
            Reported::At { .. } => Err(Finding::unknown(
                Reason::NotReported,
                format!(
                    "cluster {} has reported nothing about {key} since that was made: what it says is about an older \
                    object of this name; {}",
                    row.cluster,
                    binding_view::remedy(bound)
                ),
            )),
            Reported::WithoutStatus => Err(Finding::unknown(
                Reason::NotReported,
                format!(
                    "cluster {} has {key}, but no status of it yet; if this kind never has one, leave it out by the stage's filter",
                    row.cluster
                ),
            )),
            Reported::Never => Err(self.never_reported(row)),
        }
    }

    fn never_reported(&self, row: &EvidenceRow) -> Finding {
        let text = format!(
            "cluster {} has reported nothing about {}: it is unreachable, or has not got the object",
            row.cluster,
            self.key()
        );
        let finding = Finding::unknown(Reason::NotReported, text);
        match self.next_unreachable() {
            Some(due) => finding.wake_at(due),
            None => finding,
        }
    }

    /// Reports are kept by name, and one of an object that was there before stays until the cluster sends another. `at` has
    /// whole seconds; clocks of API servers may differ by the settle time.
    fn is_of_an_older_object(&self, seconds: i64) -> bool {
        let settle = self.placed.facts.settings.settle();
        let at = Timestamp::from_second(seconds.saturating_add(1));
        let is_before = |(at, made): (Timestamp, Timestamp)| after(at, settle) < made;
        at.ok().zip(self.found.made_at).is_some_and(is_before)
    }

    fn require_no_errors(&self, view: &CombinedStatusView) -> Result<(), Finding> {
        let key = self.key();
        for collector in &view.collectors {
            let name = &collector.name;
            if let Some(error) = collector.row_error.as_ref().or(collector.error_cell.as_ref()) {
                let column = if error.column.is_empty() {
                    "its filter"
                } else {
                    error.column.as_str()
                };
                return Err(Finding::unknown(
                    Reason::RowError,
                    format!(
                        "StatusCollector {name} failed for {key} in {} ({column}: {}): wait for the cluster to \
                        report, or guard the \
                         expression with has()",
                        cluster_of(error),
                        error.error
                    ),
                ));
            }
            if let Some(error) = &collector.aggregation_error {
                return Err(Finding::unknown(
                    Reason::AggregationError,
                    format!(
                        "StatusCollector {name} could not combine {key} (column {}: {})",
                        error.column, error.error
                    ),
                ));
            }
        }
        Ok(())
    }

    /// What each cluster reported, the least available first: where a condition is false, the reader looks there.
    pub fn reported(&self) -> String {
        const SHOWN: usize = 4;
        let count = |count: Option<i64>| count.unwrap_or_default();
        let mut rows: Vec<&EvidenceRow> = self.rows().iter().collect();
        rows.sort_by_key(|row| (count(row.available), count(row.ready), row.cluster.clone()));
        let shown: Vec<String> = rows
            .iter()
            .take(SHOWN)
            .map(|row| {
                format!(
                    "cluster {} has {} available, {} ready",
                    row.cluster,
                    count(row.available),
                    count(row.ready)
                )
            })
            .collect();
        let rest = rows.len().saturating_sub(SHOWN);
        if rest > 0 {
            format!("{} and {rest} more clusters", shown.join(", "))
        } else {
            shown.join(", ")
        }
    }
}

/// The results of our own collector; there should be exactly one.
fn ours(view: &CombinedStatusView) -> Vec<&EvidenceView> {
    let name = evidence::collector_name();
    view.evidence.iter().filter(|found| found.collector == name).collect()
}

fn cluster_of(error: &RowErrorView) -> String {
    error
        .cluster
        .as_ref()
        .map_or_else(|| "some cluster".to_owned(), |cluster| format!("cluster {cluster}"))
}

/// KubeStellar does not rewrite a CombinedStatus if the number of rows is the same and every old row is among the new ones. It
/// does recreate one that was deleted.
fn remedy(view: &CombinedStatusView) -> String {
    let namespace = view.metadata.namespace.as_deref().unwrap_or_default();
    let name = view.metadata.name.as_deref().unwrap_or_default();
    format!("delete CombinedStatus {namespace}/{name}, and KubeStellar makes it anew")
}
