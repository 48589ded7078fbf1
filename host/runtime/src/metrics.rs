//! What the controllers of a process did so far, as numbers that only grow, and the queues and watches to be asked how they are.
//! Must not influence anything, and must never have a label that users or clusters choose the value of: series would be without
//! bound.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::queue::Loaded;
use super::watch::{Need, WatchCounts, Watched};

/// The kinds that no label of their own is known for, all together: what is workload has whatever kinds users have.
pub const WORKLOAD: &str = "workload";

/// What was counted, over all controllers and kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Reconciles ended.
    pub reconciles: u64,
    /// Reconciles that ended in an error and were put off.
    pub failures: u64,
    /// Writes that the API server accepted.
    pub writes: u64,
    /// Writes refused because the object had changed meanwhile.
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
pub struct RuntimeMetrics {
    registry: Registry,
    /// Plurals of the kinds that are told apart in numbers.
    kinds: &'static [&'static str],
    reconciles: CounterBy<2>,
    reconcile_seconds: HistogramBy<1>,
    requests: CounterBy<3>,
    request_seconds: HistogramBy<1>,
    writes: Counter,
    conflicts: Counter,
    watch_counts: WatchCounts,
    events_dropped: Counter,
    queues: Mutex<Vec<(&'static str, Arc<dyn Loaded>)>>,
    watches: Mutex<Vec<Weak<Watched>>>,
}

impl fmt::Debug for RuntimeMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RuntimeMetrics").field(&self.totals()).finish()
    }
}

/// From a millisecond to a minute.
pub fn seconds() -> Histogram {
    Histogram::new([
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    ])
}

impl RuntimeMetrics {
    /// Nothing counted yet. `kinds`: plurals that requests and watches are told apart by; all others are [`WORKLOAD`].
    pub fn new(kinds: &'static [&'static str]) -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("stagegate"),
            kinds,
            reconciles: Family::default(),
            reconcile_seconds: Family::new_with_constructor(seconds),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(seconds),
            writes: Counter::default(),
            conflicts: Counter::default(),
            watch_counts: WatchCounts::default(),
            events_dropped: Counter::default(),
            queues: Mutex::default(),
            watches: Mutex::default(),
        };
        metrics.register();
        metrics
    }

    /// With name and help.
    fn register(&mut self) {
        let registry = &mut self.registry;
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
        let help = "Writes refused because the object had changed; KubeStellar makes them routine";
        registry.register("write_conflicts", help, self.conflicts.clone());
        self.watch_counts.register(registry);
        let help = "Kubernetes Events that were not written: too many, or refused";
        registry.register("events_dropped", help, self.events_dropped.clone());
    }

    /// The label of a kind by its plural.
    pub fn label(&self, plural: &str) -> &'static str {
        let known = self.kinds.iter().find(|known| **known == plural);
        known.copied().unwrap_or(WORKLOAD)
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

    pub fn event_dropped(&self) {
        self.events_dropped.inc();
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

    /// A new watch of the kind with this name, which is a plural. It is known here as long as it lives.
    pub fn add_watch(&self, name: &str, need: Need) -> Arc<Watched> {
        let watch = Arc::new(Watched::new(name, self.label(name), need, self.watch_counts.clone()));
        let mut watches = lock(&self.watches);
        watches.retain(|watch| watch.strong_count() > 0);
        watches.push(Arc::downgrade(&watch));
        watch
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

    /// What was counted so far.
    pub fn totals(&self) -> Totals {
        let controllers: BTreeSet<&'static str> = lock(&self.queues).iter().map(|(name, _)| *name).collect();
        let reconciles = |ended: Reconciled| -> u64 {
            let of = |controller: &&'static str| [("controller", *controller), ("outcome", ended.as_str())];
            let counts = controllers
                .iter()
                .filter_map(|name| Some(self.reconciles.get(&of(name))?.get()));
            counts.sum()
        };
        let [done, conflict, failed, panic] = Reconciled::ALL.map(reconciles);
        let lists = self
            .kinds
            .iter()
            .chain([&WORKLOAD])
            .filter_map(|kind| self.watch_counts.lists_of(kind));
        Totals {
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
