//! What the controllers of one process are started with. Must not start anything.

use std::collections::BTreeSet;
use std::sync::Arc;

use stagegate_decide::staging::GateNamespaces;
use stagegate_runtime::leader::Election;
use stagegate_sandbox::{Sandbox, SandboxOptions};

/// The controllers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ControllerName {
    /// StagedBindingPolicies: what this project is about.
    Staging,
    /// BindingPolicy to Binding, in KubeStellar's place.
    Binding,
    /// Returned statuses to CombinedStatus, in KubeStellar's place.
    Combine,
    /// YurtAppDaemons: a workload in every node pool.
    YurtAppDaemon,
}

/// What to run and how fast.
#[derive(Clone, Debug)]
pub struct Options {
    pub controllers: BTreeSet<ControllerName>,
    /// How long a Binding's set must stand unchanged; see `stagegate_decide::staging::Settings`.
    pub settle_ms: i64,
    pub delays: Delays,
    /// Whether `binding` puts a finalizer on each BindingPolicy, as KubeStellar does.
    pub adds_finalizer: bool,
    /// Namespaces whose ConfigMaps may be run.
    pub gate_namespaces: GateNamespaces,
    /// Where they are run. Hosts that share one share what it has compiled.
    pub sandbox: Arc<Sandbox>,
    /// How several processes agree on the one that writes; `None`: this is the only one.
    pub election: Option<Election>,
    /// Whether metrics have series of each policy; see [`crate::policy_series`].
    pub has_series_of_each_policy: bool,
}

impl Default for Options {
    /// For a real cluster: KubeStellar's own controllers run there.
    fn default() -> Self {
        Self {
            controllers: BTreeSet::from([ControllerName::Staging]),
            settle_ms: 3_000,
            delays: Delays::default(),
            adds_finalizer: false,
            gate_namespaces: GateNamespaces::default(),
            sandbox: Sandbox::new(SandboxOptions::default()),
            election: None,
            has_series_of_each_policy: false,
        }
    }
}

/// How long after the first change a controller in KubeStellar's place writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    pub binding_ms: u64,
    pub combine_ms: u64,
}

impl Default for Delays {
    /// KubeStellar's.
    fn default() -> Self {
        Self {
            binding_ms: 2_000,
            combine_ms: 5_000,
        }
    }
}
