//! Detections of KubeStellar's own controllers. `binding` and `combine` do their work where none runs; beside a live one two
//! writers would undo each other's writes for ever, and empty Bindings take workloads from clusters. Must not write.
//!
//! Every object of three kinds is looked at before it is stored, so that nothing is decided before the first list of
//! each has been searched, and nothing is written after a trace has come by a watch.

use std::fmt;
use std::sync::Arc;

use kube::core::ObjectMeta;
use stagegate_api::KUBESTELLAR_FINALIZER;
use stagegate_runtime::store::ObjectId;
use stagegate_runtime::watch::ManagedFields;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::error;

/// Under which names KubeStellar's binding and status controllers write (v0.26 to v0.30), the last for requests in which
/// they give none.
const MANAGERS: &[&str] = &["Binding", "Status", "controller-manager"];

/// A kind whose objects show who is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchedKind {
    BindingPolicy,
    Binding,
    CombinedStatus,
}

/// What was found, and what to do about it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "KubeStellar's own controllers have written to this cluster, and two writers must not fight over it: {found}. Where \
     KubeStellar runs, run `stagegate run --controllers staging`. Where it is gone for good, {remedy}, and start again"
)]
pub struct Detection {
    found: String,
    remedy: String,
}

impl Detection {
    fn in_metadata(kind: WatchedKind, metadata: &ObjectMeta) -> Option<Self> {
        let id = ObjectId::of(metadata);
        match kind {
            WatchedKind::BindingPolicy => {
                let finalizers = metadata.finalizers.iter().flatten();
                finalizers
                    .into_iter()
                    .any(|one| one == KUBESTELLAR_FINALIZER)
                    .then(|| Self {
                        found: format!("BindingPolicy {id} has the finalizer {KUBESTELLAR_FINALIZER}"),
                        remedy: "take that finalizer off every BindingPolicy".to_owned(),
                    })
            }
            WatchedKind::Binding | WatchedKind::CombinedStatus => {
                let mut managers = metadata
                    .managed_fields
                    .iter()
                    .flatten()
                    .filter_map(|it| it.manager.as_deref());
                managers.find(|manager| MANAGERS.contains(manager)).map(|manager| Self {
                    found: format!("{kind} {id} was written by field manager {manager:?}"),
                    remedy: format!(
                        "clear the managedFields of every {kind} (kubectl patch --type merge -p \
                         '{{\"metadata\":{{\"managedFields\":[{{}}]}}}}')"
                    ),
                })
            }
        }
    }
}

impl fmt::Display for WatchedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BindingPolicy => "BindingPolicy",
            Self::Binding => "Binding",
            Self::CombinedStatus => "CombinedStatus",
        })
    }
}

/// The first trace, if there is one.
#[derive(Debug)]
pub struct ForeignWriterGuard {
    found: watch::Sender<Option<Detection>>,
    token: CancellationToken,
}

impl Default for ForeignWriterGuard {
    fn default() -> Self {
        Self {
            found: watch::Sender::new(None),
            token: CancellationToken::new(),
        }
    }
}

impl ForeignWriterGuard {
    /// Cancelled with the first trace.
    pub fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Returns with the first trace.
    pub async fn found(&self) -> Detection {
        let mut found = self.found.subscribe();
        let trace = found
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|found| found.clone());
        match trace {
            Some(trace) => trace,
            // The sender is `self`'s, so it is not gone.
            None => std::future::pending().await,
        }
    }

    /// How a kind's watch shows its objects here.
    pub fn shown(self: Arc<Self>, kind: WatchedKind) -> ManagedFields {
        ManagedFields::Shown(Arc::new(move |metadata| self.look(kind, metadata)))
    }

    fn look(&self, kind: WatchedKind, metadata: &ObjectMeta) {
        if self.token.is_cancelled() {
            return;
        }
        if let Some(trace) = Detection::in_metadata(kind, metadata) {
            self.token.cancel();
            error!("{trace}");
            self.found.send_replace(Some(trace));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Detection, WatchedKind};

    #[test]
    fn kubestellars_writes_are_told_from_ours_and_from_everybody_elses() {
        let written = |manager: &str| json!({"name": "x", "managedFields": [{"manager": manager}]});
        let finalizer = |name: &str| json!({"name": "x", "finalizers": ["example.org/keep", name]});
        let cases = [
            (
                WatchedKind::BindingPolicy,
                finalizer("bindingpolicy.kubestellar.io/kscontroller"),
                true,
            ),
            (
                WatchedKind::BindingPolicy,
                finalizer("community.kubestellar.io/binding"),
                false,
            ),
            (WatchedKind::BindingPolicy, json!({"name": "x"}), false),
            // It follows whoever deletes and whoever combines.
            (WatchedKind::BindingPolicy, written("Binding"), false),
            (WatchedKind::Binding, written("Binding"), true),
            (WatchedKind::Binding, written("Status"), true),
            (WatchedKind::Binding, written("controller-manager"), true),
            (WatchedKind::Binding, written("stagegate-binding"), false),
            (WatchedKind::Binding, written("stagegate-combine"), false),
            // Transport works beside either.
            (WatchedKind::Binding, written("transport-controller"), false),
            (WatchedKind::Binding, written("kube-controller-manager"), false),
            (WatchedKind::Binding, written("kubectl-edit"), false),
            (WatchedKind::Binding, json!({"name": "x"}), false),
            (WatchedKind::CombinedStatus, written("Status"), true),
            (WatchedKind::CombinedStatus, written("stagegate-combine"), false),
        ];
        for (kind, metadata, is_trace) in cases {
            let found = Detection::in_metadata(kind, &serde_json::from_value(metadata.clone()).unwrap());
            assert_eq!(found.is_some(), is_trace, "{kind} {metadata}");
        }
    }
}
