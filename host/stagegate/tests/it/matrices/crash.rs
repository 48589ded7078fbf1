//! A host that is disturbed at any single call, by a kill, a bad answer or a bad stream, ends where an undisturbed one
//! ends, and has made and removed no more on the interceptor. The rules of [`crate::invariants`] hold throughout.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use stagegate_api::{Phase, StagedBindingPolicyStatus};
use stagegate_embedded::clusters::Presence;

use crate::guests;
use crate::harness::seeded::budget;
use crate::harness::{
    Call, Disturbance, Pace, World, cluster, gate, gated, image, policy, said, shop, staged, state_of, workload,
};
use crate::matrices::{Matrix, in_virtual_time};

/// A watch that says nothing is given up after five minutes.
const END_WITHIN_S: u64 = 900;
/// Nothing is written any more after the end.
const QUIET_S: u64 = 60;

/// A rollout to be disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sample {
    /// Three stages with a condition each; the workload moves.
    Condition,
    /// A gate guards the first of two stages.
    Gate,
    /// The workload spreads.
    Keep,
    /// A cluster is in both of two stages.
    Shared,
    /// Two stages are held at version 1, and version 2 goes through both.
    Release,
}

impl Sample {
    async fn begin(self) -> World {
        if self == Self::Release {
            return Self::with_version_2_to_come().await;
        }
        let world = World::start_without_host(Pace::Fast).await;
        world.apply(&shop()).await;
        world.apply(&workload("web")).await;
        let text = match self {
            Self::Condition => policy("web"),
            Self::Gate => {
                world.apply_gates_namespace().await;
                world
                    .put_gate("min-available", &guests::wasm("gate_min_available"))
                    .await;
                two_stages(&gated("web", &gate("min-available", &json!({"atLeast": 2}))))
            }
            Self::Keep => two_stages(&policy("web")).replacen("  stages:", "  previousStages: Keep\n  stages:", 1),
            Self::Shared => {
                let both =
                    cluster("shared-1", "dev", "{readyAfter: 1s}").replacen("{env: dev}", "{env: dev, also: test}", 1);
                world.apply(&both).await;
                let selectors = "clusterSelectors: [{matchLabels: {env: test}}, {matchLabels: {also: test}}]";
                two_stages(&policy("web")).replacen("clusterSelectors: [{matchLabels: {env: test}}]", selectors, 1)
            }
            Self::Release => unreachable!("it begins otherwise"),
        };
        world.apply(&text).await;
        world
    }

    /// A first host has brought version 1 to both stages and is gone; the workload was edited since.
    async fn with_version_2_to_come() -> World {
        let mut world = World::start_held(Pace::Fast).await;
        world.apply(&shop()).await;
        world.apply(&workload("web")).await;
        world.apply(&two_stages(&staged("web"))).await;
        world.until_phase("web", Phase::Completed, 120).await;
        world.stop_host().await;
        world.edit_deployment("web", image("web", 2)).await;
        // What KubeStellar makes of it is refused.
        world.pass(1).await;
        world.tap.forget();
        world
    }

    /// Version 2, where there is one, is in the last stage: the policy was completed before it came.
    fn has_arrived(self, world: &World) -> bool {
        let truth = world.clusters.truth();
        let mut runs = truth.fared.iter().rev().filter(|fared| fared.cluster == "test-1");
        let image = runs
            .next()
            .map(|fared| fared.spec["template"]["spec"]["containers"][0]["image"].clone());
        self != Self::Release || image == Some(json!("registry.example/web:2"))
    }

    /// The placements that are left at the end.
    fn last_open(self) -> &'static [&'static str] {
        match self {
            Self::Condition => &["prod"],
            Self::Gate | Self::Shared => &["test"],
            Self::Keep | Self::Release => &["dev", "test"],
        }
    }
}

/// Without the third.
pub fn two_stages(policy: &str) -> String {
    policy[..policy.find("  - name: prod").unwrap()].to_owned()
}

/// Where a rollout ended and what it took, as far as that must not depend on a disturbance.
#[derive(Debug, PartialEq)]
struct End {
    phase: Option<Phase>,
    stage: Option<String>,
    stages: Vec<(String, Option<stagegate_api::StageState>)>,
    open: Vec<String>,
    /// Cluster → what it runs, and a digest of it.
    clusters: BTreeMap<String, Vec<(String, String)>>,
    /// Cluster → how often the workload came and went.
    arrivals_and_removals: BTreeMap<String, (usize, usize)>,
    /// BindingPolicy → how often it was created and removed.
    placements: BTreeMap<String, (usize, usize)>,
}

/// What went wrong after the end: writes that nobody asked for.
async fn end_of(world: &World, sample: Sample) -> Result<End, String> {
    let mut status = StagedBindingPolicyStatus::default();
    let mut open = Vec::new();
    for _ in 0..END_WITHIN_S {
        status = world.status("web").await;
        open = world.open("web").await;
        if status.phase == Some(Phase::Completed) && open == sample.last_open() && sample.has_arrived(world) {
            break;
        }
        world.pass(1).await;
    }
    if status.phase != Some(Phase::Completed) || open != sample.last_open() || !sample.has_arrived(world) {
        return Err(format!("{open:?} open after {END_WITHIN_S} s: {}", said(&status)));
    }
    world.pass(5).await;
    // Events may still be on their interceptor.
    let is_counted = |call: &&Call| call.is_write() && !call.target.contains("/events");
    let writes = || world.tap.calls().iter().filter(is_counted).count();
    let before = writes();
    world.pass(QUIET_S).await;
    if writes() != before {
        return Err(format!("{} writes after the end", writes() - before));
    }
    let truth = world.clusters.truth();
    let count = |cluster: &str, presence: Presence| {
        let of_cluster = truth.history.iter().filter(|change| change.cluster == cluster);
        of_cluster.filter(|change| change.presence == presence).count()
    };
    let names = truth.clusters.keys();
    Ok(End {
        phase: status.phase,
        stages: ["dev", "test", "prod"]
            .iter()
            .map(|stage| ((*stage).to_owned(), state_of(&status, stage)))
            .collect(),
        stage: status.active_stage,
        open,
        clusters: truth
            .clusters
            .iter()
            .map(|(name, objects)| {
                let held = objects.iter();
                (
                    name.clone(),
                    held.map(|(object, present)| (object.to_string(), present.digest.clone()))
                        .collect(),
                )
            })
            .collect(),
        arrivals_and_removals: names
            .map(|name| {
                (
                    name.clone(),
                    (count(name, Presence::Present), count(name, Presence::Absent)),
                )
            })
            .collect(),
        placements: made_and_removed(world),
    })
}

fn made_and_removed(world: &World) -> BTreeMap<String, (usize, usize)> {
    let mut counts = BTreeMap::<String, (usize, usize)>::new();
    for commit in world.server.commits(0) {
        if commit.resource == "bindingpolicies.control.kubestellar.io" {
            let count = counts.entry(commit.name.clone()).or_default();
            count.0 += usize::from(commit.before().is_none());
            count.1 += usize::from(commit.removed);
        }
    }
    counts
}

/// Runs the sample with one call disturbed, if any; a host that was killed is started again.
async fn run(sample: Sample, disturbed: Option<(usize, Disturbance)>) -> (Result<End, String>, Vec<Call>) {
    let mut world = sample.begin().await;
    if let Some((nth, disturbance)) = disturbed {
        world.tap.disturb(nth, disturbance);
    }
    start(&mut world).await;
    if matches!(
        disturbed,
        Some((
            _,
            Disturbance::KilledBefore | Disturbance::KilledAt | Disturbance::KilledAfter
        ))
    ) {
        // The number of calls may differ by a few from run to run; then nobody is killed, and the end is the same.
        if tokio::time::timeout(Duration::from_secs(120), world.tap.dry())
            .await
            .is_ok()
        {
            world.kill_host();
            world.tap.flow_again();
            start(&mut world).await;
        }
    }
    let end = end_of(&world, sample).await;
    let (violations, _) = world.violations();
    let broken: Vec<String> = violations.iter().take(3).map(ToString::to_string).collect();
    let calls = world.tap.calls();
    for (rule, _) in crate::invariants::RULES {
        world.waive(rule, "they were looked at here, and are told with the case");
    }
    (if broken.is_empty() { end } else { Err(broken.join("; ")) }, calls)
}

/// As often as it takes: a host that cannot start ends, and is started again.
async fn start(world: &mut World) {
    for _ in 0..5 {
        let tap = world.tap.clone();
        let starting = tokio::time::timeout(Duration::from_secs(60), world.try_start_host());
        tokio::select! {
            started = starting => if matches!(started, Ok(Ok(()))) { return },
            () = tap.dry() => tap.flow_again(),
        }
        world.pass(1).await;
    }
    panic!("the host does not start");
}

/// All calls of an undisturbed run, each disturbed once in each of the given ways that concern it there.
fn disturb_each_call(sample: Sample, disturbances: &[Disturbance]) {
    let (undisturbed, calls) = in_virtual_time(run(sample, None));
    let undisturbed = undisturbed.unwrap_or_else(|failure| panic!("undisturbed: {failure}"));
    let mut matrix = Matrix::new(format!("crash matrix, {sample:?}, {disturbances:?}"));
    for (index, call) in calls.iter().enumerate() {
        for &disturbance in disturbances {
            if !concerns(disturbance, (index, call)) {
                continue;
            }
            let (end, _) = in_virtual_time(run(sample, Some((index + 1, disturbance))));
            let outcome = end.and_then(|end| {
                let is_same = end == undisturbed;
                is_same
                    .then_some(())
                    .ok_or_else(|| format!("{end:?}\n  instead of {undisturbed:?}"))
            });
            let case = || {
                format!(
                    "call {} of {}, {} {}: {disturbance:?}",
                    index + 1,
                    calls.len(),
                    call.method,
                    call.target
                )
            };
            matrix.add(case, outcome);
        }
    }
    assert!(calls.len() > 40, "a rollout in {} calls?", calls.len());
    matrix.end();
}

fn concerns(disturbance: Disturbance, (index, call): (usize, &Call)) -> bool {
    match disturbance {
        // A conflict and one of the others at each call, in turn; with a larger budget all at each.
        Disturbance::Refused(code) => budget() > 1 || code == CONFLICT || code == REFUSALS[index % REFUSALS.len()],
        Disturbance::Stale => !call.is_write() && !call.is_watch(),
        Disturbance::Cut => !call.is_write(),
        _ => true,
    }
}

use Disturbance::{AnswerLost, Cut, KilledAfter, KilledAt, KilledBefore, Refused, Silent, Stale};

const KILLS: &[Disturbance] = &[KilledBefore, KilledAt, KilledAfter];
const CONFLICT: u16 = 409;
const REFUSALS: [u16; 3] = [410, 429, 500];
const ANSWERS: &[Disturbance] = &[AnswerLost, Refused(CONFLICT), Refused(410), Refused(429), Refused(500)];
const STREAMS: &[Disturbance] = &[Cut, Silent, Stale];

macro_rules! matrix {
    ($($name:ident: $sample:ident, $disturbances:ident;)+) => {$(
        #[test]
        fn $name() {
            disturb_each_call(Sample::$sample, $disturbances);
        }
    )+};
}

matrix! {
    a_host_killed_at_any_call_of_a_rollout_with_conditions_loses_nothing: Condition, KILLS;
    a_host_killed_at_any_call_of_a_rollout_with_a_gate_loses_nothing: Gate, KILLS;
    a_host_killed_at_any_call_of_a_rollout_that_spreads_loses_nothing: Keep, KILLS;
    a_host_killed_at_any_call_of_a_rollout_with_a_shared_cluster_loses_nothing: Shared, KILLS;
    a_host_killed_at_any_call_of_an_update_that_goes_through_stages_loses_nothing: Release, KILLS;
    any_bad_answer_in_an_update_that_goes_through_stages_changes_nothing: Release, ANSWERS;
    any_bad_stream_or_stale_list_in_an_update_that_goes_through_stages_changes_nothing: Release, STREAMS;
    any_bad_answer_in_a_rollout_with_conditions_changes_nothing: Condition, ANSWERS;
    any_bad_answer_in_a_rollout_with_a_gate_changes_nothing: Gate, ANSWERS;
    any_bad_answer_in_a_rollout_that_spreads_changes_nothing: Keep, ANSWERS;
    any_bad_answer_in_a_rollout_with_a_shared_cluster_changes_nothing: Shared, ANSWERS;
    any_bad_stream_or_stale_list_in_a_rollout_with_conditions_changes_nothing: Condition, STREAMS;
    any_bad_stream_or_stale_list_in_a_rollout_with_a_gate_changes_nothing: Gate, STREAMS;
    any_bad_stream_or_stale_list_in_a_rollout_that_spreads_changes_nothing: Keep, STREAMS;
    any_bad_stream_or_stale_list_in_a_rollout_with_a_shared_cluster_changes_nothing: Shared, STREAMS;
}
