//! Where rollouts stand, as their status tells: StagedBindingPolicies and YurtAppDaemons alike. Must not read anything else.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::ensure;
use kube::api::{DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use stagegate_cluster_tests::etcd::Stored;
use stagegate_cluster_tests::installation::Kind;

use super::LOOK;
use super::reports::Reports;

const WITHIN: Duration = Duration::from_secs(240);

pub struct Rollouts {
    api: Api<DynamicObject>,
    resource: ApiResource,
    kind: Kind,
    /// By name, as they were when last looked at.
    seen: BTreeMap<String, Value>,
    /// By name: the active stages in their order.
    went: BTreeMap<String, Vec<String>>,
}

impl Rollouts {
    pub fn of(client: &Client, kind: Kind) -> Rollouts {
        let kind_of_rollout = match kind {
            Kind::NodePools => GroupVersionKind::gvk("apps.openyurt.io", "v1alpha1", "YurtAppDaemon"),
            Kind::PlainCluster | Kind::BesideKubeStellar => {
                GroupVersionKind::gvk("community.kubestellar.io", "v1alpha1", "StagedBindingPolicy")
            }
        };
        let resource = ApiResource::from_gvk(&kind_of_rollout);
        Rollouts {
            api: Api::all_with(client.clone(), &resource),
            resource,
            kind,
            seen: BTreeMap::new(),
            went: BTreeMap::new(),
        }
    }

    /// # Errors
    /// Of the API server.
    pub async fn look(&mut self) -> anyhow::Result<()> {
        for rollout in self.api.list(&ListParams::default()).await? {
            let name = rollout.name_any();
            let rollout = serde_json::to_value(rollout)?;
            if let Some(active) = rollout["status"]["activeStage"].as_str() {
                let went = self.went.entry(name.clone()).or_default();
                if went.last().is_none_or(|last| last != active) {
                    went.push(active.to_owned());
                }
            }
            self.seen.insert(name, rollout);
        }
        Ok(())
    }

    pub fn went(&self) -> &BTreeMap<String, Vec<String>> {
        &self.went
    }

    /// By name: the active stage and all after it.
    pub fn left(&self) -> BTreeMap<String, Vec<String>> {
        let path = match self.kind {
            Kind::NodePools => "/spec/updateStrategy/stages",
            Kind::PlainCluster | Kind::BesideKubeStellar => "/spec/stages",
        };
        let left = self.seen.iter().map(|(name, rollout)| {
            let stages = rollout.pointer(path).and_then(Value::as_array).into_iter().flatten();
            let names = stages.filter_map(|stage| stage["name"].as_str());
            let left = names.skip_while(|stage| rollout["status"]["activeStage"] != **stage);
            (name.clone(), left.map(str::to_owned).collect())
        });
        left.collect()
    }

    /// Names of those that are served otherwise than they are stored: the definition drops what it does not know.
    pub fn differing(&self, stored: &[Stored]) -> Vec<&str> {
        let is_as_stored = |name: &str, served: &Value| {
            let found = stored
                .iter()
                .find(|one| one.object["kind"] == self.resource.kind && one.object["metadata"]["name"] == name);
            found.is_some_and(|found| ["spec", "status"].iter().all(|part| found.object[part] == served[part]))
        };
        let differing = self.seen.iter().filter(|(name, served)| !is_as_stored(name, served));
        differing.map(|(name, _)| name.as_str()).collect()
    }

    /// Whether all had, when last looked at.
    pub fn have_ended(&self) -> bool {
        self.seen.values().all(has_ended)
    }

    /// Lets clusters and nodes report until what is asked for has come about.
    ///
    /// # Errors
    /// When it takes too long.
    pub async fn until(
        &mut self,
        reports: &mut Reports,
        (what, is): (&str, impl Fn(&BTreeMap<String, Value>) -> bool),
    ) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            reports.look().await?;
            self.look().await?;
            if is(&self.seen) {
                return Ok(());
            }
            let stand = |(name, rollout): (&String, &Value)| format!("{name}: {}", rollout["status"]);
            ensure!(
                begun.elapsed() < WITHIN,
                "not within {WITHIN:?}: {what}:\n{}",
                self.seen.iter().map(stand).collect::<Vec<_>>().join("\n")
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Until all have ended.
    ///
    /// # Errors
    /// When one does not.
    pub async fn end(&mut self, reports: &mut Reports) -> anyhow::Result<()> {
        let have_ended = |seen: &BTreeMap<String, Value>| seen.values().all(has_ended);
        self.until(reports, ("all have ended", have_ended)).await
    }
}

pub fn has_ended(rollout: &Value) -> bool {
    let conditions = rollout["status"]["conditions"].as_array();
    let is_ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    rollout["status"]["observedGeneration"] == rollout["metadata"]["generation"]
        && conditions.into_iter().flatten().any(is_ready)
}

/// The active stage and the reason that status gives.
pub fn stands(rollout: &Value, stage: &str, reason: &str) -> bool {
    let status = &rollout["status"];
    status["activeStage"] == json!(stage) && status["reason"] == json!(reason)
}
