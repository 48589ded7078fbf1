//! The status that a Deployment or StatefulSet has when its Pods run on the nodes that it selects, in turn: the first on the first node, by
//! name, the next on the next one. Must not write it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use stagegate_api::{Progressing, SimulatedNode, SimulatedNodeSpec, SimulationRule};

use super::selection;
use crate::health::{self, Course, Health, Patient, RunningReplicas};

/// A workload, and what ran of it when it was last changed.
pub(super) struct Played {
    pub(super) kind: &'static str,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pub(super) generation: Option<i64>,
    pub(super) manifest: Value,
    pub(super) changed_at: Timestamp,
    pub(super) before: RunningReplicas,
}

impl Played {
    pub(super) fn examine(&self, nodes: &BTreeMap<String, SimulatedNode>, now: Timestamp) -> Health {
        let course = self.course(nodes, now);
        Health {
            status: health::status_of_workload(&self.patient(&self.manifest, &self.before), &course),
            since: course.since,
            changes_at: course.changes_at,
        }
    }

    /// What is running when `next` replaces the manifest.
    pub(super) fn replaced(
        &self,
        next: &Value,
        (nodes, now): (&BTreeMap<String, SimulatedNode>, Timestamp),
    ) -> RunningReplicas {
        let course = self.course(nodes, now);
        health::replaced(&self.patient(&self.manifest, &self.before), &course, next)
    }

    fn course(&self, nodes: &BTreeMap<String, SimulatedNode>, now: Timestamp) -> Course {
        let pod = &self.manifest["spec"]["template"]["spec"];
        let none = BTreeMap::new();
        let labels = |node: &SimulatedNode| node.metadata.labels.clone().unwrap_or_else(|| none.clone());
        let selected: Vec<&SimulatedNodeSpec> = nodes
            .values()
            .filter(|node| selection::may_run(pod, &labels(node), &node.spec))
            .map(|node| &node.spec)
            .collect();
        let shares = selected.iter().enumerate().map(|(nth, node)| {
            let share = Share {
                nth,
                of: selected.len(),
            };
            self.on_one(share, node, now)
        });
        shares.reduce(together).unwrap_or_else(|| self.nowhere(now))
    }

    fn on_one(&self, share: Share, node: &SimulatedNodeSpec, now: Timestamp) -> Course {
        let manifest = with_replicas(&self.manifest, share.part(replicas(&self.manifest)));
        let before = RunningReplicas {
            old: share.part(self.before.old),
            current: share.part(self.before.current),
            old_revision: self.before.old_revision.clone(),
        };
        let course = health::course_by(&self.patient(&manifest, &before), node, now);
        match node.unreachable {
            true => Course { ready: 0, ..course },
            false => course,
        }
    }

    /// Its Pods stay Pending.
    fn nowhere(&self, now: Timestamp) -> Course {
        let node = SimulatedNodeSpec {
            rules: vec![SimulationRule {
                progressing: Progressing::Stuck,
                ..SimulationRule::default()
            }],
            ..SimulatedNodeSpec::default()
        };
        health::course_by(&self.patient(&self.manifest, &RunningReplicas::default()), &node, now)
    }

    fn patient<'a>(&'a self, manifest: &'a Value, before: &'a RunningReplicas) -> Patient<'a> {
        Patient {
            group: "apps",
            kind: self.kind,
            namespace: self.namespace.as_deref(),
            name: &self.name,
            manifest,
            generation: self.generation,
            changed_at: self.changed_at,
            before,
        }
    }
}

/// One node of several.
#[derive(Clone, Copy)]
struct Share {
    nth: usize,
    of: usize,
}

impl Share {
    /// Of so many Pods, those that are on this node.
    fn part(self, count: i64) -> i64 {
        let [nth, of] = [self.nth, self.of].map(|number| i64::try_from(number).unwrap_or(i64::MAX));
        count / of + i64::from(nth < count % of)
    }
}

fn together(a: Course, b: Course) -> Course {
    Course {
        wanted: a.wanted + b.wanted,
        ready: a.ready + b.ready,
        is_rolled_out: a.is_rolled_out && b.is_rolled_out,
        has_failed: a.has_failed || b.has_failed,
        crashes: a.crashes || b.crashes,
        since: a.since.max(b.since),
        changes_at: a.changes_at.into_iter().chain(b.changes_at).min(),
    }
}

fn replicas(manifest: &Value) -> i64 {
    manifest["spec"]["replicas"]
        .as_i64()
        .unwrap_or(1)
        .clamp(0, i64::from(i32::MAX))
}

fn with_replicas(manifest: &Value, replicas: i64) -> Value {
    let mut manifest = manifest.clone();
    if let Some(spec) = manifest["spec"].as_object_mut() {
        spec.insert("replicas".to_owned(), json!(replicas));
    }
    manifest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, labels: Value, spec: Value) -> (String, SimulatedNode) {
        let mut node = SimulatedNode::new(name, serde_json::from_value(spec).unwrap());
        node.metadata.labels = serde_json::from_value(labels).unwrap();
        (name.to_owned(), node)
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn web(image: &str, replicas: i64) -> Played {
        let containers = json!([{"name": "main", "image": image}]);
        Played {
            kind: "Deployment",
            namespace: Some("shop".to_owned()),
            name: "web".to_owned(),
            generation: Some(1),
            manifest: json!({"spec": {"replicas": replicas, "template": {"spec": {
                "nodeSelector": {"pool": "edge"}, "containers": containers,
            }}}}),
            changed_at: at(0),
            before: RunningReplicas::default(),
        }
    }

    fn counts(health: &Health) -> [i64; 3] {
        let status = health.status.as_ref().unwrap();
        ["replicas", "updatedReplicas", "availableReplicas"].map(|name| status[name].as_i64().unwrap_or_default())
    }

    #[test]
    fn replicas_are_ready_where_the_nodes_that_they_select_let_them() {
        let edge = json!({"pool": "edge"});
        let nodes = BTreeMap::from([
            node("a", edge.clone(), json!({"readyAfter": "10s"})),
            node("b", edge.clone(), json!({"readyAfter": "20s"})),
            node("other", json!({"pool": "other"}), json!({})),
        ]);
        let web = web("web:1", 3);
        for (second, ready) in [(9, 0), (10, 2), (19, 2), (20, 3)] {
            assert_eq!(counts(&web.examine(&nodes, at(second)))[2], ready, "after {second} s");
        }
        assert_eq!(web.examine(&nodes, at(10)).changes_at, Some(at(20)));
        let unreachable = BTreeMap::from([
            node("a", edge.clone(), json!({})),
            node("b", edge, json!({"unreachable": true})),
        ]);
        assert_eq!(counts(&web.examine(&unreachable, at(60))), [3, 3, 2]);
    }

    #[test]
    fn without_a_node_that_it_selects_a_workload_waits_and_misses_its_deadline() {
        let health = web("web:1", 2).examine(&BTreeMap::new(), at(60));
        assert_eq!(counts(&health), [2, 2, 0]);
        let health = web("web:1", 2).examine(&BTreeMap::new(), at(601));
        assert_eq!(
            health.status.unwrap()["conditions"][1]["reason"],
            "ProgressDeadlineExceeded"
        );
    }

    #[test]
    fn a_version_that_crashes_on_one_node_leaves_replicas_of_the_one_before() {
        let rules = json!({"rules": [{"image": "web:2", "progressing": "Stuck"}]});
        let nodes = BTreeMap::from([node("a", json!({"pool": "edge"}), rules)]);
        let first = web("web:1", 2);
        assert_eq!(counts(&first.examine(&nodes, at(1))), [2, 2, 2]);
        let mut second = web("web:2", 2);
        second.before = first.replaced(&second.manifest, (&nodes, at(5)));
        second.changed_at = at(5);
        let status = second.examine(&nodes, at(100)).status.unwrap();
        assert_eq!(status["availableReplicas"], 2, "{status}");
        assert!(
            status["updatedReplicas"].as_i64() < status["replicas"].as_i64(),
            "{status}"
        );
    }
}
