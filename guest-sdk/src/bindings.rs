//! What `wit/gate.wit` becomes in Rust. Nothing here is written by hand, and nothing outside the crate should rest on
//! it but guests that must be able to answer what the builders of this crate do not let through.
//!
//! Written and read by serde, the types are the texts of the interface's JSON twin. What a gate does not use is not in
//! its component.

wit_bindgen::generate!({
    path: "../wit",
    world: "gate-world",
    pub_export_macro: true,
    default_bindings_module: "stagegate_guest::bindings",
    additional_derives: [PartialEq, serde::Serialize, serde::Deserialize],
    additional_type_attributes: {
        "stagegate:gate/types@0.1.0/cell": [#[serde(rename_all = "camelCase")]],
        "stagegate:gate/types@0.1.0/column-data": [#[serde(rename_all = "camelCase")]],
        "stagegate:gate/types@0.1.0/decision": [#[serde(rename_all = "camelCase")]],
        "stagegate:gate/types@0.1.0/description": [#[serde(rename_all = "camelCase")]],
        "stagegate:gate/types@0.1.0/evidence": [#[serde(rename_all = "camelCase")]],
        "stagegate:gate/types@0.1.0/health": [#[serde(rename_all = "camelCase")]],
        "stagegate:gate/types@0.1.0/hold": [#[serde(rename_all = "camelCase")]],
        "stagegate:gate/types@0.1.0/object": [#[serde(rename_all = "camelCase")]],
        "stagegate:gate/types@0.1.0/outcome": [#[serde(rename_all = "camelCase")]],
        "stagegate:gate/types@0.1.0/pass": [#[serde(rename_all = "camelCase")]],
        "stagegate:gate/types@0.1.0/reported": [#[serde(rename_all = "camelCase")]],
        "stagegate:gate/types@0.1.0/request": [#[serde(rename_all = "camelCase")]],
        "stagegate:gate/types@0.1.0/result-set": [#[serde(rename_all = "camelCase")]],
    },
});
