//! NodePools in whichever version the API server serves them, also when that changes. Must not judge what their absence means.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kube::{Api, Client};
use stagegate_api::workloads::{NodePool, OPENYURT_GROUP};
use stagegate_runtime::Runtime;
use stagegate_runtime::request::{RequestError, request};
use stagegate_runtime::watch::{ManagedFields, Need, keep};
use tracing::{debug, info};

use super::DaemonQueue;
use super::stores::Stores;
use crate::controllers::guarded::Guarded;

/// How often it is looked in which version there are NodePools: the definition comes, goes and is upgraded seldom.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// In which version the API server serves NodePools, as far as is known.
#[derive(Debug, Default)]
pub struct Served(Mutex<Answer>);

/// The last answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    #[default]
    NotAsked,
    /// In none.
    No,
    /// In this one.
    In(String),
}

impl Served {
    pub fn answer(&self) -> Answer {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it is another one than before.
    pub fn note(&self, answer: Answer) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = *known != answer;
        *known = answer;
        is_new
    }
}

/// Asks the API server.
///
/// # Errors
/// When it gives no answer; a group that it does not know is one.
pub async fn ask(client: &Client) -> Result<Answer, RequestError> {
    let groups = request("list the API groups", client.list_api_groups()).await?;
    let Some(group) = groups.groups.into_iter().find(|group| group.name == OPENYURT_GROUP) else {
        return Ok(Answer::No);
    };
    // The preferred version first.
    let preferred = group.preferred_version.map(|version| version.version);
    let mut versions: Vec<String> = group.versions.into_iter().map(|version| version.version).collect();
    versions.sort_by_key(|version| Some(version) != preferred.as_ref());
    for version in versions {
        let what = format!("list the kinds of {OPENYURT_GROUP}/{version}");
        let group_version = format!("{OPENYURT_GROUP}/{version}");
        let of_version = client.list_api_group_resources(&group_version);
        match request(what, of_version).await {
            Ok(kinds) if kinds.resources.iter().any(|kind| kind.name == "nodepools") => {
                return Ok(Answer::In(version));
            }
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
    }
    Ok(Answer::No)
}

/// Watches them, and begins anew when their version changes; never returns.
pub async fn watch_node_pools(runtime: Runtime, stores: Stores, queue: DaemonQueue) {
    let all = || stores.daemons.ids().into_iter().for_each(|daemon| queue.add(daemon));
    loop {
        let version = loop {
            match ask(&runtime.client).await {
                Ok(answer) => {
                    if stores.served.note(answer.clone()) {
                        all();
                    }
                    if let Answer::In(version) = answer {
                        break version;
                    }
                }
                Err(error) => debug!(error = error.chain(), "the versions of NodePool are not known yet"),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        };
        info!(version, "watching NodePools");
        let api: Api<Guarded<NodePool>> = Api::all_with(runtime.client.clone(), &version);
        let watched = runtime.metrics.add_watch("nodepools", Need::WhenNamed);
        let store = stores.pools.clone();
        let mut listing = stores.pools.listing();
        let listed = async {
            // A list, or why there is none.
            while listing.changed().await.is_ok() {
                all();
            }
        };
        tokio::select! {
            () = keep(api, store, ManagedFields::Dropped, watched) => {}
            () = listed => {}
            () = served_otherwise(&runtime.client, &version) => {}
        }
    }
}

/// Returns when NodePools are not served in this version any more.
async fn served_otherwise(client: &Client, version: &str) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        match ask(client).await {
            Ok(Answer::In(now)) if now == version => {}
            Ok(_) => return,
            Err(error) => debug!(error = error.chain(), "the versions of NodePool are not known"),
        }
    }
}
