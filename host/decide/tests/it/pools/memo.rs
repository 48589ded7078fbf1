//! What earlier decisions found out changes no decision, whatever happens between them.

use k8s_openapi::api::core::v1::Taint;
use serde_json::json;
use stagegate_decide::pools::{Child, Facts, Memo, NodePools, Read, decide, gone_pools};

use super::answers::settle;
use super::draw::{Drawn, Has, add_pool, one_in, put};
use super::properties::seeds;
use super::world::{POOLS, World, change_by_hand, roll_out, seconds, template};
use crate::seeded::Seeded;

/// Decisions that share a memo.
const STEPS: usize = 12;

/// Anything that a decision may rest on.
fn happen(world: &mut World, seeded: &mut Seeded) {
    let pool = POOLS[seeded.below(POOLS.len())];
    let names: Vec<String> = world.facts.children.keys().cloned().collect();
    let name = names.get(seeded.below(names.len().max(1))).cloned().unwrap_or_default();
    match seeded.below(12) {
        0 => world.change(&name, roll_out),
        1 => world.change(&name, change_by_hand),
        2 => world.change(&name, |view| view.status.available_replicas = Some(1)),
        3 => world.change(&name, |view| view.metadata.labels = None),
        4 => world.change(&name, |view| view.metadata.owner_references = None),
        5 => drop(world.children().remove(&name)),
        6 => put(
            world,
            pool,
            [Has::Orphan, Has::Twins, Has::New, Has::Unreadable][seeded.below(4)],
        ),
        7 => world.set_template(1 + seeded.below(3)),
        8 => add_pool(world, pool, json!({"tier": "edge", "s": seeded.below(4).to_string()})),
        9 => {
            let taint = json!({"key": "late", "effect": "NoExecute"});
            let taint: Taint = serde_json::from_value(taint).unwrap();
            world
                .pools()
                .values_mut()
                .for_each(|pool| pool.taints = vec![taint.clone()]);
        }
        10 => drop(world.pools().remove(pool)),
        _ if one_in(seeded, 2) => {
            // Another one with its name: what is there is not its own.
            world.daemon().metadata.uid = Some("another-uid".to_owned());
        }
        // The template of another revision under the name of this one.
        _ => {
            let template = serde_json::from_value(template(1 + seeded.below(3))).unwrap();
            world.daemon().spec.workload_template = template;
        }
    }
    world.facts.now += seconds(20);
}

#[test]
fn what_earlier_decisions_found_out_changes_no_decision() {
    let mut compared = 0;
    for mut seeded in seeds(10_000, 300) {
        let Drawn { mut world, told, .. } = Drawn::of(&mut seeded);
        let mut memo = Memo::default();
        for step in 0..STEPS {
            let Some((plan, answered)) = settle(&world, world.seen(), &told) else {
                break;
            };
            if answered.read.is_anew() && one_in(&mut seeded, 2) {
                world.carry_out(&plan);
            }
            // With the answers, so that it goes as far as a plan.
            let facts = Facts {
                read: Read::Cached,
                revisions: answered.revisions,
                compiled: answered.compiled,
                verdicts: answered.verdicts,
                modules: answered.modules,
                configs: answered.configs,
                gate_verdicts: answered.gate_verdicts,
                ..world.seen()
            };
            if let NodePools::Known(pools) = &facts.pools {
                let anew = gone_pools(&facts, pools, &Memo::default());
                assert_eq!(
                    gone_pools(&facts, pools, &memo),
                    anew,
                    "seed {}, step {step}",
                    seeded.seed
                );
            }
            let (with, anew) = (decide(&facts, &mut memo), decide(&facts, &mut Memo::default()));
            assert_eq!(
                format!("{with:?}"),
                format!("{anew:?}"),
                "seed {}, step {step}",
                seeded.seed
            );
            compared += usize::from(facts.children.values().any(|child| matches!(child, Child::Known(_))));
            happen(&mut world, &mut seeded);
        }
    }
    assert!(compared > 500, "{compared} compared");
}
