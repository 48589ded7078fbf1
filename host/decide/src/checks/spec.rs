//! The checks of a stage as its spec names them, checked. Must not evaluate them.

use std::collections::BTreeSet;

use stagegate_api::Gate;
use stagegate_api::gate::{DEFAULT_MEMORY_MIB, DEFAULT_TIMEOUT_MS, MAX_CONFIG_BYTES};

use super::gate_call::SourceEntry;
use super::variables::Root;
use crate::names::{Digest, is_dns_label};

/// As many as the CRD takes.
const GATES_MAX: usize = 8;

#[derive(Clone, Debug)]
pub struct Expression {
    pub text: String,
    pub root: Root,
    pub digest: Digest,
}

impl Expression {
    /// The root is part of the digest: the same text over other variables is another check.
    pub fn new(text: &str, root: Root) -> Self {
        Self {
            text: text.to_owned(),
            root,
            digest: Digest::of(&(root, text)),
        }
    }
}

#[derive(Clone, Debug)]
pub struct CheckedGate {
    pub name: String,
    pub source: SourceEntry,
    /// The component must have this digest.
    pub pin: Option<Digest>,
    /// JSON text with sorted keys.
    pub config: String,
    pub timeout_ms: u32,
    pub memory_mib: u32,
    /// Of this entry of the spec: an edited one is another check.
    pub digest: Digest,
}

impl CheckedGate {
    /// Its name among the checks in status.
    pub fn check_name(&self) -> String {
        format!("gate/{}", self.name)
    }

    fn new(gate: &Gate, field: &str, findings: &mut Vec<String>) -> Self {
        let mut wrong = |member: &str, text: &str| findings.push(format!("{field}.{member} {text}"));
        if !is_dns_label(&gate.name) {
            wrong("name", "is no DNS label: use lower-case letters, digits and '-'");
        }
        let entry = &gate.module.config_map;
        if [&entry.namespace, &entry.name, &entry.key]
            .iter()
            .any(|part| part.is_empty())
        {
            wrong("module.configMap", "needs namespace, name and key");
        } else if !is_dns_label(&entry.namespace) || !entry.name.split('.').all(is_dns_label) {
            wrong(
                "module.configMap",
                "names no ConfigMap: namespace and name have lower-case letters, digits, '-' and '.'",
            );
        }
        let pin = gate.module.digest.as_deref().map(|text| {
            let digits = text.strip_prefix("sha256:").unwrap_or_default();
            if digits.len() != 64 || !digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
                wrong(
                    "module.digest",
                    "is no digest: write sha256: and 64 lower-case hex digits",
                );
            }
            Digest::from_text(digits)
        });
        let mut config = gate.config.clone().unwrap_or_else(|| serde_json::json!({}));
        config.sort_all_objects();
        let config = config.to_string();
        if config.len() > MAX_CONFIG_BYTES {
            wrong("config", "is longer than 64 KiB of JSON: shorten it");
        }
        let limits = gate.limits.clone().unwrap_or_default();
        let timeout_ms = limits.timeout_ms().unwrap_or_else(|| {
            wrong("limits.timeout", "is no time from 10ms to 5s: write for example 500ms");
            DEFAULT_TIMEOUT_MS
        });
        let memory_mib = limits.memory_mib().unwrap_or_else(|| {
            wrong(
                "limits.memory",
                "is no whole number of Mi from 1Mi to 256Mi: write for example 64Mi",
            );
            DEFAULT_MEMORY_MIB
        });
        let source = SourceEntry::from(entry);
        let digest = Digest::of(&(&gate.name, &source, &pin, &config, timeout_ms, memory_mib));
        Self {
            name: gate.name.clone(),
            source,
            pin,
            config,
            timeout_ms,
            memory_mib,
            digest,
        }
    }
}

/// The gates of one stage, as far as they are right.
pub fn gates(gates: &[Gate], field: &str, findings: &mut Vec<String>) -> Vec<CheckedGate> {
    if gates.len() > GATES_MAX {
        findings.push(format!("{field}.gates: a stage has at most {GATES_MAX} gates"));
    }
    let mut names = BTreeSet::new();
    let mut checked = Vec::new();
    for (index, gate) in gates.iter().enumerate() {
        let field = format!("{field}.gates[{index}]");
        if !names.insert(&gate.name) {
            findings.push(format!(
                "{field}.name {:?} is used twice: give each gate of a stage its own name",
                gate.name
            ));
        }
        checked.push(CheckedGate::new(gate, &field, findings));
    }
    checked
}
