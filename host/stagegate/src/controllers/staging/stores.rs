//! The stores of the kinds that staging reads. Must not decide what any of it means.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use stagegate_api::{Binding, BindingPolicy, CombinedStatusView, StagedBindingPolicy, StatusCollector};
use stagegate_runtime::store::Store;

use crate::controllers::gates::sources::Sources;
use crate::controllers::kinds::Guarded;

/// Every kind that staging reads.
pub struct Stores {
    pub policies: Arc<Store<Guarded<StagedBindingPolicy>>>,
    pub placements: Arc<Store<Guarded<BindingPolicy>>>,
    pub bindings: Arc<Store<Guarded<Binding>>>,
    pub collectors: Arc<Store<Guarded<StatusCollector>>>,
    pub combined: Arc<Store<Guarded<CombinedStatusView>>>,
    /// Of these a decision needs none to be listed: a gate without its ConfigMap waits alone.
    pub sources: Arc<Sources>,
}

impl Stores {
    /// Since when no event of any kind can have been missed.
    pub fn watching_since(&self, now: Timestamp) -> Option<Timestamp> {
        let listed = [
            self.policies.listed_at()?,
            self.placements.listed_at()?,
            self.bindings.listed_at()?,
            self.collectors.listed_at()?,
            self.combined.listed_at()?,
        ];
        let youngest = listed.into_iter().max()?;
        now.checked_sub(SignedDuration::try_from(youngest.elapsed()).ok()?).ok()
    }
}
