//! The versions that this process has written and the watches have not reported yet. Must not keep a policy waiting for long: a
//! watch that has fallen silent tells of nothing.
//!
//! What is decided on an older view is refused by the API server, and everything has to be read again.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::Resource;
use stagegate_decide::names::PlacementName;
use stagegate_decide::staging::Write;
use stagegate_runtime::store::{ObjectId, Store};
use stagegate_runtime::watch::order;
use tokio::time::Instant;

use super::stores::Stores;

/// Longest wait for the watches. They tell of a write before its answer is there, or soon after.
const BEHIND_MAX: Duration = Duration::from_secs(1);

/// Of one policy.
#[derive(Debug, Default)]
pub struct WrittenVersions {
    policy: Option<u64>,
    placements: BTreeMap<PlacementName, u64>,
    until: Option<Instant>,
}

impl WrittenVersions {
    /// The write was carried out; `version` is what the object has now.
    pub fn note(&mut self, write: &Write, version: Option<&str>) {
        let Some(version) = version.and_then(order) else { return };
        match write {
            Write::Status { .. } => self.policy = Some(version),
            Write::Open(placement) | Write::Update(placement) | Write::Adopt(placement) | Write::Fence(placement) => {
                self.placements.insert(placement.name.clone(), version);
            }
            _ => return,
        }
        self.until = Some(Instant::now() + BEHIND_MAX);
    }

    /// How long to wait, at most, until the watches have reported all of it.
    pub fn wait(&mut self, policy: &str, stores: &Stores) -> Option<Duration> {
        let left = self.until?.checked_duration_since(Instant::now()).unwrap_or_default();
        let of_policy = self
            .policy
            .is_some_and(|version| is_behind(&stores.policies, policy, version));
        let mut placements = self.placements.iter();
        let of_placement = placements.any(|(name, version)| is_behind(&stores.placements, name.as_str(), *version));
        if (of_policy || of_placement) && !left.is_zero() {
            return Some(left);
        }
        *self = Self::default();
        None
    }
}

/// One that is gone again is known by what was told since.
fn is_behind<T: Resource>(store: &Store<T>, name: &str, version: u64) -> bool {
    let known = store.version_of(&ObjectId::cluster_scoped(name));
    known.is_none_or(|known| known < version) && store.seen() <= version
}
