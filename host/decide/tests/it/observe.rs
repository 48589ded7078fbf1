//! Runs `tests/cases/observe/sequences.yaml`: what was seen of a Binding over time, and what is known of it then.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use stagegate_api::{Binding, BindingSpec, BoundObject, Destination};
use stagegate_decide::names::ObjectKey;
use stagegate_decide::staging::{Observed, observe};

use crate::world::directory;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sequence {
    why: String,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Step {
    at: i64,
    #[serde(default)]
    gone: bool,
    #[serde(default)]
    owner: String,
    /// As [`Observed::members`] has them.
    #[serde(default)]
    members: Vec<String>,
    since: i64,
    lost_at: Option<i64>,
    first_seen: Option<i64>,
    #[serde(default)]
    left: BTreeMap<String, i64>,
    #[serde(default)]
    joined: BTreeMap<String, i64>,
}

impl Step {
    fn binding(&self) -> Binding {
        let mut spec = BindingSpec::default();
        for member in &self.members {
            match member.strip_prefix("cluster ") {
                Some(cluster) => spec.destinations.push(Destination {
                    cluster_id: cluster.to_owned(),
                }),
                None => spec
                    .workload
                    .namespace_scope
                    .push(bound(member.parse().unwrap(), self.at)),
            }
        }
        let mut binding = Binding::new("shop.stage.dev", spec);
        let owner = serde_json::json!([{
            "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy", "name": "shop.stage.dev",
            "uid": self.owner, "controller": true,
        }]);
        binding.metadata.owner_references = serde_json::from_value(owner).unwrap();
        binding.metadata.resource_version = Some(self.at.to_string());
        binding
    }
}

fn bound(key: ObjectKey, at: i64) -> BoundObject {
    let ObjectKey {
        group,
        resource,
        namespace,
        name,
    } = key;
    let (version, resource_version) = ("v1".to_owned(), at.to_string());
    BoundObject {
        group,
        version,
        resource,
        namespace,
        name,
        resource_version,
        ..BoundObject::default()
    }
}

#[test]
fn every_sequence_is_known_as_it_was_seen() {
    let path = directory().join("observe/sequences.yaml");
    let sequences: Vec<Sequence> = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let second = |number: i64| Timestamp::from_second(number).unwrap();
    for Sequence { why, steps } in sequences {
        let mut known: Option<Observed> = None;
        for step in steps {
            let binding = (!step.gone).then(|| step.binding());
            let seen = observe(known.as_ref(), binding.as_ref(), second(step.at));
            assert_eq!(seen.since, second(step.since), "{why}: since, at {}", step.at);
            assert_eq!(seen.lost_at, step.lost_at.map(second), "{why}: lost, at {}", step.at);
            let (first_seen, expected) = (seen.first_seen.unwrap_or(seen.since), step.first_seen.unwrap_or(1));
            assert_eq!(first_seen, second(expected), "{why}: first seen, at {}", step.at);
            let left = step
                .left
                .iter()
                .map(|(cluster, at)| (cluster.as_str().into(), second(*at)));
            assert_eq!(seen.left, left.collect(), "{why}: left, at {}", step.at);
            let joined = step
                .joined
                .iter()
                .map(|(cluster, at)| (cluster.as_str().into(), second(*at)));
            assert_eq!(seen.joined, joined.collect(), "{why}: joined, at {}", step.at);
            assert_eq!(seen.members.len(), step.members.len(), "{why}: members, at {}", step.at);
            known = Some(seen);
        }
    }
}

/// A Binding of `web` and `cron`, in these versions.
fn named(versions: &[&str]) -> Binding {
    let mut spec = BindingSpec::default();
    for (name, version) in ["web", "cron"].into_iter().zip(versions) {
        let mut object = bound(format!("deployments.apps default/{name}").parse().unwrap(), 0);
        (*version).clone_into(&mut object.resource_version);
        spec.workload.namespace_scope.push(object);
    }
    Binding::new("shop.stage.dev", spec)
}

#[test]
fn a_version_that_the_binding_comes_to_name_is_known_with_the_time() {
    let second = |number: i64| Timestamp::from_second(number).unwrap();
    let steps = [
        (1, vec!["41"], vec![None]),
        (2, vec!["42"], vec![Some(2)]),
        (3, vec!["42", "7"], vec![Some(2), Some(3)]),
        (4, vec![], vec![]),
        (5, vec!["42"], vec![Some(5)]),
    ];
    let mut known: Option<Observed> = None;
    for (at, versions, wanted) in steps {
        let seen = observe(known.as_ref(), Some(&named(&versions)), second(at));
        let since = |name: &str| seen.versions[&format!("deployments.apps default/{name}")].since;
        let found: Vec<Option<Timestamp>> = ["web", "cron"].into_iter().take(versions.len()).map(since).collect();
        let wanted: Vec<Option<Timestamp>> = wanted.iter().map(|at| at.map(second)).collect();
        assert_eq!((seen.versions.len(), found), (versions.len(), wanted), "at {at}");
        known = Some(seen);
    }
}

#[test]
fn an_object_is_named_since_the_first_sight_although_another_one_has_come_since() {
    let second = |number: i64| Timestamp::from_second(number).unwrap();
    let mut known: Option<Observed> = None;
    for (at, versions) in [
        (1, vec!["41"]),
        (2, vec!["41", "7"]),
        (3, vec!["42", "7"]),
        (4, vec!["42", "8"]),
    ] {
        known = Some(observe(known.as_ref(), Some(&named(&versions)), second(at)));
    }
    let seen = known.unwrap();
    let named_since = |name: &str| seen.versions[&format!("deployments.apps default/{name}")].named_since;
    assert_eq!(
        (named_since("web"), named_since("cron")),
        (Some(second(1)), Some(second(2)))
    );
}
