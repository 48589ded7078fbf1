//! Sends the Events of a plan, and reports plans that came too late. Must not decide what is worth an Event; the plan does.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource as _, ResourceExt as _};
use stagegate_api::StagedBindingPolicy;
use stagegate_decide::staging::{Decision, Event, Facts, Plan, Reason, SECOND_CONTROLLER, Write, decide};
use stagegate_runtime::Runtime;
use stagegate_runtime::controller::Next;
use stagegate_runtime::events::Notice;
use tracing::{debug, info, warn};

use super::execute::carry_out;
use super::memory::Memory;
use crate::controllers::lateness;

/// The Events that belong to the write of status. Status remembers that they were reported, so they are sent as soon as it is
/// written, even if a later write fails.
pub(super) fn of_status(plan: &Plan) -> impl Iterator<Item = &Event> {
    plan.events.iter().filter(|event| !is_of_a_write(event))
}

/// The Events that belong to the other writes.
pub(super) fn of_writes(plan: &Plan) -> impl Iterator<Item = &Event> {
    plan.events.iter().filter(|event| is_of_a_write(event))
}

fn is_of_a_write(event: &Event) -> bool {
    matches!(event.reason, Reason::StageOpened | Reason::Superseded)
}

/// Whether people wait for the Event, and status may not show it later.
fn is_milestone(event: &Event) -> bool {
    matches!(event.reason, Reason::StagePassed | Reason::Completed)
}

pub(super) fn announce<'a>(runtime: &Runtime, facts: &Facts, events: impl Iterator<Item = &'a Event>) {
    for event in events {
        let name = facts.policy.object.name_any();
        info!(
            policy = name,
            reason = event.reason.as_str(),
            warning = event.warning,
            "{}",
            event.message
        );
        runtime.events.send(Notice {
            about: reference(&facts.policy.object),
            warning: event.warning,
            is_milestone: is_milestone(event),
            reason: event.reason.as_str().to_owned(),
            note: event.message.clone(),
        });
    }
}

/// Of a plan that came too late, writes only the status. If that fails, the next try writes it.
pub(super) async fn tell_of_late_plans(runtime: &Runtime, policy: &str, (facts, memory): (&Facts, &mut Memory)) {
    let Decision::Act(plan) = decide(facts) else { return };
    let is_placing = plan.writes.iter().any(Write::places);
    let mut announced = plan.writes.iter().filter(|write| matches!(write, Write::Status { .. }));
    let Some(status) = announced.next().filter(|_| is_placing) else {
        return;
    };
    match carry_out(runtime, policy, (status, memory)).await {
        Ok(()) => announce(runtime, facts, of_status(&plan)),
        Err(error) => debug!(policy, error = error.chain(), "status does not tell of a late plan yet"),
    }
}

/// When to decide again after a plan that came too late. From the second in a row on, an Event reports it.
pub(super) fn put_off_late(runtime: &Runtime, facts: &Facts, memory: &mut Memory) -> Next {
    memory.late = memory.late.saturating_add(1);
    if memory.late > 1 {
        runtime.events.send(Notice {
            about: reference(&facts.policy.object),
            warning: true,
            is_milestone: false,
            reason: Reason::EvidenceExpired.as_str().to_owned(),
            note: lateness::NOTE.to_owned(),
        });
    }
    Next {
        wake_in: Some(lateness::pause(memory.late)),
    }
}

/// Each process that notices sends an Event of its own; the condition, in the status that they share, is set once.
pub(super) fn tell_of_second_controller(runtime: &Runtime, facts: &Facts) {
    let (policy, reason) = (facts.policy.object.name_any(), Reason::SecondController);
    warn!(policy, reason = reason.as_str(), "{SECOND_CONTROLLER}");
    runtime.events.send(Notice {
        about: reference(&facts.policy.object),
        warning: true,
        is_milestone: false,
        reason: reason.as_str().to_owned(),
        note: SECOND_CONTROLLER.to_owned(),
    });
}

pub(super) fn reference(policy: &StagedBindingPolicy) -> ObjectReference {
    ObjectReference {
        api_version: Some(StagedBindingPolicy::api_version(&()).into_owned()),
        kind: Some(StagedBindingPolicy::kind(&()).into_owned()),
        name: policy.metadata.name.clone(),
        uid: policy.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}
