//! What the process did so far, as numbers that only grow, and what it has at hand to be asked how it is. Must not
//! influence anything, and must never have a label that users or clusters choose the value of: series would be without
//! bound.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::queue::Loaded;
use super::watch::{WATCHED, Watched};

/// A snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Expressions evaluated; answers from the cache do not count.
    pub evaluations: u64,
    /// Expressions compiled.
    pub compilations: u64,
    /// Reconciles ended, of all controllers.
    pub reconciles: u64,
    /// Reconciles that ended in an error and were put off.
    pub failures: u64,
    /// Writes that the API server accepted.
    pub writes: u64,
    /// Writes refused because the object had moved on.
    pub conflicts: u64,
    /// Watches that were begun anew with a list, the first time included.
    pub lists: u64,
}

type Labels<const N: usize> = [(&'static str, &'static str); N];
type CounterBy<const N: usize> = Family<Labels<N>, Counter>;
type HistogramBy<const N: usize> = Family<Labels<N>, Histogram, fn() -> Histogram>;

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconciled {
    Done,
    /// An object has changed meanwhile: the API server refused a write.
    Conflict,
    Failed,
    /// It panicked.
    Panic,
}

impl Reconciled {
    const ALL: [Self; 4] = [Self::Done, Self::Conflict, Self::Failed, Self::Panic];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Conflict => "conflict",
            Self::Failed => "failed",
            Self::Panic => "panic",
        }
    }
}

/// The live numbers, and the queues and watches that are asked when they are looked at.
pub struct Live {
    registry: Registry,
    evaluations: Counter,
    evaluation_seconds: Histogram,
    compilations: Counter,
    reconciles: CounterBy<2>,
    reconcile_seconds: HistogramBy<1>,
    requests: CounterBy<3>,
    request_seconds: HistogramBy<1>,
    writes: Counter,
    conflicts: Counter,
    lists: CounterBy<1>,
    watches_begun: CounterBy<1>,
    gate_verdicts: CounterBy<1>,
    gate_seconds: Histogram,
    stages_opened: Counter,
    transition_seconds: Histogram,
    events_dropped: Counter,
    policies: Family<Labels<1>, Gauge>,
    queues: Mutex<Vec<(&'static str, Arc<dyn Loaded>)>>,
    watches: Mutex<Vec<Weak<Watched>>>,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Live").field(&self.snapshot()).finish()
    }
}

impl Default for Live {
    fn default() -> Self {
        let live = Self {
            registry: Registry::default(),
            evaluations: Counter::default(),
            evaluation_seconds: quick(),
            compilations: Counter::default(),
            reconciles: Family::default(),
            reconcile_seconds: Family::new_with_constructor(seconds),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(seconds),
            writes: Counter::default(),
            conflicts: Counter::default(),
            lists: Family::default(),
            watches_begun: Family::default(),
            gate_verdicts: Family::default(),
            gate_seconds: seconds(),
            stages_opened: Counter::default(),
            transition_seconds: seconds(),
            events_dropped: Counter::default(),
            policies: Family::default(),
            queues: Mutex::default(),
            watches: Mutex::default(),
        };
        live.registered()
    }
}

/// From a millisecond to a minute: requests, reconciles, gates, transitions.
fn seconds() -> Histogram {
    Histogram::new([
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    ])
}

/// From ten microseconds to a second: expressions.
fn quick() -> Histogram {
    Histogram::new([
        0.000_01, 0.000_05, 0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0,
    ])
}

impl Live {
    /// With every metric known by name and help.
    fn registered(mut self) -> Self {
        let mut registry = Registry::with_prefix("stagegate");
        registry.register(
            "build",
            "The program that runs",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        self.register_shell(&mut registry);
        self.register_rollouts(&mut registry);
        for outcome in ["pass", "hold", "fail", "unknown"] {
            drop(self.gate_verdicts.get_or_create(&[("outcome", outcome)]));
        }
        self.registry = registry;
        self
    }

    fn register_shell(&self, registry: &mut Registry) {
        let help = "Reconciles ended; conflict: an object has changed meanwhile";
        registry.register("reconciles", help, self.reconciles.clone());
        let help = "From a key handed out to its end";
        registry.register("reconcile_duration_seconds", help, self.reconcile_seconds.clone());
        let help = "Requests to the API server by the class of the answer's code; error: the connection failed, unanswered: \
                    given up by the caller";
        registry.register("api_requests", help, self.requests.clone());
        let help = "Until the head of the answer; of a watch, until it began";
        registry.register("api_request_duration_seconds", help, self.request_seconds.clone());
        let help = "Writes that the API server accepted";
        registry.register("writes", help, self.writes.clone());
        let help = "Writes refused because the object had moved on; KubeStellar makes them routine";
        registry.register("write_conflicts", help, self.conflicts.clone());
        let help = "Lists begun for a watch: at the start, and when one could not go on";
        registry.register("watch_lists", help, self.lists.clone());
        let help = "Watches begun; the server ends each after five minutes at the latest";
        registry.register("watches", help, self.watches_begun.clone());
        let help = "Kubernetes Events that were not written: too many, or refused";
        registry.register("events_dropped", help, self.events_dropped.clone());
    }

    fn register_rollouts(&self, registry: &mut Registry) {
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
        let help = "StagedBindingPolicies by phase";
        registry.register("policies", help, self.policies.clone());
    }

    pub fn evaluation(&self, took: Duration) {
        self.evaluations.inc();
        self.evaluation_seconds.observe(took.as_secs_f64());
    }

    pub fn compilation(&self) {
        self.compilations.inc();
    }

    /// A reconcile of this controller has ended.
    pub fn reconcile(&self, controller: &'static str, ended: Reconciled, took: Duration) {
        let labels = [("controller", controller), ("outcome", ended.as_str())];
        self.reconciles.get_or_create(&labels).inc();
        self.reconcile_seconds
            .get_or_create(&[("controller", controller)])
            .observe(took.as_secs_f64());
    }

    /// A request has ended; `code` is the class of its answer's code.
    pub fn request(&self, (verb, kind, code): (&'static str, &'static str, &'static str), took: Duration) {
        self.requests
            .get_or_create(&[("verb", verb), ("kind", kind), ("code", code)])
            .inc();
        self.request_seconds
            .get_or_create(&[("verb", verb)])
            .observe(took.as_secs_f64());
    }

    pub fn write(&self) {
        self.writes.inc();
    }

    pub fn conflict(&self) {
        self.conflicts.inc();
    }

    pub fn list(&self, kind: &'static str) {
        self.lists.get_or_create(&[("kind", kind)]).inc();
    }

    pub fn watch(&self, kind: &'static str) {
        self.watches_begun.get_or_create(&[("kind", kind)]).inc();
    }

    pub fn gate_verdict(&self, outcome: &'static str, took: Duration) {
        self.gate_verdicts.get_or_create(&[("outcome", outcome)]).inc();
        self.gate_seconds.observe(took.as_secs_f64());
    }

    /// So long after the event that led to it.
    pub fn stage_opened(&self, after: Option<Duration>) {
        self.stages_opened.inc();
        if let Some(after) = after {
            self.transition_seconds.observe(after.as_secs_f64());
        }
    }

    pub fn event_dropped(&self) {
        self.events_dropped.inc();
    }

    /// A policy has come to this phase, and left that one.
    pub fn policy(&self, left: Option<&'static str>, reached: Option<&'static str>) {
        if left == reached {
            return;
        }
        if let Some(phase) = left {
            self.policies.get_or_create(&[("phase", phase)]).dec();
        }
        if let Some(phase) = reached {
            self.policies.get_or_create(&[("phase", phase)]).inc();
        }
    }

    /// The queue of the controller of this name, from when its keys are handed out.
    pub fn add_queue(&self, controller: &'static str, queue: Arc<dyn Loaded>) {
        for ended in Reconciled::ALL {
            let labels = [("controller", controller), ("outcome", ended.as_str())];
            drop(self.reconciles.get_or_create(&labels));
        }
        lock(&self.queues).push((controller, queue));
    }

    pub fn queues(&self) -> Vec<(&'static str, Arc<dyn Loaded>)> {
        lock(&self.queues).clone()
    }

    /// A watch, as long as it lives.
    pub fn add_watch(&self, watch: &Arc<Watched>) {
        let mut watches = lock(&self.watches);
        watches.retain(|watch| watch.strong_count() > 0);
        watches.push(Arc::downgrade(watch));
    }

    pub fn watches(&self) -> Vec<Arc<Watched>> {
        lock(&self.watches).iter().filter_map(Weak::upgrade).collect()
    }

    /// As OpenMetrics text, without its end mark.
    ///
    /// # Errors
    /// Never, as long as text can be written.
    pub fn encode(&self, text: &mut String) -> fmt::Result {
        text::encode_registry(text, &self.registry)
    }

    pub fn snapshot(&self) -> Counters {
        let controllers = super::start::CONTROLLERS;
        let reconciles = |ended: Reconciled| -> u64 {
            let of = |controller: &&'static str| [("controller", *controller), ("outcome", ended.as_str())];
            let counts = controllers
                .iter()
                .filter_map(|name| Some(self.reconciles.get(&of(name))?.get()));
            counts.sum()
        };
        let [done, conflict, failed, panic] = Reconciled::ALL.map(reconciles);
        let lists = WATCHED
            .iter()
            .filter_map(|kind| Some(self.lists.get(&[("kind", *kind)])?.get()));
        Counters {
            evaluations: self.evaluations.get(),
            compilations: self.compilations.get(),
            reconciles: done + conflict + failed + panic,
            failures: conflict + failed,
            writes: self.writes.get(),
            conflicts: self.conflicts.get(),
            lists: lists.sum(),
        }
    }
}

/// No code that can panic runs under these locks, so a poisoned one is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
