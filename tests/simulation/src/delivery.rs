//! When a version of an object can first have reached a cluster, and what a report can therefore not be about. For the oracle alone:
//! must not be asked by what decides.

use std::collections::BTreeMap;

use crate::clusters::Truth;
use crate::kubestellar::KubeStellar;
use crate::queue::{Millis, millis};
use crate::server::{Content, Server};
use crate::versions::DELIVERY_MS;

/// Reports and updates have whole seconds, and clocks may differ by less than this.
const CLOCKS_MS: Millis = 6_000;
/// How late a watch is at most that is not held up.
const SEEN_MS: Millis = 2_500;
/// The settle time, by which clocks may differ, and the whole seconds of reports.
const SETTLED_MS: Millis = 4_500;
/// A cluster that has not reported by then, counted from its naming, is out of reach.
const FIRST_REPORT_MS: Millis = 35_000;
/// How long a report that may be about an older version is in doubt.
const DOUBT_MS: Millis = 115_000;

/// The way of one version of an object to the clusters of a stage.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    content: Content,
    /// When a Binding first named it: no transport has it earlier.
    named_at: Option<Millis>,
    /// Whether the process that decides saw it at once.
    is_seen: bool,
    /// When the stage was opened: its own placement delivers nothing earlier.
    opened_at: Millis,
    placed_at: Millis,
    /// The policy was made anew after the update, or less than two minutes before it: it has no record of what the clusters had.
    is_policy_anew: bool,
    /// Since when the process that decides has seen the placement's Binding name it.
    seen_at: Option<Millis>,
    now: Millis,
}

impl Delivery {
    /// `seen_at`: since when the process that decides has seen the Binding name it.
    pub fn of(content: Content, seen_at: Option<Millis>, (kubestellar, server): (&KubeStellar, &Server)) -> Self {
        let named = server.workloads.log().iter().filter(|entry| {
            let after = entry.after.as_ref();
            after.is_some_and(|after| after.content.id == content.id)
        });
        let named_at = named
            .filter_map(|entry| kubestellar.named.get(&entry.version))
            .min()
            .copied();
        Self {
            content,
            named_at,
            is_seen: named_at
                .zip(seen_at)
                .is_some_and(|(named, seen)| (seen - named).abs() < SEEN_MS),
            opened_at: 0,
            placed_at: 0,
            is_policy_anew: false,
            seen_at,
            now: millis(server.counter.now),
        }
    }

    /// `placement`: its uid, when it was made, and whether that was for a policy that was made anew after the update or shortly before it.
    pub fn opened(self, placement: (&str, Millis, bool), opened: &BTreeMap<String, Millis>) -> Self {
        let (uid, placed_at, is_policy_anew) = placement;
        let opened_at = opened.get(uid).copied().unwrap_or_default();
        Self {
            opened_at,
            placed_at,
            is_policy_anew,
            ..self
        }
    }

    /// Whether the report was made before any cluster can have had the version, and who decides has seen that.
    pub fn is_too_early(&self, truth: &Truth) -> bool {
        self.is_seen && self.named_at.is_none_or(|named| truth.at + CLOCKS_MS < named)
    }

    /// Whether a process that has not seen when the version was first delivered gave the cluster no time to report on it.
    pub fn is_too_soon(&self) -> bool {
        self.named_at.is_none_or(|named| self.now - named < DOUBT_MS)
    }

    /// Whether the report is surely older than an update whose time the API server tells.
    pub fn is_from_before_update(&self, truth: &Truth) -> bool {
        let is_timed = self.content.replaced.is_some() && !self.content.is_untimed;
        is_timed && truth.at + CLOCKS_MS < self.content.made_at
    }

    /// Whether the report was made before the stage was opened, and what the stage delivers may still be on its way.
    pub fn is_from_before_opening(&self, truth: &Truth) -> bool {
        truth.at + CLOCKS_MS < self.opened_at && self.now - self.opened_at < DOUBT_MS
    }

    /// Whether the cluster reports what it had when the placement was made, as its agent has applied nothing since: right after the stage
    /// was opened or the Binding named the version, or so long after the opening that an update from before it counts as delivered. An
    /// update that was recent at the opening is on record as pending, unless the policy was made anew. For a cluster that the Binding names
    /// only later, that long time counts from its naming.
    pub fn is_kept(&self, truth: &Truth, joined_at: Option<Millis>) -> bool {
        // The server says in which second the placement was made.
        let is_from_before = self.content.made_at < self.opened_at && truth.applied_until < self.placed_at + 1_000;
        let is_after = |time| truth.at + SETTLED_MS >= time;
        let is_right_after = |time| is_after(time) && truth.at < time + DELIVERY_MS;
        let is_unrecorded = self.is_policy_anew || self.opened_at - self.content.made_at >= DOUBT_MS;
        let is_early = is_unrecorded && (is_right_after(self.opened_at) || self.seen_at.is_some_and(is_right_after));
        let named_at = joined_at.map_or(self.opened_at, |joined| joined.max(self.opened_at));
        // A report this late shows that the cluster was unreachable, so the two minutes start at the report.
        let is_late = self.content.replaced.is_some()
            && truth.at >= named_at.max(self.seen_at.unwrap_or_default()) + FIRST_REPORT_MS;
        let counts_from = if is_late { truth.at } else { named_at };
        is_from_before && (is_early || (is_after(named_at) && self.now - counts_from >= DOUBT_MS))
    }
}
