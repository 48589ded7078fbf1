//! What must hold of every decision when a piece of its proof changes: no such change lets a stage move that did not, and
//! each stops one that did, but for those in `tests/evidence/harmless.yaml`, each with its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use stagegate_api::{Phase, StageState, StageStatus};
use stagegate_decide::names::ObjectKey;
use stagegate_decide::staging::{Decision, Facts, ObjectMeta, Question, Verdict, Write, decide};

use crate::carry_out::until_still;
use crate::pieces::{self, Change, How};
use crate::rules;
use crate::seeded::{Seeded, budget};
use crate::staging::{beginnings, made_different};
use crate::staging_properties::world_in;
use crate::world::{self, Answers, Outcome, answer, filled, settle, short, status_after};

/// What a decision moves on: stages opened or newly passed, placements taken away. A change of the active stage's own
/// placement, back to what the spec says, is none, and neither is its opening again where it was closed.
fn moves(outcome: &Outcome) -> BTreeSet<String> {
    let before = outcome.facts.policy.object.status.clone().unwrap_or_default();
    let passed = |stages: &[StageStatus]| -> BTreeSet<String> {
        let passed = stages.iter().filter(|stage| stage.state == StageState::Passed);
        passed.map(|stage| format!("passed {}", stage.name)).collect()
    };
    let is_open = |name: &str| {
        let object = outcome
            .facts
            .placements
            .get(name)
            .and_then(|placement| placement.object());
        object.is_some_and(|object| !object.spec.cluster_selectors.is_empty())
    };
    let after = passed(&status_after(&outcome.plan, &outcome.facts).stages);
    let had_passed = passed(&before.stages);
    let newly = after.difference(&had_passed).cloned();
    let is_active = |name: &str| {
        let record = before
            .stages
            .iter()
            .find(|stage| name == format!("shop.stage.{}", stage.name));
        record.is_some_and(|record| record.state == StageState::Active)
    };
    let deeds = outcome.plan.writes.iter().filter(|write| match write {
        Write::Open(placement) | Write::Update(placement) => !is_active(placement.name.as_str()),
        Write::Remove { name, .. } => is_open(name.as_str()),
        _ => false,
    });
    newly.chain(deeds.map(short)).collect()
}

/// What comes of a world; `None` where it is no facts: a shell makes such an object an undecodable one.
fn come_of(world: Value, answers: &Answers) -> Option<Result<Outcome, String>> {
    world::facts(world.clone())
        .is_ok()
        .then(|| settle(world, None, answers, &world::Change::default()))
}

/// A world in which all that something needs is proven, so that it moves.
struct Proven {
    name: &'static str,
    world: Value,
    answers: Answers,
}

fn proven() -> Vec<Proven> {
    let mut soaked = world::base();
    soaked["policy"]["object"]["spec"]["stages"][0]["soak"] = json!("5m");
    let soaking = settle(soaked.clone(), None, &Answers::default(), &world::Change::default()).unwrap();
    soaked["policy"]["object"]["status"] = world::joined(&status_after(&soaking.plan, &soaking.facts));
    soaked["now"] = json!("2026-01-01T00:15:00Z");
    let mut filtered = world_in(&["with-settings"]);
    filtered["policy"]["object"]["spec"]["stages"][0]["filter"] = json!("downsyncClause.resource == 'deployments'");
    let mut unjudged = world_in(&["prod-open", "dev-removed"]);
    unjudged["policy"]["object"]["spec"]["stages"][1]["health"] = json!("Ignored");
    let holding = Answers {
        condition: Some(Verdict::False { because: None }),
        ..Answers::default()
    };
    let worlds = [
        ("opens", world::base(), Answers::default()),
        ("opens after a soak", soaked, Answers::default()),
        ("opens on what is kept", filtered, Answers::default()),
        (
            "opens beside what proves nothing",
            world_in(&["with-settings"]),
            Answers::default(),
        ),
        ("opens on gates", world_in(&["gated-twice"]), Answers::default()),
        (
            "passes",
            world_in(&["prod-open", "dev-removed", "prod-judged"]),
            Answers::default(),
        ),
        (
            "passes on health",
            world_in(&["prod-open", "dev-removed"]),
            Answers::default(),
        ),
        ("is placed", unjudged, Answers::default()),
        ("goes", world_in(&["prod-open", "dev-shared", "prod-judged"]), holding),
    ];
    let proven = worlds.map(|(name, world, answers)| Proven {
        name,
        world: filled(world),
        answers,
    });
    proven.into()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Harmless {
    why: String,
    /// Pointers; `*` is any one member, `**` at the end all below.
    at: Vec<String>,
    /// Without, whatever happens to it.
    how: Option<Vec<How>>,
    /// Without, in all worlds.
    r#in: Option<Vec<String>>,
}

impl Harmless {
    fn covers(&self, change: &Change, world: &str) -> bool {
        let is_here = self
            .r#in
            .as_ref()
            .is_none_or(|worlds| worlds.iter().any(|name| name == world));
        is_here
            && self.how.as_ref().is_none_or(|how| how.contains(&change.how))
            && self.at.iter().any(|pattern| matches(pattern, &change.at))
    }
}

fn matches(pattern: &str, pointer: &str) -> bool {
    let mut parts = pointer.split('/');
    for wanted in pattern.split('/') {
        match (wanted, parts.next()) {
            ("**", Some(_)) => return true,
            ("*", Some(_)) => {}
            (wanted, Some(part)) if wanted == part => {}
            _ => return false,
        }
    }
    parts.next().is_none()
}

fn harmless() -> Vec<Harmless> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/evidence/harmless.yaml");
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn every_piece_of_proof_matters_or_is_known_not_to() {
    let harmless = harmless();
    let mut used = vec![false; harmless.len()];
    let mut failures = Vec::new();
    let mut cases = 0;
    for Proven { name, world, answers } in proven() {
        let outcome = come_of(world.clone(), &answers).unwrap().unwrap();
        let before = moves(&outcome);
        let [proven] = before.iter().collect::<Vec<_>>()[..] else {
            panic!("{name}: one thing moves, not {before:?}");
        };
        for change in pieces::changes(&world) {
            let changed = change.apply(&world).and_then(|changed| come_of(changed, &answers));
            let Some(outcome) = changed else { continue };
            cases += 1;
            let outcome = match outcome {
                Ok(outcome) => outcome,
                Err(error) => {
                    failures.push(format!("{name}: {change}: {error}"));
                    continue;
                }
            };
            failures.extend(
                wrong(&outcome)
                    .into_iter()
                    .map(|wrong| format!("{name}: {change}: {wrong}")),
            );
            let new = new_moves(&outcome, &before, &[&change]);
            failures.extend(new.into_iter().map(|moved| format!("{name}: {change}: {moved}")));
            let moves_on = moves(&outcome).contains(proven);
            match harmless.iter().position(|row| row.covers(&change, name)) {
                Some(row) if moves_on => used[row] = true,
                Some(row) => failures.push(format!("{name}: {change}: it matters, though {}", harmless[row].why)),
                None if moves_on => failures.push(format!("{name}: {change}: still [{proven}]")),
                None => {}
            }
        }
    }
    let unused = harmless.iter().zip(used).filter(|(_, used)| !used);
    failures.extend(unused.map(|(row, _)| format!("no piece is harmless because {}", row.why)));
    crate::tell(&format!("pieces of proof, one changed: {cases} cases"));
    report(&failures);
}

/// How many changes are tried on each case, and how many sets of changes on each proven world.
const CHANGES_OF_A_CASE: usize = 12;
const SETS_OF_A_WORLD: usize = 60;
/// At most so many changes at once.
const CHANGES_AT_ONCE: usize = 4;

/// Cases in which two pieces do not agree: the case makes one different, and this is the other, which may be brought to
/// agree with it.
const OTHER_HALVES: [(&str, &str); 6] = [
    (
        "combined-with-results-nobody-asks-for",
        "/combined/default~1web-uid.dev-uid/object/results",
    ),
    (
        "combined-without-a-collector",
        "/bindings/shop.stage.dev/object/object/spec/workload/namespaceScope/0/statusCollectors",
    ),
    // Which of two was opened first.
    ("edited-order-proves-nothing", "/placements"),
    ("revision-that-came-back-is-proven-before-a-later-one", "/placements"),
    // An open placement without our annotations was left by the Go stager: its clauses tell the plan.
    (
        "opened-by-hand-has-an-attempt-of-ours",
        "/placements/shop.stage.prod/object/metadata/annotations",
    ),
    // Where no transport runs Bindings count from 0 for ever; that one runs is known from another Binding alone.
    (
        "removed-not-while-transport-is-silent-about-the-new-binding",
        "/bindings/shop.stage.dev",
    ),
];

/// A generation never goes back: it is what status says of it that may be old, and the one must not be aged to fit the other.
fn is_possible(change: &Change) -> bool {
    !change.at.ends_with("/metadata/generation")
}

#[test]
fn no_change_of_proof_lets_move_what_did_not() {
    let different = made_different();
    let mut seeded = Seeded::new(11);
    let mut failures = Vec::new();
    let mut cases = 0;
    for (name, world, answers, _) in beginnings() {
        let world = filled(world);
        let Some(Ok(before)) = come_of(world.clone(), &answers) else {
            continue;
        };
        // A hand-over asks for no check: a gate's no keeps the previous stage, and what is not asked says none.
        let has_failed = status_after(&before.plan, &before.facts).phase == Some(Phase::Failed);
        let before = moves(&before);
        // What makes the case different may be what is in the way.
        let is_other_half = |change: &Change| {
            OTHER_HALVES
                .iter()
                .any(|(case, at)| *case == name && change.touches(at))
        };
        let is_other = |change: &Change| {
            let hidden = change.hides();
            let is_hidden = |pointer: &String| hidden.is_some_and(|hidden| pointer.starts_with(hidden));
            let is_different = different[&name]
                .iter()
                .any(|pointer| change.touches(pointer) || is_hidden(pointer));
            // Without selectors it is a closed one, and what is not placed says nothing against its stage.
            let is_closing = change.at.starts_with("/placements/") && change.touches_member("clusterSelectors");
            !is_different && !is_other_half(change) && !is_closing && is_possible(change)
        };
        let mut changes: Vec<Change> = pieces::changes(&world).into_iter().filter(is_other).collect();
        seeded.shuffle(&mut changes);
        for change in changes.iter().take(CHANGES_OF_A_CASE * budget()) {
            let changed = change.apply(&world).and_then(|changed| come_of(changed, &answers));
            let Some(outcome) = changed else { continue };
            cases += 1;
            let Ok(outcome) = outcome else {
                failures.push(format!("{name}: {change}: {}", outcome.err().unwrap_or_default()));
                continue;
            };
            failures.extend(
                wrong(&outcome)
                    .into_iter()
                    .map(|wrong| format!("{name}: {change}: {wrong}")),
            );
            let mut new = new_moves(&outcome, &before, &[change]);
            new.retain(|moved| !(has_failed && moved.starts_with("remove")));
            failures.extend(new.into_iter().map(|moved| format!("{name}: {change}: {moved}")));
        }
    }
    crate::tell(&format!(
        "pieces of proof, changed in every case: {cases} cases, seed {}",
        seeded.seed
    ));
    report(&failures);
}

#[test]
fn more_changes_of_proof_never_move_what_fewer_did_not() {
    let harmless = harmless();
    let mut seeded = Seeded::new(12);
    let mut failures = Vec::new();
    let mut cases = 0;
    for Proven { name, world, answers } in proven() {
        let before = moves(&come_of(world.clone(), &answers).unwrap().unwrap());
        let stops = |change: &Change| is_possible(change) && !harmless.iter().any(|row| row.covers(change, name));
        let changes: Vec<Change> = pieces::changes(&world).into_iter().filter(stops).collect();
        for _ in 0..SETS_OF_A_WORLD * budget() {
            let (mut changed, mut applied) = (world.clone(), Vec::new());
            for _ in 0..2 + seeded.below(CHANGES_AT_ONCE - 1) {
                let change = &changes[seeded.below(changes.len())];
                let next = change.apply(&changed).filter(|next| world::facts(next.clone()).is_ok());
                // What an earlier change took away cannot be changed again, and what it doubled could be made single.
                let is_apart = applied.iter().all(|earlier: &&Change| !earlier.touches(&change.at));
                if let Some(next) = next.filter(|_| is_apart) {
                    changed = next;
                    applied.push(change);
                }
            }
            if applied.is_empty() {
                continue;
            }
            cases += 1;
            let told: Vec<String> = applied.iter().map(ToString::to_string).collect();
            let told = format!("{name}: {}", told.join(" and "));
            match come_of(changed, &answers) {
                Some(Ok(outcome)) => {
                    failures.extend(wrong(&outcome).into_iter().map(|wrong| format!("{told}: {wrong}")));
                    let still = moves(&outcome).into_iter().filter(|moved| before.contains(moved));
                    failures.extend(still.map(|moved| format!("{told}: still {moved}")));
                }
                Some(Err(error)) => failures.push(format!("{told}: {error}")),
                None => {}
            }
        }
    }
    crate::tell(&format!(
        "pieces of proof, several changed: {cases} cases, seed {}",
        seeded.seed
    ));
    report(&failures);
}

/// What was answered, taken away or replaced: the metadata of objects, conditions and filters.
fn answers_that_stop(answers: &Answers) -> Vec<(&'static str, Answers)> {
    let key: ObjectKey = "deployments.apps default/web".parse().unwrap();
    let meta = |uid: &str, generation: Option<i64>| ObjectMeta {
        uid: uid.into(),
        resource_version: "41".into(),
        generation,
        edited_at: None,
        made_at: None,
        metadata_digest: "first".to_owned(),
        content_digest: None,
    };
    let object = |found: Option<ObjectMeta>| Answers {
        objects: BTreeMap::from([(key.clone(), found)]),
        ..answers.clone()
    };
    let forbidden = Answers {
        forbidden: BTreeMap::from([(key.clone(), "403 Forbidden".to_owned())]),
        ..answers.clone()
    };
    let filter = |verdict: Verdict| Answers {
        filter: BTreeMap::from([("web".to_owned(), verdict)]),
        ..answers.clone()
    };
    let condition = |verdict: Verdict| Answers {
        condition: Some(verdict),
        ..answers.clone()
    };
    let unknown = || Verdict::Unknown {
        message: "no such key".to_owned(),
    };
    vec![
        ("the object is gone", object(None)),
        ("the object may not be read", forbidden),
        ("the object is another", object(Some(meta("other-uid", Some(1))))),
        ("the object was edited", object(Some(meta("web-uid", Some(2))))),
        ("the object is an older one", object(Some(meta("web-uid", Some(0))))),
        ("the filter keeps nothing", filter(Verdict::False { because: None })),
        ("the filter fails", filter(unknown())),
        ("the condition is false", condition(Verdict::False { because: None })),
        ("the condition fails", condition(unknown())),
    ]
}

#[test]
fn every_answer_matters() {
    let mut cases = 0;
    for Proven { name, world, answers } in proven() {
        let before = moves(&come_of(world.clone(), &answers).unwrap().unwrap());
        for (answer, changed) in answers_that_stop(&answers) {
            let is_asked = match answer {
                // A last stage without checks asks for no evidence, and edits are followed all the same.
                _ if name == "is placed" => false,
                text if name == "passes on health" => {
                    !text.starts_with("the condition") && !text.starts_with("the filter")
                }
                text if text.starts_with("the filter") => name == "opens on what is kept",
                // Whatever is judged, a hand-over asks where the object is: an edited one is there.
                text if name == "goes" => text.ends_with("gone") || text.ends_with("another"),
                _ => true,
            };
            if !is_asked {
                continue;
            }
            cases += 1;
            let outcome = come_of(world.clone(), &changed).unwrap().unwrap();
            let still: Vec<String> = moves(&outcome).intersection(&before).cloned().collect();
            assert!(still.is_empty(), "{name}: {answer}: still {still:?}");
        }
    }
    crate::tell(&format!("answers that stop: {cases} cases"));
}

/// Answers one question at a time, in any order; everything is read anew when nothing else is asked.
fn one_at_a_time(world: Value, answers: &Answers, seeded: &mut Seeded) -> Result<Facts, String> {
    let mut facts = world::facts(world.clone())?;
    for _ in 0..200 {
        let mut questions = match decide(&facts) {
            Decision::Act(_) => return Ok(facts),
            Decision::Ask(questions) => questions,
        };
        seeded.shuffle(&mut questions);
        let is_reading = |question: &Question| matches!(question, Question::FreshRead | Question::FreshPlacements);
        let is_whole = questions.contains(&Question::FreshRead);
        match questions.into_iter().find(|question| !is_reading(question)) {
            Some(question) => answer(&mut facts, question, answers),
            None if is_whole => facts = world::fresh_read(&world, facts)?,
            None => facts = world::fresh_placements(&world, facts)?,
        }
    }
    Err("still asking".to_owned())
}

#[test]
fn the_order_of_answers_means_nothing() {
    let mut seeded = Seeded::new(13);
    let mut cases = 0;
    for (name, world, answers, _) in beginnings() {
        let Some(Ok(at_once)) = come_of(world.clone(), &answers) else {
            continue;
        };
        for _ in 0..2 * budget() {
            cases += 1;
            let facts = one_at_a_time(world.clone(), &answers, &mut seeded);
            let facts = facts.unwrap_or_else(|error| panic!("{name}: {error}, seed {}", seeded.seed));
            let Decision::Act(plan) = decide(&facts) else {
                unreachable!("it acted on these facts")
            };
            assert_eq!(json!(plan), json!(at_once.plan), "{name}, seed {}", seeded.seed);
        }
    }
    crate::tell(&format!("answers in any order: {cases} cases, seed {}", seeded.seed));
}

#[test]
fn what_was_carried_out_is_not_done_again() {
    let mut failures = Vec::new();
    let (mut cases, mut decisions) = (0, 0);
    for (name, world, answers, _) in beginnings() {
        let Some(Ok(_)) = come_of(world.clone(), &answers) else {
            continue;
        };
        cases += 1;
        match until_still(filled(world), &answers) {
            Ok(still) => {
                decisions += still.decisions.len();
                let broken = still.decisions.iter().flat_map(wrong);
                failures.extend(broken.map(|broken| format!("{name}: {broken}")));
            }
            Err(error) => failures.push(format!("{name}: {error}")),
        }
    }
    crate::tell(&format!(
        "plans carried out until nothing is left: {cases} cases, {decisions} decisions"
    ));
    report(&failures);
}

fn wrong(outcome: &Outcome) -> Vec<String> {
    rules::broken(&outcome.plan, &outcome.facts)
}

/// What moves that did not before; somebody's change of a placement is put back, which is no move.
fn new_moves(outcome: &Outcome, before: &BTreeSet<String>, changes: &[&Change]) -> Vec<String> {
    let is_put_back = |moved: &String| {
        let placement = moved
            .split(' ')
            .next_back()
            .map(|name| format!("/placements/{name}"))
            .unwrap_or_default();
        !moved.starts_with("passed") && changes.iter().any(|change| change.touches(&placement))
    };
    let moves = moves(outcome).into_iter();
    moves
        .filter(|moved| !before.contains(moved) && !is_put_back(moved))
        .collect()
}

fn report(failures: &[String]) {
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
