//! Statuses that differ in words alone: how far something is that goes on as before. Must not decide when status is written.

use stagegate_api::StagedBindingPolicyStatus;

use crate::checks::check::Check;

/// Whether nothing differs but messages, of outcomes and reasons that are the same: how many clusters are healthy by now, say.
pub fn is_rewording(found: &StagedBindingPolicyStatus, new: &StagedBindingPolicyStatus) -> bool {
    found != new && without_words(found) == without_words(new)
}

fn without_words(status: &StagedBindingPolicyStatus) -> StagedBindingPolicyStatus {
    let mut status = status.clone();
    for condition in &mut status.conditions {
        condition.message.clear();
    }
    for stage in &mut status.stages {
        // An answer of a gate counts until a certain time, and gates that are asked later see it.
        for check in stage
            .checks
            .iter_mut()
            .filter(|check| Check::named(&check.name).is_some())
        {
            check.message.clear();
            check.evaluated_at = None;
            // A soak goes on after a restart only on the evidence that it was recorded with.
            if !Check::Evidence.is_of(check) {
                check.evidence_digest = None;
            }
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use stagegate_api::StagedBindingPolicyStatus;

    use super::is_rewording;

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
    fn another_reason_of_a_condition_alone_is_no_rewording() {
        let check = check("health", "Unhealthy", "1 of 5");
        let (found, new) = (status("Unhealthy", &check), status("UpdateUnacknowledged", &check));
        assert!(!is_rewording(&found, &new));
    }

    #[test]
    fn an_answer_of_a_gate_is_more_than_words() {
        let one = check("gate/freeze", "Held", "until 5");
        assert!(!is_rewording_of(&one, &check("gate/freeze", "Held", "until 6")));
    }
}
