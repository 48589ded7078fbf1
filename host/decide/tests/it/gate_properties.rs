//! What must hold of every decision about a stage with gates: no missing, old or bad answer of a gate ever moves it.

use std::collections::BTreeMap;

use serde_json::json;
use stagegate_decide::checks;
use stagegate_decide::staging::{
    ConfigAnswer, Decision, Facts, GateAnswer, GateVerdict, Module, Question, Read, SourceEntry, decide,
};

use crate::staging_properties::{losses, moves, set, unset, world_in};
use crate::world::{Answers, BASELINE, Change, settle};

fn bad_gate_answers() -> Vec<GateAnswer> {
    let text = || "no".to_owned();
    let hold = |retry_after_ms| GateAnswer::Hold {
        reason: text(),
        retry_after_ms,
    };
    vec![
        hold(None),
        hold(Some(0)),
        hold(Some(u64::MAX)),
        GateAnswer::Fail { reason: text() },
        GateAnswer::Fail { reason: String::new() },
        GateAnswer::Unknown { message: text() },
        GateAnswer::Unknown { message: String::new() },
    ]
}

fn bad_modules() -> Vec<Module> {
    let message = || "no".to_owned();
    vec![
        Module::KeyMissing,
        Module::Refused { message: message() },
        Module::Failed {
            message: message(),
            retry_at: "2027-01-01T00:00:00Z".parse().unwrap(),
        },
    ]
}

fn source_losses() -> Vec<Change> {
    let source = || "/sources/stagegate-gates~1min".to_owned();
    vec![
        unset(source()),
        set(source(), json!("absent")),
        set(source(), json!({"unread": {"message": "forbidden"}})),
        set("/gateNamespaces".to_owned(), json!({"only": []})),
        set(
            "/policy/object/spec/stages/0/gates/0/module/digest".to_owned(),
            json!(format!("sha256:{}", "0".repeat(64))),
        ),
    ]
}

#[test]
fn whatever_is_missing_of_a_gate_nothing_is_placed() {
    let world = world_in(&["gated"]);
    let is_moved = |world, answers: &Answers| moves(&settle(world, None, answers, &Change::default()).unwrap());
    assert!(
        is_moved(world.clone(), &Answers::default()),
        "this world is one that moves"
    );
    for loss in source_losses().iter().chain(&losses()) {
        let mut world = world.clone();
        loss.apply(&mut world).unwrap();
        assert!(!is_moved(world, &Answers::default()), "{:?} {:?}", loss.set, loss.unset);
    }
    let entry: SourceEntry = "stagegate-gates/min gate.wasm".to_owned().try_into().unwrap();
    let mut answers: Vec<Answers> = Vec::new();
    for answer in bad_gate_answers() {
        let gates = BTreeMap::from([("min".to_owned(), answer)]);
        answers.push(Answers {
            gates,
            ..Answers::default()
        });
    }
    for module in bad_modules() {
        let modules = BTreeMap::from([(entry.clone(), module)]);
        answers.push(Answers {
            modules,
            ..Answers::default()
        });
    }
    let message = || "no".to_owned();
    for config in [
        ConfigAnswer::Refused { message: message() },
        ConfigAnswer::Failed {
            message: message(),
            retry_at: "2027-01-01T00:00:00Z".parse().unwrap(),
        },
    ] {
        answers.push(Answers {
            config: Some(config),
            ..Answers::default()
        });
    }
    for answers in answers {
        assert!(
            !is_moved(world.clone(), &answers),
            "{:?} {:?}",
            answers.gates,
            answers.modules
        );
    }
}

#[test]
fn any_gate_of_several_keeps_the_stage() {
    let world = world_in(&["gated-twice"]);
    for gate in ["min", "freeze"] {
        for answer in bad_gate_answers() {
            let answers = Answers {
                gates: BTreeMap::from([(gate.to_owned(), answer.clone())]),
                ..Answers::default()
            };
            let outcome = settle(world.clone(), None, &answers, &Change::default()).unwrap();
            assert!(!moves(&outcome), "{gate} {answer:?}");
        }
    }
}

/// Answers everything but gates; those get the verdict that is given, whatever they are asked.
fn facts_read_anew() -> Facts {
    let outcome = settle(world_in(&["gated"]), None, &Answers::default(), &Change::default()).unwrap();
    Facts {
        read: Read::Anew {
            baseline: BASELINE.into(),
            began_at: None,
        },
        ..outcome.facts
    }
}

#[test]
fn a_verdict_of_any_other_instant_is_no_answer_in_the_last_round() {
    let facts = facts_read_anew();
    assert!(
        matches!(decide(&facts), Decision::Act(plan) if plan.writes.iter().any(stagegate_decide::staging::Write::places)),
        "the verdict of this instant opens"
    );
    for seconds in [-86_400, -1, 1, 86_400] {
        let mut facts = facts.clone();
        for verdict in facts.gate_verdicts.values_mut() {
            verdict.at += jiff::SignedDuration::from_secs(seconds);
        }
        match decide(&facts) {
            Decision::Ask(questions) => assert!(
                questions
                    .iter()
                    .all(|question| matches!(question, Question::OfChecks(checks::Question::Gate(_))))
            ),
            Decision::Act(plan) => panic!("acts on a verdict {seconds} s away: {plan:?}"),
        }
    }
}

#[test]
fn a_verdict_about_anything_else_is_no_answer() {
    let facts = facts_read_anew();
    let (key, verdict) = facts.gate_verdicts.iter().next().unwrap();
    for change in 0..3 {
        let mut key = key.clone();
        match change {
            0 => key.check = stagegate_decide::names::Digest::of("another module or config"),
            1 => key.evidence = stagegate_decide::names::Digest::of("other evidence"),
            _ => key.attempt += 1,
        }
        let verdicts: BTreeMap<_, GateVerdict> = BTreeMap::from([(key, verdict.clone())]);
        let facts = Facts {
            gate_verdicts: verdicts,
            ..facts.clone()
        };
        assert!(matches!(decide(&facts), Decision::Ask(_)), "change {change}");
    }
}

#[test]
fn a_source_entry_reads_back_what_it_writes() {
    let entry: SourceEntry = "gates/error-budget v1.wasm".to_owned().try_into().unwrap();
    assert_eq!(
        (entry.namespace.as_str(), entry.name.as_str(), entry.key.as_str()),
        ("gates", "error-budget", "v1.wasm")
    );
    assert_eq!(String::from(entry), "gates/error-budget v1.wasm");
    for text in ["", "gates", "gates/map", "map key"] {
        assert!(SourceEntry::try_from(text.to_owned()).is_err(), "{text:?}");
    }
}
