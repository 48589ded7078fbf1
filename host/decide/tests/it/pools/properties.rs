//! What must hold of every decision about a YurtAppDaemon, tried on worlds that are drawn from seeds.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::json;
use stagegate_api::workloads::{REVISION_HASH, REVISION_NUMBER, YurtAppDaemonStatus};
use stagegate_api::{Gate, StageState};
use stagegate_decide::pools::{Decision, Facts, Memo, NodePools, Plan, Read, Write, decide};

use super::answers::{Told, settle};
use super::draw::{Drawn, Has, one_in, stages, target};
use super::world::{MARKER, World, seconds, start};
use crate::seeded::{Seeded, budget};

/// More plans in a row than any world needs.
const PLANS_MAX: usize = 40;

pub fn seeds(first: u64, count: usize) -> impl Iterator<Item = Seeded> {
    let count = u64::try_from(count * budget()).unwrap();
    (first..first + count).map(Seeded::new)
}

/// The pools that match, each with the position of its stage.
fn members(world: &World) -> Vec<(String, usize)> {
    let pools = world.clone().pools().clone();
    let matching = pools.into_iter().filter(|(_, pool)| pool.labels["tier"] == "edge");
    let stage_of = |(name, pool): (String, stagegate_decide::pools::Pool)| {
        let mut stages = stages(world).iter();
        let selecting = stages.position(|stage| {
            let mut wanted = stage.nodepool_selector.match_labels.iter().flatten();
            wanted.all(|(key, value)| pool.labels.get(key) == Some(value))
        });
        (name, selecting.unwrap_or(self::stages(world).len()))
    };
    matching.map(stage_of).collect()
}

/// The record of a stage in a status about this revision.
fn is_recorded_passed(status: &YurtAppDaemonStatus, stage: &str) -> bool {
    let mut records = status.stages.iter();
    let is_passed = records.any(|record| record.name == stage && record.state == StageState::Passed);
    status.update_revision.as_deref() == Some(&target()) && is_passed
}

/// Pools that have no new revision and must not get it. Only what nobody may doubt: a stage passes where it might.
fn forbidden(drawn: &Drawn) -> BTreeSet<String> {
    let world = &drawn.world;
    let (members, stages, status) = (members(world), stages(world), world.status());
    let is_paused = world.facts.daemon.spec.update_strategy.as_ref().unwrap().paused;
    let is_lost = status.update_revision.is_none();
    let mut forbidden = BTreeSet::new();
    for at in 0..=stages.len() {
        let of_stage = || members.iter().filter(|(_, stage)| *stage == at).map(|(pool, _)| pool);
        let stage = stages.get(at);
        let is_followed = || {
            members
                .iter()
                .any(|(pool, stage)| *stage > at && drawn.has_revision(pool))
        };
        let is_whole = || of_stage().count() > 0 && of_stage().all(|pool| drawn.is_settled(pool));
        let answers_pass = stage.is_none_or(|stage| {
            let is_true = stage.condition.as_ref().is_none_or(|text| drawn.told.is_true(text));
            is_true && stage.gates.iter().all(|gate| drawn.passes(gate))
        });
        let is_soaked = || {
            let soak = stage.and_then(|stage| stage.soak.as_ref());
            let mut records = status.stages.iter();
            let record = records.find(|record| Some(&record.name) == stage.map(|stage| &stage.name));
            let since = record.and_then(|record| record.passing_since.as_ref());
            soak.is_none() || since.is_some_and(|since| since.0 <= start() - seconds(30))
        };
        let is_known = stage.is_some_and(|stage| is_recorded_passed(&status, &stage.name));
        if is_known || is_lost && is_followed() || is_whole() && answers_pass && is_soaked() {
            if is_paused {
                forbidden.extend(of_stage().filter(|pool| has_workload(drawn, pool)).cloned());
            }
            continue;
        }
        let is_checked = stage.is_some_and(|stage| stage.condition.is_some() || !stage.gates.is_empty());
        let is_begun = of_stage().any(|pool| drawn.is_settled(pool));
        let is_unsettled = of_stage().any(|pool| drawn.has_revision(pool) && !drawn.is_settled(pool));
        let holds = is_checked && is_begun && (is_unsettled || !answers_pass);
        let later = members
            .iter()
            .filter(|(_, stage)| *stage > at || *stage == at && (holds || is_paused));
        forbidden.extend(later.map(|(pool, _)| pool.clone()));
        break;
    }
    forbidden.retain(|pool| !drawn.has_revision(pool));
    forbidden
}

fn has_workload(drawn: &Drawn, pool: &str) -> bool {
    let has = drawn.has.get(pool).copied().unwrap_or(Has::Nothing);
    !matches!(has, Has::Nothing | Has::Unreadable | Has::Orphan | Has::Taken)
}

/// The pools whose workload a plan makes from the new revision.
fn brought(plan: &Plan, number: &str) -> BTreeSet<String> {
    let of_target = plan.writes.iter().filter_map(|write| match write {
        Write::ApplyChild { pool, object, .. } => {
            let metadata = &object["metadata"];
            let is_of_it = metadata["labels"][REVISION_HASH] == json!(target());
            (is_of_it && metadata["annotations"][REVISION_NUMBER] == json!(number)).then(|| pool.clone())
        }
        _ => None,
    });
    of_target.collect()
}

/// The facts of a process that has asked everything before, when everything passed: gates are to be asked again.
fn with_passes_of_before(drawn: &Drawn, seeded: &mut Seeded) -> Facts {
    let mut facts = if one_in(seeded, 2) {
        drawn.world.seen()
    } else {
        drawn.world.read()
    };
    let mut before = drawn.world.clone();
    before.facts.now = start() - seconds(5);
    if let Some((_, known)) = settle(&before, before.read(), &Told::default()) {
        facts.gate_verdicts = known.gate_verdicts;
    }
    facts
}

#[test]
fn unknown_never_moves_a_pool() {
    let (mut moved, mut held) = (0, 0);
    for mut seeded in seeds(1_000, 500) {
        let drawn = Drawn::of(&mut seeded);
        let facts = with_passes_of_before(&drawn, &mut seeded);
        let Some((plan, _)) = settle(&drawn.world, facts, &drawn.told) else {
            continue;
        };
        let forbidden = forbidden(&drawn);
        let brought = brought(&plan, if drawn.is_taken_back { "4" } else { "2" });
        let wrong: Vec<&String> = brought.intersection(&forbidden).collect();
        assert!(
            wrong.is_empty(),
            "seed {}: {wrong:?} of {brought:?}\nhas {:?}\nchanged {:?}\nstages {}\nstatus {}\n{:?}",
            seeded.seed,
            drawn.has,
            drawn.changed,
            json!(stages(&drawn.world)),
            json!(drawn.world.status()),
            drawn.told
        );
        moved += usize::from(brought.iter().any(|pool| !drawn.has_revision(pool)));
        held += usize::from(!forbidden.is_empty());
    }
    assert!(moved > 50 && held > 50, "{moved} moved, {held} held");
}

#[test]
fn nothing_is_written_to_workloads_and_revisions_on_cached_facts() {
    let mut plans = 0;
    for mut seeded in seeds(2_000, 300) {
        let drawn = Drawn::of(&mut seeded);
        let mut facts = drawn.world.seen();
        match seeded.below(8) {
            0 => facts.pools = NodePools::Unserved,
            1 => {
                facts.pools = NodePools::Unread {
                    why: "forbidden".to_owned(),
                }
            }
            _ => {}
        }
        // A plan that needs no reading comes of these facts as they are.
        let Some((plan, found)) = settle(&drawn.world, facts, &drawn.told) else {
            continue;
        };
        if found.read == Read::Cached {
            plans += 1;
            let is_status = |write: &Write| matches!(write, Write::Status { .. });
            assert!(
                plan.writes.iter().all(is_status),
                "seed {}: {:?}",
                seeded.seed,
                plan.writes
            );
        }
    }
    assert!(plans > 30, "{plans} plans");
}

/// Carries plans out until there is nothing to do; each is seen before. False: a question has no answer.
fn carry_on(world: &mut World, told: &Told, mut see: impl FnMut(&World, &Plan)) -> bool {
    for _ in 0..PLANS_MAX {
        let Some((plan, _)) = settle(world, world.seen(), told) else {
            return false;
        };
        see(world, &plan);
        if plan.writes.is_empty() {
            return true;
        }
        world.carry_out(&plan);
    }
    panic!("still writing after {PLANS_MAX} plans")
}

#[test]
fn a_plan_that_is_carried_out_decides_empty() {
    let mut ended = 0;
    for mut seeded in seeds(3_000, 150) {
        let Drawn { mut world, told, .. } = Drawn::of(&mut seeded);
        if !carry_on(&mut world, &told, |_, _| ()) {
            continue;
        }
        ended += 1;
        let Some((plan, _)) = settle(&world, world.read(), &told) else {
            panic!("seed {}: there was an answer before", seeded.seed);
        };
        assert_eq!(plan.writes, [], "seed {}", seeded.seed);
    }
    assert!(ended > 50, "{ended} ended");
}

const fn is_of_workload(write: &Write) -> bool {
    matches!(
        write,
        Write::ApplyChild { .. } | Write::AdoptChild { .. } | Write::DeleteChild(_)
    )
}

#[test]
fn every_plan_begins_with_status_when_it_changes_workloads() {
    let mut told_first = 0;
    for mut seeded in seeds(4_000, 150) {
        let Drawn { mut world, told, .. } = Drawn::of(&mut seeded);
        carry_on(&mut world, &told, |world, plan| {
            let Some(first) = plan.writes.iter().position(is_of_workload) else {
                return;
            };
            let written = plan
                .writes
                .iter()
                .position(|write| matches!(write, Write::Status { .. }));
            assert!(
                written.is_none_or(|at| at < first),
                "seed {}: {:?}",
                seeded.seed,
                plan.writes
            );
            let status = match written.map(|at| &plan.writes[at]) {
                Some(Write::Status { status, .. }) => (**status).clone(),
                _ => world.status(),
            };
            told_first += usize::from(written.is_some());
            assert_eq!(status.update_revision, Some(target()), "seed {}", seeded.seed);
            // Status says that a stage has passed before a pool of a later one follows.
            let members = members(world);
            let number = status_number(world);
            for pool in brought(plan, &number) {
                let Some((_, stage)) = members.iter().find(|(name, _)| *name == pool) else {
                    continue;
                };
                let unproven = stages(world)[..*stage]
                    .iter()
                    .find(|stage| !is_recorded_passed(&status, &stage.name));
                let had = has_it(world, &pool, &number);
                assert!(
                    had || unproven.is_none(),
                    "seed {}: {pool} before {unproven:?}",
                    seeded.seed
                );
            }
        });
    }
    assert!(told_first > 50, "{told_first} told first");
}

/// The number of the new revision, or that which it is to get.
fn status_number(world: &World) -> String {
    let newest = world
        .facts
        .revisions
        .iter()
        .map(|revision| revision.number)
        .max()
        .unwrap_or_default();
    let found = world.facts.revisions.iter().find(|revision| revision.name == target());
    let number = found.map(|revision| revision.number).filter(|number| *number == newest);
    number.unwrap_or(newest + 1).to_string()
}

fn has_it(world: &World, pool: &str, number: &str) -> bool {
    let mut children = world
        .facts
        .children
        .values()
        .map(stagegate_decide::pools::Child::metadata);
    children.any(|metadata| {
        let label = |name: &str| {
            metadata
                .labels
                .as_ref()
                .and_then(|labels| labels.get(name))
                .map(String::as_str)
        };
        let annotations = metadata.annotations.as_ref();
        let found = annotations.and_then(|annotations| annotations.get(REVISION_NUMBER));
        label("apps.openyurt.io/pool-name") == Some(pool)
            && label(REVISION_HASH) == Some(&target())
            && found.is_none_or(|found| found == number)
    })
}

#[test]
fn no_message_holds_a_part_of_the_template() {
    for mut seeded in seeds(5_000, 150) {
        let Drawn { mut world, told, .. } = Drawn::of(&mut seeded);
        let pods = match seeded.below(4) {
            0 => json!(MARKER),
            1 => json!({"spec": {"tolerations": MARKER}}),
            2 => json!({"spec": {"containers": MARKER, "nodeSelector": {"a": MARKER}}}),
            _ => json!({"spec": {"containers": [{"name": "main", "env": [{"name": MARKER, "value": MARKER}]}]}}),
        };
        if one_in(&mut seeded, 2) {
            let template = world
                .daemon()
                .spec
                .workload_template
                .deployment_template
                .as_mut()
                .unwrap();
            template["spec"]["template"] = pods;
            world.edited();
        }
        carry_on(&mut world, &told, |_, plan| {
            let is_status = |write: &&Write| matches!(write, Write::Status { .. });
            let statuses: Vec<&Write> = plan.writes.iter().filter(is_status).collect();
            let text = json!([statuses, plan.events]).to_string();
            assert!(!text.contains(MARKER), "seed {}: {text}", seeded.seed);
        });
    }
}

fn deleted(plan: &Plan) -> Vec<&str> {
    let deleted = plan.writes.iter().filter_map(|write| match write {
        Write::DeleteChild(child) => Some(child.pool.as_str()),
        _ => None,
    });
    deleted.collect()
}

#[test]
fn while_pools_are_not_known_no_workload_and_no_revision_is_written() {
    for mut seeded in seeds(6_000, 150) {
        let Drawn { mut world, told, .. } = Drawn::of(&mut seeded);
        world.facts.pools = if one_in(&mut seeded, 2) {
            NodePools::Unserved
        } else {
            NodePools::Unread {
                why: "forbidden".to_owned(),
            }
        };
        let (plan, _) = settle(&world, world.read(), &told).unwrap();
        let is_status = |write: &Write| matches!(write, Write::Status { .. });
        assert!(
            plan.writes.iter().all(is_status),
            "seed {}: {:?}",
            seeded.seed,
            plan.writes
        );
    }
}

#[test]
fn what_is_not_known_deletes_nothing() {
    let mut deletions = 0;
    for mut seeded in seeds(7_000, 300) {
        let Drawn { mut world, told, .. } = Drawn::of(&mut seeded);
        // One pool is gone, or none matches any more.
        let are_all_gone = one_in(&mut seeded, 2);
        let names: Vec<String> = world.pools().keys().cloned().collect();
        let going = if are_all_gone { names.len() } else { names.len().min(1) };
        for name in &names[..going] {
            if are_all_gone && one_in(&mut seeded, 3) {
                let labels = &mut world.pools().get_mut(name).unwrap().labels;
                labels.insert("tier".to_owned(), "core".to_owned());
            } else {
                world.pools().remove(name);
            }
        }
        let (seen_for, read_for) = [(29, 29), (40, 29), (40, 40)][seeded.below(3)];
        let since = start() - seconds(seen_for);
        world.facts.gone_since = names[..going].iter().map(|name| (name.clone(), since)).collect();
        world.facts.no_pools_since = Some(since);
        let began_at = since + seconds(read_for);
        let facts = Facts {
            read: Read::Anew { began_at },
            ..world.read()
        };
        let Some((plan, _)) = settle(&world, facts, &told) else {
            continue;
        };
        let pools = world.pools();
        let is_any = pools.values().any(|pool| pool.labels["tier"] == "edge");
        let unproven = |pool: &&str| !pools.contains_key(*pool) && names.iter().any(|name| name == pool) || !is_any;
        let wrong: Vec<&str> = deleted(&plan).into_iter().filter(unproven).collect();
        assert!(wrong.is_empty() || read_for >= 30, "seed {}: {wrong:?}", seeded.seed);
        deletions += wrong.len();
    }
    assert!(deletions > 20, "{deletions} deletions after the time");
}

#[test]
fn a_process_that_has_not_seen_a_pool_go_does_not_delete_its_workload() {
    for mut seeded in seeds(8_000, 100) {
        let Drawn { mut world, told, .. } = Drawn::of(&mut seeded);
        world.pools().clear();
        let facts = Facts {
            gone_since: BTreeMap::new(),
            no_pools_since: None,
            ..world.read()
        };
        if let Some((plan, _)) = settle(&world, facts, &told) {
            assert!(deleted(&plan).is_empty(), "seed {}", seeded.seed);
        }
    }
}

/// What an older definition, or another client, may have left.
fn spoil(world: &mut World, seeded: &mut Seeded) {
    let daemon = world.daemon();
    let stage =
        || json!({"name": "", "nodepoolSelector": {}, "maxConcurrent": "many", "soak": "soon", "condition": ""});
    let pick = seeded.below(10);
    match pick {
        0 => daemon.metadata.uid = None,
        1 => daemon.metadata.resource_version = None,
        2 => daemon.metadata.generation = None,
        3 => daemon.metadata.name = None,
        4 => daemon.spec.selector.match_labels = None,
        5 => daemon.spec.workload_template.deployment_template = None,
        6 => daemon.spec.revision_history_limit = Some(-1),
        7 => daemon.status = None,
        8 => {
            let strategy = json!({"stages": [stage(), stage()]});
            daemon.spec.update_strategy = Some(serde_json::from_value(strategy).unwrap());
        }
        _ => {
            let gate = Gate::default();
            let strategy = daemon.spec.update_strategy.as_mut().unwrap();
            strategy
                .stages
                .iter_mut()
                .for_each(|stage| stage.gates = vec![gate.clone(), gate.clone()]);
        }
    }
    let times = [Timestamp::MIN, Timestamp::MAX - seconds(1), start()];
    world.facts.now = times[seeded.below(3)];
    let since = times[seeded.below(3)];
    world.facts.no_pools_since = Some(since);
    world.facts.watching_since = Some(since);
    let names: Vec<String> = world.facts.children.keys().cloned().collect();
    for name in names {
        let pick = seeded.below(8);
        world.change(&name, |view| match pick {
            0 => view.metadata = kube::core::ObjectMeta::default(),
            1 => view.metadata.uid = None,
            2 => view.status.replicas = Some(i64::MIN),
            3 => view.spec.replicas = Some(i64::MAX),
            _ => {}
        });
    }
}

#[test]
fn facts_that_no_server_would_give_are_decided_on_without_a_panic() {
    for mut seeded in seeds(9_000, 300) {
        let Drawn { mut world, told, .. } = Drawn::of(&mut seeded);
        spoil(&mut world, &mut seeded);
        let _plan = settle(&world, world.read(), &told);
        // As they are, without an answer.
        let _first: Decision = decide(&world.seen(), &mut Memo::default());
    }
}
