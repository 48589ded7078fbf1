//! What the files hold beside the objects that are checked: the StatusCollectors and components that these name, and the workload that
//! they place. Must not judge anything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::Value;
use stagegate_decide::binding::{Candidate, Labels, is_watched};

use super::clauses::WITHOUT_STATUS;
use super::kinds::{Kinds, labels};
use crate::manifests::Manifest;

/// What is beside the objects.
pub struct Beside {
    /// The names of the StatusCollectors.
    pub collectors: BTreeSet<String>,
    /// None where the files hold none whose status could be judged: then they do not show what is placed.
    pub workload: Vec<Workload>,
    pub namespaces: BTreeMap<String, Labels>,
    pub sources: Vec<Source>,
}

/// An object that a clause can match.
pub struct Workload {
    pub candidate: Candidate,
    /// Its manifest leaves the namespace to whoever applies it.
    pub is_of_any_namespace: bool,
}

/// Where a gate's component may be.
pub enum Source {
    ConfigMap {
        manifest: Manifest,
        /// An error is the decoder's.
        decoded: Result<Box<ConfigMap>, String>,
    },
    /// Stands for the ConfigMap that is called like the file.
    Wasm { name: String, path: PathBuf },
}

impl Beside {
    pub fn of(manifests: &[Manifest], wasm: &[PathBuf], kinds: &Kinds) -> Self {
        let of_kind = |kind: &'static str| manifests.iter().filter(move |manifest| manifest.kind() == kind);
        let config_maps = of_kind("ConfigMap").filter(|manifest| manifest.api_version() == "v1");
        let mut sources: Vec<Source> = config_maps
            .map(|manifest| Source::ConfigMap {
                manifest: manifest.clone(),
                decoded: decoded(&manifest.value),
            })
            .collect();
        sources.extend(wasm.iter().map(|path| Source::Wasm {
            name: name_of(path),
            path: path.clone(),
        }));
        let namespaces = of_kind("Namespace").map(|manifest| {
            let labels = labels(&manifest.value, "/metadata/labels");
            (manifest.name().to_owned(), labels)
        });
        Self {
            collectors: of_kind("StatusCollector")
                .map(|manifest| manifest.name().to_owned())
                .collect(),
            workload: workload(manifests, kinds),
            namespaces: namespaces.collect(),
            sources,
        }
    }
}

impl Source {
    pub fn name(&self) -> &str {
        match self {
            Self::ConfigMap { manifest, .. } => manifest.name(),
            Self::Wasm { name, .. } => name,
        }
    }

    /// `None`: whoever applies it chooses.
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::ConfigMap { manifest, .. } => manifest.namespace(),
            Self::Wasm { .. } => None,
        }
    }

    pub fn file(&self) -> &Path {
        match self {
            Self::ConfigMap { manifest, .. } => &manifest.file.path,
            Self::Wasm { path, .. } => path,
        }
    }

    /// Whether it can have the component of a gate that names this key.
    pub fn has_key(&self, key: &str) -> bool {
        match self {
            Self::Wasm { .. } => true,
            Self::ConfigMap { decoded, .. } => decoded.as_ref().is_ok_and(|map| {
                let mut entries = map.binary_data.iter().flatten();
                entries.any(|(known, _)| known == key)
            }),
        }
    }

    /// Whether it has what looks like a component, plain or packed.
    pub fn has_component(&self) -> bool {
        let looks_like_one = |bytes: &[u8]| bytes.starts_with(b"\0asm") || bytes.starts_with(b"\x1f\x8b");
        match self {
            Self::Wasm { .. } => true,
            Self::ConfigMap { decoded, .. } => decoded.as_ref().is_ok_and(|map| {
                let entries = map.binary_data.iter().flatten();
                entries.into_iter().any(|(_, value)| looks_like_one(&value.0))
            }),
        }
    }
}

fn decoded(value: &Value) -> Result<Box<ConfigMap>, String> {
    let decoded = serde_json::from_value(value.clone()).context("reading it as a ConfigMap");
    decoded.map(Box::new).map_err(|error| format!("{error:#}"))
}

/// `gate_min_available.wasm`, as cargo writes it, and `min-available.wasm` are both `min-available`.
fn name_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().replace('_', "-");
    stem.strip_prefix("gate-").unwrap_or(&stem).to_owned()
}

fn workload(manifests: &[Manifest], kinds: &Kinds) -> Vec<Workload> {
    let mut can_report = false;
    let mut workload = Vec::new();
    for manifest in manifests {
        let entry = kinds.of_manifest(manifest);
        let is_ours = entry.group == stagegate_api::GROUP;
        if is_ours || manifest.name().is_empty() || !is_watched(&entry.group, &entry.resource) {
            continue;
        }
        let is_without_status =
            |kind: &super::clauses::Kind| (kind.group, kind.resource) == (&entry.group, &entry.resource);
        let is_definition = matches!(entry.kind.as_str(), "Namespace" | "CustomResourceDefinition");
        can_report |= !is_definition && !WITHOUT_STATUS.iter().any(is_without_status);
        workload.push(Workload {
            is_of_any_namespace: entry.is_namespaced && manifest.namespace().is_none(),
            candidate: Candidate {
                group: entry.group,
                version: manifest.api_version().rsplit('/').next().unwrap_or_default().to_owned(),
                resource: entry.resource,
                namespace: manifest.namespace().filter(|_| entry.is_namespaced).map(str::to_owned),
                name: manifest.name().to_owned(),
                resource_version: String::new(),
                labels: labels(&manifest.value, "/metadata/labels"),
            },
        });
    }
    if can_report { workload } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_called_like_its_file_without_what_cargo_adds() {
        assert_eq!(name_of(Path::new("target/gate_min_available.wasm")), "min-available");
        assert_eq!(name_of(Path::new("freeze-window.wasm")), "freeze-window");
    }
}
