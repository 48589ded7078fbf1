//! What a node says of a Pod that is bound to it. Must not write it.

use jiff::Timestamp;
use serde_json::{Value, json};
use stagegate_api::SimulatedNodeSpec;

use crate::health::{self, Health, Patient, RunningReplicas};

/// A Pod as far as its health depends on it.
pub(super) struct BoundPod<'a> {
    pub(super) namespace: Option<&'a str>,
    pub(super) name: &'a str,
    pub(super) manifest: &'a Value,
    pub(super) bound_at: Timestamp,
}

impl BoundPod<'_> {
    /// What its status is to have, as a merge patch.
    pub(super) fn examine(&self, node: &SimulatedNodeSpec, now: Timestamp) -> Health {
        if node.unreachable {
            return self.lost();
        }
        let patient = Patient {
            group: "",
            kind: "Pod",
            namespace: self.namespace,
            name: self.name,
            manifest: self.manifest,
            generation: None,
            changed_at: self.bound_at,
            before: &RunningReplicas::default(),
        };
        health::examine(&patient, node, now)
    }

    /// As the controller of nodes says it: that the Pod is not ready is all that is known.
    fn lost(&self) -> Health {
        let mut conditions = self.manifest["status"]["conditions"].clone();
        for condition in conditions.as_array_mut().into_iter().flatten() {
            if condition["type"] == "Ready" {
                condition["status"] = json!("False");
            }
        }
        Health {
            status: conditions.is_array().then(|| json!({"conditions": conditions})),
            since: self.bound_at,
            changes_at: None,
        }
    }
}
