//! What is wrong with the gates of stages, as far as the ConfigMaps and components among the files tell: each component is loaded as the
//! controller loads it, and says itself whether it takes its config. Must not ask it for a verdict.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use serde_json::{Value, json};
use stagegate_decide::names::Digest;
use stagegate_decide::staging::SourceEntry;
use stagegate_evaluate::{gate, meant};
use stagegate_sandbox::{Sandbox, SandboxOptions};

use super::beside::{Beside, Source};
use super::finding::Finding;
use super::policy::items;
use crate::args::GATE_NAMESPACE;
use crate::commands::{Failure, Result, gate::file};
use crate::controllers::gates::unpack::{self, Unusable};
use crate::manifests::Manifest;

/// Loads the components that gates name; each only once.
#[derive(Default)]
pub struct Gates(OnceLock<Arc<Sandbox>>);

struct Gate<'a> {
    manifest: &'a Manifest,
    pointer: String,
    name: &'a str,
    namespace: &'a str,
    config_map: &'a str,
    key: &'a str,
}

impl Gate<'_> {
    fn error(&self, member: &str, rule: &'static str, message: String) -> Finding {
        let place = self.manifest.place(&format!("{}{member}", self.pointer));
        Finding::error(self.manifest, place, rule, message)
    }

    fn warning(&self, member: &str, rule: &'static str, message: String) -> Finding {
        let place = self.manifest.place(&format!("{}{member}", self.pointer));
        Finding::warning(self.manifest, place, rule, message)
    }
}

impl Gates {
    /// About the gates of the stages in the list at the pointer.
    ///
    /// # Errors
    /// The sandbox does not work, or a file cannot be read.
    pub fn findings(&self, manifest: &Manifest, stages: &str, beside: &Beside) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        for stage in items(manifest, stages) {
            for item in items(manifest, &format!("{}/gates", stage.pointer)) {
                let text = |member: &str| item.value.pointer(member).and_then(Value::as_str).unwrap_or_default();
                let gate = Gate {
                    manifest,
                    name: text("/name"),
                    namespace: text("/module/configMap/namespace"),
                    config_map: text("/module/configMap/name"),
                    key: text("/module/configMap/key"),
                    pointer: item.pointer.clone(),
                };
                // The schema says what is missing.
                if ![gate.namespace, gate.config_map, gate.key].contains(&"") {
                    findings.extend(self.of_gate(&gate, item.value, beside)?);
                }
            }
        }
        Ok(findings)
    }

    fn of_gate(&self, gate: &Gate<'_>, entry: &Value, beside: &Beside) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        let (name, namespace, config_map) = (gate.name, gate.namespace, gate.config_map);
        if namespace != GATE_NAMESPACE {
            let message = format!(
                "gate {name} is in namespace {namespace}, and the controller runs gates of {GATE_NAMESPACE} only, unless its \
                 flag --gate-namespaces says otherwise"
            );
            let advice = format!(
                "put the ConfigMap into {GATE_NAMESPACE}, or start the controller with --gate-namespaces={namespace}"
            );
            let finding = gate.warning("/module/configMap/namespace", "gate-namespace", message);
            findings.push(finding.advise(advice));
        }
        let mut called = beside.sources.iter().filter(|source| source.name() == config_map);
        // A ConfigMap elsewhere that holds no component belongs to an application and has the same name by chance.
        let is_here = |source: &&Source| match source.namespace() {
            Some(of) => of == namespace,
            None => source.has_component(),
        };
        if let Some(source) = called.clone().find(is_here) {
            findings.extend(self.of_source(gate, entry, source)?);
        } else if let Some(source) = called.find(|source| source.has_key(gate.key)) {
            let other = source.namespace().unwrap_or_default();
            let message = format!(
                "gate {name} is in ConfigMap {namespace}/{config_map}, and the one in {} is {other}/{config_map}",
                source.file().display()
            );
            let finding = gate.error("/module/configMap/namespace", "gate-configmap", message);
            findings.push(finding.advise(format!(
                "write `namespace: {other}`, or put the ConfigMap into {namespace}"
            )));
        } else if beside.sources.iter().any(Source::has_component) {
            let components = beside.sources.iter().filter(|source| source.has_component());
            let message = format!("the ConfigMap {namespace}/{config_map} of gate {name} is not among the files");
            let advice = match meant(config_map, components.map(Source::name)) {
                Some(near) => format!("did you mean {near}?"),
                None => "give its manifest as well, or make sure that the cluster has it".to_owned(),
            };
            let finding = gate.warning("/module/configMap/name", "gate-configmap", message);
            findings.push(finding.advise(advice));
        }
        Ok(findings)
    }

    fn of_source(&self, gate: &Gate<'_>, entry: &Value, source: &Source) -> Result<Vec<Finding>> {
        let bytes = match component(gate, source)? {
            Ok(bytes) => bytes,
            Err(finding) => return Ok(vec![finding]),
        };
        let digest = Digest::of_bytes(&bytes);
        let mut findings = Vec::new();
        let pin = entry.pointer("/module/digest").and_then(Value::as_str);
        if pin.is_some_and(|pin| pin != format!("sha256:{digest}")) {
            let message = format!(
                "the component in {} has another digest than module.digest",
                source.file().display()
            );
            let finding = gate.error("/module/digest", "gate-digest", message);
            findings.push(finding.advise(format!(
                "write `digest: sha256:{digest}`, or give the component that is meant"
            )));
        }
        let sandbox = self.0.get_or_init(|| Sandbox::new(SandboxOptions::default()));
        let mut config = entry.get("config").cloned().unwrap_or_else(|| json!({}));
        config.sort_all_objects();
        let checked = gate::inspect(&bytes)
            .and_then(|_| sandbox.load(&digest, &bytes))
            .and_then(|_| sandbox.check_config(&digest, &config.to_string()));
        match checked {
            Ok(Ok(())) => {}
            Ok(Err(message)) => {
                let path = message.split_once(": ").map_or("", |(path, _)| path);
                let path = if path.starts_with('/') { path } else { "" };
                let member = format!("/config{path}");
                let message = format!("gate {} refuses its config: {message}", gate.name);
                let finding = gate.error(&member, "gate-config", message);
                findings.push(finding.advise("`stagegate gate check` prints the schema of a component"));
            }
            Err(failure) if failure.kind.is_lasting() => {
                let message = format!("{} cannot be used as a gate: {failure}", source.file().display());
                findings.push(gate.error("/module/configMap", "gate-component", message));
            }
            Err(failure) => {
                let error = anyhow::Error::new(failure).context(format!("loading {}", source.file().display()));
                return Err(Failure::Environment(error));
            }
        }
        Ok(findings)
    }
}

/// The component's bytes, or why the source has none for the gate.
fn component(gate: &Gate<'_>, source: &Source) -> Result<std::result::Result<Vec<u8>, Finding>> {
    let (key, shown) = (gate.key, source.file().display());
    let decoded = match source {
        Source::Wasm { path, .. } => return file::component(path).map(Ok),
        Source::ConfigMap { decoded, .. } => decoded,
    };
    let refused = |message: String| Ok(Err(gate.error("/module/configMap/key", "gate-configmap", message)));
    let config_map = match decoded {
        Ok(config_map) => config_map,
        Err(error) => {
            return refused(format!(
                "ConfigMap {} in {shown} cannot be read: {error}",
                gate.config_map
            ));
        }
    };
    let entry = format!("{}/{} {key}", gate.namespace, gate.config_map);
    let Ok(entry) = SourceEntry::try_from(entry) else {
        return refused(format!(
            "{}/{} {key} names no entry of a ConfigMap",
            gate.namespace, gate.config_map
        ));
    };
    match unpack::component((**config_map).clone(), &entry) {
        Ok(bytes) => Ok(Ok(bytes)),
        Err(Unusable::Refused(message)) => refused(format!("ConfigMap {} in {shown}: {message}", gate.config_map)),
        Err(Unusable::KeyMissing) => {
            let keys: Vec<&str> = config_map
                .binary_data
                .iter()
                .flatten()
                .map(|(key, _)| key.as_str())
                .collect();
            let has = match keys.as_slice() {
                [] => "it has no keys there".to_owned(),
                keys => format!("its keys: {}", keys.join(", ")),
            };
            refused(format!(
                "ConfigMap {} in {shown} has no key {key:?} under binaryData; {has}",
                gate.config_map
            ))
        }
    }
}

/// The `.wasm` files among the paths, and those in directories among them (not below).
///
/// # Errors
/// A directory that cannot be listed.
pub fn components(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let is_component = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "wasm");
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            let shown = path.display();
            let entries = std::fs::read_dir(path).with_context(|| format!("reading {shown}"));
            let inside: std::io::Result<Vec<PathBuf>> = entries
                .map_err(Failure::Input)?
                .map(|entry| entry.map(|entry| entry.path()))
                .collect();
            let mut inside = inside
                .with_context(|| format!("reading {shown}"))
                .map_err(Failure::Input)?;
            inside.retain(is_component);
            inside.sort();
            found.extend(inside);
        } else if is_component(path) {
            found.push(path.clone());
        }
    }
    Ok(found)
}
