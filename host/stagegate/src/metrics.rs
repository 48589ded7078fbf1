//! What this program counts beside what any controller counts: expressions, gates, stages and policies. Must not influence
//! anything, and must never have a label that users or clusters choose the value of: series would be without bound. Those of each policy are the exception, and have a bound: see [`PolicySeries`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use stagegate_api::{Outcome, Phase};
use stagegate_runtime::metrics::seconds;

use crate::policy_series::PolicySeries;

/// The kinds that are told apart in numbers: those that are watched, and `events` and `leases`, which are only written or asked for.
pub const KINDS: &[&str] = &[
    "stagedbindingpolicies",
    "bindingpolicies",
    "bindings",
    "statuscollectors",
    "combinedstatuses",
    "workstatuses",
    "managedclusters",
    "namespaces",
    "configmaps",
    "customresourcedefinitions",
    "yurtappdaemons",
    "nodepools",
    "controllerrevisions",
    "events",
    "leases",
];

type CounterBy = Family<[(&'static str, &'static str); 1], Counter>;
type GaugeBy = Family<[(&'static str, &'static str); 1], Gauge>;

/// The phase that a policy is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedPhase {
    /// The stored policy cannot be decoded.
    InvalidObject,
    /// It has no status yet, or one without a phase.
    None,
    Of(Phase),
}

impl CountedPhase {
    /// In the order in which a reader looks for them.
    pub const ALL: [Self; 8] = [
        Self::Of(Phase::Progressing),
        Self::Of(Phase::Holding),
        Self::Of(Phase::Paused),
        Self::Of(Phase::Completed),
        Self::Of(Phase::Failed),
        Self::Of(Phase::Stalled),
        Self::None,
        Self::InvalidObject,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidObject => "InvalidObject",
            Self::None => "None",
            Self::Of(phase) => phase.as_str(),
        }
    }
}

/// An outcome as a label.
const fn label(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "pass",
        Outcome::Hold => "hold",
        Outcome::Fail => "fail",
        Outcome::Unknown => "unknown",
    }
}

/// The numbers of rollouts.
pub struct RolloutMetrics {
    registry: Registry,
    evaluations: Counter,
    evaluation_seconds: Histogram,
    compilations: Counter,
    gate_verdicts: CounterBy,
    gate_seconds: Histogram,
    stages_opened: Counter,
    transition_seconds: Histogram,
    policies: GaugeBy,
    each_policy: Option<Arc<PolicySeries>>,
}

impl fmt::Debug for RolloutMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RolloutMetrics")
            .field("evaluations", &self.evaluations())
            .field("compilations", &self.compilations())
            .finish_non_exhaustive()
    }
}

/// From ten microseconds to a second: expressions.
fn quick() -> Histogram {
    Histogram::new([
        0.000_01, 0.000_05, 0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0,
    ])
}

impl Default for RolloutMetrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("stagegate"),
            evaluations: Counter::default(),
            evaluation_seconds: quick(),
            compilations: Counter::default(),
            gate_verdicts: Family::default(),
            gate_seconds: seconds(),
            stages_opened: Counter::default(),
            transition_seconds: seconds(),
            policies: Family::default(),
            each_policy: None,
        };
        metrics.register();
        for outcome in [Outcome::Pass, Outcome::Hold, Outcome::Fail, Outcome::Unknown] {
            drop(metrics.gate_verdicts.get_or_create(&[("outcome", label(outcome))]));
        }
        for phase in CountedPhase::ALL {
            drop(metrics.policies.get_or_create(&[("phase", phase.as_str())]));
        }
        metrics
    }
}

impl RolloutMetrics {
    /// With name and help.
    fn register(&mut self) {
        let registry = &mut self.registry;
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The program that runs", version);
        let help = "CEL expressions evaluated; answers from memory do not count";
        registry.register("cel_evaluations", help, self.evaluations.clone());
        let help = "Of one CEL expression";
        registry.register("cel_evaluation_duration_seconds", help, self.evaluation_seconds.clone());
        let help = "CEL expressions compiled";
        registry.register("cel_compilations", help, self.compilations.clone());
        let help = "Answers of gates; unknown: it gave none";
        registry.register("gate_verdicts", help, self.gate_verdicts.clone());
        let help = "Of one call of a gate, the wait for its process included";
        registry.register("gate_duration_seconds", help, self.gate_seconds.clone());
        let help = "BindingPolicies opened; each brings a workload to the clusters of a stage";
        registry.register("stages_opened", help, self.stages_opened.clone());
        let help = "From the event that completed the evidence until the next stage was opened";
        registry.register("transition_duration_seconds", help, self.transition_seconds.clone());
        let help = "StagedBindingPolicies by phase; None: without a status yet, InvalidObject: cannot be decoded";
        registry.register("policies", help, self.policies.clone());
    }

    pub fn evaluation(&self, took: Duration) {
        self.evaluations.inc();
        self.evaluation_seconds.observe(took.as_secs_f64());
    }

    pub fn compilation(&self) {
        self.compilations.inc();
    }

    /// Expressions evaluated so far; answers from memory do not count.
    pub fn evaluations(&self) -> u64 {
        self.evaluations.get()
    }

    /// Expressions compiled so far.
    pub fn compilations(&self) -> u64 {
        self.compilations.get()
    }

    pub fn gate_verdict(&self, outcome: Outcome, took: Duration) {
        self.gate_verdicts.get_or_create(&[("outcome", label(outcome))]).inc();
        self.gate_seconds.observe(took.as_secs_f64());
    }

    /// So long after the event that led to it.
    pub fn stage_opened(&self, after: Option<Duration>) {
        self.stages_opened.inc();
        if let Some(after) = after {
            self.transition_seconds.observe(after.as_secs_f64());
        }
    }

    /// With series of each policy besides.
    pub fn with_each_policy(self, series: Arc<PolicySeries>) -> Self {
        Self {
            each_policy: Some(series),
            ..self
        }
    }

    pub fn each_policy(&self) -> Option<&Arc<PolicySeries>> {
        self.each_policy.as_ref()
    }

    /// A policy has come to this phase, and left that one.
    pub fn policy(&self, left: Option<CountedPhase>, reached: Option<CountedPhase>) {
        if left == reached {
            return;
        }
        if let Some(phase) = left {
            self.policies.get_or_create(&[("phase", phase.as_str())]).dec();
        }
        if let Some(phase) = reached {
            self.policies.get_or_create(&[("phase", phase.as_str())]).inc();
        }
    }

    /// Appends them as OpenMetrics text, without its end mark.
    ///
    /// # Errors
    /// Never, as long as text can be written.
    pub fn encode(&self, text: &mut String) -> fmt::Result {
        text::encode_registry(text, &self.registry)
    }
}
