//! CombinedStatuses that KubeStellar has deleted and does not write again by itself, and versions that clusters may not have. Must not
//! judge what is reported.
//!
//! KubeStellar's status controller learns of a Binding when KubeStellar has changed it (`pkg/binding/binding.go`). After a restart it
//! deletes the CombinedStatuses of all Bindings that it does not know, and a held Binding does not change. So our collector is taken out of
//! the stage's BindingPolicy, and put back when the Binding names it no more: the clusters see nothing of that.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use stagegate_api::evidence::is_evidence_collector;
use stagegate_api::{Binding, BindingPolicySpec, BoundObject, StageStatus};

use crate::names::PlacementName;
use crate::staging::evidence::{Placed, collector, kinds, objects::ObjectTracker};
use crate::staging::plan::{Placement, Write};
use crate::staging::rollout::{Draft, OwnedPlacement, Rollout};
use crate::time::{after, later, round_up_to_second};

/// How long a CombinedStatus may be missing: while KubeStellar starts, it is written anew where the Binding is.
const MISSING: SignedDuration = SignedDuration::from_secs(30);
/// At the least between two repairs of one stage.
const APART: SignedDuration = SignedDuration::from_secs(300);
/// What has been missing for longer does not come by that: an object that the stage's filter leaves out may have none.
const GIVEN_UP: SignedDuration = SignedDuration::from_secs(900);

impl Rollout<'_> {
    /// Makes KubeStellar write the CombinedStatuses of held stages that have been missing for long, of one stage at a time.
    pub(crate) fn repair(&self, draft: &mut Draft, records: &mut [StageStatus]) {
        if !self.facts.is_staged() || self.policy.spec.paused {
            return;
        }
        for (index, record) in records.iter_mut().enumerate().take(self.slots.len()) {
            self.repair_stage(index, draft, record);
        }
    }

    /// While newer versions wait, KubeStellar could not write the stage's Binding, and a change would break a soak.
    fn repair_stage(&self, index: usize, draft: &mut Draft, record: &mut StageStatus) {
        let open = self.slots[index].open();
        let is_at_rest = |own: &OwnedPlacement<'_>| self.is_current(index, own) && self.is_up_to_date(index, own);
        let held = open.and_then(|own| Some((own, self.binding_of(own)?)));
        let held = held.filter(|(own, _)| is_at_rest(own) && self.stage(index).is_judged());
        let Some((own, binding)) = held else {
            record.hold.unreported_since = None;
            return;
        };
        if let Some(completed) = completed(&own.object.spec) {
            let names_ours =
                |object: &BoundObject| object.status_collectors.iter().any(|name| is_evidence_collector(name));
            if !binding.spec.workload.objects().any(names_ours) && is_free(own, draft) {
                draft.writes.push(change(own, completed));
            }
            return;
        }
        let is_unproven = !record.unproven.is_empty();
        if record.held_since.is_none() || !(is_unproven || self.lacks_reports((index, binding), record)) {
            record.hold.unreported_since = None;
            return;
        }
        let now = self.facts.now;
        let since = record
            .hold
            .unreported_since
            .get_or_insert_with(|| round_up_to_second(now))
            .0;
        let again = record.hold.repaired_at.as_ref().map(|at| after(at.0, APART));
        let due = later(again, after(since, MISSING));
        if now >= after(since, GIVEN_UP) {
            return;
        }
        if now < due {
            return draft.wake(Some(due));
        }
        let is_soaking = self
            .recorded(index)
            .is_some_and(|recorded| recorded.passing_since.is_some())
            && !self.has_passed(index);
        if is_soaking || !is_free(own, draft) || draft.is_told_first {
            return;
        }
        if !self.facts.read.is_anew() {
            return draft.ask_for_fresh_read();
        }
        record.hold.repaired_at = Some(Time(now));
        // Transport reads all objects again when the Binding changes.
        record.unproven.clear();
        draft.is_told_first = true;
        draft.writes.push(change(own, without_reports(&own.object.spec)));
    }

    /// Whether KubeStellar has no CombinedStatus for an object that clusters report on.
    fn lacks_reports(&self, (index, binding): (usize, &Binding), record: &StageStatus) -> bool {
        let Some(own) = self.slots[index].open() else {
            return false;
        };
        let input = self.input(index, own, Some(record));
        let tracker = ObjectTracker::new(input);
        let placed = Placed::of(input, record);
        let is_combined = |object| {
            let (subject, _) = tracker.subject(&placed, object).ok()?;
            let (namespace, name) = subject.combined_name();
            Some(self.facts.combined.contains_key(&format!("{namespace}/{name}")))
        };
        let mut objects = binding.spec.workload.objects();
        objects.any(|object| {
            !kinds::is_never_returned(&object.group, &object.resource) && is_combined(object) == Some(false)
        })
    }
}

/// Whether nothing else is written to it by the same plan.
fn is_free(own: &OwnedPlacement<'_>, draft: &Draft) -> bool {
    !draft.is_fencing(&PlacementName::of_object(own.object)) && !draft.writes.iter().any(Write::places)
}

fn change(own: &OwnedPlacement<'_>, spec: BindingPolicySpec) -> Write {
    Write::Fence(Placement {
        name: PlacementName::of_object(own.object),
        precondition: own.precondition(),
        spec,
        annotations: BTreeMap::new(),
    })
}

/// The spec with our collector put back, if a repair has taken it out.
pub(crate) fn completed(spec: &BindingPolicySpec) -> Option<BindingPolicySpec> {
    let is_without = without_reports(spec) == *spec;
    is_without.then(|| BindingPolicySpec {
        downsync: collector::with_evidence(&spec.downsync),
        ..spec.clone()
    })
}

fn without_reports(spec: &BindingPolicySpec) -> BindingPolicySpec {
    BindingPolicySpec {
        downsync: collector::without_ours(&spec.downsync),
        ..spec.clone()
    }
}
