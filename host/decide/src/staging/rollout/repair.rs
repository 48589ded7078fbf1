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
use crate::staging::rollout::sign_of_life::other_open_spec;
use crate::staging::rollout::{Draft, Rollout};
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
        let at_rest = open.filter(|own| self.is_current(index, own) && self.is_up_to_date(index, own));
        let held = at_rest.and_then(|own| Some((own, self.binding_of(own)?)));
        let held = held.filter(|_| self.stage(index).is_judged());
        let Some((own, binding)) = held else {
            record.hold.unreported_since = None;
            return;
        };
        let change = |spec: BindingPolicySpec| {
            Write::Fence(Placement {
                name: PlacementName::of_object(own.object),
                precondition: own.precondition(),
                spec,
                annotations: BTreeMap::new(),
            })
        };
        let is_fencing = draft.is_fencing(&self.stage(index).placement);
        let is_free = !is_fencing && !draft.writes.iter().any(Write::places);
        if let Some(completed) = collector::reported(&own.object.spec) {
            let names_ours =
                |object: &BoundObject| object.status_collectors.iter().any(|name| is_evidence_collector(name));
            if !binding.spec.workload.objects().any(names_ours) && is_free {
                draft.writes.push(change(completed));
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
        if is_soaking || !is_free || draft.is_told_first {
            return;
        }
        if !self.facts.read.is_anew() {
            return draft.ask_for_fresh_read();
        }
        record.hold.repaired_at = Some(Time(now));
        // Transport reads all objects again when the Binding changes.
        record.unproven.clear();
        draft.is_told_first = true;
        draft.writes.push(change(collector::unreported(&own.object.spec)));
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

/// Whether a held placement places what `wanted` does. Each release changes it so that KubeStellar looks at it, and a repair leaves our
/// collector out for a while.
pub(crate) fn is_held_as(spec: &BindingPolicySpec, wanted: &BindingPolicySpec) -> bool {
    let completed = collector::reported(spec);
    let spec = completed.as_ref().unwrap_or(spec);
    spec == wanted || *spec == other_open_spec(wanted)
}
