//! Single decisions about stages with checks: which pools get the new revision next.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use stagegate_api::StageState;
use stagegate_decide::checks::{ConfigAnswer, GateAnswer, Module, Source, Verdict};
use stagegate_decide::pools::Write;

use super::answers::{Told, settle};
use super::draw::{Has, add_pool, bare, gate, put, target};
use super::world::{World, seconds, start};

const TRUE: &str = "pools.size() > 0";

/// Of stage `a` the pools p-0 to p-2, of stage `b` p-3 and p-4, and p-5 of none.
const STAGES: [(&str, &str); 6] = [
    ("p-0", "a"),
    ("p-1", "a"),
    ("p-2", "a"),
    ("p-3", "b"),
    ("p-4", "b"),
    ("p-5", "none"),
];

/// Where stage `a` has these members, and the pools of it these workloads. All others have the old revision.
fn world(a: Value, has: [Has; 3]) -> World {
    let mut first = json!({"name": "a", "nodepoolSelector": {"matchLabels": {"s": "a"}}});
    first.as_object_mut().unwrap().extend(a.as_object().unwrap().clone());
    let second = json!({"name": "b", "nodepoolSelector": {"matchLabels": {"s": "b"}}, "maxConcurrent": 1});
    let mut world = bare(json!({"stages": [first, second]}));
    for (at, (pool, stage)) in STAGES.iter().enumerate() {
        add_pool(&mut world, pool, json!({"tier": "edge", "s": stage}));
        put(&mut world, pool, has.get(at).copied().unwrap_or(Has::Old));
    }
    world
}

/// The pools that get the new revision now.
fn next(world: &World, told: &Told) -> Vec<String> {
    let (plan, _) = settle(world, world.seen(), told).unwrap();
    let applied = plan.writes.iter().filter_map(|write| match write {
        Write::ApplyChild { pool, object, .. } => {
            let label = &object["metadata"]["labels"][stagegate_api::workloads::REVISION_HASH];
            (*label == json!(target())).then(|| pool.clone())
        }
        _ => None,
    });
    applied.collect()
}

fn condition(verdict: Verdict) -> Told {
    Told {
        conditions: BTreeMap::from([(TRUE.to_owned(), Some(verdict))]),
        ..Told::default()
    }
}

fn gate_says(answer: GateAnswer) -> Told {
    Told {
        gates: BTreeMap::from([("g".to_owned(), Some(answer))]),
        ..Told::default()
    }
}

/// What there is, what is answered, and which pools come next.
type Case = (&'static str, World, Told, &'static [&'static str]);

fn cases_of_turns() -> Vec<Case> {
    use Has::{
        New, NewByHand, NewLeaving, NewOfOthersByHand, NewUnready, NewUnseen, NewWithoutAnnotations, Nothing, Old,
        Unreadable,
    };
    let [all, two] = [
        json!({"condition": TRUE}),
        json!({"condition": TRUE, "maxConcurrent": 2}),
    ];
    let case = |name, checks: &Value, has, next| (name, world(checks.clone(), has), Told::default(), next);
    vec![
        case(
            "a group follows when all before it pass",
            &two,
            [New, New, Old],
            &["p-2"][..],
        ),
        case(
            "no pool follows one that is not rolled out",
            &two,
            [New, NewUnready, Old],
            &[],
        ),
        case(
            "no pool follows one that its controller has not seen",
            &two,
            [New, NewUnseen, Old],
            &[],
        ),
        case(
            "no pool follows one that is being deleted",
            &two,
            [New, NewLeaving, Old],
            &[],
        ),
        case(
            "no pool follows one whose workload cannot be read",
            &two,
            [New, Unreadable, Old],
            &[],
        ),
        case(
            "what another controller made proves nothing with another image",
            &all,
            [New, New, NewOfOthersByHand],
            &[],
        ),
        case(
            "what lost our annotations proves nothing",
            &all,
            [New, New, NewWithoutAnnotations],
            &["p-2"],
        ),
        case(
            "a group is no larger for a pool without a workload",
            &two,
            [Old, Nothing, Nothing],
            &["p-0", "p-1"],
        ),
        case("the next stage follows when all passes", &all, [New; 3], &["p-3"]),
        // It is written itself, and no other one.
        case(
            "what was changed by hand proves nothing",
            &all,
            [New, New, NewByHand],
            &["p-2"],
        ),
    ]
}

fn cases_of_conditions() -> Vec<Case> {
    use Has::{New, Nothing, Old};
    let [all, two] = [
        json!({"condition": TRUE}),
        json!({"condition": TRUE, "maxConcurrent": 2}),
    ];
    let is_false = || condition(Verdict::False { because: None });
    let case = |name, checks: &Value, has, next| (name, world(checks.clone(), has), is_false(), next);
    let message = "no such key".to_owned();
    let is_unknown = condition(Verdict::Unknown { message });
    vec![
        case(
            "the first pools of a stage are asked nothing",
            &two,
            [Old; 3],
            &["p-0", "p-1"][..],
        ),
        case(
            "without a limit all pools of a stage come at once",
            &all,
            [Old; 3],
            &["p-0", "p-1", "p-2"],
        ),
        case("no pool follows a condition that is false", &two, [New, Old, Old], &[]),
        case("no stage follows a condition that is false", &all, [New; 3], &[]),
        case(
            "a pool that lost its workload waits for the condition",
            &two,
            [New, New, Nothing],
            &[],
        ),
        (
            "no pool follows a condition that fails",
            world(two.clone(), [New, Old, Old]),
            is_unknown,
            &[],
        ),
    ]
}

/// What a gate says, or what is the matter with it, that no pool follows.
fn cases_of_gates_that_do_not_pass() -> Vec<Case> {
    use GateAnswer::{Fail, Hold, Pass, Unknown};
    let text = || "no".to_owned();
    let hold = Hold {
        reason: text(),
        retry_after_ms: None,
    };
    let component = |module| Told {
        modules: BTreeMap::from([("g".to_owned(), Some(module))]),
        ..Told::default()
    };
    let told = [
        ("no pool follows a gate that holds", gate_says(hold)),
        ("no pool follows a gate that fails", gate_says(Fail { reason: text() })),
        (
            "no pool follows a gate without a verdict",
            gate_says(Unknown { message: text() }),
        ),
        (
            "a pass for no time at all is no pass",
            gate_says(Pass { valid_for_ms: Some(0) }),
        ),
        (
            "no pool follows a gate without a component",
            component(Module::KeyMissing),
        ),
        (
            "no pool follows a component that is refused",
            component(Module::Refused { message: text() }),
        ),
    ];
    let one = || json!({"gates": [gate("g")], "maxConcurrent": 1});
    let begun = || world(one(), [Has::New, Has::Old, Has::Old]);
    told.into_iter()
        .map(|(name, told)| (name, begun(), told, &[][..]))
        .collect()
}

fn cases_of_gates() -> Vec<Case> {
    use Has::{New, NewUnready, Old};
    let [all, one] = [
        json!({"gates": [gate("g")]}),
        json!({"gates": [gate("g")], "maxConcurrent": 1}),
    ];
    let case = |name, checks: &Value, has, next| (name, world(checks.clone(), has), Told::default(), next);
    let message = "no".to_owned();
    let refused = Told {
        configs: BTreeMap::from([("g".to_owned(), Some(ConfigAnswer::Refused { message }))]),
        ..Told::default()
    };
    let mut absent = world(one.clone(), [New, Old, Old]);
    absent
        .facts
        .sources
        .insert("stagegate-gates/g".to_owned(), Source::Absent);
    let mut not_listed = world(all.clone(), [New; 3]);
    not_listed.facts.sources.clear();
    vec![
        case(
            "a pool follows when the gate passes",
            &one,
            [New, Old, Old],
            &["p-1"][..],
        ),
        case("a stage follows when the gate passes", &all, [New; 3], &["p-3"]),
        case(
            "a gate that passes lets none follow one on its way",
            &one,
            [NewUnready, Old, Old],
            &[],
        ),
        (
            "no pool follows a gate without a ConfigMap",
            absent,
            Told::default(),
            &[],
        ),
        (
            "no stage follows a gate whose ConfigMap was not listed",
            not_listed,
            Told::default(),
            &[],
        ),
        (
            "a config that is refused moves not even the first pool",
            world(one.clone(), [Old; 3]),
            refused,
            &[],
        ),
    ]
}

/// Stage `a` has a soak, and has passed since so many seconds by status.
fn soaking(since: Option<i64>, has: [Has; 3]) -> World {
    let mut world = world(json!({"soak": "1m"}), has);
    if let Some(ago) = since {
        world.facts.now -= seconds(ago);
        let (plan, _) = settle(&world, world.seen(), &Told::default()).unwrap();
        world.carry_out(&plan);
        world.facts.now = start();
    }
    world
}

fn cases_of_soaks() -> Vec<Case> {
    use Has::{New, NewUnready, Old};
    let mut restarted = soaking(Some(90), [New; 3]);
    restarted.facts.watching_since = Some(start() - seconds(5));
    let mut unready = soaking(Some(61), [New; 3]);
    put(&mut unready, "p-2", NewUnready);
    let limited = |has| world(json!({"soak": "1m", "maxConcurrent": 1}), has);
    let cases: [(&str, World, &[&str]); 7] = [
        (
            "a soak that begins now lets no stage follow",
            soaking(None, [New; 3]),
            &[],
        ),
        (
            "a soak that is not over lets no stage follow",
            soaking(Some(59), [New; 3]),
            &[],
        ),
        (
            "a soak that is over lets the next stage follow",
            soaking(Some(61), [New; 3]),
            &["p-3"],
        ),
        (
            "a soak goes on over a restart that changed nothing",
            restarted,
            &["p-3"],
        ),
        ("a soak counts nothing while a pool is unready", unready, &[]),
        (
            "within a stage a soak alone holds no pool",
            limited([New, Old, Old]),
            &["p-1"],
        ),
        ("a soak alone keeps the limit", limited([NewUnready, Old, Old]), &[]),
    ];
    cases
        .into_iter()
        .map(|(name, world, next)| (name, world, Told::default(), next))
        .collect()
}

fn cases_of_records() -> Vec<Case> {
    use Has::{New, Nothing};
    let recorded = |state: StageState, has: [Has; 3]| {
        let mut world = world(json!({"condition": TRUE}), has);
        let mut status = soaking(Some(10), [New; 3]).status();
        status.stages[0].state = state;
        world.daemon().status = Some(status);
        world
    };
    let mut paused = world(json!({"condition": TRUE}), [New; 3]);
    paused.daemon().spec.update_strategy.as_mut().unwrap().paused = true;
    let is_false = || condition(Verdict::False { because: None });
    let of_passed = |has| recorded(StageState::Passed, has);
    vec![
        (
            "a stage that status calls passed is not asked again",
            of_passed([New; 3]),
            is_false(),
            &["p-3"],
        ),
        // Of stage b the first one comes, too.
        (
            "a pool of a passed stage that lost its workload gets it at once",
            of_passed([New, New, Nothing]),
            is_false(),
            &["p-2", "p-3"],
        ),
        (
            "a stage that status calls pending is asked",
            recorded(StageState::Pending, [New; 3]),
            is_false(),
            &[],
        ),
        ("while it is paused no stage follows", paused, Told::default(), &[]),
    ]
}

#[test]
fn these_pools_get_the_new_revision_next() {
    let cases = [
        cases_of_turns(),
        cases_of_conditions(),
        cases_of_gates_that_do_not_pass(),
        cases_of_gates(),
        cases_of_soaks(),
        cases_of_records(),
    ]
    .concat();
    for (name, world, told, expected) in &cases {
        assert_eq!(next(world, told), *expected, "{name}");
    }
    crate::tell(&format!("{} decisions about pools", cases.len()));
}
