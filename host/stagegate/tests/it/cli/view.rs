//! The live view as a function: `tests/view/*.yaml` hold a policy before and after, `tests/view/pools/*.yaml` a YurtAppDaemon, and what is
//! shown.

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use stagegate::view::{
    Counting, Elapsed, Moment, Rolled, Rollouts, change, frame, line, overview, revisions, screen, verdicts,
};
use stagegate_api::StagedBindingPolicy;
use stagegate_api::workloads::YurtAppDaemon;

use super::cases;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case<K> {
    why: String,
    elapsed_ms: u64,
    now: Timestamp,
    before: Option<K>,
    #[serde(alias = "daemon")]
    policy: K,
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
    every_case_shows_what_it_names::<StagedBindingPolicy>("view");
    every_case_shows_what_it_names::<YurtAppDaemon>("view/pools");
}

fn every_case_shows_what_it_names<K: Rolled>(folder: &str) {
    for file in cases(folder) {
        let text = std::fs::read_to_string(&file).expect("the case was listed");
        let case: Case<K> = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let why = format!("{}: {}", file.display(), case.why);
        let elapsed = Duration::from_millis(case.elapsed_ms);
        let before = case.before.as_ref().map(Rolled::rollout);
        let rollout = case.policy.rollout();
        let changes = change::between(before.as_ref(), &rollout);

        let precise = Elapsed::Precise(elapsed);
        let lines = line::texts(&changes, precise);
        assert_eq!(lines, case.lines, "{why}");
        let json = |change| serde_json::from_str(&line::json(change, precise).expect("changes are JSON"));
        let json: Vec<serde_json::Value> = changes.iter().map(|change| json(change).expect("one object")).collect();
        assert_eq!(json, case.json, "{why}");

        let policies = Rollouts::from([(rollout.name.clone(), rollout)]);
        let moment = Moment {
            elapsed,
            now: case.now,
            counting: Counting::FromStart,
        };
        let frame = frame::lines(&policies, moment);
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

/// `tests/status/*.yaml`: a policy, and what `stagegate status` says of it; `tests/status/pools/*.yaml` the same of a YurtAppDaemon.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StatusCase<K> {
    why: String,
    now: Timestamp,
    #[serde(alias = "daemon")]
    policy: K,
    /// In 80 columns, without colours.
    page: Vec<String>,
    json: Option<serde_json::Value>,
    state: String,
}

#[test]
fn every_status_fits_80_columns_and_says_what_to_do() {
    every_status_is_as_it_names::<StagedBindingPolicy>("status");
    every_status_is_as_it_names::<YurtAppDaemon>("status/pools");
}

fn every_status_is_as_it_names<K: Rolled>(folder: &str) {
    for file in cases(folder) {
        let text = std::fs::read_to_string(&file).expect("the case was listed");
        let case: StatusCase<K> =
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let why = format!("{}: {}", file.display(), case.why);
        let rollout = case.policy.rollout();
        let overview = overview::Overview::of(&rollout);
        let page = screen::paginate(&overview.lines(case.now), 80, false);
        assert!(page.iter().all(|line| line.chars().count() <= 80), "{why}\n{page:#?}");
        assert_eq!(page, case.page, "{why}\n{}", page.join("\n"));
        assert_eq!(format!("{:?}", overview.state()), case.state, "{why}");
        if let Some(expected) = case.json {
            let json = serde_json::to_value(&overview).expect("overviews are JSON");
            assert_eq!(json, expected, "{why}\n{json}");
        }
    }
}

/// `tests/revisions/*.yaml`: a policy, and what `stagegate revisions` says of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RevisionsCase {
    why: String,
    now: Timestamp,
    policy: StagedBindingPolicy,
    /// In 80 columns, without colours.
    page: Vec<String>,
    json: Option<serde_json::Value>,
}

#[test]
fn every_table_of_revisions_fits_80_columns_and_names_what_differs() {
    for file in cases("revisions") {
        let text = std::fs::read_to_string(&file).expect("the case was listed");
        let case: RevisionsCase =
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let why = format!("{}: {}", file.display(), case.why);
        let revisions = revisions::Revisions::of(&case.policy);
        let page = screen::paginate(&revisions.lines(case.now), 80, false);
        assert!(page.iter().all(|line| line.chars().count() <= 80), "{why}\n{page:#?}");
        assert_eq!(page, case.page, "{why}\n{}", page.join("\n"));
        if let Some(expected) = case.json {
            let json = serde_json::to_value(&revisions).expect("revisions are JSON");
            assert_eq!(json, expected, "{why}\n{json}");
        }
    }
}

#[test]
fn of_many_objects_that_differ_ten_are_named_and_all_of_them_in_json() {
    let stage = |name: &str, state: &str| serde_json::json!({"name": name, "state": state, "revision": name});
    let objects = |stage: &str, content: &str| {
        let object = |number| {
            serde_json::json!({
                "group": "", "resource": "services", "namespace": "shop", "name": format!("s-{number}"), "uid": "u",
                "resourceVersion": "1", "contentDigest": content,
            })
        };
        serde_json::json!({"stage": stage, "objects": (0..12).map(object).collect::<Vec<_>>()})
    };
    let policy = serde_json::json!({
        "apiVersion": "community.kubestellar.io/v1alpha1",
        "kind": "StagedBindingPolicy",
        "metadata": {"name": "shop"},
        "spec": {"updates": "Staged", "stages": [{"name": "dev"}, {"name": "prod"}]},
        "status": {
            "activeStage": "dev",
            "reason": "Soaking",
            "stages": [stage("dev", "Active"), stage("prod", "Outdated")],
            "tracking": [objects("dev", "m.new"), objects("prod", "m.old")],
        },
    });
    let policy: StagedBindingPolicy = serde_json::from_value(policy).expect("a policy");
    let revisions = revisions::Revisions::of(&policy);
    let lines = revisions.lines(Timestamp::UNIX_EPOCH);
    let named: Vec<String> = lines.iter().skip(4).map(frame::Line::plain).collect();
    assert_eq!(named.len(), 11, "{named:#?}");
    assert_eq!(named[0], "  prod  services shop/s-0 differs");
    assert_eq!(named[10], "  prod  and 2 more");
    let json = serde_json::to_value(&revisions).expect("revisions are JSON");
    assert_eq!(json["stages"][1]["differs"].as_array().map(Vec::len), Some(12));
}

#[test]
fn the_times_of_a_rollout_count_from_its_first_placement_and_end_with_its_completion() {
    let policy = |status: serde_json::Value| {
        let policy = serde_json::json!({
            "apiVersion": "community.kubestellar.io/v1alpha1",
            "kind": "StagedBindingPolicy",
            "metadata": {"name": "nginx", "creationTimestamp": "2026-11-21T10:00:00Z"},
            "spec": {"stages": [{"name": "dev"}, {"name": "prod"}]},
            "status": status,
        });
        let policy: StagedBindingPolicy = serde_json::from_value(policy).expect("a policy");
        Rollouts::from([("nginx".to_owned(), policy.rollout())])
    };
    let head = |status| {
        let moment = Moment {
            elapsed: Duration::from_secs(1),
            now: "2026-11-21T12:00:00Z".parse().expect("a time"),
            counting: Counting::FromRollout,
        };
        frame::lines(&policy(status), moment)[0].plain()
    };
    let completed = |status: &str, since: &str| serde_json::json!([{"type": "Completed", "status": status, "reason": "R", "message": "", "lastTransitionTime": since}]);
    let stages = |first: &str, active: &str| {
        serde_json::json!([
            {"name": "dev", "state": first, "placedAt": "2026-11-21T11:50:00Z"},
            {"name": "prod", "state": active, "placedAt": "2026-11-21T11:55:00Z"},
            {"name": "old", "state": "Active", "placedAt": "2026-11-20T11:55:00Z"},
        ])
    };
    let of = |phase: &str, conditions: serde_json::Value, stages: serde_json::Value| serde_json::json!({"phase": phase, "activeStage": "prod", "conditions": conditions, "stages": stages});
    let earlier = "2026-11-21T11:30:00Z";
    let running = head(of(
        "Progressing",
        completed("False", earlier),
        stages("Passed", "Active"),
    ));
    assert_eq!(running, "nginx  Progressing  10m");
    let unplaced = head(of(
        "Progressing",
        completed("False", earlier),
        stages("Outdated", "Outdated"),
    ));
    assert_eq!(unplaced, "nginx  Progressing  30m");
    let done = head(of(
        "Completed",
        completed("True", "2026-11-21T11:57:30Z"),
        stages("Passed", "Passed"),
    ));
    assert_eq!(done, "nginx  Completed  7m30s");
    assert_eq!(
        head(of("Progressing", serde_json::json!([]), serde_json::json!([]))),
        "nginx  Progressing  2h"
    );
}

#[test]
fn control_characters_of_a_status_never_reach_the_terminal() {
    let mut policy = StagedBindingPolicy::default();
    policy.metadata.name = Some("nginx".to_owned());
    let status = policy.status.insert(Default::default());
    status.stages.push(stagegate_api::StageStatus {
        name: "dev".to_owned(),
        message: Some("first\n\x1b[2Jsecond".to_owned()),
        unproven: vec!["services \x1b[2J".to_owned()],
        binding_policy: Some(Default::default()),
        ..Default::default()
    });
    policy.spec.updates = stagegate_api::Updates::Staged;
    let lines = line::texts(
        &change::between(None, &policy.rollout()),
        Elapsed::Precise(Duration::ZERO),
    );
    assert_eq!(
        lines,
        [
            "  0.0s nginx dev note: first  [2Jsecond",
            "  0.0s nginx dev note: may be newer than admitted: services  [2J"
        ]
    );
    let policies = Rollouts::from([("nginx".to_owned(), policy.rollout())]);
    let shown = frame::lines(
        &policies,
        Moment {
            elapsed: Duration::ZERO,
            now: Timestamp::UNIX_EPOCH,
            counting: Counting::FromStart,
        },
    );
    assert!(
        shown.iter().all(|line| !line.plain().contains(char::is_control)),
        "{shown:?}"
    );
    assert!(!verdicts::table(&policies, None).contains('\x1b'));
    let shown = revisions::Revisions::of(&policy).lines(Timestamp::UNIX_EPOCH);
    assert!(
        shown.iter().all(|line| !line.plain().contains(char::is_control)),
        "{shown:?}"
    );
}
