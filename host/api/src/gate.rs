//! A gate as a policy names it: where its component is, what it is told, and what it may use. What it answers is in
//! [`crate::staged_status`].

use kube::KubeSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Most bytes of a gate's config as JSON text.
pub const MAX_CONFIG_BYTES: usize = 64 * 1024;
/// Milliseconds that a call of a gate may take where its policy says nothing.
pub const DEFAULT_TIMEOUT_MS: u32 = 500;
/// MiB of memory that a call of a gate may use where its policy says nothing.
pub const DEFAULT_MEMORY_MIB: u32 = 64;

/// A WebAssembly component that says whether the stage is done.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gate {
    /// A DNS label, unique in the stage.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Where the component is.
    pub module: GateModule,
    /// Any JSON, at most 64 KiB of text, handed to the gate. Absent: an empty object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::bounds::any_json")]
    pub config: Option<Value>,
    /// What a call of it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<GateLimits>,
}

/// Where a component is, and which one it must be.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateModule {
    /// An entry of a ConfigMap's `binaryData`.
    pub config_map: ConfigMapEntry,
    /// SHA-256 of the component, unpacked: `sha256:` and 64 hex digits. Absent: whatever the ConfigMap holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 71), regex(pattern = "^sha256:[0-9a-f]{64}$"))]
    pub digest: Option<String>,
}

/// One value of a ConfigMap.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapEntry {
    /// One of the host's `--gate-namespaces`.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub namespace: String,
    /// Of the ConfigMap.
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Under `binaryData`: the component, plain or compressed by gzip.
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[-._a-zA-Z0-9]+$"))]
    pub key: String,
}

/// What a call of a gate may use.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateLimits {
    /// Milliseconds, 10 to 5000; 500 where absent.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "timeoutMs")]
    #[schemars(range(min = 10, max = 5000))]
    pub timeout_ms: Option<u32>,
    /// MiB of linear memory, 1 to 256; 64 where absent.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "memoryMiB")]
    #[schemars(range(min = 1, max = 256))]
    pub memory_mib: Option<u32>,
}
