//! What a gate sees of a request, and what becomes of its answer.

use stagegate_evaluate::gate::FailureKind;
use stagegate_evaluate::gate::wire::{Decision, Fail, Hold, Pass, Request};

use super::guests::{core, hostile, json_gate, load, patient, telling, told};
use super::requests::request;

fn answering(answer: &str) -> Result<stagegate_evaluate::gate::Evaluation, stagegate_evaluate::gate::Failure> {
    load(&json_gate(&core("", answer)))
        .expect("it is a gate")
        .evaluate(&request(), patient())
}

#[test]
fn every_shape_of_a_request_arrives() {
    let config = r#"{"do":"pass-echo"}"#;
    let evaluation = hostile().evaluate(&telling("pass-echo"), patient()).unwrap();
    let seen: Vec<_> = evaluation
        .verdict
        .evidence
        .iter()
        .map(|piece| format!("{}: {}", piece.name, piece.value))
        .collect();
    assert_eq!(
        seen,
        [
            "now-ms: 1795276800000",
            "policy: nginx",
            "stage: dev",
            "attempt: 2",
            &format!("config: {config}"),
            "object: apps/deployments default/nginx u1 4",
            "counts.cluster: 2 rows, first text dev-1",
            "counts.up: 2 rows, first boolean true",
            "counts.count: 2 rows, first integer -3",
            "counts.rate: 2 rows, first decimal 0.25",
            "counts.mixed: 2 rows, first cell text a",
            "counts.more: 2 rows, first null",
            "counts.numbers: 2 rows, first cell integer -9223372036854775808",
            "object: /namespaces -/web u2 -",
            "destination: dev-1 env=dev,tier= failed 1795276799000 4 3 - 5 -2; healthy without-status - - - - -",
            "destination: dev-2 - progressing never - - - - -; healthy without-status - - - - -",
            "earlier: condition pass condition said so",
            "earlier: first hold first said so",
            "earlier: second fail second said so",
            "earlier: third unknown third said so",
        ]
    );
}

#[test]
fn decisions_come_back_as_they_were_given() {
    let decision = |config: &str| {
        let request = Request {
            config: config.to_owned(),
            ..request()
        };
        hostile().evaluate(&request, patient()).unwrap().verdict.decision
    };
    assert_eq!(
        decision(r#"{"do":"pass"}"#),
        Decision::Pass(Pass { valid_for_ms: None })
    );
    let valid = Pass {
        valid_for_ms: Some(60_000),
    };
    assert_eq!(decision(r#"{"do":"pass","validForMs":60000}"#), Decision::Pass(valid));
    let held = Hold {
        reason: "not yet".to_owned(),
        retry_after_ms: None,
    };
    assert_eq!(decision(r#"{"do":"hold","reason":"not yet"}"#), Decision::Hold(held));
    let failed = Fail {
        reason: "never".to_owned(),
    };
    assert_eq!(decision(r#"{"do":"fail","reason":"never"}"#), Decision::Fail(failed));
}

#[test]
fn a_long_reason_is_cut_and_lines_are_joined() {
    let request = Request {
        config: serde_json::json!({"do": "hold", "reason": "é\n\u{1b}[31m".repeat(4_000)}).to_string(),
        ..request()
    };
    let Decision::Hold(hold) = hostile().evaluate(&request, patient()).unwrap().verdict.decision else {
        panic!("it was told to hold");
    };
    assert!((4_090..=4_096).contains(&hold.reason.len()), "{}", hold.reason.len());
    assert!(hold.reason.starts_with("é  [31mé"), "{}", &hold.reason[..20]);
}

#[test]
fn the_json_twin_sees_and_says_the_same() {
    let evaluation =
        answering(r#"{"decision":{"hold":{"reason":"wait","retryAfterMs":5}},"evidence":[{"name":"n","value":"v"}]}"#)
            .unwrap();
    let hold = Hold {
        reason: "wait".to_owned(),
        retry_after_ms: Some(5),
    };
    assert_eq!(evaluation.verdict.decision, Decision::Hold(hold));
    assert_eq!(evaluation.verdict.evidence[0].name, "n");
    let gate = load(&json_gate(&core("", "{}"))).unwrap();
    assert_eq!(gate.describe(patient()).unwrap().name, "text");
}

#[test]
fn the_json_twin_is_asked_with_the_request() {
    // Its answer is an error that says what it was given.
    let body = "(i32.store8 (i32.const 512) (i32.const 1))
        (i32.store (i32.const 516) (local.get 0)) (i32.store (i32.const 520) (local.get 1))";
    let gate = load(&json_gate(&core(body, ""))).unwrap();
    let failure = gate.evaluate(&request(), patient()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::GuestError, "{failure}");
    let text = serde_json::to_string(&request()).unwrap();
    assert!(failure.message.contains(&text[..200]), "{failure}");
    assert!(
        text.starts_with(r#"{"policy":"nginx","stage":"dev","attempt":2,"nowMs":1795276800000,"#),
        "{text}"
    );
}

#[test]
fn json_that_is_no_verdict_is_invalid() {
    for answer in [
        "",
        "pass",
        "{}",
        "\"pass\"",
        r#"{"decision":"pass","evidence":[]}"#,
        r#"{"decision":{"pass":{"validForMs":-1}},"evidence":[]}"#,
        r#"{"decision":{"pass":{"validForMs":0}},"evidence":[]}"#,
        r#"{"decision":{"open":{}},"evidence":[]}"#,
        r#"{"decision":{"hold":{"reason":" \n","retryAfterMs":null}},"evidence":[]}"#,
    ] {
        let failure = answering(answer).unwrap_err();
        assert_eq!(failure.kind, FailureKind::AnswerInvalid, "{answer}: {failure}");
    }
}

/// A bound that nobody reads would be none: this pass would be one for good.
#[test]
fn a_misspelt_or_unknown_member_of_an_answer_is_invalid() {
    for answer in [
        r#"{"decision":{"pass":{"valid-for-ms":60000}},"evidence":[]}"#,
        r#"{"decision":{"pass":{"validForMS":60000}},"evidence":[]}"#,
        r#"{"decision":{"hold":{"reason":"wait","retryAfter":5}},"evidence":[]}"#,
        r#"{"decision":{"fail":{"reason":"no","validForMs":5}},"evidence":[]}"#,
        r#"{"decision":{"pass":{}},"evidence":[],"validForMs":60000}"#,
        r#"{"decision":{"pass":{},"hold":{"reason":"wait"}},"evidence":[]}"#,
        r#"{"decision":{"pass":{}},"evidence":[{"name":"n","value":"v","unit":"s"}]}"#,
    ] {
        let failure = answering(answer).expect_err(answer);
        assert_eq!(failure.kind, FailureKind::AnswerInvalid, "{answer}: {failure}");
    }
    let left_out = answering(r#"{"decision":{"pass":{}},"evidence":[]}"#).unwrap();
    assert_eq!(left_out.verdict.decision, Decision::Pass(Pass { valid_for_ms: None }));
    let core = core("", "{}").replace(r#"\"name\""#, r#"\"nick\":\"n\",\"name\""#);
    let failure = load(&json_gate(&core)).unwrap().describe(patient()).unwrap_err();
    assert!(failure.message.contains("unknown field `nick`"), "{failure}");
}

#[test]
fn a_pass_for_no_time_is_no_verdict_in_the_typed_world_either() {
    let request = Request {
        config: r#"{"do":"pass","validForMs":0}"#.to_owned(),
        ..request()
    };
    let failure = hostile().evaluate(&request, patient()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::AnswerInvalid, "{failure}");
}

#[test]
fn what_turns_the_writing_or_is_not_seen_does_not_come_out() {
    let decision = |reason: &str| {
        let request = Request {
            config: serde_json::json!({"do": "hold", "reason": reason}).to_string(),
            ..request()
        };
        let evaluated = hostile().evaluate(&request, patient());
        evaluated.map(|evaluation| evaluation.verdict.decision)
    };
    let Ok(Decision::Hold(hold)) = decision("a\u{202e}b\u{9b}2Jc\u{2066}d\u{e0041}") else {
        panic!("it was told to hold");
    };
    assert_eq!(hold.reason, "a b 2Jc d ");
    assert_eq!(
        decision("\u{200b}\u{feff}").unwrap_err().kind,
        FailureKind::AnswerInvalid
    );
}

#[test]
fn a_description_is_bounded_and_its_schema_is_json() {
    let description = hostile().describe(patient()).unwrap();
    assert_eq!(description.name, "hostile");
    assert!(description.config_schema.contains("\"required\":[\"do\"]"));
    let saying = |from: &str, to: &str| {
        let core = core("", "{}").replace(from, to);
        load(&json_gate(&core)).unwrap().describe(patient())
    };
    assert_eq!(
        saying(r#"\"{}\""#, r#"\"{{\""#).unwrap_err().kind,
        FailureKind::AnswerInvalid
    );
    assert_eq!(
        saying(r#"\"text\""#, r#"\"    \""#).unwrap_err().kind,
        FailureKind::AnswerInvalid
    );
}

#[test]
fn the_same_request_has_the_same_answer() {
    assert_eq!(told("pass-echo").unwrap(), told("pass-echo").unwrap());
}
