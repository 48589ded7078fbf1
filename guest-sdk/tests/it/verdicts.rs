//! What a verdict becomes when it is handed over.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use stagegate_guest::bindings::stagegate::gate::types as wit;
use stagegate_guest::{Error, Gate, PIECES_MAX, REASON_CHARS_MAX, Request, Verdict, evaluate};

use crate::request;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum Says {
    Pass,
    PassFor(Duration),
    HoldFor(Duration),
    Hold(String),
    Fail(String),
    Pieces(usize),
    Piece(String),
    Broken,
}

impl Gate for Says {
    const NAME: &'static str = "says";
    const VERSION: &'static str = "0.0.0";
    const SUMMARY: &'static str = "Says what its config says";

    fn evaluate(&self, _: &Request) -> Result<Verdict, Error> {
        Ok(match self {
            Self::Pass => Verdict::pass(),
            Self::PassFor(time) => Verdict::pass_for(*time),
            Self::HoldFor(time) => Verdict::hold_for(*time, "later"),
            Self::Hold(reason) => Verdict::hold(reason),
            Self::Fail(reason) => Verdict::fail(reason),
            Self::Pieces(count) => (0..*count).fold(Verdict::pass(), |verdict, at| verdict.evidence(at, at)),
            Self::Piece(name) => Verdict::pass().evidence(name, "first").evidence(name, "last"),
            Self::Broken => "x".parse::<i32>().map(|_| Verdict::pass())?,
        })
    }
}

fn said(config: &str) -> Result<wit::Verdict, String> {
    let mut request = request("- object: shop/web\n");
    request.config = config.to_owned();
    evaluate::<Says>(&request).map_err(|error| error.to_string())
}

fn decision(config: &str) -> wit::Decision {
    said(config).unwrap().decision
}

#[test]
fn times_are_whole_milliseconds_on_the_safe_side() {
    let pass = |valid_for_ms| wit::Decision::Pass(wit::Pass { valid_for_ms });
    let hold = |retry_after_ms| {
        wit::Decision::Hold(wit::Hold {
            reason: "later".to_owned(),
            retry_after_ms,
        })
    };
    assert_eq!(decision(r#""pass""#), pass(None));
    assert_eq!(
        decision(r#"{"passFor": {"secs": 2, "nanos": 999999}}"#),
        pass(Some(2_000))
    );
    assert_eq!(decision(r#"{"holdFor": {"secs": 2, "nanos": 1}}"#), hold(Some(2_001)));
    assert_eq!(decision(r#"{"holdFor": {"secs": 0, "nanos": 0}}"#), hold(Some(1)));
    assert_eq!(
        said(r#"{"passFor": {"secs": 0, "nanos": 999999}}"#).unwrap_err(),
        "the gate passed for no time at all"
    );
}

#[test]
fn a_verdict_without_a_reason_is_none() {
    assert_eq!(said(r#"{"hold": ""}"#).unwrap_err(), "the gate held without a reason");
    assert_eq!(
        said(r#"{"hold": " \n"}"#).unwrap_err(),
        "the gate held without a reason"
    );
    assert_eq!(
        said(r#"{"fail": ""}"#).unwrap_err(),
        "the gate failed the stage without a reason"
    );
    assert_eq!(
        said(r#"{"piece": ""}"#).unwrap_err(),
        "the gate gave evidence without a name"
    );
}

#[test]
fn texts_are_on_one_line_and_no_longer_than_what_is_kept() {
    let wit::Decision::Hold(hold) = decision(r#"{"hold": "one\ntwo\u001b[1m"}"#) else {
        panic!("no hold")
    };
    assert_eq!(hold.reason, "one two [1m");
    let wit::Decision::Fail(fail) = decision(&format!(r#"{{"fail": "{}"}}"#, "é".repeat(2_000))) else {
        panic!("no fail")
    };
    assert_eq!(fail.reason.chars().count(), REASON_CHARS_MAX);
    assert!(fail.reason.ends_with("é…"));
}

#[test]
fn evidence_is_bounded_and_a_name_has_one_value() {
    assert_eq!(said(r#"{"pieces": 3}"#).unwrap().evidence.len(), 3);
    assert_eq!(said(r#"{"pieces": 100}"#).unwrap().evidence.len(), PIECES_MAX);
    let evidence = said(r#"{"piece": "name"}"#).unwrap().evidence;
    assert_eq!(
        evidence,
        [wit::EvidencePiece {
            name: "name".to_owned(),
            value: "last".to_owned()
        }]
    );
}

#[test]
fn errors_come_with_their_cause_and_configs_with_the_member() {
    assert_eq!(said(r#""broken""#).unwrap_err(), "invalid digit found in string");
    assert_eq!(
        said(r#"{"passFor": {"secs": true, "nanos": 0}}"#).unwrap_err(),
        "reading the config: passFor.secs: a boolean instead of u64"
    );
    assert!(said("{").unwrap_err().starts_with("reading the config: expected"));
}
