//! What status says of updates that hold a stage, compared with which updates there were. Must not look at what a decision rests on.

use stagegate_api::{StagedBindingPolicy, StagedBindingPolicyStatus, UnacknowledgedUpdates};
use stagegate_decide::staging::Reason;

use crate::clusters::Fleet;
use crate::kubestellar::KubeStellar;
use crate::queue::Millis;
use crate::server::Server;

/// A rule, and how it is broken.
type Broken = (&'static str, String);

/// By then each cluster in reach has an update and has reported on it, however slow everything is.
const REPORTED_MS: Millis = 70_000;
/// A stage that passes over unacknowledged updates waits two minutes for them.
const ACCEPTED_MS: Millis = 240_000;

#[derive(Clone, Debug, Default)]
pub struct Waits {
    /// Since when status has said before each update that updates hold this stage.
    held: Option<(String, Millis)>,
    updated_at: Millis,
}

impl Waits {
    /// Looks at what status says just before an object is updated once more. Updates that keep coming must not hold a stage that passes
    /// over unacknowledged ones, if its clusters get and report each of them.
    pub fn before_update(
        &mut self,
        policy: Option<&StagedBindingPolicy>,
        (kubestellar, fleet): (&KubeStellar, &Fleet),
        now: Millis,
    ) -> Option<Broken> {
        let is_reported = now - std::mem::replace(&mut self.updated_at, now) >= REPORTED_MS;
        let held = policy.and_then(held_by_updates).filter(|_| is_reported);
        let Some(stage) = held else {
            self.held = None;
            return None;
        };
        let known = self.held.take().filter(|(known, _)| *known == stage);
        let (_, since) = self.held.insert(known.unwrap_or_else(|| (stage.clone(), now))).clone();
        let is_in_reach = |until: Millis| until < since;
        let is_well = fleet
            .members
            .values()
            .all(|member| is_in_reach(member.unreachable_until))
            && is_in_reach(kubestellar.down_until);
        (is_well && now - since > ACCEPTED_MS).then(|| {
            let seconds = ACCEPTED_MS / 1_000;
            let text = format!("stage {stage} passes over updates, and they have held it for more than {seconds} s");
            ("lively", text)
        })
    }
}

/// The active stage that passes over unacknowledged updates, if status says that they hold it.
fn held_by_updates(policy: &StagedBindingPolicy) -> Option<String> {
    let status = policy.status.as_ref()?;
    let active = status.active_stage.clone()?;
    let is_held = says(status.reason.as_deref(), Reason::UpdateUnacknowledged)
        || says(status.reason.as_deref(), Reason::UpdateAcknowledgementOverdue);
    let mut stages = policy.spec.stages.iter();
    let stage = stages.find(|stage| stage.name == active)?;
    (is_held && stage.unacknowledged_updates == UnacknowledgedUpdates::Ignore).then_some(active)
}

fn says(reason: Option<&str>, known: Reason) -> bool {
    reason == Some(known.as_str())
}

/// Whether status says that a cluster has not acknowledged an update, and there has been no update.
pub fn invented(status: &StagedBindingPolicyStatus, server: &Server) -> Option<Broken> {
    let reason = status.reason.as_deref();
    let is_overdue = says(reason, Reason::UpdateAcknowledgementOverdue);
    // The same reason is given for reports that may be about an older version: that is not known to be false.
    let mut messages = status.conditions.iter().map(|condition| &condition.message);
    let is_owed = says(reason, Reason::UpdateUnacknowledged) && messages.any(|text| text.contains("not acknowledged"));
    if !(is_overdue || is_owed) {
        return None;
    }
    let mut log = server.workloads.log().iter();
    let is_updated = log.any(|entry| {
        let after = entry.after.as_ref();
        after.is_none_or(|object| object.content.replaced.is_some())
    });
    (!is_updated).then(|| {
        let text = "status waits for the acknowledgement of an update, and no object was ever updated";
        ("said", text.to_owned())
    })
}
