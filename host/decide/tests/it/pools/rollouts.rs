//! Whole updates of the pools, in which every workload rolls out some time. Must not have anything that holds one.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};
use stagegate_api::Phase;
use stagegate_api::workloads::POOL_NAME;
use stagegate_decide::pools::{Child, Plan};

use super::answers::{Told, settle};
use super::draw::{Has, add_pool, bare, is_of_target, one_in, put, stages, strategy, target};
use super::world::{POOLS, World, roll_out, seconds};
use crate::seeded::{Seeded, budget};

/// More rounds than the largest update needs.
const ROUNDS_MAX: usize = 120;

/// An update that has just begun: no pool has the new revision.
fn beginning(seeded: &mut Seeded) -> World {
    let mut strategy = strategy(seeded, true);
    strategy["paused"] = json!(false);
    let mut labels = BTreeMap::new();
    for pool in &POOLS[..1 + seeded.below(POOLS.len())] {
        labels.insert(*pool, seeded.below(4).to_string());
    }
    // A stage without a pool would wait for one.
    let mut left: Vec<&String> = labels.values().collect();
    let stages = strategy["stages"].as_array_mut().unwrap();
    stages.retain(|stage| {
        let wanted = &stage["nodepoolSelector"]["matchLabels"]["s"];
        let before = left.len();
        left.retain(|label| wanted != &Value::Null && *wanted != json!(label));
        left.len() < before
    });
    let mut world = bare(strategy);
    world.facts.revisions.truncate(1);
    let states = [
        Has::Old,
        Has::Old,
        Has::Nothing,
        Has::OldByHand,
        Has::OldUnready,
        Has::Orphan,
    ];
    for (pool, stage) in &labels {
        put(&mut world, pool, states[seeded.below(states.len())]);
        add_pool(&mut world, pool, json!({"tier": "edge", "s": stage}));
    }
    world
}

/// By stage: the pools of it, those that have the new revision, and those of them that are not rolled out.
fn counts(world: &World) -> Vec<[usize; 3]> {
    let mut counts = vec![[0; 3]; stages(world).len() + 1];
    let selectors: Vec<_> = stages(world)
        .iter()
        .map(|stage| stage.nodepool_selector.match_labels.clone())
        .collect();
    for (name, pool) in world.clone().pools() {
        let selects = |labels: &Option<BTreeMap<String, String>>| {
            labels
                .iter()
                .flatten()
                .all(|(key, value)| pool.labels.get(key) == Some(value))
        };
        let at = selectors.iter().position(selects).unwrap_or(selectors.len());
        counts[at][0] += 1;
        for child in world.facts.children.values() {
            let Child::Known(view) = child else { continue };
            if view.spec.selector.match_labels[POOL_NAME] == *name && is_of_target(view) {
                counts[at][1] += 1;
                let is_seen = view.status.observed_generation == view.metadata.generation;
                let is_done = is_seen && view.status.available_replicas == view.spec.replicas;
                counts[at][2] += usize::from(!is_done);
            }
        }
    }
    counts
}

/// By stage: in how many pools at once.
fn limits(world: &World) -> Vec<usize> {
    let counts = counts(world);
    let limit = |(at, [pools, ..]): (usize, &[usize; 3])| match stages(world)
        .get(at)
        .and_then(|stage| stage.max_concurrent.as_ref())
    {
        None => usize::MAX,
        Some(IntOrString::Int(number)) => usize::try_from(*number).unwrap(),
        Some(IntOrString::String(text)) => {
            let percent: usize = text.trim_end_matches('%').parse().unwrap();
            (pools * percent / 100).max(1)
        }
    };
    counts.iter().enumerate().map(limit).collect()
}

/// No stage has more pools on their way than it may, and none has begun before the one before it is whole.
fn check(world: &World, limits: &[usize], (seed, plan): (u64, &Plan)) {
    let counts = counts(world);
    for (at, [_, _, unsettled]) in counts.iter().enumerate() {
        let limit = limits[at];
        assert!(
            *unsettled <= limit,
            "seed {seed}, stage {at}: {counts:?} {limits:?} {:?}",
            plan.writes
        );
        let is_begun = |later: &[usize; 3]| later[1] > 0;
        let is_whole = counts[at][0] == counts[at][1] && *unsettled == 0;
        assert!(
            is_whole || !counts[at + 1..].iter().any(is_begun),
            "seed {seed}, stage {at}: {counts:?}"
        );
    }
}

#[test]
fn a_rollout_that_nothing_holds_ends() {
    let seeds = u64::try_from(60 * budget()).unwrap();
    for seed in 10_000..10_000 + seeds {
        let mut seeded = Seeded::new(seed);
        let mut world = beginning(&mut seeded);
        let limits = limits(&world);
        let mut rounds = 0;
        while world.status().phase != Some(Phase::Completed) || world.status().update_revision != Some(target()) {
            rounds += 1;
            assert!(
                rounds < ROUNDS_MAX,
                "seed {seed}: {} {}",
                json!(stages(&world)),
                json!(world.status())
            );
            let (plan, _) = settle(&world, world.seen(), &Told::default()).unwrap();
            world.carry_out(&plan);
            check(&world, &limits, (seed, &plan));
            world.facts.now += seconds(11);
            let names: Vec<String> = world.facts.children.keys().cloned().collect();
            for name in names {
                if one_in(&mut seeded, 2) {
                    world.change(&name, roll_out);
                }
            }
        }
        let counts = counts(&world);
        assert!(
            counts
                .iter()
                .all(|[pools, new, unsettled]| pools == new && *unsettled == 0),
            "seed {seed}: {counts:?}"
        );
    }
}
