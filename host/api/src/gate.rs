//! A gate as a policy names it: where its component is, what it is told, and what it may use. What it answers is in
//! [`crate::staged_status`].

use std::time::Duration;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::units::{parse_duration, parse_mebibytes};

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
    /// One of the controller's `--gate-namespaces`.
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
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateLimits {
    /// The longest time of a call, 10ms to 5s; 500ms where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20), regex(pattern = r"^([0-9]{1,7}(\.[0-9]{1,3})?(h|m|s|ms))+$"))]
    #[x_kube(validation = Rule::new("duration(self) >= duration('10ms') && duration(self) <= duration('5s')")
        .message("spec.stages.gates.limits.timeout: must be a time from 10ms to 5s, for example 500ms"))]
    pub timeout: Option<String>,
    /// Linear memory, a whole number of Mi from 1Mi to 256Mi; 64Mi where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20))]
    #[x_kube(validation = Rule::new("self.matches('^([1-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-6])Mi$')")
        .message("spec.stages.gates.limits.memory: must be a whole number of Mi from 1Mi to 256Mi, for example 64Mi"))]
    pub memory: Option<String>,
}

impl GateLimits {
    /// The longest time of a call in milliseconds, [`DEFAULT_TIMEOUT_MS`] where absent; `None` if the CRD does not accept the text.
    pub fn timeout_ms(&self) -> Option<u32> {
        let Some(text) = &self.timeout else {
            return Some(DEFAULT_TIMEOUT_MS);
        };
        let time = parse_duration(text)?;
        (Duration::from_millis(10)..=Duration::from_secs(5))
            .contains(&time)
            .then(|| time.as_millis().try_into().ok())?
    }

    /// Linear memory in MiB, [`DEFAULT_MEMORY_MIB`] where absent; `None` if the CRD does not accept the text.
    pub fn memory_mib(&self) -> Option<u32> {
        let Some(text) = &self.memory else {
            return Some(DEFAULT_MEMORY_MIB);
        };
        parse_mebibytes(text).filter(|size| (1..=256).contains(size))
    }
}
