//! Runs `tests/edits`: each edit of a policy at each state of a rollout, with the end that the design gives it.
//!
//! A file holds edits of one sort: `why` (the sentence it proves) and, for each edit, `set` and `unset` (JSON pointers
//! into the world), and a row for each state, or for several: what it does, how it ends, what stands then. With `others:
//! AsUnedited` the states without a row end as if nothing had been edited. Writes of status and of fencing tokens are no part of a
//! row: that they are made is a rule, and so is that nothing else is: see [`crate::rules`].
//!
//! Each decision is carried out and followed by the next, until nothing is left to write: the end is a fixed point.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Value, json};
use stagegate_api::{StagedBindingPolicyStatus, annotation};
use stagegate_decide::staging::{Facts, Plan, Write, revision_of};

use crate::carry_out::until_still;
use crate::rules;
use crate::states::{self, Row, State};
use crate::world::{Answers, Change, short};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    why: String,
    edits: BTreeMap<String, Edit>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    #[serde(default)]
    set: BTreeMap<String, Value>,
    #[serde(default)]
    unset: Vec<String>,
    /// Every placement is being deleted, too.
    #[serde(default)]
    leaving: bool,
    others: Option<Others>,
    #[serde(default)]
    rows: Vec<At>,
}

#[derive(Clone, Copy, Deserialize)]
enum Others {
    AsUnedited,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct At {
    at: Vec<String>,
    /// Without, the state's.
    answers: Option<Answers>,
    #[serde(default)]
    does: String,
    ends: String,
    stands: String,
}

/// What came of an edit, or of none.
struct End {
    row: Row,
    broken: Vec<String>,
    facts: Facts,
}

#[test]
fn every_edit_ends_as_the_design_says_at_every_state() {
    let states = states::all();
    let mut failures = Vec::new();
    let mut rows = 0;
    for state in &states {
        let name = format!("unedited at {}", state.name);
        failures.extend(check(&name, &state.unedited, run(state.world.clone(), &state.answers)));
        rows += 1;
    }
    for (file, edit_name, edit) in edits() {
        let name = format!("{file}: {edit_name}");
        let known: BTreeSet<&str> = states.iter().map(|state| state.name.as_str()).collect();
        failures.extend(
            edit.unknown_states(&known)
                .map(|state| format!("{name}: there is no state {state}")),
        );
        for state in &states {
            let name = format!("{name} at {}", state.name);
            rows += 1;
            let (expected, answers) = match edit.expected(state) {
                Ok(expected) => expected,
                Err(error) => {
                    failures.push(format!("{name}: {error}"));
                    continue;
                }
            };
            let ended = edit.apply(state.world.clone()).and_then(|world| run(world, answers));
            failures.extend(check(&name, &expected, ended));
        }
    }
    crate::tell(&format!("edits at states of a rollout: {rows} cases"));
    assert!(
        failures.is_empty(),
        "{} failures in {rows} rows:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

fn edits() -> Vec<(String, String, Edit)> {
    let mut paths: Vec<_> = std::fs::read_dir(states::directory())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.ends_with("states.yaml"))
        .collect();
    paths.sort();
    let read = |path: std::path::PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let file: File = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!file.why.is_empty(), "{name} proves nothing");
        file.edits
            .into_iter()
            .map(move |(edit_name, edit)| (name.clone(), edit_name, edit))
    };
    paths.into_iter().flat_map(read).collect()
}

impl Edit {
    fn unknown_states<'e>(&'e self, known: &'e BTreeSet<&str>) -> impl Iterator<Item = &'e String> {
        let named = self.rows.iter().flat_map(|row| &row.at);
        named.filter(|state| !known.contains(state.as_str()))
    }

    /// The one row of a state and what is answered there, unless the file is wrong.
    fn expected<'e>(&'e self, state: &'e State) -> Result<(Row, &'e Answers), String> {
        let rows: Vec<&At> = self.rows.iter().filter(|row| row.at.contains(&state.name)).collect();
        match (rows.as_slice(), self.others) {
            ([], Some(Others::AsUnedited)) => Ok((state.unedited.clone(), &state.answers)),
            ([row], _) => {
                let expected = Row {
                    does: row.does.clone(),
                    ends: row.ends.clone(),
                    stands: row.stands.clone(),
                };
                Ok((expected, row.answers.as_ref().unwrap_or(&state.answers)))
            }
            (rows, _) => Err(format!("{} rows", rows.len())),
        }
    }

    fn apply(&self, mut world: Value) -> Result<Value, String> {
        let metadata = &mut world["policy"]["object"]["metadata"];
        metadata["generation"] = json!(2);
        metadata["resourceVersion"] = json!("91");
        let change = Change {
            unset: self.unset.clone(),
            set: self.set.clone(),
        };
        change.apply(&mut world)?;
        let now = world["now"].clone();
        let placements = world["placements"].as_object_mut().into_iter().flatten();
        for (_, placement) in placements.filter(|_| self.leaving) {
            placement["object"]["metadata"]["deletionTimestamp"] = now.clone();
        }
        Ok(world)
    }
}

/// What stands when nothing is left to write, and the way there.
fn run(world: Value, answers: &Answers) -> Result<End, String> {
    let still = until_still(world, answers)?;
    let mut broken: Vec<String> = still
        .decisions
        .iter()
        .flat_map(|made| rules::broken(&made.plan, &made.facts))
        .collect();
    let deeds = still.decisions.iter().map(|made| deeds(&made.plan));
    let deeds: Vec<String> = deeds.filter(|deeds| !deeds.is_empty()).collect();
    let facts = still.end;
    let row = Row {
        does: deeds.join("; "),
        ends: ends(&facts),
        stands: stands(&facts),
    };
    broken.extend(silent(&facts));
    Ok(End { row, broken, facts })
}

/// The writes of one decision.
fn deeds(plan: &Plan) -> String {
    let deeds = plan.writes.iter();
    let deeds = deeds.filter(|write| !matches!(write, Write::Status { .. } | Write::Fence(_)));
    deeds
        .map(|write| short(write).replace("shop.stage.", ""))
        .collect::<Vec<_>>()
        .join(", ")
}

fn check(name: &str, expected: &Row, ended: Result<End, String>) -> Vec<String> {
    let end = match ended {
        Ok(end) => end,
        Err(error) => return vec![format!("{name}: {error}")],
    };
    let differing = [
        ("does", &expected.does, &end.row.does),
        ("ends", &expected.ends, &end.row.ends),
        ("stands", &expected.stands, &end.row.stands),
    ];
    let differing: Vec<String> = differing
        .into_iter()
        .filter(|(_, wanted, found)| wanted != found)
        .map(|(what, wanted, found)| format!("{what} {found:?}, not {wanted:?}"))
        .collect();
    let differing = (!differing.is_empty()).then(|| differing.join("; "));
    let all = differing.into_iter().chain(end.broken);
    let message = status(&end.facts)
        .conditions
        .into_iter()
        .find(|found| found.type_ == "Progressing");
    let message = message.map(|found| found.message).unwrap_or_default();
    all.map(|text| format!("{name}: {text} ({message})")).collect()
}

fn status(facts: &Facts) -> StagedBindingPolicyStatus {
    facts.policy.object.status.clone().unwrap_or_default()
}

fn ends(facts: &Facts) -> String {
    let status = status(facts);
    let phase = status.phase.map(|phase| format!("{phase:?}"));
    let words = [status.active_stage, phase, status.reason];
    words.map(|word| word.unwrap_or_else(|| "-".to_owned())).join(" ")
}

/// In the order of the spec, then those that no stage has.
fn stands(facts: &Facts) -> String {
    let plan = revision_of(&facts.policy.object.spec.downsync).to_string();
    let stages: Vec<&str> = facts
        .policy
        .object
        .spec
        .stages
        .iter()
        .map(|stage| stage.name.as_str())
        .collect();
    let mut standing: Vec<(usize, String)> = facts
        .placements
        .iter()
        .filter_map(|(name, placement)| {
            let object = placement.object()?;
            let name = name.as_str().trim_start_matches("shop.stage.");
            let place = stages.iter().position(|stage| *stage == name).unwrap_or(stages.len());
            let at = object
                .metadata
                .annotations
                .as_ref()
                .and_then(|all| all.get(annotation::REVISION));
            let how = match at {
                _ if object.metadata.deletion_timestamp.is_some() => " leaving",
                _ if object.spec.cluster_selectors.is_empty() => " closed",
                None => " unfenced",
                Some(at) if *at != plan => " old",
                Some(_) => "",
            };
            Some((place, format!("{name}{how}")))
        })
        .collect();
    standing.sort();
    standing
        .into_iter()
        .map(|(_, text)| text)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Where nothing is left to write, status knows the spec it is about and names what is waited for, and closed placements
/// keep out what was decided on an older spec.
fn silent(facts: &Facts) -> Vec<String> {
    let policy = &facts.policy.object;
    if policy.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let status = status(facts);
    let mut silent = Vec::new();
    if status.observed_generation != policy.metadata.generation {
        silent.push("status does not know the edit".to_owned());
    }
    // Nothing is left to write, so nothing is being opened.
    if matches!(status.reason.as_deref(), None | Some("Opening")) {
        silent.push(format!("status waits for {:?}", status.reason));
    }
    let is_told_of = |name: &str| {
        status
            .conditions
            .iter()
            .any(|condition| condition.message.contains(name))
    };
    let left = facts.placements.iter().filter(|(name, placement)| {
        let is_stage = policy
            .spec
            .stages
            .iter()
            .any(|stage| name.as_str() == format!("shop.stage.{}", stage.name));
        placement
            .object()
            .is_some_and(|object| !is_stage && !object.spec.cluster_selectors.is_empty())
    });
    let untold = left
        .map(|(name, _)| name)
        .next()
        .filter(|_| is_accepted(&status))
        .filter(|name| !is_told_of(name.as_str()));
    silent.extend(untold.map(|name| format!("{name} places the workload for no stage, and nobody says so")));
    let token = format!("{}.0", policy.metadata.generation.unwrap_or_default());
    let unfenced = facts.placements.iter().filter(|(_, placement)| {
        placement.object().is_some_and(|object| {
            let fenced = object
                .metadata
                .annotations
                .as_ref()
                .and_then(|all| all.get(annotation::FENCING_TOKEN));
            let is_closed = object.spec.cluster_selectors.is_empty() && object.metadata.deletion_timestamp.is_none();
            is_closed && fenced != Some(&token)
        })
    });
    silent.extend(unfenced.map(|(name, _)| format!("{name} is closed, and an older decision could open it")));
    silent
}

fn is_accepted(status: &StagedBindingPolicyStatus) -> bool {
    let accepted = status.conditions.iter().find(|condition| condition.type_ == "Accepted");
    accepted.is_some_and(|condition| condition.status == "True")
}
