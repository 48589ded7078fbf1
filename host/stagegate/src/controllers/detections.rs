//! Whether the kinds that show KubeStellar at work have been searched. Must not look for anything itself.

use std::sync::Arc;

use stagegate_api::{Binding, BindingPolicy, CombinedStatusView};
use stagegate_runtime::store::Store;

use super::kinds::{Guarded, Kinds};

/// The kinds that are searched.
#[derive(Clone)]
pub struct Detections {
    placements: Arc<Store<Guarded<BindingPolicy>>>,
    bindings: Arc<Store<Guarded<Binding>>>,
    combined: Arc<Store<Guarded<CombinedStatusView>>>,
}

impl Detections {
    pub fn of(kinds: &Kinds) -> Self {
        Self {
            placements: kinds.placements.wanted_singly(),
            bindings: kinds.bindings.wanted_singly(),
            combined: kinds.combined.wanted_singly(),
        }
    }

    /// Returns when each of them has been searched once.
    pub async fn complete(&self) {
        self.placements.complete().await;
        self.bindings.complete().await;
        self.combined.complete().await;
    }
}
