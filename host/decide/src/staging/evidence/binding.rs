//! Whether the Binding of a placement is ours, whole and unchanged for long enough. Must not look at any status.

use crate::staging::input::{
    BindingFacts, CheckedStage, Decoded, Facts, OwnedPlacement, StageInput, binding_view,
    recorded::{destinations, is_unbound, key_of},
};
use std::collections::BTreeSet;

use jiff::Timestamp;
use stagegate_api::staged_status::MAX_RECORDED;
use stagegate_api::{Binding, BoundObject, StageStatus};

use crate::checks::finding::Finding;
use crate::checks::reason::Reason;
use crate::names::ClusterName;
use crate::time::{after, later};

/// An open placement at the revision, about to be judged.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    pub facts: &'a Facts,
    pub stage: &'a CheckedStage,
    pub own: &'a OwnedPlacement<'a>,
    /// What status says of this attempt, see [`crate::staging::status::stage::start_attempt`].
    pub record: &'a StageStatus,
}

impl<'a> Placed<'a> {
    /// The placement with what status says of this attempt.
    pub const fn of(input: StageInput<'a>, record: &'a StageStatus) -> Self {
        let StageInput { facts, stage, own, .. } = input;
        Self {
            facts,
            stage,
            own,
            record,
        }
    }
}

/// What KubeStellar's transport says it cannot deliver of a Binding; `None`: nothing.
pub(crate) fn undelivered(binding: &Binding) -> Option<String> {
    let error = binding.status.as_ref()?.errors.iter().min()?;
    let error: String = error.chars().take(256).collect();
    let name = binding.metadata.name.as_deref().unwrap_or_default();
    Some(format!(
        "{UNDELIVERED}{name} ({error}): correct the object or the cluster's properties"
    ))
}

const UNDELIVERED: &str = "KubeStellar cannot deliver Binding ";

/// The message of a stage without what was said of this at its end.
pub(crate) fn without_undelivered(message: Option<&str>) -> Option<&str> {
    let message = message?;
    let rest = message.find(UNDELIVERED).map_or(message, |at| &message[..at]);
    Some(rest.trim_end_matches("; ")).filter(|rest| !rest.is_empty())
}

/// A Binding that belongs to the placement.
#[derive(Clone, Debug)]
pub struct Bound<'a> {
    pub binding: &'a Binding,
    pub objects: Vec<&'a BoundObject>,
    pub destinations: Vec<ClusterName<&'a str>>,
    /// Its set was not accepted before: this is a new acceptance.
    pub is_newly_settled: bool,
}

impl<'a> Placed<'a> {
    /// The Binding, whatever its state, if it is this placement's.
    pub fn binding(&self) -> Result<(&'a BindingFacts, &'a Binding), Finding> {
        let name = &self.stage.placement;
        let missing = || {
            Finding::unknown(
                Reason::BindingMissing,
                format!("no Binding {name} yet: KubeStellar writes it about 2 s after the BindingPolicy"),
            )
        };
        let entry = self.facts.bindings.get(name).ok_or_else(missing)?;
        match entry.object.as_ref().ok_or_else(missing)? {
            Decoded::Invalid { error } => Err(Finding::unknown(
                Reason::InvalidObject,
                format!("Binding {name} cannot be read ({error}): another KubeStellar version may have written it"),
            )),
            Decoded::Object(binding) if binding_view::owner_uid(binding) != Some(self.own.uid()) => {
                Err(Finding::unknown(
                    Reason::BindingNotOwned,
                    format!(
                        "Binding {name} was not made for this BindingPolicy (uid {}): waiting for KubeStellar to \
                    replace it",
                        self.own.uid()
                    ),
                ))
            }
            // A finalizer keeps it while transport takes the workload away, whatever the clusters reported last.
            Decoded::Object(binding) if binding.metadata.deletion_timestamp.is_some() => Err(Finding::unknown(
                Reason::BindingMissing,
                format!("Binding {name} is being deleted: waiting for KubeStellar to write it anew"),
            )),
            Decoded::Object(binding) => Ok((entry, binding)),
        }
    }

    /// The Binding, if it is whole and has stayed unchanged for long enough.
    pub fn complete(&self) -> Result<Bound<'a>, Finding> {
        let (entry, binding) = self.binding()?;
        let name = &self.stage.placement;
        if !self.own.is_synced() {
            return Err(Finding::unknown(
                Reason::BindingPolicyNotSynced,
                format!(
                    "KubeStellar has not taken generation {} of BindingPolicy {name} yet",
                    self.own.object.metadata.generation.unwrap_or_default()
                ),
            ));
        }
        let bound = Bound {
            binding,
            objects: binding_view::objects(binding),
            destinations: binding_view::destinations(binding),
            is_newly_settled: true,
        };
        self.require_members(&bound)?;
        self.require_no_errors(binding)?;
        self.require_admitted(binding)?;
        self.require_rest(entry, bound)
    }

    fn require_members(&self, bound: &Bound<'_>) -> Result<(), Finding> {
        let name = &self.stage.placement;
        if bound.destinations.is_empty() {
            return Err(Finding::unknown(
                Reason::NoDestinations,
                format!(
                    "Binding {name} names no cluster: label a ManagedCluster so that it matches clusterSelectors \
                    of stage {}, or correct the selectors",
                    self.stage.name
                ),
            ));
        }
        if bound.objects.is_empty() {
            return Err(Finding::unknown(
                Reason::NoObjects,
                format!("Binding {name} names no object: create what spec.downsync selects, or correct its clauses"),
            ));
        }
        let largest = bound.objects.len().max(bound.destinations.len());
        if largest > MAX_RECORDED {
            return Err(Finding::unknown(
                Reason::TooManyObjects,
                format!(
                    "Binding {name} has {largest} objects or clusters, at most {MAX_RECORDED} can be judged: \
                    split the policy"
                ),
            ));
        }
        Ok(())
    }

    /// KubeStellar's transport takes the workload of the whole Binding away when a template fails for one cluster; what
    /// the clusters reported before stands for a while.
    fn require_no_errors(&self, binding: &Binding) -> Result<(), Finding> {
        let error = undelivered(binding).map(|text| Finding::unknown(Reason::TransportError, text));
        error.map_or(Ok(()), Err)
    }

    /// A set counts when it has stood long enough: the settle time, and ten times that after a change in place, or when
    /// something was lost from it and no edit of ours explains the loss. A set that was accepted stays so until it changes.
    fn require_rest(&self, entry: &BindingFacts, bound: Bound<'a>) -> Result<Bound<'a>, Finding> {
        let (facts, record) = (self.facts, self.record);
        let settled_at = record.settled_at.as_ref().map(|time| time.0);
        let unsettled_since = record.unsettled_since.as_ref().map(|time| time.0);
        let since = later(
            unsettled_since,
            later(record.placed_at.as_ref().map(|time| time.0), entry.observed.since),
        );
        let missing = if settled_at.is_some() {
            missing_from(record, &bound)
        } else {
            Vec::new()
        };
        // A leader before this one may have had a clock ahead of ours: what is missing or new counts, whatever the times say.
        let has_joined = bound.destinations.len() > record.destinations.len();
        if settled_at.is_some_and(|settled| settled <= facts.now && since <= settled)
            && missing.is_empty()
            && !has_joined
        {
            return Ok(Bound {
                is_newly_settled: false,
                ..bound
            });
        }
        let is_lost = !missing.is_empty()
            || entry
                .observed
                .lost_at
                .is_some_and(|lost| settled_at.map_or(!self.is_updated(), |settled| lost > settled));
        let is_changed_in_place = settled_at.is_none() && self.is_changed_in_place();
        let rest = if is_lost || is_changed_in_place {
            facts.settings.settle_after_loss()
        } else {
            facts.settings.settle()
        };
        let until = after(since, rest);
        // Seen by this process for the first time, and just as status has it: nothing new is known.
        let is_known = !is_lost
            && settled_at.is_some_and(|settled| unsettled_since.is_none_or(|since| since <= settled))
            && is_same_set(record, &bound);
        if facts.now >= until {
            return Ok(Bound {
                is_newly_settled: !is_known,
                ..bound
            });
        }
        let finding = if is_changed_in_place && !is_lost {
            self.taking(since)
        } else {
            self.resting(is_lost, &missing, since)
        };
        let finding = finding.wake_at(until);
        Err(if is_known { finding.after_restart() } else { finding })
    }

    /// It was changed in place, also before any set of it was accepted.
    fn is_changed_in_place(&self) -> bool {
        self.is_updated() || self.own.is_changed_in_place()
    }

    /// An attempt that has not settled yet, on a placement whose set an earlier attempt had accepted: it was changed in
    /// place, and a smaller set is what we asked for.
    fn is_updated(&self) -> bool {
        !self.record.destinations.is_empty()
    }

    /// KubeStellar copies the generation of a BindingPolicy into its status at any write of the Binding, even before it has
    /// evaluated the new generation (`pkg/binding/binding.go`). So only time tells whether the set is the new one.
    fn taking(&self, since: Timestamp) -> Finding {
        let name = &self.stage.placement;
        let wait = self.facts.settings.settle_after_loss().as_millis();
        let text = format!(
            "BindingPolicy {name} was changed in place: the set of Binding {name} counts when unchanged since {since:.1} for \
             {wait} ms, because KubeStellar may still have the older one there"
        );
        Finding::unknown(Reason::Settling, text)
    }

    fn resting(&self, is_lost: bool, missing: &[String], since: Timestamp) -> Finding {
        let name = &self.stage.placement;
        let settings = self.facts.settings;
        if !is_lost {
            let text = format!(
                "Binding {name} last changed at {since:.1}: its set counts once it has stayed unchanged for {} ms",
                settings.settle_ms
            );
            return Finding::unknown(Reason::Settling, text);
        }
        let what = match missing.split_first() {
            Some((first, [])) => format!("{first} is missing from it"),
            Some((first, rest)) => format!("{first} and {} more are missing from it", rest.len()),
            None => "it was empty or smaller for a while".to_owned(),
        };
        Finding::unknown(
            Reason::BindingSetShrank,
            format!(
                "Binding {name} lost something without an edit of this policy ({what}; a restart of KubeStellar \
                does that): it \
                 counts when unchanged since {since:.1} for {} ms, and everything is judged anew then",
                settings.settle_after_loss().as_millis()
            ),
        )
    }
}

fn missing_from(recorded: &StageStatus, bound: &Bound<'_>) -> Vec<String> {
    let clusters: BTreeSet<ClusterName<&str>> = bound.destinations.iter().copied().collect();
    let objects: BTreeSet<_> = bound.objects.iter().map(|object| binding_view::key(object)).collect();
    let lost_clusters = destinations(recorded)
        .filter(|cluster| !clusters.contains(cluster))
        .map(|cluster| format!("cluster {cluster}"));
    let lost_objects = recorded
        .objects
        .iter()
        .filter(|object| !is_unbound(object))
        .map(key_of)
        .filter(|key| !objects.contains(key))
        .map(|key| key.to_string());
    lost_clusters.chain(lost_objects).collect()
}

/// Objects without a baseline have not been accepted yet: they were just seen.
fn is_same_set(recorded: &StageStatus, bound: &Bound<'_>) -> bool {
    missing_from(recorded, bound).is_empty()
        && recorded.destinations.len() == bound.destinations.len()
        && recorded
            .objects
            .iter()
            .filter(|object| object.baseline.is_some())
            .count()
            == bound.objects.len()
}

/// The clusters that the Binding names now.
pub fn destinations_of<'a>(placed: &Placed<'a>) -> Vec<ClusterName<&'a str>> {
    placed
        .binding()
        .map(|(_, binding)| binding_view::destinations(binding))
        .unwrap_or_default()
}

/// The clusters that the Binding named for a while since a set was accepted last, as far as this process has seen it. They may have
/// got the object. The process that accepted the set may have a clock that is ahead by as much as a set has to stay unchanged.
pub fn left_before_acceptance<'a>(placed: &Placed<'a>) -> impl Iterator<Item = ClusterName<&'a str>> {
    let left = placed.binding().map(|(entry, _)| entry.observed.left.iter());
    let settled_at = placed.record.settled_at.as_ref().map(|time| time.0);
    let ahead = placed.facts.settings.settle();
    let is_later = move |left: &Timestamp| settled_at.is_none_or(|settled| after(*left, ahead) > settled);
    left.into_iter()
        .flatten()
        .filter(move |(_, left)| is_later(left))
        .map(|(cluster, _)| cluster.borrowed())
}
