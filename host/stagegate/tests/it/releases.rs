//! What is recorded of releases (`tests/data/releases`): complete, and as it was recorded. What an upgrade makes of it is tested in
//! `tests/cluster/tests/it/upgrades`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use stagegate_api::workloads::YurtAppDaemon;
use stagegate_api::{Digest, StagedBindingPolicy};

const RELEASES: &str = "tests/data/releases";
const FILES: [&str; 4] = [
    "node-pools/installation.yaml",
    "node-pools/stored.json",
    "plain-cluster/installation.yaml",
    "plain-cluster/stored.json",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn recorded() -> BTreeSet<String> {
    let entries = std::fs::read_dir(root().join(RELEASES)).unwrap().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    folders
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

fn version(text: &str) -> Option<Vec<u64>> {
    let numbers: Vec<u64> = text.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    (numbers.len() == 3).then_some(numbers)
}

#[test]
fn what_was_recorded_of_a_release_is_as_it_was_recorded() {
    let sums = std::fs::read_to_string(root().join(RELEASES).join("SHA256SUMS")).unwrap();
    let lines = sums.lines().filter_map(|line| line.split_once("  "));
    let noted: BTreeMap<String, String> = lines.map(|(sum, file)| (file.to_owned(), sum.to_owned())).collect();
    let mut found = BTreeMap::new();
    for release in recorded() {
        for file in FILES {
            let file = format!("{RELEASES}/{release}/{file}");
            let bytes = std::fs::read(root().join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            found.insert(file, Digest::of_bytes(&bytes).to_string());
        }
    }
    assert_eq!(
        found, noted,
        "what a release has written cannot change: restore the file"
    );
}

/// Spec and status as they are read and written again.
fn again<T: Serialize + DeserializeOwned>(object: &Value) -> Value {
    let read: T = serde_json::from_value(object.clone()).unwrap();
    serde_json::to_value(read).unwrap()
}

#[test]
fn what_a_release_has_stored_is_read_and_written_again_without_a_loss() {
    for release in recorded() {
        let mut counts = BTreeMap::<String, usize>::new();
        for file in FILES.iter().filter(|file| file.ends_with("/stored.json")) {
            let text = std::fs::read_to_string(root().join(RELEASES).join(&release).join(file)).unwrap();
            let stored: Vec<Value> = serde_json::from_str(&text).unwrap();
            for object in stored.iter().map(|stored| &stored["object"]) {
                let kind = object["kind"].as_str().unwrap_or_default();
                let again = match kind {
                    "StagedBindingPolicy" => again::<StagedBindingPolicy>(object),
                    "YurtAppDaemon" => again::<YurtAppDaemon>(object),
                    _ => continue,
                };
                for part in ["spec", "status"] {
                    let name = &object["metadata"]["name"];
                    assert_eq!(again[part], object[part], "{release}: {part} of {kind} {name}");
                }
                *counts.entry(kind.to_owned()).or_default() += 1;
            }
        }
        assert_eq!(counts.len(), 2, "{release}: {counts:?}");
    }
}

#[test]
fn each_release_is_recorded_and_none_that_is_still_to_come() {
    let recorded = recorded();
    let current = version(env!("CARGO_PKG_VERSION")).unwrap();
    for release in &recorded {
        let recorded = version(release).unwrap_or_else(|| panic!("{release} is no version"));
        assert!(recorded <= current, "{release} is newer than the workspace");
    }
    let changes = std::fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let headings = changes.lines().filter_map(|line| line.strip_prefix("## "));
    let versions = headings.filter_map(|heading| heading.split_whitespace().next());
    for released in versions.filter(|version| *version != "Unreleased") {
        assert!(
            recorded.contains(released),
            "{released} is not recorded: CONTRIBUTING.md says how"
        );
    }
    assert!(!recorded.is_empty());
}
