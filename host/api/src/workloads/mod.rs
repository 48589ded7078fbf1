//! Kinds of the workload controllers, which keep a workload in every node pool of one cluster. Must not decide anything.

mod node_pool;
mod workload_view;
mod yurt_app_daemon;

pub use node_pool::{NodePool, NodePoolSpec};
pub use workload_view::{
    ConditionView, ContainerView, PodSpecView, PodTemplateView, SelectorView, WorkloadSpecView, WorkloadStatusView,
    WorkloadView,
};
pub use yurt_app_daemon::{
    PoolStage, PoolStageStatus, TemplateType, UpdateStrategy, WorkloadSummary, WorkloadTemplate, YurtAppDaemon,
    YurtAppDaemonSpec, YurtAppDaemonStatus,
};

/// API group of YurtAppDaemon and NodePool, which is OpenYurt's.
pub const OPENYURT_GROUP: &str = "apps.openyurt.io";

/// Label of a node: the pool that it belongs to.
pub const NODE_POOL_OF_NODE: &str = "apps.openyurt.io/nodepool";
/// Label of a workload and of its Pods: the pool that it was made for.
pub const POOL_NAME: &str = "apps.openyurt.io/pool-name";
/// Annotation of a workload: the pool that it was made for.
pub const REF_NODE_POOL: &str = "apps.openyurt.io/ref-nodepool";
/// Label of a workload and of its Pods: the ControllerRevision that it was made from.
pub const REVISION_HASH: &str = "apps.openyurt.io/controller-revision-hash";
/// Annotation of a workload: a digest of what Stagegate applied last. A workload without it was made by another controller.
pub const APPLIED_DIGEST: &str = "community.kubestellar.io/applied-digest";
/// Annotation of a workload: the number that its ControllerRevision had when the workload got it. A template that is taken back raises the
/// number, and the pools get the revision again in their turn.
pub const REVISION_NUMBER: &str = "community.kubestellar.io/revision-number";

/// Revisions that are kept where `revisionHistoryLimit` is absent.
pub const REVISION_HISTORY_LIMIT: i32 = 10;
