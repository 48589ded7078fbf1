//! CombinedStatuses that KubeStellar has deleted and does not write again by itself. Must not judge what they say.
//!
//! KubeStellar's status controller learns of a Binding when KubeStellar has changed it (`pkg/binding/binding.go`). After a restart it
//! deletes the CombinedStatuses of all Bindings that it does not know, and a held Binding does not change. So our collector is taken out of
//! the stage's BindingPolicy, and put back when the Binding names it no more: the clusters see nothing of that.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use stagegate_api::evidence::is_evidence_collector;
use stagegate_api::{Binding, BindingPolicySpec, StageStatus};

use crate::names::PlacementName;
use crate::staging::evidence::{Placed, collector, kinds, objects::ObjectTracker};
use crate::staging::plan::{Placement, Write};
use crate::staging::rollout::{Draft, Rollout};
use crate::time::{after, later, round_up_to_second};

/// How long a CombinedStatus may be missing: while KubeStellar starts, it is written anew where the Binding is.
const MISSING: SignedDuration = SignedDuration::from_secs(30);
/// At the least between two repairs of one stage.
const APART: SignedDuration = SignedDuration::from_secs(300);

impl Rollout<'_> {
    /// Makes KubeStellar write the CombinedStatuses of the held stage that is evaluated, or was last, if they have been missing for long.
    /// While newer versions wait, KubeStellar could not write its Binding.
    pub(crate) fn repair(&self, draft: &mut Draft, records: &mut [StageStatus]) {
        let index = self.active().unwrap_or(self.last());
        let open = self.slots[index]
            .open()
            .filter(|_| self.facts.is_staged() && !self.policy.spec.paused);
        let held = open
            .filter(|own| self.is_current(index, own) && self.is_up_to_date(index, own))
            .and_then(|own| Some((own, self.binding_of(own)?)));
        let record = &mut records[index];
        let Some((own, binding)) = held.filter(|_| record.held_since.is_some() && self.stage(index).is_judged()) else {
            record.hold.unreported_since = None;
            return;
        };
        let spec = &own.object.spec;
        if without_reports(spec) == *spec {
            let is_seen = !binding
                .spec
                .workload
                .objects()
                .any(|object| object.status_collectors.iter().any(|name| is_evidence_collector(name)));
            if is_seen {
                self.change(index, with_reports(spec), draft);
            }
            return;
        }
        if !self.lacks_reports((index, binding), record) {
            record.hold.unreported_since = None;
            return;
        }
        let since = record
            .hold
            .unreported_since
            .get_or_insert_with(|| round_up_to_second(self.facts.now))
            .0;
        let again = record.hold.repaired_at.as_ref().map(|at| after(at.0, APART));
        let due = later(again, after(since, MISSING));
        if self.facts.now < due {
            return draft.wake(Some(due));
        }
        if !self.facts.read.is_anew() {
            return draft.ask_for_fresh_read();
        }
        record.hold.repaired_at = Some(Time(self.facts.now));
        draft.is_told_first = true;
        self.change(index, without_reports(spec), draft);
    }

    fn change(&self, index: usize, spec: BindingPolicySpec, draft: &mut Draft) {
        let Some(own) = self.slots[index].open() else { return };
        let name = PlacementName::of_object(own.object);
        if draft.is_fencing(&name) || draft.writes.iter().any(Write::places) {
            return;
        }
        draft.writes.push(Write::Fence(Placement {
            name,
            precondition: own.precondition(),
            spec,
            annotations: BTreeMap::new(),
        }));
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

/// The spec with our collector.
pub(crate) fn with_reports(spec: &BindingPolicySpec) -> BindingPolicySpec {
    BindingPolicySpec {
        downsync: collector::with_evidence(&spec.downsync),
        ..spec.clone()
    }
}

fn without_reports(spec: &BindingPolicySpec) -> BindingPolicySpec {
    BindingPolicySpec {
        downsync: collector::without_ours(&spec.downsync),
        ..spec.clone()
    }
}
