//! Rollouts with gates on the embedded control plane: components in ConfigMaps, run in the real sandbox.

use std::time::Duration;

use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};
use stagegate_api::{CheckStatus, Outcome, Phase, StageState, StagedBindingPolicyStatus, label};
use stagegate_embedded::{Fault, FaultAnswer};

use crate::guests;
use crate::harness::{Pace, World, deployment_of, gate, gated, policy, said, shop, state_of, workload};

/// A world with the shop, the workload `web`, and the hostile guest as ConfigMap `hostile`.
async fn begin() -> World {
    begin_at(Pace::Fast).await
}

async fn begin_at(pace: Pace) -> World {
    let world = World::start(pace).await;
    world.apply(&shop()).await;
    world.apply_gates_namespace().await;
    world.put_gate("hostile", &guests::wasm("gate_hostile")).await;
    world.apply(&workload("web")).await;
    world
}

/// A policy `app` whose first stage the hostile guest guards, told to do this.
fn told(app: &str, what: &Value) -> String {
    gated(app, &gate("hostile", what))
}

/// The stages of `web`, the first with a gate that passes.
async fn passing(world: &World) -> Value {
    let mut stages = serde_json::to_value(world.policies().get("web").await.unwrap().spec.stages).unwrap();
    stages[0]["gates"][0]["config"] = json!({"do": "pass"});
    stages
}

fn check(status: &StagedBindingPolicyStatus, stage: &str, name: &str) -> Option<CheckStatus> {
    let stage = status.stages.iter().find(|record| record.name == stage)?;
    stage.checks.iter().find(|check| check.name == name).cloned()
}

fn holds(status: &StagedBindingPolicyStatus) -> bool {
    status.reason.as_deref() == Some("GateHolds")
}

/// An edit of the component that changes its digest and nothing else: a custom section at its end.
fn another(component: &[u8]) -> Vec<u8> {
    // Id 0, five bytes: a name of one byte and three of content.
    [component, b"\x00\x05\x01xyyy"].concat()
}

#[tokio::test(start_paused = true)]
async fn a_gate_holds_with_reason_and_evidence_until_the_clusters_have_enough_and_then_passes() {
    let world = World::start(Pace::Fast).await;
    world.apply(&shop()).await;
    world.apply_gates_namespace().await;
    world
        .put_gate("min-available", &guests::wasm("gate_min_available"))
        .await;
    let rule = json!({"rules": [{"kind": "Deployment", "status": {"availableReplicas": 1}}]});
    world.edit_cluster("dev-2", rule).await;
    world.apply(&workload("web")).await;
    let guard = gate("min-available", &json!({"atLeast": 2}));
    // The gate decides alone: the condition is always true, and health is ignored.
    let text = gated("web", &guard);
    let condition = text.lines().find(|line| line.contains("condition:")).unwrap();
    world
        .apply(&text.replacen(condition, "    health: Ignored\n    condition: \"true\"", 1))
        .await;
    world.until("web", 30, holds).await;
    let status = world.status("web").await;
    assert_eq!(status.phase, Some(Phase::Holding));
    assert!(
        said(&status).contains("1 of 2 clusters have at least 2: dev-2 has 1"),
        "{}",
        said(&status)
    );
    let held = check(&status, "dev", "gate/min-available").unwrap();
    assert_eq!(held.outcome, Outcome::Hold);
    let piece = |name: &str| {
        held.evidence
            .iter()
            .find(|piece| piece.name == name)
            .map(|piece| piece.value.as_str())
    };
    assert_eq!((piece("clusters"), piece("share")), (Some("2"), Some("0.5")));
    let digest = stagegate_decide::names::Digest::of_bytes(&guests::wasm("gate_min_available"));
    assert_eq!(held.module_digest, Some(format!("sha256:{digest}")));
    world.holds("web", "dev", 60).await;
    world.edit_cluster("dev-2", json!({"rules": null})).await;
    world.until_phase("web", Phase::Completed, 60).await;
    let passed = check(&world.status("web").await, "dev", "gate/min-available").unwrap();
    assert_eq!(passed.outcome, Outcome::Pass);
}

#[tokio::test(start_paused = true)]
async fn a_gate_is_told_what_there_is() {
    let world = begin().await;
    world.apply(&told("web", &json!({"do": "pass-echo"}))).await;
    world.until_stage("web", "test", 30).await;
    let passed = check(&world.status("web").await, "dev", "gate/hostile").unwrap();
    let saw = |name: &str| {
        let piece = passed.evidence.iter().find(|piece| piece.name == name);
        piece
            .unwrap_or_else(|| panic!("no {name}: {:?}", passed.evidence))
            .value
            .clone()
    };
    assert_eq!(saw("policy"), "web");
    assert_eq!(saw("stage"), "dev");
    assert!(saw("object").contains("apps/deployments shop/web"), "{}", saw("object"));
    assert_eq!(saw("worst.available"), "1 rows, first integer 2");
    let destinations = passed.evidence.iter().filter(|piece| piece.name == "destination");
    let destinations: Vec<&str> = destinations.map(|piece| &piece.value[..5]).collect();
    assert_eq!(destinations, ["dev-1", "dev-2"]);
    assert_eq!(saw("earlier"), "condition pass ConditionTrue");
}

#[tokio::test(start_paused = true)]
async fn a_component_that_is_swapped_is_asked_anew_and_the_old_pass_counts_no_more() {
    let world = begin().await;
    let guest = guests::wasm("gate_hostile");
    // Passes at once, but dev is held by its second gate.
    let mut policy = told("web", &json!({"do": "pass"}));
    let second = gate("second", &json!({"do": "hold", "reason": "not before the swap"}));
    policy = policy.replacen("    gates: [", &format!("    gates: [{second}, "), 1);
    world.put_gate("second", &guest).await;
    world.apply(&policy).await;
    world.until("web", 30, holds).await;
    let before = check(&world.status("web").await, "dev", "gate/hostile").unwrap();
    world.put_gate("hostile", &another(&guest)).await;
    world
        .until("web", 30, |status| {
            let now = check(status, "dev", "gate/hostile");
            now.is_some_and(|now| now.module_digest != before.module_digest && now.outcome == Outcome::Pass)
        })
        .await;
    world.holds("web", "dev", 30).await;
    // The second gate's component is now one that takes another config: what it said counts no more either.
    world.put_gate("second", &guests::wasm("gate_min_available")).await;
    world
        .until("web", 30, |status| {
            status.reason.as_deref() == Some("InvalidGateConfig")
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_pinned_component_that_is_swapped_stops_the_stage_until_it_is_back() {
    let world = begin().await;
    let guest = guests::wasm("gate_hostile");
    world.put_gate("hostile", &another(&guest)).await;
    let mut pinned = gate("hostile", &json!({"do": "pass"}));
    let digest = stagegate_decide::names::Digest::of_bytes(&guest);
    pinned["module"]["digest"] = json!(format!("sha256:{digest}"));
    world.apply(&gated("web", &pinned)).await;
    world
        .until("web", 30, |status| {
            status.reason.as_deref() == Some("GateDigestMismatch")
        })
        .await;
    world.holds("web", "dev", 60).await;
    world.put_gate("hostile", &guest).await;
    world.until_phase("web", Phase::Completed, 60).await;
}

#[tokio::test(start_paused = true)]
async fn a_config_map_that_is_deleted_makes_the_gate_unknown_although_its_component_is_loaded() {
    let world = begin().await;
    world.apply(&told("web", &json!({"do": "hold"}))).await;
    world.until("web", 30, holds).await;
    world.delete(&world.config_maps(), "hostile").await;
    world
        .until("web", 30, |status| {
            status.reason.as_deref() == Some("GateModuleMissing")
        })
        .await;
    let unknown = check(&world.status("web").await, "dev", "gate/hostile").unwrap();
    assert_eq!(unknown.outcome, Outcome::Unknown);
    world.put_gate("hostile", &guests::wasm("gate_hostile")).await;
    world.until("web", 30, holds).await;
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_fails_fails_the_attempt_also_across_a_restart_and_an_edit_is_a_new_try() {
    let mut world = begin().await;
    world
        .apply(&told("web", &json!({"do": "fail", "reason": "smoke in the kitchen"})))
        .await;
    world.until_phase("web", Phase::Failed, 30).await;
    assert!(said(&world.status("web").await).contains("smoke in the kitchen"));
    world.restart_host().await;
    world.pass(60).await;
    let status = world.status("web").await;
    assert_eq!(
        (status.phase, state_of(&status, "dev")),
        (Some(Phase::Failed), Some(StageState::Failed))
    );
    assert!(
        world.is_in("dev-1", &deployment_of("web")),
        "what is placed stays placed"
    );
    assert!(!world.is_in("test-1", &deployment_of("web")));
    world
        .edit_policy("web", json!({"spec": {"stages": passing(&world).await}}))
        .await;
    world.until_phase("web", Phase::Completed, 60).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_asks_again_and_goes_on() {
    let mut world = begin().await;
    world.apply(&told("web", &json!({"do": "hold"}))).await;
    world.until("web", 30, holds).await;
    let before = check(&world.status("web").await, "dev", "gate/hostile");
    world.restart_host().await;
    world.pass(60).await;
    let status = world.status("web").await;
    assert!(holds(&status), "{}", said(&status));
    assert_eq!(
        check(&status, "dev", "gate/hostile"),
        before,
        "it says the same, so nothing of it is written"
    );
    world
        .edit_policy("web", json!({"spec": {"stages": passing(&world).await}}))
        .await;
    world.until_phase("web", Phase::Completed, 60).await;
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_holds_costs_nothing_while_nothing_changes() {
    let world = begin().await;
    world.apply(&told("web", &json!({"do": "hold"}))).await;
    world.until("web", 30, holds).await;
    world.pass(10).await;
    let (requests, counters) = (world.tap.requests(), world.host().counters());
    world.pass(3600).await;
    assert_eq!(world.tap.requests(), requests);
    assert_eq!(world.host().counters(), counters);
}

#[tokio::test(start_paused = true)]
async fn a_pass_is_asked_for_again_when_its_time_is_over() {
    let world = begin_at(Pace::KubeStellar).await;
    let text = told("web", &json!({"do": "pass", "validForMs": 60_000}));
    world
        .apply(&text.replacen("    condition:", "    soak: 10m\n    condition:", 1))
        .await;
    world
        .until("web", 30, |status| status.reason.as_deref() == Some("Soaking"))
        .await;
    let asked_at = |status: &StagedBindingPolicyStatus| check(status, "dev", "gate/hostile").unwrap().evaluated_at;
    let first = asked_at(&world.status("web").await);
    world.pass(120).await;
    assert!(asked_at(&world.status("web").await) > first);
    world.until_stage("web", "test", 600).await;
}

#[tokio::test(start_paused = true)]
async fn a_config_map_that_twenty_policies_name_is_read_once_and_a_change_of_another_touches_nobody() {
    let world = begin().await;
    for n in 0..20 {
        let text = told("web", &json!({"do": "hold"}));
        let named = text.replacen("metadata: {name: web}", &format!("metadata: {{name: web-{n}}}"), 1);
        world.apply(&named).await;
    }
    for n in 0..20 {
        world.until(&format!("web-{n}"), 60, holds).await;
    }
    // One by this test, one metadata read for each opening; the component itself was read once.
    assert_eq!(world.server.requests().count("get", "configmaps"), 1 + 20 + 1);
    world.pass(10).await;
    let (requests, counters) = (world.tap.requests(), world.host().counters());
    world.put_gate("another", b"whatever").await;
    world.pass(10).await;
    assert_eq!((world.tap.requests(), world.host().counters()), (requests, counters));
}

#[tokio::test(start_paused = true)]
async fn what_took_too_long_to_read_moves_nothing_and_an_event_says_so() {
    let world = begin().await;
    // More than are read at once.
    for number in 1..26 {
        let another = workload("web").replacen("name: web,", &format!("name: web-{number},"), 1);
        world.apply(&another).await;
    }
    world.apply(&told("web", &json!({"do": "hold"}))).await;
    world.until("web", 30, holds).await;
    world.pass(10).await;
    // Each just within the time of one request: more than half a minute from the first part of a reading to its last.
    let slow = FaultAnswer::Delay(Duration::from_secs(9));
    for resource in [
        "bindings.control.kubestellar.io",
        "statuscollectors.control.kubestellar.io",
        "deployments.apps",
        "configmaps",
        "bindingpolicies.control.kubestellar.io",
    ] {
        world.server.inject(Fault {
            times: 120,
            ..Fault::new("get", resource, slow.clone())
        });
    }
    world
        .edit_policy("web", json!({"spec": {"stages": passing(&world).await}}))
        .await;
    world.holds("web", "dev", 150).await;
    let told = world.events("web").await.remove("EvidenceExpired").unwrap_or_default();
    assert!(
        told.iter()
            .any(|note| note.contains("longer than what was read may be used")),
        "{told:?}"
    );
    let status = world.status("web").await;
    assert_eq!(status.reason.as_deref(), Some("EvidenceExpired"), "{}", said(&status));
    world.until_phase("web", Phase::Completed, 900).await;
}

#[tokio::test(start_paused = true)]
async fn evidence_that_moves_while_it_is_read_makes_the_gate_unknown_until_it_stands_still() {
    let mut world = begin().await;
    let text = told("web", &json!({"do": "hold"}));
    // An expression is shown the same evidence, and would be what waits for it.
    let condition = text.lines().find(|line| line.contains("condition:")).unwrap();
    world.apply(&text.replacen(&format!("{condition}\n"), "", 1)).await;
    world.until("web", 30, holds).await;
    world.stop_parts().await;
    world.server.inject(Fault {
        times: u32::MAX,
        ..Fault::new(
            "get",
            "combinedstatuses.control.kubestellar.io",
            FaultAnswer::Delay(Duration::from_millis(500)),
        )
    });
    let combined = world.combined();
    let moving = tokio::spawn(async move {
        // Another stage has one, too.
        let of_dev = ListParams::default().labels(&format!("{}=web.stage.dev", label::BINDING_POLICY));
        for n in 0_u32.. {
            let mut whole = combined.list(&of_dev).await.unwrap().items.remove(0);
            let total = whole.results.iter_mut().find(|result| result.name == "total").unwrap();
            total.rows[0].columns[0].float = Some(n.to_string());
            let name = whole.metadata.name.clone().unwrap();
            combined.replace(&name, &PostParams::default(), &whole).await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    world
        .until("web", 60, |status| {
            said(status).contains("the evidence changes faster than it can be read")
        })
        .await;
    let unknown = check(&world.status("web").await, "dev", "gate/hostile").unwrap();
    assert_eq!(unknown.outcome, Outcome::Unknown);
    moving.abort();
    world.until("web", 60, holds).await;
}

#[tokio::test(start_paused = true)]
async fn twenty_policies_that_wait_for_their_components_hold_up_none_that_has_no_gates() {
    let world = begin().await;
    for n in 0..20 {
        world.put_gate(&format!("slow-{n}"), b"never read").await;
    }
    let never = FaultAnswer::Delay(Duration::from_secs(3600));
    world.server.inject(Fault {
        times: u32::MAX,
        ..Fault::new("get", "configmaps", never)
    });
    for n in 0..20 {
        let slow = gate(&format!("slow-{n}"), &json!({}));
        world.apply(&gated(&format!("slow-{n}"), &slow)).await;
    }
    world.pass(2).await;
    world.apply(&workload("plain")).await;
    world.apply(&policy("plain")).await;
    world.until_phase("plain", Phase::Completed, 20).await;
}
