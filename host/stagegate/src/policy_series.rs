//! Series of each policy, for those who ask for them with `--metrics-per-policy`. They are the only ones with a label that users choose
//! the value of, so their number has a bound: policies beyond it are counted and not left out silently.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use stagegate_api::{Phase, StagedBindingPolicy, StagedBindingPolicyStatus};
use stagegate_clock::SharedClock;

use crate::metrics::CountedPhase;

/// Policies that have series: if there are more, the first by name. Each has one series for every phase, and two more.
pub const POLICIES_MAX: usize = 1_000;

/// Where the policies stand, kept by what the watch reports.
pub struct PolicySeries {
    clock: SharedClock,
    all: Mutex<BTreeMap<String, PolicyProgress>>,
}

/// Of one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyProgress {
    phase: CountedPhase,
    /// The stage that is not passed yet, and since when it is its turn.
    waits: Option<(String, Timestamp)>,
    /// When a stage was last placed or passed.
    moved_at: Option<Timestamp>,
}

impl PolicyProgress {
    /// Of an object that cannot be decoded.
    pub const UNREADABLE: Self = Self {
        phase: CountedPhase::InvalidObject,
        waits: None,
        moved_at: None,
    };

    /// As status has it. A policy without a status waits since it was created: no replica has looked at it.
    pub fn of(policy: &StagedBindingPolicy) -> Self {
        let nothing = StagedBindingPolicyStatus::default();
        let status = policy.status.as_ref().unwrap_or(&nothing);
        let moves = status
            .stages
            .iter()
            .flat_map(|stage| [&stage.placed_at, &stage.passed_at]);
        let moved_at = moves.filter_map(time).max();
        let active = status.active_stage.as_deref().unwrap_or_default();
        let placed_at = status.stages.iter().find(|stage| stage.name == active);
        let placed_at = placed_at.and_then(|stage| time(&stage.placed_at));
        let created_at = time(&policy.metadata.creation_timestamp);
        let waits = (status.phase != Some(Phase::Completed))
            .then(|| placed_at.or(moved_at).or(created_at))
            .flatten()
            .map(|since| (active.to_owned(), since));
        Self {
            phase: status.phase.map_or(CountedPhase::None, CountedPhase::Of),
            waits,
            moved_at,
        }
    }
}

fn time(time: &Option<Time>) -> Option<Timestamp> {
    time.as_ref().map(|time| time.0)
}

impl fmt::Debug for PolicySeries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PolicySeries").field(&self.lock().len()).finish()
    }
}

impl PolicySeries {
    pub fn new(clock: SharedClock) -> Arc<Self> {
        Arc::new(Self {
            clock,
            all: Mutex::default(),
        })
    }

    /// `None`: the policy is gone.
    pub fn set(&self, policy: &str, progress: Option<PolicyProgress>) {
        match progress {
            Some(progress) => drop(self.lock().insert(policy.to_owned(), progress)),
            None => drop(self.lock().remove(policy)),
        }
    }

    /// No code that can panic runs under this lock, so a poisoned one is whole.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, PolicyProgress>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// # Errors
    /// Never, as long as text can be written.
    pub fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (shown, others): (Vec<_>, usize) = {
            let all = self.lock();
            let shown = all.iter().take(POLICIES_MAX);
            let shown = shown.map(|(name, progress)| (name.clone(), progress.clone())).collect();
            (shown, all.len().saturating_sub(POLICIES_MAX))
        };
        let phases = shown.iter().flat_map(|(policy, progress)| {
            let of_policy = CountedPhase::ALL.into_iter().map(|phase| {
                let is_in = u8::from(phase == progress.phase);
                (labels(policy, ("phase", phase.as_str())), f64::from(is_in))
            });
            of_policy.collect::<Vec<_>>()
        });
        let help = "1 for the phase that the policy is in";
        gauges(encoder, ("policy_phase", help), phases)?;
        let now = self.clock.now();
        let waiting = shown.iter().filter_map(|(policy, progress)| {
            let (stage, since) = progress.waits.as_ref()?;
            let waited = now.duration_since(*since).max(SignedDuration::ZERO);
            Some((labels(policy, ("stage", stage)), waited.as_secs_f64()))
        });
        let help = "How long the policy has waited for its current stage to pass; none while it is Completed";
        gauges(encoder, ("policy_stage_seconds", help), waiting)?;
        let moved = shown.iter().map(|(policy, progress)| {
            let at = progress.moved_at.unwrap_or(Timestamp::UNIX_EPOCH);
            (
                vec![("policy", policy.as_str())],
                at.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64(),
            )
        });
        let help = "When a stage of the policy was last placed or passed, since 1970; 0: never";
        gauges(encoder, ("policy_last_transition_timestamp_seconds", help), moved)?;
        let help = "Policies beyond the first 1,000 by name, which have no series of their own";
        let rest = encoder.encode_descriptor("policies_without_series", help, None, MetricType::Gauge)?;
        ConstGauge::new(u32::try_from(others).map_or(f64::INFINITY, f64::from)).encode(rest)
    }
}

fn labels<'a>(policy: &'a str, other: (&'static str, &'a str)) -> Vec<(&'static str, &'a str)> {
    vec![("policy", policy), other]
}

fn gauges<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    values: impl Iterator<Item = (L, f64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in values {
        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
