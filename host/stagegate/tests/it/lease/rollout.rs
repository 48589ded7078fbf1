//! A rollout whose leader is killed, or cut off, at any of its writes while another process stands by: it goes on within the
//! lease and five seconds, and ends as an undisturbed one, with nothing placed twice and nothing late that counts.

use std::collections::BTreeMap;
use std::time::Duration;

use stagegate::options::Options;
use stagegate::start::{self, RunningControllers};
use stagegate_api::{Phase, StageState, annotation};
use stagegate_embedded::clusters::Presence;
use stagegate_embedded::{Commit, CommitAuthor};
use stagegate_runtime::leader::Leadership;
use tokio::time::Instant;

use super::interceptor::{Cut, Interceptor};
use super::{TAKEOVER_MAX, election};
use crate::harness::{Pace, World, policy, said, shop, state_of, workload};
use crate::invariants::RULES;
use crate::matrices::{Matrix, in_virtual_time};

/// Of virtual time.
const END_WITHIN: Duration = Duration::from_secs(180);

/// What happens to the leader at one of its writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It dies, and what it has just sent is lost.
    Killed,
    /// It dies, and what it has just sent arrives half a minute later.
    KilledAndLate,
    /// Nothing of it gets through for forty seconds; then all that it has sent meanwhile arrives, and it lives on.
    CutOff,
}

/// Where a rollout ended and what it took.
#[derive(Debug, PartialEq)]
struct End {
    stages: Vec<Option<StageState>>,
    open: Vec<String>,
    /// Cluster → how often the workload came and went.
    moves: BTreeMap<String, (usize, usize)>,
    /// Placement and attempt, in the order in which they were opened.
    opened: Vec<(String, String)>,
}

struct Stage {
    world: World,
    first: Interceptor,
    second: Interceptor,
    hosts: [Option<RunningControllers>; 2],
}

impl Stage {
    async fn begin() -> Self {
        let mut world = World::start_without_host(Pace::Fast).await;
        world.apply(&shop()).await;
        world.apply(&workload("web")).await;
        let router = world.server.router();
        let (first, second) = (
            Interceptor::new(router.clone(), "host-first"),
            Interceptor::new(router, "host-second"),
        );
        world.note_host();
        let hosts = [
            Some(start(&world, &first, "first").await),
            Some(start(&world, &second, "second").await),
        ];
        Self {
            world,
            first,
            second,
            hosts,
        }
    }

    fn second_leads(&self) -> bool {
        let second = self.hosts[1].as_ref().unwrap().leadership();
        *second.borrow() != Leadership::Standby
    }
}

/// The first that is started leads.
async fn start(world: &World, interceptor: &Interceptor, identity: &str) -> RunningControllers {
    let options = Options {
        election: Some(election(identity)),
        ..world.host_options()
    };
    let running = start::start(interceptor.client(), world.clock(), options)
        .await
        .unwrap();
    if identity == "first" {
        let mut leadership = running.leadership();
        let leading = |leadership: &Leadership| *leadership != Leadership::Standby;
        let _leading = leadership.wait_for(leading).await.unwrap();
    }
    running
}

/// Runs one rollout. `None` for the write: the first one leads to the end. Gives the end and how often the leader wrote.
async fn run(disturbed: Option<(usize, Fate)>) -> Result<(End, usize), String> {
    let mut stage = Stage::begin().await;
    if let Some((nth, _)) = disturbed {
        stage.first.cut(Cut::FromWrite(nth));
    }
    stage.world.apply(&policy("web")).await;
    let taken_over = match disturbed {
        Some((_, fate)) => upset(&mut stage, fate).await?,
        None => None,
    };
    let end = end_of(&stage.world).await;
    if taken_over.is_none() && stage.second.writes() > 0 {
        return Err(format!("{} writes of a process that stands by", stage.second.writes()));
    }
    // Whatever was under way has arrived by then, and what it has done is put right.
    stage.world.pass(60).await;
    let late = late(&stage.world, taken_over);
    let (violations, _) = stage.world.violations();
    for (rule, _) in RULES {
        stage
            .world
            .waive(rule, "it was looked at here, and is told with the case");
    }
    let mut wrongs: Vec<String> = violations.iter().take(3).map(ToString::to_string).collect();
    wrongs.extend(late);
    match (wrongs.is_empty(), end) {
        (true, Ok(())) => Ok((ended(&stage.world).await, stage.first.writes())),
        (_, end) => Err(format!("{end:?} {}", wrongs.join("; "))),
    }
}

/// Gives the version of the last commit before the other process took over. The number of writes may differ by one from run
/// to run; then nothing happens, and the end is the same.
async fn upset(stage: &mut Stage, fate: Fate) -> Result<Option<u64>, String> {
    let waited = tokio::time::timeout(END_WITHIN, stage.first.is_cut()).await;
    if waited.is_err() {
        return Ok(None);
    }
    let cut = Instant::now();
    if fate != Fate::CutOff {
        drop(stage.hosts[0].take());
    }
    while !stage.second_leads() {
        if cut.elapsed() > TAKEOVER_MAX {
            return Err(format!("nobody has taken over within {TAKEOVER_MAX:?}"));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let version = stage.world.server.commits(0).last().map_or(0, |commit| commit.version);
    let mended_in = match fate {
        Fate::Killed => return Ok(Some(version)),
        Fate::KilledAndLate => Duration::from_secs(30),
        Fate::CutOff => Duration::from_secs(40),
    };
    let first = stage.first.clone();
    tokio::spawn(async move {
        tokio::time::sleep(mended_in.saturating_sub(cut.elapsed())).await;
        first.cut(Cut::Nothing);
    });
    Ok(Some(version))
}

/// What of the first process has changed anything that counts after the other one took over. A new closed placement
/// selects nothing, and Events are nothing but told.
fn late(world: &World, taken_over: Option<u64>) -> Vec<String> {
    let Some(version) = taken_over else { return Vec::new() };
    let by_first = |commit: &Commit| matches!(&commit.author, CommitAuthor::Request(it) if it.user == "host-first");
    let commits = world
        .server
        .commits(0)
        .into_iter()
        .filter(|commit| commit.version > version);
    let counts = commits.filter(|commit| {
        let is_created = commit.before().is_none();
        by_first(commit) && !is_created && !commit.resource.starts_with("events")
    });
    counts
        .map(|commit| format!("late: {} {} at {}", commit.resource, commit.name, commit.at))
        .collect()
}

async fn end_of(world: &World) -> Result<(), String> {
    let end = Instant::now() + END_WITHIN;
    loop {
        let status = world.status("web").await;
        if status.phase == Some(Phase::Completed) && world.open("web").await == ["prod"] {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(format!("not over within {END_WITHIN:?}: {}", said(&status)));
        }
        world.pass(1).await;
    }
}

async fn ended(world: &World) -> End {
    let status = world.status("web").await;
    let truth = world.clusters.truth();
    let count = |cluster: &str, presence: Presence| {
        let of_cluster = truth.history.iter().filter(|change| change.cluster == cluster);
        of_cluster.filter(|change| change.presence == presence).count()
    };
    let moves = truth.clusters.keys().map(|name| {
        let moves = (count(name, Presence::Present), count(name, Presence::Absent));
        (name.clone(), moves)
    });
    End {
        stages: ["dev", "test", "prod"]
            .iter()
            .map(|stage| state_of(&status, stage))
            .collect(),
        open: world.open("web").await,
        moves: moves.collect(),
        opened: opened(world),
    }
}

fn opened(world: &World) -> Vec<(String, String)> {
    let selects = |object: &serde_json::Value| {
        object["spec"]["clusterSelectors"]
            .as_array()
            .is_some_and(|selectors| !selectors.is_empty())
    };
    let placements = world
        .server
        .commits(0)
        .into_iter()
        .filter(|it| it.resource.starts_with("bindingpolicies"));
    let opened = placements.filter(|commit| {
        let is_open = commit.after().is_some_and(|after| selects(&after));
        is_open && !commit.before().is_some_and(|before| selects(&before))
    });
    opened
        .map(|commit| {
            let after = commit.after().unwrap_or_default();
            (
                commit.name.clone(),
                after["metadata"]["annotations"][annotation::ATTEMPT].to_string(),
            )
        })
        .collect()
}

#[test]
fn a_leader_that_is_killed_or_cut_off_at_any_write_of_a_rollout_is_replaced_without_harm() {
    let (undisturbed, writes) = in_virtual_time(run(None)).unwrap();
    assert!(writes > 12, "a rollout in {writes} writes?");
    assert_eq!(undisturbed.opened.len(), 3);
    let mut matrix = Matrix::new("leaders that are lost");
    for nth in 1..=writes {
        for fate in [Fate::Killed, Fate::KilledAndLate, Fate::CutOff] {
            let outcome = in_virtual_time(run(Some((nth, fate)))).and_then(|(end, _)| {
                let is_same = end == undisturbed;
                is_same
                    .then_some(())
                    .ok_or_else(|| format!("{end:?}\n  instead of {undisturbed:?}"))
            });
            matrix.add(|| format!("{fate:?} at write {nth} of {writes}"), outcome);
        }
    }
    matrix.end();
}
