//! One run: the script, then a time without users and faults, then a check of how it ended.

use stagegate_api::{Phase, StageState, StagedBindingPolicy, StagedBindingPolicyStatus};

use crate::case;
use crate::coverage::Coverage;
use crate::oracle::Violation;
use crate::queue::{Millis, millis};
use crate::script::Script;
use crate::world::{Counts, Event, POLICY, World};

/// How long users and faults have.
const UNREST_MS: Millis = 600_000;
/// How long the rollout may take after that to complete, or status to say what a person must do.
const REST_MS: Millis = 900_000;
/// How many times a person follows status without a further stage passing.
const HELPS_MAX: usize = 9;
/// How long nothing may be written once all rollouts have completed.
const QUIET_MS: Millis = 600_000;
/// How many times it is tried to see such a time.
const QUIET_TIMES: usize = 3;
/// How many writes one report may lead to: a stage becomes unwell at once, and its reason changes when its deadline is over.
const WRITES_MAX: u64 = 2;
/// How long before that nothing may have been reported.
const SETTLED_MS: Millis = 300_000;
/// How long after a workload breaks status may still call it ready.
const WATCHED_MS: Millis = 180_000;

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    pub violation: Option<Violation>,
    pub counts: Counts,
    pub coverage: Coverage,
    pub trace: Vec<String>,
    /// The decision that broke a rule as a case file, of a run that is traced.
    pub case: Option<String>,
}

/// Runs a script from beginning to end, or to the first rule that is broken.
#[must_use]
pub fn run(script: &Script, is_traced: bool) -> Outcome {
    let mut world = World::new(script.clone(), is_traced);
    let violation = through(&mut world).err();
    let fatal = violation.as_ref().filter(|_| is_traced);
    Outcome {
        case: fatal.and_then(|violation| case::of(violation, &world.server)),
        violation,
        counts: world.counts,
        coverage: world.oracle.coverage,
        trace: world.trace.unwrap_or_default(),
    }
}

fn through(world: &mut World) -> Result<(), Violation> {
    let unrest = if world.script.actions.is_empty() { 0 } else { UNREST_MS };
    world.run_until(unrest)?;
    prompt(world)?;
    world.queue.after(0, Event::Settle);
    let (mut helps, mut passed) = (0, 0);
    while helps < HELPS_MAX {
        let end = world.queue.now() + REST_MS;
        while world.queue.now() < end && !is_completed(world) {
            let next = (world.queue.now() + 10_000).min(end);
            world.run_until(next)?;
            // Nothing is gained by waiting for what never comes.
            if world.placement_to_delete().is_some() {
                break;
            }
        }
        if is_completed(world) {
            return quiet(world);
        }
        let said = message(world);
        if stages_passed(world) > passed {
            (helps, passed) = (0, stages_passed(world));
        }
        helps += 1;
        world.queue.after(0, Event::Help(reason(world)));
        world.run_until(world.queue.now())?;
        if world.is_helpless {
            return Err(Violation {
                rule: "lively",
                text: format!(
                    "the rollout has not completed {} s after all was well: {}",
                    REST_MS / 1_000,
                    said
                ),
                facts: None,
            });
        }
    }
    Err(Violation {
        rule: "lively",
        text: format!(
            "what status says has been done {HELPS_MAX} times in vain: {}",
            message(world)
        ),
        facts: None,
    })
}

/// Where nothing excuses a longer wait, the last stage has passed by a stated time.
fn prompt(world: &World) -> Result<(), Violation> {
    let within = world.script.setting.done_within_ms;
    let stages = status(world).into_iter().flat_map(|status| &status.stages);
    let passed_at = stages
        .filter_map(|stage| stage.passed_at.as_ref())
        .map(|time| millis(time.0))
        .max();
    let is_done = is_completed(world) && passed_at.is_some_and(|at| at <= world.acted_at + within);
    // A script may be shrunk until nothing happens any more.
    if within == 0 || world.script.actions.is_empty() || is_done {
        return Ok(());
    }
    Err(Violation {
        rule: "prompt",
        text: format!(
            "the rollout has not completed {} s after the last change: {}",
            within / 1_000,
            message(world)
        ),
        facts: None,
    })
}

fn status(world: &World) -> Option<&StagedBindingPolicyStatus> {
    let policy = world.server.policies.get(POLICY)?;
    policy.status.as_ref()
}

fn is_ready(world: &World) -> bool {
    status(world).is_some_and(|status| {
        let mut conditions = status.conditions.iter();
        conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
    })
}

fn stages_passed(world: &World) -> usize {
    let stages = status(world).into_iter().flat_map(|status| &status.stages);
    stages.filter(|stage| stage.state == StageState::Passed).count()
}

fn is_completed(world: &World) -> bool {
    world
        .server
        .policies
        .get(POLICY)
        .is_some_and(|policy| has_completed(policy))
}

fn has_completed(policy: &StagedBindingPolicy) -> bool {
    let status = policy.status.as_ref();
    status.is_some_and(|status| status.phase == Some(Phase::Completed))
}

fn reason(world: &World) -> String {
    status(world)
        .and_then(|status| status.reason.clone())
        .unwrap_or_default()
}

fn message(world: &World) -> String {
    let ready = status(world).and_then(|status| status.conditions.iter().find(|condition| condition.type_ == "Ready"));
    ready.map_or_else(
        || "no status".to_owned(),
        |ready| format!("{}: {}", ready.reason, ready.message),
    )
}

/// Nothing changes, so nothing is written. What a cluster reports meanwhile, as that a rollout has exceeded its deadline, is a change.
fn quiet(world: &mut World) -> Result<(), Violation> {
    // Another policy may take longer.
    let end = world.queue.now() + REST_MS;
    while world.queue.now() < end && world.server.policies.all().any(|(_, policy)| !has_completed(policy)) {
        let next = (world.queue.now() + 10_000).min(end);
        world.run_until(next)?;
    }
    // What was reported before such a time may take effect in it: an update counts as acknowledged after two minutes of silence.
    let mut reports = world.server.combined.log().len();
    world.run_until(world.queue.now() + SETTLED_MS)?;
    // Some clusters report for ever, as where a workload crashes again and again.
    for _ in 0..QUIET_TIMES {
        let (writes_before, reports_before) = (world.counts.writes, reports);
        reports = world.server.combined.log().len();
        world.run_until(world.queue.now() + QUIET_MS)?;
        let writes = world.counts.writes - writes_before;
        if writes == 0 {
            break;
        }
        // In the time before, too.
        let reported = world.server.combined.log().len() - reports_before;
        if writes > WRITES_MAX * u64::try_from(reported).unwrap_or(u64::MAX) {
            let seconds = QUIET_MS / 1_000;
            return Err(Violation {
                rule: "quiet",
                text: format!("{writes} writes in {seconds} s after {reported} reports"),
                facts: None,
            });
        }
    }
    if world.script.seed.is_multiple_of(4) {
        watched(world)?;
    }
    Ok(())
}

/// A workload that breaks after completion is no longer ready, and one that recovers is.
fn watched(world: &mut World) -> Result<(), Violation> {
    // One that waits for acknowledgements may go on waiting: what breaks then comes second.
    let Some(cluster) = world.watched_cluster().filter(|_| is_ready(world)) else {
        return Ok(());
    };
    for is_sick in [true, false] {
        world.sicken(cluster, 0, is_sick);
        world.run_until(world.queue.now() + WATCHED_MS)?;
        let is_ready = is_ready(world);
        if is_ready == is_sick {
            return Err(Violation {
                rule: "watched",
                text: format!(
                    "{} s after a completed workload has {}, status says Ready={is_ready}",
                    WATCHED_MS / 1_000,
                    if is_sick { "broken" } else { "recovered" }
                ),
                facts: None,
            });
        }
    }
    Ok(())
}
