//! Numbers that are not counted but looked up when somebody asks: queues, watches, the sandbox's children. Must answer at
//! once: nobody waits for a lock that is held long.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use stagegate_runtime::leader::Leadership;
use stagegate_runtime::metrics::RuntimeMetrics;
use stagegate_runtime::queue::Load;
use stagegate_runtime::watch::Watched;
use stagegate_sandbox::Sandbox;
use tokio::sync::watch;

use crate::metrics::RolloutMetrics;

/// What is looked up.
#[derive(Debug)]
pub struct Scrape {
    pub metrics: Arc<RuntimeMetrics>,
    pub rollouts: Arc<RolloutMetrics>,
    pub sandbox: Arc<Sandbox>,
    pub leadership: watch::Receiver<Leadership>,
}

/// A gauge of each queue: name, help, value.
type OfQueue = (&'static str, &'static str, fn(&Load) -> f64);

const OF_QUEUES: &[OfQueue] = &[
    ("workqueue_depth", "Keys that are due and not handed out yet", |load| {
        count(load.due)
    }),
    (
        "workqueue_oldest_seconds",
        "For how long the first of the due keys has been due",
        |load| load.oldest.as_secs_f64(),
    ),
    ("workqueue_active", "Keys that are worked on", |load| {
        count(load.running)
    }),
    (
        "workqueue_longest_step_seconds",
        "For how long the slowest key that is worked on has made no progress",
        |load| load.longest_step.as_secs_f64(),
    ),
    (
        "workqueue_retrying",
        "Keys that failed last time and are retried",
        |load| count(load.failing),
    ),
];

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let queues = self.metrics.queues();
        let loads: Vec<(&'static str, Load)> = queues.iter().map(|(name, queue)| (*name, queue.load())).collect();
        for (name, help, value) in OF_QUEUES {
            let values = loads.iter().map(|(controller, load)| (*controller, value(load)));
            gauges(&mut encoder, (name, help), ("controller", values))?;
        }
        let mut family = encoder.encode_descriptor(
            "workqueue_retries",
            "Failures, each followed by a retry",
            None,
            MetricType::Counter,
        )?;
        for (controller, load) in &loads {
            let labels = [("controller", *controller)];
            ConstCounter::new(load.retries).encode(family.encode_family(&labels)?)?;
        }
        self.watches(&mut encoder)?;
        if let Some(policies) = self.rollouts.each_policy() {
            policies.encode(&mut encoder)?;
        }
        let leads = *self.leadership.borrow() != Leadership::Standby;
        let help = "1 when this process may write: it holds the lease, or there is no election";
        let leader = encoder.encode_descriptor("leader", help, None, MetricType::Gauge)?;
        ConstGauge::new(f64::from(u8::from(leads))).encode(leader)?;
        let children = ConstGauge::new(count(self.sandbox.processes().len()));
        let of_children = encoder.encode_descriptor(
            "sandbox_children",
            "Processes that gates run in",
            None,
            MetricType::Gauge,
        )?;
        children.encode(of_children)?;
        let help = "Processes of gates that had to be ended, or ended by themselves, in the middle of a call";
        let kills = encoder.encode_descriptor("sandbox_kills", help, None, MetricType::Counter)?;
        ConstCounter::new(self.sandbox.kills()).encode(kills)
    }
}

impl Scrape {
    /// Of several watches that have one label, the worst.
    fn watches(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut by_label: BTreeMap<&'static str, Vec<Arc<Watched>>> = BTreeMap::new();
        for watched in self.metrics.watches() {
            by_label.entry(watched.label()).or_default().push(watched);
        }
        let listed = by_label.iter().map(|(label, watches)| {
            let all = watches.iter().all(|watched| watched.is_listed());
            (*label, f64::from(u8::from(all)))
        });
        let help = "1 when the kind was listed as a whole; 0: what needs it waits";
        gauges(encoder, ("watch_listed", help), ("kind", listed))?;
        let silent = by_label.iter().filter_map(|(label, watches)| {
            let last = watches.iter().filter_map(|watched| watched.last_event());
            Some((*label, last.min()?.elapsed().as_secs_f64()))
        });
        let help = "Time since the last list, event or bookmark; a bookmark comes every minute";
        gauges(encoder, ("watch_last_event_age_seconds", help), ("kind", silent))
    }
}

fn gauges(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    (label, values): (&'static str, impl Iterator<Item = (&'static str, f64)>),
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (of, value) in values {
        let labels = [(label, of)];
        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

#[allow(
    clippy::cast_precision_loss,
    reason = "counts of keys and processes are far below 2^52"
)]
const fn count(number: usize) -> f64 {
    number as f64
}
