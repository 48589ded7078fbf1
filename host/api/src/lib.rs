//! The custom resources exactly as users and KubeStellar write them, and the few names the rest of Stagegate shares.
//!
//! One kind per file, in reading order below. This crate holds no decision and no I/O: it may not depend on a client,
//! an async runtime or a Wasm engine, and it never extends a schema of KubeStellar's.

#![deny(missing_docs)]

pub mod gate;
pub mod staged_binding_policy;
pub mod staged_status;

pub mod binding;
pub mod binding_policy;
pub mod clause;
pub mod combined_status;
pub mod combined_status_view;
pub mod evidence;
pub mod hex;
pub mod managed_cluster;
pub mod simulated_cluster;
pub mod simulated_node;
pub mod simulation_rule;
pub mod status_collector;
pub mod work_status;
pub mod workloads;

pub mod crd;
pub mod printable;

mod bounds;
mod digest;
mod names;
mod object_status;
mod units;

pub use binding::{Binding, BindingSpec, BindingStatus, BoundObject, Destination, Workload};
pub use binding_policy::{BindingPolicy, BindingPolicySpec, BindingPolicyStatus};
pub use clause::DownsyncClause;
pub use combined_status::{Cell, CellType, CollectorResult, CombinedStatus, Row, RowError};
pub use combined_status_view::{CollectorView, CombinedStatusView, RowErrorView};
pub use digest::Digest;
pub use evidence::{EvidenceRow, EvidenceView, Reported};
pub use gate::{ConfigMapEntry, Gate, GateLimits, GateModule};
pub use managed_cluster::{ManagedCluster, ManagedClusterSpec};
pub use names::{ClusterName, ResourceVersion, StageName, Uid};
pub use object_status::{ContentBefore, ObjectStatus, PendingUpdate, ReportedGeneration};
pub use simulated_cluster::{SimulatedCluster, SimulatedClusterSpec};
pub use simulated_node::{SimulatedNode, SimulatedNodeSpec, SimulatedTaint};
pub use simulation_rule::{Progressing, SimulationRule};
pub use staged_binding_policy::{
    PreviousStages, Stage, StageHealth, StagedBindingPolicy, StagedBindingPolicySpec, UnacknowledgedUpdates, Updates,
};
pub use staged_status::{
    BindingPolicyRef, CheckStatus, EvidencePiece, HoldTracking, Outcome, Phase, StageState, StageStatus, StageTracking,
    StagedBindingPolicyStatus, StoredStatus,
};
pub use status_collector::{
    CombinedField, NamedExpression, StatusCollector, StatusCollectorSpec, StatusCollectorStatus,
};
pub use units::{parse_duration, parse_mebibytes, parse_soak};
pub use work_status::{SourceRef, WorkStatus, WorkStatusSpec};

/// API group of the kinds that belong to this project's users.
pub const GROUP: &str = "community.kubestellar.io";
/// API group of KubeStellar's own kinds: read them, write BindingPolicies and one StatusCollector, extend nothing.
pub const KUBESTELLAR_GROUP: &str = "control.kubestellar.io";
/// API group of the simulated clusters of the playground.
pub const PLAYGROUND_GROUP: &str = "playground.community.kubestellar.io";
/// API group of the inventory (Open Cluster Management).
pub const INVENTORY_GROUP: &str = "cluster.open-cluster-management.io";
/// The one version all kinds above but the inventory's are served in.
pub const VERSION: &str = "v1alpha1";

/// Annotations on a stage's BindingPolicy; they carry what a restart has to find again.
pub mod annotation {
    macro_rules! annotations {
        ($($name:ident = $key:literal, $meaning:literal;)*) => {
            $(#[doc = $meaning] pub const $name: &str = concat!("community.kubestellar.io/", $key);)*

            /// Each annotation with its meaning.
            pub const ALL: &[(&str, &str)] = &[$(($name, $meaning),)*];
        };
    }

    annotations! {
        REVISION = "revision", "the revision that the placement is at: a digest of the policy's clauses and, with `updates: Staged`, of the objects' versions";
        ATTEMPT = "attempt", "the attempt that opened or last changed the placement: a decimal number";
        BASELINE_VERSION = "baseline-version", "resourceVersion of the CombinedStatuses, read before the placement was opened: evidence must be newer";
        OPENED_AT_VERSION = "opened-at-version", "resourceVersion of the list of CombinedStatuses when the controller last began an attempt of this stage; while this stage is open, an open later stage counts as proof that this one has passed only if the later stage's value is not lower; while it is not open, only if status does not say that it was placed at this revision and has not passed";
        FENCING_TOKEN = "fencing-token", "policy generation and number of lease transitions, raised on a closed placement and, while paused, on an open one: a leader with an older view can no longer open or change it";
        REPLACED = "replaced", "`metadata.generation` that the last change of an open placement replaced: if the generation is still the same, nothing of the change was stored; empty: the change brought other versions of the same objects to the same clusters";
    }
}

/// Annotation on a Binding whose policy has `updates: Staged`: the versions that it may name, in the order of its lists and each after a
/// blank, as `<group>/<resource>/<namespace>/<name>@<resourceVersion>`; the namespace of a cluster-scoped object is empty. An admission
/// policy (deploy/kustomize/staged-updates) refuses every other workload.
pub const ADMITTED_VERSIONS: &str = "community.kubestellar.io/admitted-versions";

/// The five labels, and no other, that KubeStellar puts on a CombinedStatus.
pub mod label {
    /// API group of the workload object; empty for the core group.
    pub const API_GROUP: &str = "status.kubestellar.io/api-group";
    /// Lower-case plural resource of the workload object.
    pub const RESOURCE: &str = "status.kubestellar.io/resource";
    /// Namespace of the workload object; empty for a cluster-scoped one.
    pub const NAMESPACE: &str = "status.kubestellar.io/namespace";
    /// Name of the workload object.
    pub const NAME: &str = "status.kubestellar.io/name";
    /// Name of the BindingPolicy.
    pub const BINDING_POLICY: &str = "status.kubestellar.io/binding-policy";
}

/// Namespace that holds the CombinedStatus of a cluster-scoped workload object.
pub const REPORT_NAMESPACE: &str = "kubestellar-report";
/// Finalizer that KubeStellar's binding controller keeps on every BindingPolicy: a trace of it.
pub const KUBESTELLAR_FINALIZER: &str = "bindingpolicy.kubestellar.io/kscontroller";
/// Finalizer that our `binding` puts on BindingPolicies in the playground, as KubeStellar does with its own. On a real cluster
/// there is none: a deletion must not wait for a process that may be gone.
pub const BINDING_POLICY_FINALIZER: &str = "community.kubestellar.io/binding";
/// Condition type on Binding and BindingPolicy that says whether every named StatusCollector exists.
pub const STATUS_COLLECTORS_AVAILABLE: &str = "StatusCollectorsAvailable";

/// Longest `policy name + stage name`, in bytes.
///
/// A Binding's name becomes a label value (at most 63 characters), and a stage's BindingPolicy is called
/// `<policy>.stage.<stage>`, which spends seven. KubeStellar fails silently and for ever on a longer one.
pub const MAX_POLICY_AND_STAGE_NAME: usize = 56;

/// Longest name of a policy with `updates: Staged`, in bytes: see [`versions_binding_policy_name`].
pub const MAX_STAGED_POLICY_NAME: usize = 54;

/// Name of the BindingPolicy that selects the objects of a policy with `updates: Staged` and no cluster: its Binding names the newest
/// version of each.
pub fn versions_binding_policy_name(policy: &str) -> String {
    format!("{policy}.versions")
}

/// Name of the BindingPolicy that places one stage of a policy.
pub fn stage_binding_policy_name(policy: &str, stage: &str) -> String {
    format!("{policy}.stage.{stage}")
}
