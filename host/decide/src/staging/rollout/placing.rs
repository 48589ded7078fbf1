//! The writes of a rollout: what is created closed, opened, changed, fenced or removed, and under which precondition.
//! Must not judge anything: what is proven is asked of [`super::judge`] and [`super::handover`].

use std::collections::{BTreeMap, BTreeSet};

use kube::{Resource as _, ResourceExt as _};
use stagegate_api::{BindingPolicy, BindingPolicySpec, PreviousStages, StageState, StageStatus, annotation};

use crate::checks::finding::Finding;
use crate::checks::reason::Reason;
use crate::names::{ClusterName, Digest, PlacementName, ResourceVersion, StageName};
use crate::staging::evidence::{Placed, collector};
use crate::staging::input::{
    Decoded, Facts, FencingToken, OwnedPlacement, Read, Slot,
    placement::{is_identified, owner_of, precondition},
};
use crate::staging::plan::{Event, Placement, Write};
use crate::staging::rollout::handover::{HandOver, Pair, hand_over};
use crate::staging::rollout::repair::is_held_as;
use crate::staging::rollout::sign_of_life::other_open_spec;
use crate::staging::rollout::{Draft, Rollout, drift};
use crate::staging::status::stage;

impl<'a> Rollout<'a> {
    /// Raises the fencing tokens of closed placements after an edit, a pause or a new leader, so that an open which an older
    /// process has decided fails, and while paused those of open ones. Clauses of closed ones are brought up to date on the way.
    pub(crate) fn fences(&self) -> Vec<Write> {
        let token = FencingToken::of(self.facts);
        // While paused those that no stage has any more are not removed, and an older process may know their stage.
        let left: &[Slot<'_>] = if self.policy.spec.paused { &self.gone } else { &[] };
        let closed = self.slots.iter().chain(left).filter_map(Slot::closed);
        let closed = closed.filter(|own| own.token != Some(token));
        closed
            .map(|own| (own, self.closed_spec()))
            .chain(self.paused().map(|own| (own, own.object.spec.clone())))
            .map(|(own, spec)| {
                // What it was opened at last stays: with the revision of today, one that a person opens again would look as if it had led here.
                let annotations = self.annotations_at(own.revision.clone(), own.attempt, None);
                Write::Fence(Placement {
                    name: name_of(own),
                    precondition: own.precondition(),
                    spec,
                    annotations,
                })
            })
            .collect()
    }

    /// The open placements whose tokens a pause raises: a change in place that an older process has decided fails, too. Without a
    /// pause such a change is of the spec before an edit, and the next one follows at once.
    fn paused(&self) -> impl Iterator<Item = &OwnedPlacement<'a>> {
        let generation = FencingToken::of(self.facts).generation;
        let open = self.slots.iter().chain(&self.gone).filter_map(Slot::open);
        let older = open.filter(move |own| own.token.is_some_and(|token| token.generation < generation));
        older.filter(|own| self.policy.spec.paused && !own.is_unstamped)
    }

    /// Our StatusCollector is created, or put back; one of its name that is not ours is left alone.
    pub(crate) fn collector_writes(&self) -> Vec<Write> {
        match &self.facts.evidence_collector {
            None => vec![Write::CreateEvidenceCollector(collector::object())],
            Some(live)
                if collector::is_ours(&live.object)
                    && !collector::has_our_spec(&live.object)
                    && is_identified(&live.object.metadata) =>
            {
                vec![Write::RestoreEvidenceCollector {
                    precondition: precondition(&live.object.metadata),
                    collector: collector::object(),
                }]
            }
            Some(_) => Vec::new(),
        }
    }

    /// Nothing of ours stands under the stage's name: create it, closed, unless something is in the way.
    pub(crate) fn prepare(&self, index: usize, draft: &mut Draft) -> Finding {
        let stage = self.stage(index);
        let name = &stage.placement;
        match &self.slots[index] {
            Slot::Invalid(error) => unreadable(name, error),
            Slot::Foreign => {
                let finding = Finding::unknown(
                    Reason::BindingPolicyNotOwned,
                    format!(
                        "there is a BindingPolicy {name} that this policy does not own: rename stage {}, or delete that \
                        BindingPolicy (this removes its workload from its clusters)",
                        stage.name
                    ),
                );
                draft.stalled = Some(finding.clone());
                finding
            }
            Slot::Leaving(_) => Finding::unknown(
                Reason::NameInUse,
                format!("the earlier BindingPolicy {name} is still being deleted"),
            ),
            Slot::Absent
                if self
                    .facts
                    .bindings
                    .get(name)
                    .is_some_and(|entry| entry.object.is_some()) =>
            {
                // It may be the Binding of a BindingPolicy of which the watch has not told yet.
                if !self.facts.read.is_anew() {
                    draft.ask_for_fresh_read();
                }
                Finding::unknown(
                    Reason::NameInUse,
                    format!(
                        "the Binding of an earlier BindingPolicy {name} still exists: waiting for Kubernetes' garbage collector to delete it"
                    ),
                )
            }
            _ if self.policy.spec.paused => Finding::unknown(
                Reason::Paused,
                format!("stage {} is not placed yet", self.stage(index).name),
            ),
            _ => {
                draft.writes.push(Write::CreateClosed(self.closed_policy(index)));
                Finding::unknown(
                    Reason::Placing,
                    format!(
                        "creating BindingPolicy {name}, which selects no cluster until stage {} is opened",
                        self.stage(index).name
                    ),
                )
            }
        }
    }

    /// A placement of a later stage that nobody can read may be open at the revision: then this one has passed, and must not
    /// be placed again.
    pub(crate) fn unreadable_after(&self, index: usize) -> Option<Finding> {
        (index + 1..self.slots.len()).find_map(|later| match &self.slots[later] {
            Slot::Invalid(error) => Some(unreadable(&self.stage(later).placement, error)),
            _ => None,
        })
    }

    /// Opens, adopts or updates the stage's BindingPolicy, on facts that were just read and on nothing else.
    pub(crate) fn place(&self, index: usize, own: &OwnedPlacement<'_>, draft: &mut Draft) -> Finding {
        let stage = self.stage(index);
        if self.policy.spec.stages[index].cluster_selectors.is_empty() {
            return Finding::unknown(
                Reason::NoDestinations,
                format!(
                    "stage {} has no clusterSelectors, so it selects no cluster: add one",
                    stage.name
                ),
            );
        }
        if let Some(finding) = self.unreadable_after(index) {
            return finding;
        }
        if let Some(finding) = self.undone(index, own) {
            draft.stalled = Some(finding.clone());
            return finding;
        }
        let opening = Finding::unknown(Reason::Opening, format!("opening stage {}", stage.name));
        if self.policy.spec.paused {
            return Finding::unknown(Reason::Paused, format!("stage {} is ready to be opened", stage.name));
        }
        if let Some(missing) = self.require_hold(index, own, draft) {
            return missing;
        }
        let Read::Anew { baseline, .. } = &self.facts.read else {
            draft.ask_for_fresh_read();
            return opening;
        };
        let read_at = baseline.borrowed();
        if draft.is_fencing(&stage.placement) {
            return opening;
        }
        let recorded = self.recorded(index).and_then(|record| record.attempt);
        let known = own.attempt.max(recorded.unwrap_or_default());
        // Somebody edited the BindingPolicy and the controller puts it back: the policy itself asks for no new attempt.
        let is_drift = own.token == Some(FencingToken::of(self.facts)) && own.revision == self.checked.revision;
        let attempt = match &self.slots[index] {
            // Somebody else opened it before its turn: the controller has begun no attempt there.
            Slot::Open(_) if is_drift => known.max(1),
            _ => known.saturating_add(1),
        };
        let adopting = own.is_unstamped && self.slots[index].open().is_some();
        let is_put_back = is_drift && self.slots[index].open().is_some() && self.active() == Some(index);
        let opened = own.opened.filter(|_| is_put_back).unwrap_or(read_at);
        let closed = self.baseline_of_closed(index);
        let kept = self.kept_baseline(index, own).or(closed);
        let versions = Versions {
            baseline: kept.unwrap_or(read_at),
            opened,
        };
        let placement = Placement {
            name: stage.placement.clone(),
            precondition: own.precondition(),
            spec: if adopting {
                adopted_spec(own.object)
            } else {
                self.changed_spec(index, own)
            },
            annotations: if adopting {
                self.annotations_at(own.revision.clone(), attempt, Some(versions))
            } else {
                self.annotations(attempt, Some(versions))
            },
        };
        self.move_stage((index, own), (placement, adopting), draft);
        opening
    }

    /// The write that places the stage anew, its Event, and with it the versions that the stage may have.
    fn move_stage(
        &self,
        (index, own): (usize, &OwnedPlacement<'_>),
        (placement, adopting): (Placement, bool),
        draft: &mut Draft,
    ) {
        let name = &self.stage(index).name;
        let text = match &self.slots[index] {
            Slot::Closed(_) => format!("opened stage {name}"),
            _ if adopting => format!("took over BindingPolicy {} of stage {name}", placement.name),
            _ => format!("changed the placement of stage {name} in place"),
        };
        if self.supersedes(index) {
            let text = format!("an object was edited before stage {name} had passed: it gets the newer version");
            draft.events.push(event(Reason::Superseded, text));
        } else if adopting || !self.follows_new_pass(index) {
            draft.events.push(event(Reason::StageOpened, text));
        }
        draft.writes.push(match &self.slots[index] {
            Slot::Closed(_) => Write::Open(placement),
            _ if adopting => Write::Adopt(placement),
            _ if self.is_mere_release(index, own) => Write::Update(drift::noting_a_release(placement)),
            _ => Write::Update(drift::noting_what_it_replaces(placement, own)),
        });
        if !adopting && self.slots[index].open().is_some() {
            // Only now: a placement that has got other versions is at the revision that they are of.
            draft.writes.extend(self.release(index, own));
        }
    }

    /// Whether a held stage that is still evaluated at one revision gets another.
    fn supersedes(&self, index: usize) -> bool {
        let is_evaluated = |record: &StageStatus| record.state == StageState::Active && record.passed_at.is_none();
        self.facts.is_staged() && self.slots[index].open().is_some() && self.recorded(index).is_some_and(is_evaluated)
    }

    /// Whether a held stage gets other versions of the same objects in the same clusters.
    fn is_mere_release(&self, index: usize, own: &OwnedPlacement<'_>) -> bool {
        self.facts.is_staged() && is_held_as(&own.object.spec, &self.open_spec(index))
    }

    /// The spec of an open placement after a change. KubeStellar looks at a BindingPolicy only when its spec changes, so a release changes
    /// it although it places the same.
    fn changed_spec(&self, index: usize, own: &OwnedPlacement<'_>) -> BindingPolicySpec {
        let wanted = self.open_spec(index);
        if self.facts.is_staged() && own.object.spec == wanted {
            other_open_spec(&wanted)
        } else {
            wanted
        }
    }

    /// Whether the pass of the stage before is not in status yet: its Event `StagePassed` reports this opening, too.
    fn follows_new_pass(&self, index: usize) -> bool {
        index
            .checked_sub(1)
            .is_some_and(|before| !self.is_recorded_as_passed(before))
    }

    /// The finding when nothing of the last change in place was stored.
    fn undone(&self, index: usize, own: &OwnedPlacement<'_>) -> Option<Finding> {
        let is_ours = own.token == Some(FencingToken::of(self.facts)) && own.revision == self.checked.revision;
        let open = self.slots[index].open().filter(|own| is_ours && !own.is_unstamped)?;
        drift::undone(open, &self.open_spec(index))
    }

    /// One that somebody closed may be opened again before KubeStellar has looked: then nothing is combined anew. It is the
    /// same placement at the same revision, so what is newer than its first opening counts.
    fn baseline_of_closed(&self, index: usize) -> Option<ResourceVersion<&str>> {
        let own = self.slots[index].closed()?;
        let recorded = self.recorded(index).filter(|recorded| stage::is_of(recorded, own))?;
        let is_at_revision = recorded.revision.as_deref() == Some(self.checked.revision.as_str());
        own.baseline.filter(|_| is_at_revision)
    }

    /// The baseline of an open placement that is changed in place with the same collectors. KubeStellar rewrites a
    /// CombinedStatus only for other clusters, of which there is a row only then: while the clusters are the same, what was
    /// reported since the placement was opened is the newest there will be.
    fn kept_baseline<'o>(&self, index: usize, own: &OwnedPlacement<'o>) -> Option<ResourceVersion<&'o str>> {
        let collectors = |spec: &BindingPolicySpec| -> BTreeSet<BTreeSet<String>> {
            let clauses = spec.downsync.iter();
            clauses
                .map(|clause| clause.status_collectors.iter().cloned().collect())
                .collect()
        };
        let is_same = collectors(&own.object.spec) == collectors(&self.open_spec(index));
        // No set of this placement has been accepted yet, so everything that is newer than its opening belongs to it.
        let accepted = self.recorded(index).filter(|recorded| stage::is_of(recorded, own));
        let is_first = accepted.is_some_and(|recorded| {
            // A record that was cleared for a removal that then failed still has the clusters of its set.
            recorded.destinations.is_empty() && recorded.objects.iter().all(|object| object.baseline.is_none())
        });
        own.baseline
            .filter(|_| (is_same || is_first) && self.slots[index].open().is_some())
    }

    /// Removes the placements before the latest one at the revision, each when the latest one demonstrably serves the clusters of both.
    /// Returns what is still missing where a placement stays.
    pub(crate) fn remove_previous(&self, draft: &mut Draft, records: &mut [StageStatus]) -> Option<Finding> {
        if self.policy.spec.paused {
            return None;
        }
        // A closed one that no stage needs selects nothing: it may go without proof.
        for own in self
            .gone
            .iter()
            .filter_map(Slot::closed)
            .filter(|own| !self.still_serves(own))
        {
            draft.writes.push(Write::Remove {
                name: name_of(own),
                precondition: own.precondition(),
            });
        }
        if self.checked.previous_stages == PreviousStages::Keep || self.active_gone().is_some() {
            return None;
        }
        let latest = self.latest()?;
        let own = self.slots[latest].open().filter(|own| self.is_current(latest, own))?;
        // A failed stage waits for a human, who may want to go back to what ran before.
        if records[latest].state == StageState::Failed {
            return None;
        }
        let record = stage::start_attempt(self.recorded(latest), own, self.facts.now);
        let placed = Placed {
            facts: self.facts,
            stage: self.stage(latest),
            own,
            record: &record,
        };
        self.remove_before((latest, &placed), draft, records)
    }

    /// The last stage that is open at the revision. One behind the active stage that is not as the spec has it was opened by hand: it
    /// takes nothing over.
    pub(crate) fn latest(&self) -> Option<usize> {
        let active = self.active_or_last();
        // A placement that was changed only to make KubeStellar write still places the same objects in the same clusters.
        let is_current = |index: usize| {
            self.slots[index].open().is_some_and(|own| {
                self.is_current(index, own) || other_open_spec(&own.object.spec) == self.open_spec(index)
            })
        };
        let is_served = |index: &usize| self.is_open_at_revision(*index) && (*index <= active || is_current(*index));
        (0..self.slots.len()).rev().find(is_served)
    }

    fn active_or_last(&self) -> usize {
        self.active().unwrap_or(self.last())
    }

    /// Removes the passed placements before the latest one that is current, each when that one demonstrably serves the clusters of both.
    /// Open ones stay as long as the active stage comes before the latest: it may share clusters with them, and nothing proves yet that
    /// they are served there.
    fn remove_before(
        &self,
        (latest, placed): (usize, &Placed<'_>),
        draft: &mut Draft,
        records: &mut [StageStatus],
    ) -> Option<Finding> {
        let mut staying = None;
        let is_active_before = self.active_or_last() < latest;
        for earlier in 0..latest {
            let Some(previous) = self.slots[earlier].own().filter(|_| self.has_passed(earlier)) else {
                continue;
            };
            let name = &self.stage(earlier).placement;
            if draft.is_fencing(name) {
                continue;
            }
            // A rollout was completed there, so that is where the workload belongs: only a new revision moves it.
            if records[earlier].completed_at.is_some() {
                continue;
            }
            let removal = Write::Remove {
                name: name.clone(),
                precondition: previous.precondition(),
            };
            if self.slots[earlier].closed().is_some_and(|own| !self.still_serves(own)) {
                draft.writes.push(removal);
                continue;
            }
            if is_active_before {
                continue;
            }
            let pair = Pair {
                later: placed,
                earlier: name,
                earlier_record: self.recorded(earlier),
                is_reported: draft.reported_stage == Some(latest),
            };
            match hand_over(pair, &mut draft.questions) {
                // Like placing, removing needs facts that were just read, not cached ones. If the two placements share no cluster, the
                // BindingPolicies and Bindings are enough.
                Ok(HandOver::Apart) if self.facts.read == Read::Cached => draft.ask_for_fresh_placements(),
                Ok(HandOver::Unproven(_)) if !self.facts.read.is_anew() => draft.ask_for_fresh_read(),
                Ok(handed) => {
                    if let HandOver::Unproven(shared) = handed {
                        records[latest].message = Some(unproven(&self.stage(earlier).name, &shared));
                    }
                    draft.writes.push(removal);
                    // Status is written before the removal, so the record already says that this placement is gone.
                    records[earlier].binding_policy = None;
                    records[earlier].objects = stage::of_removed(&records[earlier]).objects;
                }
                Err(finding) => {
                    draft.wake(finding.wake_at);
                    staying.get_or_insert(finding);
                }
            }
        }
        staying
    }

    pub(crate) fn open_spec(&self, index: usize) -> BindingPolicySpec {
        let cluster_selectors = self.policy.spec.stages[index].cluster_selectors.clone();
        BindingPolicySpec {
            cluster_selectors,
            ..self.closed_spec()
        }
    }

    pub(crate) fn closed_spec(&self) -> BindingPolicySpec {
        BindingPolicySpec {
            cluster_selectors: Vec::new(),
            downsync: collector::with_evidence(&self.policy.spec.downsync),
        }
    }

    pub(crate) fn closed_policy(&self, index: usize) -> BindingPolicy {
        let mut object = BindingPolicy::new(self.stage(index).placement.as_str(), self.closed_spec());
        object.meta_mut().owner_references = Some(vec![owner_of(self.policy)]);
        object.annotations_mut().extend(self.annotations(0, None));
        object
    }

    pub(crate) fn annotations(&self, attempt: i64, versions: Option<Versions<'_>>) -> BTreeMap<String, String> {
        self.annotations_at(self.checked.revision.clone(), attempt, versions)
    }

    pub(crate) fn annotations_at(
        &self,
        revision: Digest,
        attempt: i64,
        versions: Option<Versions<'_>>,
    ) -> BTreeMap<String, String> {
        let mut annotations = annotations(&revision, attempt, FencingToken::of(self.facts));
        if let Some(Versions { baseline, opened }) = versions {
            annotations.insert(annotation::BASELINE_VERSION.to_owned(), baseline.to_string());
            annotations.insert(annotation::OPENED_AT_VERSION.to_owned(), opened.to_string());
        }
        annotations
    }
}

/// Versions of the CombinedStatuses that an open placement is annotated with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Versions<'a> {
    /// As in [`annotation::BASELINE_VERSION`].
    baseline: ResourceVersion<&'a str>,
    /// As in [`annotation::OPENED_AT_VERSION`].
    opened: ResourceVersion<&'a str>,
}

fn unreadable(name: &PlacementName, error: &str) -> Finding {
    Finding::unknown(
        Reason::InvalidObject,
        format!(
            "BindingPolicy {name} cannot be read ({error}): delete it if it is not needed (this removes its workload from its clusters)"
        ),
    )
}

const fn event(reason: Reason, message: String) -> Event {
    Event {
        warning: false,
        reason,
        message,
    }
}

/// Somebody with a newer view of the policy (or a later lease) has been here: this process writes nothing.
pub fn is_view_stale(facts: &Facts) -> bool {
    let ours = FencingToken::of(facts);
    owned(facts).filter_map(|own| own.token).any(|token| token > ours)
}

/// The latest lease that a placement of this policy was fenced under.
pub fn newest_lease(facts: &Facts) -> u64 {
    let tokens = owned(facts).filter_map(|own| own.token);
    tokens.map(|token| token.lease_transitions).max().unwrap_or_default()
}

/// The same for a policy that cannot be carried out: nobody knows its stages, so the clauses stay as they are.
pub fn fences_of_refused(facts: &Facts) -> Vec<Write> {
    let token = FencingToken::of(facts);
    let observer = PlacementName::of_versions(&facts.policy.object.name_any());
    let closed = owned(facts).filter(|own| own.object.spec.cluster_selectors.is_empty() && name_of(own) != observer);
    closed
        .filter(|own| own.token != Some(token))
        .map(|own| {
            Write::Fence(Placement {
                name: name_of(&own),
                precondition: own.precondition(),
                spec: own.object.spec.clone(),
                annotations: annotations(&own.revision, own.attempt, token),
            })
        })
        .collect()
}

fn owned(facts: &Facts) -> impl Iterator<Item = OwnedPlacement<'_>> {
    let slots = facts.placements.values().filter_map(Decoded::object);
    slots.filter_map(|object| Slot::of_object(facts, object).own().cloned())
}

fn annotations(revision: &Digest, attempt: i64, token: FencingToken) -> BTreeMap<String, String> {
    BTreeMap::from([
        (annotation::REVISION.to_owned(), revision.to_string()),
        (annotation::ATTEMPT.to_owned(), attempt.to_string()),
        (annotation::FENCING_TOKEN.to_owned(), token.to_string()),
    ])
}

/// What the Go stager wrote, with our collector added: the same objects in the same clusters.
fn adopted_spec(object: &BindingPolicy) -> BindingPolicySpec {
    BindingPolicySpec {
        cluster_selectors: object.spec.cluster_selectors.clone(),
        downsync: collector::with_evidence(&object.spec.downsync),
    }
}

fn name_of(own: &OwnedPlacement<'_>) -> PlacementName {
    PlacementName::of_object(own.object)
}

/// What status says after the placement of the `earlier` stage was removed from these clusters. There may be more of them than fit.
fn unproven(earlier: &StageName, shared: &[ClusterName]) -> String {
    format!(
        "unproven: the placement of stage {earlier} is removed, but the reports of the clusters that both stages share ({} in all, first {}) \
         do not say which of the two placements they come from",
        shared.len(),
        shared.first().map(ToString::to_string).unwrap_or_default()
    )
}
