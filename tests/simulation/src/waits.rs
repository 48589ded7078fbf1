//! What status says of updates that hold a stage, compared with which updates there were. Must not look at what a decision rests on.

use std::collections::{BTreeMap, BTreeSet};

use stagegate_api::{
    PendingUpdate, StageStatus, StagedBindingPolicy, StagedBindingPolicyStatus, UnacknowledgedUpdates,
};
use stagegate_decide::names::{PlacementName, StageName};
use stagegate_decide::staging::{Facts, Reason};

use crate::clusters::Fleet;
use crate::kubestellar::KubeStellar;
use crate::queue::Millis;
use crate::server::Server;

/// A rule, and how it is broken.
type Broken = (&'static str, String);

/// By then each cluster in reach has an update and has reported on it, however slow everything is.
const REPORTED_MS: Millis = 70_000;
/// A cluster has this long to acknowledge an update, less what clocks may differ by.
const OVERDUE_MS: Millis = 110_000;
/// A stage that passes over unacknowledged updates waits two minutes for them.
const ACCEPTED_MS: Millis = 240_000;

#[derive(Clone, Debug, Default)]
pub struct Waits {
    /// Since when status has said before each update that updates hold this stage.
    held: Option<(String, Millis)>,
    updated_at: Millis,
    /// Since when the status of a policy lists updates that a cluster has not acknowledged; `None` once it has listed some without names.
    listed: BTreeMap<String, Option<BTreeMap<String, Millis>>>,
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

impl Waits {
    /// Notes what the newest status of a policy lists.
    pub fn list(&mut self, policy: &str, status: &StagedBindingPolicyStatus, now: Millis) {
        let updates: Vec<&PendingUpdate> = status.stages.iter().flat_map(pending_in).collect();
        let listed = self
            .listed
            .entry(policy.to_owned())
            .or_insert_with(|| Some(BTreeMap::new()));
        if updates.iter().any(|update| update.clusters.is_empty()) {
            *listed = None;
        }
        let Some(listed) = listed else { return };
        let names: BTreeSet<&String> = updates.iter().flat_map(|update| &update.clusters).collect();
        listed.retain(|name, _| names.contains(name));
        for name in names {
            listed.entry(name.clone()).or_insert(now);
        }
    }

    /// Whether status calls an update overdue although it has listed none as pending for two minutes for any cluster.
    pub fn is_overdue_too_early(
        &self,
        policy: &str,
        status: &StagedBindingPolicyStatus,
        now: Millis,
    ) -> Option<String> {
        let listed = self.listed.get(policy)?.as_ref()?;
        let stage = status.active_stage.as_deref()?;
        let stage = status.stages.iter().find(|record| record.name == stage)?;
        let mut names = pending_in(stage).flat_map(|update| &update.clusters);
        let is_due = |name: &String| listed.get(name).is_some_and(|since| now - since >= OVERDUE_MS);
        (!names.any(is_due)).then(|| "status has not listed any for two minutes".to_owned())
    }
}

fn pending_in(stage: &StageStatus) -> impl Iterator<Item = &PendingUpdate> {
    stage.objects.iter().flat_map(|object| &object.pending_updates)
}

/// The active stage that passes over unacknowledged updates, if status says that they hold it.
fn held_by_updates(policy: &StagedBindingPolicy) -> Option<String> {
    let status = policy.status.as_ref()?;
    let active = status.active_stage.clone()?;
    let mut stages = policy.spec.stages.iter();
    let stage = stages.find(|stage| stage.name == active)?;
    (is_held_by_updates(status) && stage.unacknowledged_updates == UnacknowledgedUpdates::Ignore).then_some(active)
}

fn is_held_by_updates(status: &StagedBindingPolicyStatus) -> bool {
    let reason = status.reason.as_deref();
    says(reason, Reason::UpdateUnacknowledged) || says(reason, Reason::UpdateAcknowledgementOverdue)
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

/// Whether an entry without names, for which status waits, excepts a cluster that neither the stage nor its Binding has: such names would
/// add up.
pub fn left_names(status: &StagedBindingPolicyStatus, facts: &Facts) -> Option<Broken> {
    let policy = facts.policy.object.metadata.name.as_deref().unwrap_or_default();
    let is_left = |stage: &StageStatus, name: &String| {
        let binding = facts
            .bindings
            .get(&PlacementName::of(policy, StageName::of(&stage.name)));
        let binding = binding.and_then(|binding| binding.object.as_ref()?.object());
        let named = binding.into_iter().flat_map(|binding| &binding.spec.destinations);
        let is_named = named.into_iter().any(|one| one.cluster_id == *name);
        // It may have left only now.
        let before = facts.policy.object.status.iter().flat_map(|status| &status.stages);
        let mut records = before.filter(|record| record.name == stage.name).chain([stage]);
        let is_known = records.any(|record| record.destinations.contains(name) || record.named_clusters.contains(name));
        !(is_named || is_known)
    };
    let is_judged = |stage: &&StageStatus| {
        // Of a stage that was not judged in the round before, the names are from when it was.
        let before = facts.policy.object.status.as_ref();
        let is_held = is_held_by_updates(status) && before.is_some_and(is_held_by_updates);
        is_held && status.active_stage.as_deref() == Some(&stage.name)
    };
    let mut excepted = status.stages.iter().filter(is_judged).flat_map(|stage| {
        pending_in(stage)
            .flat_map(|update| &update.except)
            .map(move |name| (stage, name))
    });
    let (stage, name) = excepted.find(|(stage, name)| is_left(stage, name))?;
    Some((
        "size",
        format!(
            "status still names cluster {name} beside an update of stage {}, which it has left",
            stage.name
        ),
    ))
}
