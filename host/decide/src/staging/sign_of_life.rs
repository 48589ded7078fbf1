//! Whether KubeStellar still works when a stage that waited for long is about to lead on. Must not judge evidence.
//!
//! What the clusters report comes through KubeStellar: while that is down, the last reports stand still, and a soak or an
//! acknowledgement that is to be the last one for a while would pass on them. So before the next stage is opened KubeStellar
//! has to have written something a moment ago, or is made to.

use stagegate_api::{BindingPolicySpec, Outcome};

use super::collector;
use super::facts::Read;
use super::finding::Finding;
use super::plan::{Placement, Write};
use super::reason::Reason;
use super::rollout::{Draft, Judged, Rollout};
use super::slot::{Own, Slot, after};

impl Rollout<'_> {
    /// Why the next stage is not opened yet though the active one passes. Where it passes because evidence arrived, that is the
    /// sign; where it passes because a time is over, it may have heard nothing for KubeStellar is down.
    pub(super) fn require_sign_of_life(&self, judged: &Judged, active: usize, draft: &mut Draft) -> Option<Finding> {
        let stage = self.stage(active);
        if judged.finding.outcome != Outcome::Pass {
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
        // The sign comes before the reading, which a slow API server takes its time for.
        let (now, window) = match self.facts.read {
            Read::Cached => (self.facts.now, window),
            Read::Anew { began_at, .. } => (began_at.unwrap_or(self.facts.now), window * 2),
        };
        let seen_at = self.facts.kubestellar_seen_at;
        if seen_at.is_some_and(|seen_at| now < after(seen_at, window)) {
            return None;
        }
        let Slot::Closed(own) = &self.slots[next] else {
            return None;
        };
        let placement = &self.stage(next).placement;
        if own.is_synced() && !draft.is_stamping(placement) {
            draft.writes.push(Write::Stamp(Placement {
                name: placement.clone(),
                precondition: own.precondition(),
                spec: self.other_closed_spec(own),
                annotations: self.annotations(own.attempt, None),
            }));
        }
        let text = format!(
            "stage {} passes, but KubeStellar has written nothing lately: before stage {} is opened it has to take a change of \
             BindingPolicy {placement}, which selects no cluster; if it does not, see whether KubeStellar's controllers run",
            stage.name,
            self.stage(next).name
        );
        Some(Finding::unknown(Reason::KubeStellarSilent, text))
    }

    /// A closed placement places nothing, so which collectors it names means nothing but that KubeStellar has to write its
    /// Binding anew.
    fn other_closed_spec(&self, own: &Own<'_>) -> BindingPolicySpec {
        let usual = self.closed_spec();
        if own.object.spec != usual {
            return usual;
        }
        BindingPolicySpec {
            downsync: collector::without_evidence(&self.policy.spec.downsync),
            ..usual
        }
    }
}
