//! What was seen of policies and placements since a scenario began, and what must hold of it whatever the scenario is about. Must not
//! read the program's log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use kube::api::ListParams;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt as _};
use stagegate_api::{BindingPolicy, StagedBindingPolicy, annotation};
use tokio::task::JoinHandle;

/// A placement that was open: policy's uid, placement's name, attempt and plan.
type Opening = (String, String, String, String);

#[derive(Default)]
struct Seen {
    /// By policy: the active stages in their order.
    stages: BTreeMap<String, Vec<String>>,
    /// The uids under which it was open.
    openings: BTreeMap<Opening, BTreeSet<String>>,
}

pub struct Story {
    seen: Mutex<Seen>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Drop for Story {
    fn drop(&mut self) {
        let tasks = self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner);
        tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Story {
    /// Watches from now on.
    pub fn follow(client: &Client) -> Arc<Story> {
        let story = Arc::new(Story {
            seen: Mutex::default(),
            tasks: Mutex::default(),
        });
        let policies = Arc::downgrade(&story);
        let placements = policies.clone();
        let tasks = [
            tokio::spawn(each(client.clone(), move |policy: StagedBindingPolicy| {
                if let Some(story) = policies.upgrade() {
                    story.see_policy(&policy);
                }
            })),
            tokio::spawn(each(client.clone(), move |placement: BindingPolicy| {
                if let Some(story) = placements.upgrade() {
                    story.see_placement(&placement);
                }
            })),
        ];
        story.tasks.lock().unwrap_or_else(PoisonError::into_inner).extend(tasks);
        story
    }

    /// The active stages of a policy, each when it became so.
    pub fn stages_of(&self, policy: &str) -> Vec<String> {
        self.seen().stages.get(policy).cloned().unwrap_or_default()
    }

    /// Waits until the active stage of each policy has been seen: a server that is killed now may never tell of it again.
    ///
    /// # Errors
    /// The watch has not told of a stage for half a minute.
    pub async fn catch_up(&self, client: &Client) -> anyhow::Result<()> {
        let policies = Api::<StagedBindingPolicy>::all(client.clone());
        // What does not answer has nothing to tell.
        let Ok(policies) = policies.list(&ListParams::default()).await else {
            return Ok(());
        };
        for policy in policies {
            let name = policy.name_any();
            let Some(active) = policy.status.and_then(|status| status.active_stage) else {
                continue;
            };
            let seen = async {
                while !self.stages_of(&name).contains(&active) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            let seen = tokio::time::timeout(Duration::from_secs(30), seen).await;
            seen.with_context(|| format!("the watch has not told of stage {active} of {name}"))?;
        }
        Ok(())
    }

    /// A plan is placed at most once for each stage and attempt.
    pub fn faults(&self) -> Vec<String> {
        let seen = self.seen();
        let twice = seen.openings.iter().filter(|(_, uids)| uids.len() > 1);
        twice
            .map(|((_, name, attempt, plan), uids)| {
                format!(
                    "{name} was opened {} times in attempt {attempt} of plan {plan}",
                    uids.len()
                )
            })
            .collect()
    }

    fn see_policy(&self, policy: &StagedBindingPolicy) {
        let active = policy.status.as_ref().and_then(|status| status.active_stage.clone());
        if let Some(active) = active {
            let mut seen = self.seen();
            let stages = seen.stages.entry(policy.name_any()).or_default();
            if stages.last() != Some(&active) {
                stages.push(active);
            }
        }
    }

    fn see_placement(&self, placement: &BindingPolicy) {
        let of = |name: &str| placement.annotations().get(name).cloned().unwrap_or_default();
        let owner = placement.owner_references().first().map(|owner| owner.uid.clone());
        if placement.spec.cluster_selectors.is_empty() {
            return;
        }
        let opening = (
            owner.unwrap_or_default(),
            placement.name_any(),
            of(annotation::ATTEMPT),
            of(annotation::REVISION),
        );
        let uid = placement.uid().unwrap_or_default();
        self.seen().openings.entry(opening).or_default().insert(uid);
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls `see` with every state that a watch tells of; a server that is gone for a while is asked again.
async fn each<K>(client: Client, see: impl Fn(K))
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let events = watcher::watcher(Api::<K>::all(client), watcher::Config::default()).default_backoff();
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        if let Ok(Event::Apply(object) | Event::InitApply(object)) = event {
            see(object);
        }
    }
}
