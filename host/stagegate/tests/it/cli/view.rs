//! The live view as a function: `tests/view/*.yaml` hold a policy before and after, and what is shown.

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use stagegate::view::{Moment, Policies, change, frame, line, verdicts};
use stagegate_api::StagedBindingPolicy;

use super::cases;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    why: String,
    elapsed_ms: u64,
    now: Timestamp,
    before: Option<StagedBindingPolicy>,
    policy: StagedBindingPolicy,
    /// What a pipe is told.
    lines: Vec<String>,
    /// The same as JSON.
    json: Vec<serde_json::Value>,
    /// What a terminal shows, without colours.
    frame: Vec<String>,
    /// The last object of `-o json`.
    summary: Option<serde_json::Value>,
}

#[test]
fn every_case_shows_its_lines_its_json_and_its_frame() {
    for file in cases("view") {
        let text = std::fs::read_to_string(&file).expect("the case was listed");
        let case: Case = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let why = format!("{}: {}", file.display(), case.why);
        let elapsed = Duration::from_millis(case.elapsed_ms);
        let changes = change::between(case.before.as_ref(), &case.policy);

        let lines = line::texts(&changes, elapsed);
        assert_eq!(lines, case.lines, "{why}");
        let json = |change| serde_json::from_str(&line::json(change, elapsed).expect("changes are JSON"));
        let json: Vec<serde_json::Value> = changes.iter().map(|change| json(change).expect("one object")).collect();
        assert_eq!(json, case.json, "{why}");

        let name = case.policy.metadata.name.clone().unwrap_or_default();
        let policies = Policies::from([(name, case.policy)]);
        let frame = frame::lines(&policies, Moment { elapsed, now: case.now });
        let frame: Vec<String> = frame.iter().map(|line| line.plain().trim_end().to_owned()).collect();
        assert_eq!(frame, case.frame, "{why}");
        if let Some(expected) = case.summary {
            let summary = verdicts::Summary::of(&policies, "Completed", elapsed);
            assert_eq!(
                serde_json::to_value(&summary).expect("summaries are JSON"),
                expected,
                "{why}"
            );
        }
    }
}

#[test]
fn control_characters_of_a_status_never_reach_the_terminal() {
    let mut policy = StagedBindingPolicy::default();
    policy.metadata.name = Some("nginx".to_owned());
    let status = policy.status.insert(Default::default());
    status.stages.push(stagegate_api::StageStatus {
        name: "dev".to_owned(),
        message: Some("first\n\x1b[2Jsecond".to_owned()),
        ..Default::default()
    });
    let lines = line::texts(&change::between(None, &policy), Duration::ZERO);
    assert_eq!(lines, ["  0.0s nginx dev note: first  [2Jsecond"]);
    let policies = Policies::from([("nginx".to_owned(), policy)]);
    let shown = frame::lines(
        &policies,
        Moment {
            elapsed: Duration::ZERO,
            now: Timestamp::UNIX_EPOCH,
        },
    );
    assert!(
        shown.iter().all(|line| !line.plain().contains(char::is_control)),
        "{shown:?}"
    );
    assert!(!verdicts::table(&policies, None).contains('\x1b'));
}
