//! What clusters of held stages run, compared with the lists of their Bindings. Must not ask status but for what it calls unproven.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use stagegate_api::{ADMITTED_VERSIONS, Binding, StagedBindingPolicyStatus};
use stagegate_embedded::clusters::{Fared, ObjectRef};

use super::replay::{BINDINGS, POLICIES};
use super::{Found, Run};

const DEPLOYMENTS: &str = "deployments.apps";
/// From the end of a list until its last version has come to a cluster that can be reached.
const ON_ITS_WAY: SignedDuration = SignedDuration::from_secs(10);

/// A Binding from a time on.
struct Bound {
    at: Timestamp,
    list: Option<String>,
    clusters: Vec<String>,
}

#[derive(Default)]
struct Seen {
    /// By name; each in the order of time.
    bindings: BTreeMap<String, Vec<Bound>>,
    /// The specs of each Deployment, `namespace/name`, by version.
    specs: BTreeMap<String, Vec<(u64, Value)>>,
    /// Objects that some status has called unproven, and when first.
    unproven: Vec<(Timestamp, String)>,
}

pub fn check(run: &Run<'_>, found: &mut Found) {
    let mut seen = Seen::default();
    for commit in run.commits {
        match commit.resource.as_str() {
            BINDINGS => {
                let binding = commit
                    .after()
                    .and_then(|after| serde_json::from_value::<Binding>(after).ok());
                let annotations = binding
                    .as_ref()
                    .and_then(|binding| binding.metadata.annotations.as_ref());
                let list = annotations.and_then(|all| all.get(ADMITTED_VERSIONS).cloned());
                let destinations = binding.iter().flat_map(|binding| &binding.spec.destinations);
                let clusters = destinations.map(|destination| destination.cluster_id.clone()).collect();
                let at = commit.at;
                let states = seen.bindings.entry(commit.name.clone()).or_default();
                states.push(Bound { at, list, clusters });
            }
            DEPLOYMENTS => {
                let spec = commit.after().map(|after| after["spec"].clone()).unwrap_or_default();
                let name = format!("{}/{}", commit.namespace, commit.name);
                seen.specs.entry(name).or_default().push((commit.version, spec));
            }
            POLICIES => {
                let status = commit.after().map(|after| after["status"].clone());
                let status = status.and_then(|status| serde_json::from_value::<StagedBindingPolicyStatus>(status).ok());
                let stages = status.iter().flat_map(|status| &status.stages);
                seen.unproven.extend(
                    stages
                        .flat_map(|stage| &stage.unproven)
                        .map(|name| (commit.at, name.clone())),
                );
            }
            _ => {}
        }
    }
    for fared in &run.truth.fared {
        check_one(run, &seen, fared, found);
    }
}

fn check_one(run: &Run<'_>, seen: &Seen, fared: &Fared, found: &mut Found) {
    let ObjectRef { resource, .. } = &fared.object;
    let path = format!(
        "{}/{}",
        fared.object.namespace.as_deref().unwrap_or_default(),
        fared.object.name
    );
    let Some(specs) = seen.specs.get(&path).filter(|_| resource == "deployments") else {
        return;
    };
    let lists = lists_of(seen, &fared.cluster, fared.at);
    if lists.is_empty() {
        return;
    }
    let is_admitted = lists.iter().flat_map(|list| list.split(' ')).any(|entry| {
        let version = entry.strip_prefix(&format!("apps/deployments/{path}@"));
        let version = version.and_then(|version| version.parse::<u64>().ok());
        specs
            .iter()
            .any(|(known, spec)| Some(*known) == version && *spec == fared.spec)
    });
    let is_told = seen
        .unproven
        .iter()
        .any(|(at, name)| name.ends_with(&path) && at.duration_since(fared.at).abs() <= ON_ITS_WAY);
    let version = run.commits.last().map_or(0, |commit| commit.version);
    found
        .at((version, fared.at))
        .holds("admitted", is_admitted || is_told, || {
            format!(
                "cluster {} runs a version of {path} that is on none of the lists {lists:?}",
                fared.cluster
            )
        });
}

/// The lists that admitted something to the cluster then, or until a moment before; none if a Binding without a list named it.
fn lists_of<'s>(seen: &'s Seen, cluster: &str, at: Timestamp) -> Vec<&'s String> {
    let mut lists = Vec::new();
    for states in seen.bindings.values() {
        for (index, state) in states.iter().enumerate() {
            let until = states.get(index + 1).map_or(Timestamp::MAX, |next| next.at);
            let is_in_force = state.at <= at && at.duration_since(until.min(at)) <= ON_ITS_WAY;
            if !is_in_force || !state.clusters.iter().any(|named| named == cluster) {
                continue;
            }
            match &state.list {
                Some(list) => lists.push(list),
                None => return Vec::new(),
            }
        }
    }
    lists
}
