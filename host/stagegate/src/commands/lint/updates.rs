//! What staged updates do not reach, and where two stages would need two versions in one cluster. Must not say what the schema's rules
//! say of `updates`.

use serde_json::Value;

use super::finding::Finding;
use super::policy::items;
use crate::manifests::{Manifest, TextSpan};

pub fn findings(manifest: &Manifest) -> Vec<Finding> {
    if !are_staged(manifest) {
        return Vec::new();
    }
    let clauses = items(manifest, "/spec/downsync").into_iter();
    let create_only = clauses.filter(|clause| clause.value.get("createOnly") == Some(&Value::Bool(true)));
    create_only
        .map(|clause| {
            let place = manifest.place(&format!("{}/createOnly", clause.pointer));
            let message = "with createOnly no cluster ever gets an edit of these objects: an edit is no new revision, and no stage \
                           evaluates it";
            let advice = "remove createOnly, unless these objects are never edited";
            Finding::warning(manifest, place, "create-only", message).advise(advice)
        })
        .collect()
}

/// Whether the policy has `updates: Staged`.
pub fn are_staged(manifest: &Manifest) -> bool {
    manifest.text_at("/spec/updates") == "Staged"
}

/// A warning about clusters that certainly belong to two stages; `fact` says which stages.
pub fn shared(manifest: &Manifest, place: TextSpan, fact: &str) -> Finding {
    let message = format!(
        "{fact}: with updates: Staged an edit needs two versions there at once, and then nothing is released (SharedCluster)"
    );
    let advice = "give each stage a label that only its clusters have";
    Finding::warning(manifest, place, "shared-clusters", message).advise(advice)
}
