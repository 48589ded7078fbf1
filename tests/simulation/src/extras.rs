//! What only some plots ask for: gates of stages, many ConfigMaps, and a policy with a finalizer of another owner. Must not
//! draw anything.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use stagegate_api::{Gate, Stage};

use crate::gates::Manner;
use crate::queue::Millis;
use crate::server::{Resource, Workload};
use crate::users::STAGES;
use crate::world::{Event, POLICY, World};

impl World {
    pub(crate) fn make_bystander(&mut self, number: usize) {
        let content = self.content(0);
        let metadata = ObjectMeta {
            name: Some(format!("more-{number}")),
            namespace: Some("default".to_owned()),
            labels: Some(BTreeMap::from([("app".to_owned(), "web".to_owned())])),
            ..ObjectMeta::default()
        };
        let edited_at = Some(self.server.counter.time().0);
        let workload = Workload {
            metadata,
            resource: Resource::ConfigMap,
            content,
            edited_at,
        };
        let _made = self.server.workloads.create(&mut self.server.counter, workload);
    }

    pub(crate) fn gates_of(&self, stage: &str) -> Vec<Gate> {
        let position = STAGES.iter().position(|known| *known == stage);
        let manners = position.and_then(|position| self.script.setting.gates.get(position));
        let manners = manners.into_iter().flatten().enumerate();
        manners.map(|(position, manner)| manner.gate(position)).collect()
    }

    pub(crate) fn delete_policy_slowly(&mut self, for_ms: Millis) {
        let _kept = self
            .server
            .policies
            .update(&mut self.server.counter, (POLICY, None), |policy| {
                policy.metadata.finalizers = Some(vec!["example.com/backup".to_owned()]);
            });
        let _done = self.server.policies.delete(&mut self.server.counter, (POLICY, None));
        self.queue.after(for_ms, Event::Release);
    }

    /// Nothing keeps the policy from being deleted any more.
    pub(crate) fn release_policy(&mut self) {
        let _freed = self
            .server
            .policies
            .update(&mut self.server.counter, (POLICY, None), |policy| {
                policy.metadata.finalizers = None;
            });
    }
}

/// Asks each gate something else, which it takes.
pub(crate) fn edit_gates(stages: &mut [Stage]) {
    for gate in stages.iter_mut().flat_map(|stage| &mut stage.gates) {
        let manner = Manner::of(gate).map(|manner| Manner {
            seed: manner.seed + 1,
            is_wrong: false,
            ..manner
        });
        gate.config = serde_json::to_value(manner).ok();
    }
}
