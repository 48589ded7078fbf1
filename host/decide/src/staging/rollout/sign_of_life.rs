//! Whether KubeStellar still works when a stage is about to open the next one. Must not judge evidence.
//!
//! Reports of clusters come through KubeStellar. While it is down the last reports stay as they are, and a soak, or the two minutes
//! after an acknowledgement, would pass on them. So before the next stage is opened or changed in place, KubeStellar must have written
//! something lately; if it has not, a change of the next stage's placement that places nothing else makes it write.

use std::collections::BTreeMap;

use stagegate_api::{BindingPolicySpec, Outcome};

use crate::checks::finding::Finding;
use crate::checks::reason::Reason;
use crate::names::PlacementName;
use crate::staging::input::{OwnedPlacement, Read, Slot, clauses::without_evidence, selectors::unreadable};
use crate::staging::plan::{Placement, Write};
use crate::staging::rollout::{Draft, Judged, Rollout};
use crate::staging::updates::versions::{observer_name, other_observer_spec};
use crate::time::after;

impl Rollout<'_> {
    /// The finding while the active stage passes but KubeStellar has shown no sign of life. When new evidence makes a stage pass, that
    /// evidence is the sign; when only time has passed, KubeStellar may be down. Gates are called last, and a call may take longer than
    /// a sign counts: a stage with gates needs one only after a soak.
    pub(crate) fn require_sign_of_life(&self, judged: &Judged, active: usize, draft: &mut Draft) -> Option<Finding> {
        let stage = self.stage(active);
        let is_asked = stage.soak.is_some() || stage.gates.is_empty();
        if judged.finding.outcome != Outcome::Pass || !is_asked {
            return None;
        }
        let next = judged.next?;
        // What is in the way there is said first, and no sign of life helps against it.
        let is_in_the_way =
            self.policy.spec.stages[next].cluster_selectors.is_empty() || self.unreadable_after(next).is_some();
        if is_in_the_way {
            return None;
        }
        let window = self.facts.settings.settle_after_loss();
        // The sign is older than the fresh read, which may take long: its age is measured when the read began, with twice the limit.
        let (now, window) = match self.facts.read {
            Read::Cached | Read::Placements => (self.facts.now, window),
            Read::Anew { began_at, .. } => (began_at.unwrap_or(self.facts.now), window * 2),
        };
        let seen_at = self.facts.kubestellar_seen_at;
        if seen_at.is_some_and(|seen_at| now < after(seen_at, window)) {
            return None;
        }
        let observer = observer_name(self.facts);
        let asked = if self.facts.is_staged() {
            // A held placement shows nothing: what KubeStellar writes of it is refused while objects have newer versions.
            &Slot::of(self.facts, &observer)
        } else {
            &self.slots[next]
        };
        let own = match asked {
            Slot::Closed(own) => own,
            // Taking over what the Go stager made changes nothing that is placed, so an answer of KubeStellar would prove nothing.
            Slot::Open(own) if !self.is_made_by_the_go_stager(next, own) => own,
            _ => return None,
        };
        let placement = &PlacementName::of_object(own.object);
        // KubeStellar never processes such a one, so no change that leaves its selectors as they are makes it write.
        let mistakes = unreadable("spec.clusterSelectors", &own.object.spec.cluster_selectors);
        if let Some(first) = mistakes.first() {
            let text = format!(
                "stage {} passes, but KubeStellar cannot process BindingPolicy {placement} of stage {}: {}; correct its selectors, or \
                 delete the BindingPolicy (this removes its workload from its clusters)",
                stage.name,
                self.stage(next).name,
                first
            );
            return Some(Finding::unknown(Reason::BindingPolicyNotSynced, text));
        }
        if own.is_synced() && !draft.is_fencing(placement) {
            draft.writes.push(Write::Fence(match asked {
                _ if self.facts.is_staged() => Placement {
                    name: placement.clone(),
                    precondition: own.precondition(),
                    spec: other_observer_spec(self.facts, &own.object.spec),
                    annotations: BTreeMap::new(),
                },
                Slot::Open(_) => Placement {
                    name: placement.clone(),
                    precondition: own.precondition(),
                    spec: other_open_spec(&own.object.spec),
                    annotations: BTreeMap::new(),
                },
                _ => Placement {
                    name: placement.clone(),
                    precondition: own.precondition(),
                    spec: self.other_closed_spec(own),
                    annotations: self.annotations(own.attempt, None),
                },
            }));
        }
        let text = format!(
            "stage {} passes, but KubeStellar has written nothing lately and may be down: stage {} gets this revision once KubeStellar has \
             processed a change of BindingPolicy {placement} that Stagegate makes for this purpose and that changes no cluster; if this \
             message stays, check that KubeStellar's controller-manager runs",
            stage.name,
            self.stage(next).name
        );
        Some(Finding::unknown(Reason::KubeStellarSilent, text))
    }

    /// A closed placement selects no cluster, so changing its collectors has one effect: KubeStellar has to write its Binding
    /// again.
    fn other_closed_spec(&self, own: &OwnedPlacement<'_>) -> BindingPolicySpec {
        let usual = self.closed_spec();
        if own.object.spec != usual {
            return usual;
        }
        BindingPolicySpec {
            downsync: without_evidence(&self.policy.spec.downsync),
            ..usual
        }
    }
}

/// Its last cluster selector is listed once more, or once less: the clusters are the same, and KubeStellar has to write its status.
pub fn other_open_spec(spec: &BindingPolicySpec) -> BindingPolicySpec {
    let mut spec = spec.clone();
    match spec.cluster_selectors.as_slice() {
        [.., before, last] if before == last => {
            spec.cluster_selectors.pop();
        }
        [.., last] => spec.cluster_selectors.push(last.clone()),
        [] => {}
    }
    spec
}
