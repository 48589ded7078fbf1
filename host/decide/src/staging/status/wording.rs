//! Whether two statuses differ only in wording, such as progress counts. Must not decide when status is written.

use stagegate_api::{StageState, StagedBindingPolicyStatus};

use crate::checks::check::Check;
use crate::checks::reason::Reason;

/// Whether nothing differs but words: messages of outcomes and reasons that are the same (how many clusters are healthy by now, say),
/// in how many clusters nothing is missing by now, which of the reasons that each rollout has for some seconds holds now, which generations
/// clusters report, or the name of a placement that is not open yet.
pub fn is_rewording(found: &StagedBindingPolicyStatus, new: &StagedBindingPolicyStatus) -> bool {
    found != new && without_words(found) == without_words(new)
}

fn without_words(status: &StagedBindingPolicyStatus) -> StagedBindingPolicyStatus {
    let mut status = status.clone();
    if let Some(reason) = &mut status.reason {
        forget_brief(reason);
    }
    status.clusters = None;
    for condition in &mut status.conditions {
        condition.message.clear();
        forget_brief(&mut condition.reason);
    }
    for stage in &mut status.stages {
        // A cluster may edit its object, and edit it back, all the time.
        for object in &mut stage.objects {
            object.reported_generations.clear();
        }
        // The placement of a pending stage is found by its name, so the next write of status records it early enough.
        if stage.state == StageState::Pending {
            stage.binding_policy = None;
        }
        // A gate's answer is valid until a certain time, and gates that are called after it see it: any change of it counts.
        for check in stage
            .checks
            .iter_mut()
            .filter(|check| Check::named(&check.name).is_some())
        {
            check.message.clear();
            forget_brief(&mut check.reason);
            check.evaluated_at = None;
            // A soak goes on after a restart only on the evidence that it was recorded with.
            if !Check::Evidence.is_of(check) {
                check.evidence_digest = None;
            }
        }
    }
    status
}

/// None of them is reported by an Event, so none is missed.
fn forget_brief(reason: &mut String) {
    if Reason::ALL
        .iter()
        .any(|known| known.is_brief() && known.as_str() == reason)
    {
        reason.clear();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use stagegate_api::StagedBindingPolicyStatus;

    use super::{Reason, is_rewording};

    fn is_rewording_of(found: &Value, new: &Value) -> bool {
        is_rewording(&status("Unhealthy", found), &status("Unhealthy", new))
    }

    fn status(ready: &str, check: &Value) -> StagedBindingPolicyStatus {
        let stage = json!({"name": "dev", "state": "Active", "checks": [check]});
        let condition = json!({"type": "Ready", "status": "False", "reason": ready, "message": check["message"], "lastTransitionTime": "2026-01-01T00:00:00Z"});
        serde_json::from_value(json!({"conditions": [condition], "stages": [stage]})).unwrap()
    }

    fn check(name: &str, reason: &str, message: &str) -> Value {
        json!({"name": name, "outcome": "Hold", "reason": reason, "message": message, "evaluatedAt": format!("2026-01-01T00:00:0{}Z", message.len())})
    }

    #[test]
    fn another_count_is_a_rewording_and_another_reason_is_none() {
        let one = check("health", "Unhealthy", "1 of 5");
        assert!(is_rewording_of(&one, &check("health", "Unhealthy", "2 of 5")));
        assert!(
            is_rewording_of(&one, &check("health", "Unhealthy", "none")),
            "nor is the time"
        );
        assert!(!is_rewording_of(&one, &one));
        assert!(!is_rewording_of(&one, &check("health", "HealthFailed", "2 of 5")));
    }

    #[test]
    fn another_number_of_clusters_is_a_rewording() {
        let of = |clusters: &str| serde_json::from_value(json!({"activeStage": "dev", "clusters": clusters})).unwrap();
        assert!(is_rewording(&of("1/4"), &of("2/4")));
        assert!(!is_rewording(&of("1/4"), &of("1/4")));
    }

    #[test]
    fn another_reason_of_a_condition_alone_is_no_rewording() {
        let check = check("health", "Unhealthy", "1 of 5");
        let (found, new) = (status("Unhealthy", &check), status("UpdateUnacknowledged", &check));
        assert!(!is_rewording(&found, &new));
    }

    #[test]
    fn one_brief_reason_after_another_is_a_rewording() {
        let check = check("evidence", "Settling", "");
        let (found, new) = (status("BindingMissing", &check), status("Settling", &check));
        assert!(is_rewording(&found, &new));
        assert!(!is_rewording(&found, &status("NotReported", &check)));
        assert!(!is_rewording(&status("NotReported", &check), &found));
    }

    #[test]
    fn a_brief_reason_is_reported_by_no_event() {
        let mut brief = Reason::ALL.iter().filter(|reason| reason.is_brief());
        assert!(brief.all(|reason| !reason.is_notable()));
    }

    #[test]
    fn the_placement_of_a_stage_is_more_than_words_once_it_is_open() {
        let of = |state: &str, name: &str| -> StagedBindingPolicyStatus {
            let stage = json!({"name": "dev", "state": state, "bindingPolicy": {"name": name, "uid": "1"}});
            serde_json::from_value(json!({"stages": [stage]})).unwrap()
        };
        assert!(is_rewording(&of("Pending", "a"), &of("Pending", "b")));
        assert!(!is_rewording(&of("Active", "a"), &of("Active", "b")));
        assert!(!is_rewording(&of("Pending", "a"), &of("Active", "a")));
    }

    #[test]
    fn an_answer_of_a_gate_is_more_than_words() {
        let one = check("gate/freeze", "Held", "until 5");
        assert!(!is_rewording_of(&one, &check("gate/freeze", "Held", "until 6")));
    }
}
