//! Policies in every phase, with the status that a decision gave them: `tests/data/policies-in-every-phase.json`. Other tests run
//! the health checks of other tools over them. Must not judge them itself.

use std::path::Path;

use serde_json::{Value, json};
use stagegate_api::Phase;

use crate::staging::policy_after;

/// Cases, and the verdict that kstatus must give to those who wait for the policy.
const CASES: &[(&str, &str)] = &[
    ("soak-alone-counts-from-the-settling", "InProgress"),
    ("condition-false-holds", "InProgress"),
    ("condition-error-is-unknown", "InProgress"),
    ("paused-opens-nothing", "InProgress"),
    ("s01-a-last-stage-whose-condition-is-true-stays-placed", "Current"),
    ("completed-and-paused", "Current"),
    ("completed-and-stalled", "Failed"),
    ("s10-foreign-binding-policy-is-left-alone", "Failed"),
    ("event-of-what-somebody-must-act-on-is-a-warning", "Failed"),
    ("gate-that-fails-ends-the-attempt", "Failed"),
];

/// Each of these phases must occur.
const PHASES: &[Phase] = &[
    Phase::Progressing,
    Phase::Holding,
    Phase::Paused,
    Phase::Completed,
    Phase::Failed,
    Phase::Stalled,
];

#[test]
fn the_recorded_policies_are_in_every_phase_and_as_a_decision_leaves_them() {
    let mut recorded: Vec<Value> = CASES
        .iter()
        .map(|(case, verdict)| json!({"case": case, "verdict": verdict, "policy": policy_after(case)}))
        .collect();
    for phase in PHASES {
        let is_shown = |entry: &Value| entry["policy"]["status"]["phase"] == json!(phase);
        assert!(recorded.iter().any(is_shown), "no case ends in {phase:?}");
    }
    // An edit that the controller has not seen yet.
    let mut edited = policy_after("completed-and-paused");
    edited["metadata"]["generation"] = json!(2);
    recorded.push(json!({"case": "completed, then edited", "verdict": "InProgress", "policy": edited}));
    let text = format!("{}\n", serde_json::to_string_pretty(&recorded).unwrap());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/policies-in-every-phase.json");
    if std::env::var_os("UPDATE_POLICIES").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let is_fresh = std::fs::read_to_string(&path).is_ok_and(|stored| stored == text);
    assert!(
        is_fresh,
        "{} is out of date: run this test with UPDATE_POLICIES=1",
        path.display()
    );
}
