//! The gate's component and where it is taken from.

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::Tampering::{BeingDeleted, Deleted, Doubled, Edited, MadeAnew};
use super::Then::{GoesOn, Waits};
use super::pieces::Piece;
use super::{Parts, Table, run};
use crate::guests;

const CONFIG_MAP: &str = "ConfigMap stagegate-gates/min-available";

fn put(config_map: &mut Value, bytes: Vec<u8>) {
    config_map["binaryData"]["gate.wasm"] = json!(ByteString(bytes));
}

fn component() -> Vec<u8> {
    guests::wasm("gate_min_available")
}

fn configured(policy: &mut Value) -> &mut Value {
    &mut policy["spec"]["stages"][0]["gates"][0]
}

const COMPONENTS: Table = Table {
    name: "evidence: the gate's ConfigMap",
    piece: Piece::Component,
    parts: Parts::Stopped,
    rows: &[
        ("taken away", Deleted, Waits(&[CONFIG_MAP])),
        ("being taken away", BeingDeleted, GoesOn("it is there until it is gone")),
        (
            "under another name",
            MadeAnew(|it| it["metadata"]["name"] = json!("max-available")),
            Waits(&[CONFIG_MAP]),
        ),
        (
            "in another namespace",
            MadeAnew(|it| it["metadata"]["namespace"] = json!("default")),
            Waits(&[CONFIG_MAP]),
        ),
        (
            "doubled in another namespace",
            Doubled(|it| {
                it["metadata"]["namespace"] = json!("default");
                it["binaryData"] = json!({});
            }),
            GoesOn("gates are taken from one namespace"),
        ),
        (
            "made anew, just as it was",
            MadeAnew(|it| it["metadata"]["labels"] = json!({"example.org/by": "hand"})),
            GoesOn("it holds the same component"),
        ),
        (
            "its key taken away",
            Edited(|it| it["binaryData"] = json!({})),
            Waits(&[CONFIG_MAP, "gate.wasm"]),
        ),
        (
            "its key renamed",
            Edited(|it| it["binaryData"] = json!({"gate": it["binaryData"]["gate.wasm"]})),
            Waits(&[CONFIG_MAP, "gate.wasm"]),
        ),
        (
            "the component as text",
            Edited(|it| {
                it["data"] = json!({"gate.wasm": it["binaryData"]["gate.wasm"]});
                it["binaryData"] = json!({});
            }),
            Waits(&[CONFIG_MAP, "gate.wasm"]),
        ),
        (
            "with another key besides",
            Edited(|it| it["binaryData"]["other.wasm"] = json!(ByteString(vec![0]))),
            GoesOn("it holds the same component"),
        ),
        (
            "the component blanked",
            Edited(|it| put(it, Vec::new())),
            Waits(&[CONFIG_MAP]),
        ),
        (
            "the component torn",
            Edited(|it| {
                let mut torn = component();
                torn.truncate(torn.len() / 2);
                put(it, torn);
            }),
            Waits(&[CONFIG_MAP]),
        ),
        (
            "no component",
            Edited(|it| put(it, b"all is well".to_vec())),
            Waits(&[CONFIG_MAP]),
        ),
        (
            "a core module",
            Edited(|it| put(it, guests::core_module())),
            Waits(&[CONFIG_MAP]),
        ),
        (
            "a component of another world",
            Edited(|it| put(it, guests::of_no_world())),
            Waits(&[CONFIG_MAP]),
        ),
        (
            "a component that dies as it starts",
            Edited(|it| put(it, guests::dead_on_start("0.1.0"))),
            Waits(&["min-available"]),
        ),
        (
            "a component that takes another config",
            Edited(|it| put(it, guests::wasm("gate_hostile"))),
            Waits(&["spec.stages[0].gates[0].config", "gate min-available"]),
        ),
        (
            "other bytes of the same meaning",
            // A custom section of one byte's name at its end.
            Edited(|it| put(it, [&component()[..], b"\x00\x05\x01xyyy"].concat())),
            GoesOn("the new component is asked, and passes"),
        ),
    ],
};

const GATES: Table = Table {
    name: "evidence: the gate's entry in the policy",
    piece: Piece::Policy,
    parts: Parts::Running,
    rows: &[
        (
            "from a namespace that is not allowed",
            Edited(|it| configured(it)["module"]["configMap"]["namespace"] = json!("default")),
            Waits(&["gate min-available of stage dev", "namespace default"]),
        ),
        (
            "from a ConfigMap that is not there",
            Edited(|it| configured(it)["module"]["configMap"]["name"] = json!("ghost")),
            Waits(&["gate min-available of stage dev", "ConfigMap stagegate-gates/ghost"]),
        ),
        (
            "from a key that is not there",
            Edited(|it| configured(it)["module"]["configMap"]["key"] = json!("ghost.wasm")),
            Waits(&["gate min-available of stage dev", "ghost.wasm"]),
        ),
        (
            "pinned to another component",
            Edited(|it| configured(it)["module"]["digest"] = json!(format!("sha256:{}", "0".repeat(64)))),
            Waits(&["gate min-available of stage dev", "sha256:0000"]),
        ),
        (
            "asking for more than there is",
            Edited(|it| configured(it)["config"]["atLeast"] = json!(3)),
            Waits(&["gate min-available of stage dev", "dev-1 has 2"]),
        ),
        (
            "with a config that it does not take",
            Edited(|it| configured(it)["config"] = json!({"atMost": 3})),
            Waits(&["spec.stages[0].gates[0].config", "gate min-available"]),
        ),
    ],
};

#[tokio::test(start_paused = true)]
async fn no_stage_passes_on_a_gate_whose_component_was_tampered_with() {
    run(&COMPONENTS).await;
}

#[tokio::test(start_paused = true)]
async fn no_stage_passes_on_a_gate_that_names_another_component() {
    run(&GATES).await;
}
