//! Gates that are wrong or misbehave: the policy waits at its stage, a condition and an Event name gate and cause, and
//! another policy completes meanwhile.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use stagegate_api::Phase;
use stagegate_embedded::{Fault, FaultAnswer};

use crate::guests;
use crate::harness::{Pace, World, deployment_of, gate, gated, policy, said, shop, workload};

/// A ConfigMap with this under `binaryData`, and a policy `web` whose first stage it guards.
struct Mistake<'a> {
    /// `None`: there is no ConfigMap.
    component: Option<Vec<u8>>,
    /// Merged over the gate `broken`, which names key `gate.wasm` of ConfigMap `broken`.
    gate: Value,
    /// The reason word of the condition and of the Event.
    reason: &'a str,
    /// What both must say besides the gate's name.
    words: &'a [&'a str],
}

/// Checks that nothing passes by it and that it is told, and gives the world back.
async fn waits_and_tells(mistake: Mistake<'_>) -> World {
    let world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    world.apply_gates_namespace().await;
    if let Some(component) = &mistake.component {
        world.put_gate("broken", component).await;
    }
    let mut wrong = gate("broken", &json!({}));
    merge(&mut wrong, &mistake.gate);
    world.apply(&workload("web")).await;
    world.apply(&gated("web", &wrong)).await;
    world
        .until("web", 60, |status| status.reason.as_deref() == Some(mistake.reason))
        .await;
    world.apply(&workload("other")).await;
    world.apply(&policy("other")).await;
    world.until_phase("other", Phase::Completed, 30).await;
    world.pass(60).await;
    let status = world.status("web").await;
    let (conditions, events) = (said(&status), world.events("web").await);
    let notes = events
        .get(mistake.reason)
        .unwrap_or_else(|| panic!("no Event {}: {events:?}\n{conditions}", mistake.reason));
    assert!(
        conditions.contains(mistake.reason),
        "no {} in\n{conditions}",
        mistake.reason
    );
    for word in mistake.words.iter().chain(&["broken"]) {
        assert!(conditions.contains(word), "no {word:?} in\n{conditions}");
        assert!(notes.iter().any(|note| note.contains(word)), "no {word:?} in {notes:?}");
    }
    assert!(!world.is_in("test-1", &deployment_of("web")), "the gate let it through");
    world
}

fn merge(target: &mut Value, patch: &Value) {
    match patch {
        Value::Object(members) if target.is_object() => {
            for (name, member) in members {
                merge(&mut target[name.as_str()], member);
            }
        }
        other => *target = other.clone(),
    }
}

/// The hostile guest, told to do this.
fn hostile<'a>(what: &str, reason: &'a str, words: &'a [&'a str]) -> Mistake<'a> {
    Mistake {
        component: Some(guests::wasm("gate_hostile")),
        gate: json!({"config": {"do": what}, "limits": {"timeout": "50ms"}}),
        reason,
        words,
    }
}

fn refused<'a>(component: Vec<u8>, words: &'a [&'a str]) -> Mistake<'a> {
    Mistake {
        component: Some(component),
        gate: json!({}),
        reason: "GateModuleRefused",
        words,
    }
}

#[tokio::test(start_paused = true)]
async fn a_config_map_that_does_not_exist_and_then_does() {
    let world = waits_and_tells(Mistake {
        component: None,
        gate: json!({"config": {"do": "pass"}}),
        reason: "GateModuleMissing",
        words: &["stagegate-gates/broken"],
    })
    .await;
    world.put_gate("broken", &guests::wasm("gate_hostile")).await;
    world.until_phase("web", Phase::Completed, 60).await;
}

#[tokio::test(start_paused = true)]
async fn a_key_that_does_not_exist() {
    waits_and_tells(Mistake {
        component: Some(guests::wasm("gate_hostile")),
        gate: json!({"module": {"configMap": {"key": "other.wasm"}}}),
        reason: "GateModuleMissing",
        words: &["other.wasm", "binaryData"],
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_gates_are_not_taken_from() {
    waits_and_tells(Mistake {
        component: Some(guests::wasm("gate_hostile")),
        gate: json!({"module": {"configMap": {"namespace": "shop"}}, "config": {"do": "pass"}}),
        reason: "GateNamespaceNotAllowed",
        words: &["shop", "--gate-namespaces"],
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_not_wasm() {
    waits_and_tells(refused(
        b"#!/bin/sh\nexit 0\n\xff".to_vec(),
        &["stagegate-gates/broken"],
    ))
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_gzip_file_that_unpacks_to_too_much() {
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    bomb.write_all(&vec![0; 32 << 20]).unwrap();
    waits_and_tells(refused(bomb.finish().unwrap(), &["1048576 bytes"])).await;
}

#[tokio::test(start_paused = true)]
async fn a_core_module() {
    waits_and_tells(refused(guests::core_module(), &["core module"])).await;
}

#[tokio::test(start_paused = true)]
async fn a_component_of_another_world() {
    waits_and_tells(refused(guests::of_no_world(), &["stagegate-gates/broken"])).await;
}

#[tokio::test(start_paused = true)]
async fn a_component_of_a_later_version() {
    waits_and_tells(refused(guests::dead_on_start("0.2.0"), &["0.2.0"])).await;
}

#[tokio::test(start_paused = true)]
async fn a_component_that_dies_in_its_start_function() {
    waits_and_tells(refused(guests::dead_on_start("0.1.0"), &["unreachable"])).await;
}

#[tokio::test(start_paused = true)]
async fn a_digest_that_is_not_the_components() {
    let other = "0".repeat(64);
    waits_and_tells(Mistake {
        component: Some(guests::wasm("gate_hostile")),
        gate: json!({"module": {"digest": format!("sha256:{other}")}, "config": {"do": "pass"}}),
        reason: "GateDigestMismatch",
        words: &["sha256:"],
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_config_against_its_schema_is_refused_before_anything_is_placed() {
    let world = waits_and_tells(Mistake {
        component: Some(guests::wasm("gate_hostile")),
        gate: json!({"config": {"do": 7}}),
        reason: "InvalidGateConfig",
        words: &["spec.stages[0].gates[0].config", "do"],
    })
    .await;
    assert!(!world.is_in("dev-1", &deployment_of("web")));
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_traps() {
    waits_and_tells(hostile("trap", "GateError", &["unreachable"])).await;
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_panics() {
    waits_and_tells(hostile("panic", "GateError", &["gave no verdict"])).await;
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_loops() {
    waits_and_tells(hostile("loop", "GateError", &["50 ms"])).await;
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_sleeps() {
    waits_and_tells(hostile("sleep", "GateError", &["gave no verdict"])).await;
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_grows() {
    waits_and_tells(hostile("grow", "GateError", &["gave no verdict"])).await;
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_answers_ten_megabytes() {
    waits_and_tells(hostile("answer-10mb", "GateError", &["gave no verdict"])).await;
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_says_that_it_could_not_judge() {
    waits_and_tells(hostile("error", "GateError", &["could not judge"])).await;
}

#[tokio::test(start_paused = true)]
async fn config_maps_that_may_not_be_listed() {
    let world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    world.apply_gates_namespace().await;
    // Refused ten times in a row, then allowed.
    world.server.inject(Fault {
        times: 10,
        ..Fault::new("list", "configmaps", FaultAnswer::Status(403))
    });
    world.apply(&workload("web")).await;
    world
        .apply(&gated("web", &gate("broken", &json!({"do": "pass"}))))
        .await;
    world
        .until("web", 5, |status| {
            status.reason.as_deref() == Some("GateModuleFailed") && said(status).contains("cannot be listed: 403")
        })
        .await;
    world.apply(&workload("other")).await;
    world.apply(&policy("other")).await;
    world.until_phase("other", Phase::Completed, 30).await;
    // Nothing happens to any ConfigMap: that the list came in is enough to know that there is none.
    world
        .until("web", 120, |status| {
            status.reason.as_deref() == Some("GateModuleMissing")
        })
        .await;
    world.put_gate("broken", &guests::wasm("gate_hostile")).await;
    world.until_phase("web", Phase::Completed, 60).await;
}
