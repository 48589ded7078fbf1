//! One rollout by hosts whose requests are let through one by one, from the first object to long after its end.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use stagegate_api::{BindingPolicySpec, Phase};

use super::case::{Case, Edit, Rollout};
use crate::harness::schedule::{Chooser, Done, Schedule};
use crate::harness::{Pace, World, deployment_of, image, shop, workload};
use crate::invariants::RULES;

/// Of virtual time, for a run in which writes are held back for a minute each.
const LIMIT: Duration = Duration::from_secs(1_800);
/// After the end a host may still hear of what was before it, and what it writes then may be held back.
const GRACE: Duration = Duration::from_secs(90);
/// Then nothing is written for so long.
const QUIET: Duration = Duration::from_secs(150);
/// The image that a release brings.
const VERSION_2: &str = "registry.example/web:2";

/// Where a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    phase: Option<Phase>,
    stage: Option<String>,
    /// Whether each is open.
    placements: BTreeMap<String, bool>,
    /// What the last stage is placed with. An earlier one that is kept has what the policy said when it was active.
    last: Option<BindingPolicySpec>,
    /// Cluster → the image that it runs.
    clusters: BTreeMap<String, String>,
}

/// A run and what came of it.
pub struct Run {
    pub log: Vec<Done>,
    pub end: End,
    /// What the policy was edited to in the end: it may be over before an edit comes.
    pub edited: Edit,
    pub wrongs: Vec<String>,
}

impl Run {
    /// How often each object was created and deleted.
    pub fn made_and_removed(&self) -> BTreeMap<String, (usize, usize)> {
        let mut counts = BTreeMap::<String, (usize, usize)>::new();
        for done in self.log.iter().filter(|done| done.is_committed()) {
            match done.what.split_once(' ') {
                Some(("POST", object)) => counts.entry(object.to_owned()).or_default().0 += 1,
                Some(("DELETE", object)) => counts.entry(object.to_owned()).or_default().1 += 1,
                _ => {}
            }
        }
        counts
    }

    pub fn conflicts(&self) -> usize {
        self.log.iter().filter(|done| done.code == 409).count()
    }

    /// What was sent by whom, in order, and how it was answered.
    pub fn story(&self) -> Vec<String> {
        let line = |done: &Done| format!("{} host {} {}: {}", done.at, done.host, done.what, done.code);
        self.log.iter().map(line).collect()
    }
}

/// Runs it in a runtime of its own, so that nothing of another run is left in it.
pub fn run(case: &Case, chooser: impl Chooser) -> Result<Run, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    catch_unwind(AssertUnwindSafe(|| runtime.block_on(rollout(case, chooser)))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.unwrap_or_else(|| panic.downcast_ref::<&str>().unwrap_or(&"a panic").to_string())
    })
}

/// The hosts, and what they are to do.
async fn begin<C: Chooser>(case: &Case, chooser: C) -> Schedule<C> {
    let wall: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let mut world = World::start_at(wall + SignedDuration::from_millis(case.phase_ms), Pace::Fast).await;
    if case.rollout == Rollout::Release {
        stagegate::held_bindings::install(&world.client).await.unwrap();
        world.start_host().await;
        apply(&world, case).await;
        world.until_phase("web", Phase::Completed, 180).await;
        world.stop_host().await;
        world.edit_deployment("web", image("web", 2)).await;
        return Schedule::new(world, case.setting(), chooser);
    }
    let schedule = Schedule::new(world, case.setting(), chooser);
    apply(&schedule.world, case).await;
    schedule
}

async fn apply(world: &World, case: &Case) {
    world.apply(&shop()).await;
    world.apply(&workload("web")).await;
    world.apply(&case.policy()).await;
}

async fn rollout(case: &Case, chooser: impl Chooser) -> Run {
    let mut schedule = begin(case, chooser).await;
    let is_over = async |world: &World| {
        let policy = world.policies().get("web").await.unwrap();
        let status = policy.status.unwrap_or_default();
        status.phase == Some(Phase::Completed)
            && status.observed_generation == policy.metadata.generation
            && world.open("web").await.len() == case.open()
            && (case.rollout != Rollout::Release || images(world).values().all(|image| image == VERSION_2))
    };
    let mut wrongs = Vec::new();
    if !schedule.run(LIMIT, is_over).await {
        let status = schedule.world.status("web").await;
        wrongs.push(format!(
            "not over within {LIMIT:?}: {:?} {:?}",
            status.phase, status.reason
        ));
    }
    schedule.run(GRACE, async |_| false).await;
    let written = schedule.log.len();
    schedule.run(QUIET, async |_| false).await;
    wrongs.extend(
        schedule.log[written..]
            .iter()
            .map(|done| format!("written after the end: {}", done.what)),
    );
    wrongs.extend(schedule.fallen().iter().map(|host| format!("host {host} has ended")));
    let edited = edited(&schedule.world).await;
    let end = end_of(&schedule.world).await;
    let truth = schedule.world.clusters.truth();
    for cluster in ["prod-1", "prod-2"] {
        if !truth.removals(cluster, &deployment_of("web")).is_empty() {
            wrongs.push(format!("{cluster} lost the workload"));
        }
    }
    if case.hosts > 1 {
        let because = "each host says what it sees; how often they may contradict each other is counted";
        schedule.world.waive("quiet", because);
        schedule.world.waive("intent", because);
    }
    let (violations, _) = schedule.world.violations();
    wrongs.extend(violations.iter().map(ToString::to_string));
    for (rule, _) in RULES {
        schedule
            .world
            .waive(rule, "it is among the wrongs, and the next cases are to be run");
    }
    let log = schedule.log;
    Run {
        log,
        end,
        edited,
        wrongs,
    }
}

async fn edited(world: &World) -> Edit {
    let spec = world.policies().get("web").await.unwrap().spec;
    if spec.downsync[0].want_singleton_reported_state {
        Edit::Clause
    } else if spec.stages[0].cluster_selectors.len() > 1 {
        Edit::Selectors
    } else {
        Edit::None
    }
}

async fn end_of(world: &World) -> End {
    let status = world.status("web").await;
    let placements = world.binding_policies().list(&Default::default()).await.unwrap();
    End {
        phase: status.phase,
        stage: status.active_stage,
        placements: placements
            .iter()
            .map(|it| (it.name_any(), !it.spec.cluster_selectors.is_empty()))
            .collect(),
        last: placements
            .into_iter()
            .find(|it| it.name_any() == "web.stage.prod")
            .map(|mut it| {
                // A release names one twice, or no longer, so that KubeStellar looks.
                it.spec.cluster_selectors.dedup();
                it.spec
            }),
        clusters: images(world),
    }
}

/// The images of the clusters that have the workload.
fn images(world: &World) -> BTreeMap<String, String> {
    let truth = world.clusters.truth();
    let mut images = BTreeMap::new();
    for fared in &truth.fared {
        if truth.present(&fared.cluster, &deployment_of("web")).is_some() {
            let image = fared.spec["template"]["spec"]["containers"][0]["image"].as_str();
            images.insert(fared.cluster.clone(), image.unwrap_or_default().to_owned());
        }
    }
    images
}
