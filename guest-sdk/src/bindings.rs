//! What `wit/gate.wit` becomes in Rust. Nothing here is written by hand, and nothing outside the crate should rest on it but
//! guests that must be able to answer what the builders of this crate do not let through.
//!
//! Natively the types can be written and read as the texts of the interface's JSON twin.

wit_bindgen::generate!({
    path: "../wit",
    world: "gate-world",
    pub_export_macro: true,
    default_bindings_module: "stagegate_guest::bindings",
    additional_derives: [PartialEq],
    additional_type_attributes: {
        "stagegate:gate/types@0.1.0/arena": [#[cfg_attr(not(target_family = "wasm"), derive(serde::Serialize, serde::Deserialize))]],
        "stagegate:gate/types@0.1.0/cell": [#[cfg_attr(not(target_family = "wasm"), derive(serde::Serialize, serde::Deserialize), serde(rename_all = "camelCase"))]],
        "stagegate:gate/types@0.1.0/column": [#[cfg_attr(not(target_family = "wasm"), derive(serde::Serialize, serde::Deserialize))]],
        "stagegate:gate/types@0.1.0/column-data": [#[cfg_attr(not(target_family = "wasm"), derive(serde::Serialize, serde::Deserialize), serde(rename_all = "camelCase"))]],
        "stagegate:gate/types@0.1.0/result-set": [#[cfg_attr(not(target_family = "wasm"), derive(serde::Serialize, serde::Deserialize), serde(rename_all = "camelCase"))]],
        "stagegate:gate/types@0.1.0/combined-status": [#[cfg_attr(not(target_family = "wasm"), derive(serde::Serialize, serde::Deserialize))]],
        "stagegate:gate/types@0.1.0/object": [#[cfg_attr(not(target_family = "wasm"), derive(serde::Serialize, serde::Deserialize), serde(rename_all = "camelCase"))]],
        "stagegate:gate/types@0.1.0/reported": [#[cfg_attr(not(target_family = "wasm"), derive(serde::Serialize, serde::Deserialize), serde(rename_all = "camelCase"))]],
        "stagegate:gate/types@0.1.0/evidence-row": [#[cfg_attr(not(target_family = "wasm"), derive(serde::Serialize, serde::Deserialize))]],
        "stagegate:gate/types@0.1.0/destination": [#[cfg_attr(not(target_family = "wasm"), derive(serde::Serialize, serde::Deserialize))]],
        "stagegate:gate/types@0.1.0/outcome": [#[cfg_attr(not(target_family = "wasm"), derive(serde::Serialize, serde::Deserialize), serde(rename_all = "camelCase"))]],
        "stagegate:gate/types@0.1.0/earlier-verdict": [#[cfg_attr(not(target_family = "wasm"), derive(serde::Serialize, serde::Deserialize))]],
        "stagegate:gate/types@0.1.0/request": [#[cfg_attr(not(target_family = "wasm"), derive(serde::Serialize, serde::Deserialize), serde(rename_all = "camelCase"))]],
        "stagegate:gate/types@0.1.0/pass": [#[cfg_attr(not(target_family = "wasm"), derive(serde::Serialize, serde::Deserialize), serde(rename_all = "camelCase"))]],
        "stagegate:gate/types@0.1.0/hold": [#[cfg_attr(not(target_family = "wasm"), derive(serde::Serialize, serde::Deserialize), serde(rename_all = "camelCase"))]],
        "stagegate:gate/types@0.1.0/fail": [#[cfg_attr(not(target_family = "wasm"), derive(serde::Serialize, serde::Deserialize))]],
        "stagegate:gate/types@0.1.0/decision": [#[cfg_attr(not(target_family = "wasm"), derive(serde::Serialize, serde::Deserialize), serde(rename_all = "camelCase"))]],
        "stagegate:gate/types@0.1.0/evidence-piece": [#[cfg_attr(not(target_family = "wasm"), derive(serde::Serialize, serde::Deserialize))]],
        "stagegate:gate/types@0.1.0/verdict": [#[cfg_attr(not(target_family = "wasm"), derive(serde::Serialize, serde::Deserialize))]],
    },
});
