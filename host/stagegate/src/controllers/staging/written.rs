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
    /// Bindings of which the list of admitted versions was written.
    bindings: BTreeMap<PlacementName, u64>,
    /// The versions that were deleted.
    removed: BTreeMap<PlacementName, u64>,
    until: Option<Instant>,
}

impl WrittenVersions {
    /// The write was carried out; `version` is the one that it made, if any.
    pub fn note(&mut self, write: &Write, version: Option<&str>) {
        match (write, version.and_then(order)) {
            (Write::Status { .. }, Some(version)) => self.policy = Some(version),
            (
                Write::Open(placement) | Write::Update(placement) | Write::Adopt(placement) | Write::Fence(placement),
                Some(version),
            ) => {
                self.placements.insert(placement.name.clone(), version);
            }
            (Write::Hold(hold) | Write::Release(hold), Some(version)) => {
                self.bindings.insert(hold.name.clone(), version);
            }
            (Write::Unhold { name, .. }, Some(version)) => {
                self.bindings.insert(name.clone(), version);
            }
            (Write::CreateClosed(placement), Some(version)) => {
                self.placements.insert(PlacementName::of_object(placement), version);
            }
            (Write::Remove { name, precondition }, _) => {
                let Some(removed) = order(precondition.resource_version.as_str()) else {
                    return;
                };
                self.removed.insert(name.clone(), removed);
            }
            _ => return,
        }
        self.until = Some(Instant::now() + BEHIND_MAX);
    }

    /// How long to wait, at most, until the watches have reported all of it.
    pub fn wait(&mut self, policy: &str, stores: &Stores) -> Option<Duration> {
        let of_policy = || Known::by(&stores.policies, policy);
        let of_placement = |name: &PlacementName| Known::by(&stores.placements, name.as_str());
        let of_binding = |name: &PlacementName| Known::by(&stores.bindings, name.as_str());
        self.remaining(of_policy, of_placement, of_binding)
    }

    fn remaining(
        &mut self,
        of_policy: impl Fn() -> Known,
        of_placement: impl Fn(&PlacementName) -> Known,
        of_binding: impl Fn(&PlacementName) -> Known,
    ) -> Option<Duration> {
        let left = self.until?.checked_duration_since(Instant::now()).unwrap_or_default();
        let is_behind = self.policy.is_some_and(|version| of_policy().is_behind(version))
            || (self.placements.iter()).any(|(name, version)| of_placement(name).is_behind(*version))
            || (self.bindings.iter()).any(|(name, version)| of_binding(name).is_behind(*version))
            || (self.removed.iter()).any(|(name, version)| of_placement(name).still_shows(*version));
        if is_behind && !left.is_zero() {
            return Some(left);
        }
        *self = Self::default();
        None
    }
}

/// What the watch knows of one object.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// `None`: it is not there.
    version: Option<u64>,
    /// The newest version of any object of the kind.
    seen: u64,
}

impl Known {
    fn by<T: Resource>(store: &Store<T>, name: &str) -> Self {
        Self {
            version: store.version_of(&ObjectId::cluster_scoped(name)),
            seen: store.seen(),
        }
    }

    /// An object that is gone again is not in the store; a newer version of the kind shows that the watch is past the write.
    fn is_behind(self, written: u64) -> bool {
        self.version.is_none_or(|known| known < written) && self.seen <= written
    }

    /// A deletion of an object with finalizers makes a new version, so a newer one tells of the deletion.
    fn still_shows(self, deleted: u64) -> bool {
        self.version.is_some_and(|known| known <= deleted)
    }
}

#[cfg(test)]
mod tests {
    use stagegate_decide::precondition::Precondition;
    use stagegate_decide::staging::Write;

    use super::{Known, WrittenVersions};

    const SEEN: u64 = 99;

    /// Whether a policy waits after its placement was deleted at version 7, while the watch shows it at `version`.
    fn waits_after_a_removal(version: Option<u64>) -> bool {
        let mut written = WrittenVersions::default();
        let removal = Write::Remove {
            name: "web.stage.dev".to_owned().into(),
            precondition: Precondition {
                uid: "u".into(),
                resource_version: "7".into(),
            },
        };
        written.note(&removal, None);
        let known = |version| Known { version, seen: SEEN };
        written
            .remaining(|| known(Some(1)), |_| known(version), |_| known(Some(1)))
            .is_some()
    }

    #[test]
    fn a_policy_is_decided_on_again_once_the_watch_has_told_of_the_removal_of_its_placement() {
        assert!(waits_after_a_removal(Some(7)), "what was deleted is still there");
        assert!(!waits_after_a_removal(Some(8)), "it is being deleted");
        assert!(!waits_after_a_removal(None), "it is gone");
    }
}
