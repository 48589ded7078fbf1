//! A stand-in for OpenYurt's definition of NodePool, with what this project reads of it.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

use super::kubestellar::Kind;
use crate::workloads::OPENYURT_GROUP;

/// Served in this one version.
pub(super) fn node_pool(version: &'static str) -> CustomResourceDefinition {
    let string = || json!({"type": "string"});
    let strings = || json!({"type": "object", "additionalProperties": string()});
    let taint = json!({
        "type": "object",
        "required": ["effect", "key"],
        "properties": {
            "effect": string(),
            "key": string(),
            "timeAdded": {"type": "string", "format": "date-time"},
            "value": string(),
        },
    });
    let spec = json!({
        "type": "object",
        "properties": {
            "type": string(),
            "labels": strings(),
            "annotations": strings(),
            "taints": {"type": "array", "items": taint},
        },
    });
    let status = json!({
        "type": "object",
        "properties": {
            "nodes": {"type": "array", "items": string()},
            "readyNodeNum": {"type": "integer", "format": "int32"},
            "unreadyNodeNum": {"type": "integer", "format": "int32"},
        },
    });
    let definition = Kind {
        group: OPENYURT_GROUP,
        version,
        kind: "NodePool",
        plural: "nodepools",
        short_names: &["np"],
        namespaced: false,
        has_status: true,
        columns: json!([]),
        properties: json!({"spec": spec, "status": status}),
        required: &[],
    };
    definition.into_crd()
}
