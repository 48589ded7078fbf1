//! Rules about what is placed and taken away: who may do it, when, and for which revision. Must not look into clusters.

use stagegate_api::{Outcome, PreviousStages, StageState, StageStatus, StagedBindingPolicySpec, Updates};
use stagegate_decide::staging::revision_of;

use super::Found;
use super::replay::{BINDINGS, PLACEMENTS, POLICIES, Placed, Policy, Replay, Seen};

/// Kinds that the host writes beside those that it owns: they are nobody's placement.
const OTHERS: &[&str] = &[
    "events",
    "leases.coordination.k8s.io",
    "statuscollectors.control.kubestellar.io",
];

pub fn check(replay: &Replay, seen: &Seen<'_>, found: &mut Found) {
    if !seen.is_hosts() {
        return;
    }
    own(replay, seen, found);
    let Some((before, after)) = seen.placing() else { return };
    match (before, after) {
        (before, Some(after)) if after.is_open() => {
            // Taking over what an older program placed gives nobody anything new.
            let is_adoption = before
                .as_ref()
                .is_some_and(|before| before.is_open() && before.revision.is_none());
            let is_new = before
                .as_ref()
                .is_none_or(|before| before.selectors != after.selectors || before.downsync != after.downsync);
            if is_new && !is_adoption {
                placed(replay, seen, (before.as_ref(), &after), found);
            }
        }
        (Some(before), None) if before.is_open() => removed(replay, seen, &before, found),
        _ => {}
    }
}

fn own(replay: &Replay, seen: &Seen<'_>, found: &mut Found) {
    let commit = seen.commit;
    let Some(request) = commit.request().filter(|request| request.verb != "create") else {
        return;
    };
    let is_conditional = request.uid.is_some() && request.resource_version.is_some();
    let is_own = match commit.resource.as_str() {
        PLACEMENTS => {
            let before = seen.placing().and_then(|(before, _)| before);
            before.is_none_or(|before| replay.owner_of(&before).is_some())
        }
        POLICIES => request.subresource == "status",
        BINDINGS => request.verb == "patch" && replay.owner_of_binding(&commit.name).is_some(),
        other => OTHERS.contains(&other),
    };
    let is_best_effort = commit.resource == "events";
    found
        .at(seen.place())
        .holds("own", is_own && (is_conditional || is_best_effort), || {
            format!("{} of {} {}: {request:?}", request.verb, commit.resource, commit.name)
        });
}

fn placed(replay: &Replay, seen: &Seen<'_>, (before, after): (Option<&Placed>, &Placed), found: &mut Found) {
    let Some(policy) = replay.owner_of(after) else { return };
    let generation = after.generation.unwrap_or_default();
    let spec = policy.specs.get(&generation);
    let revision = spec.map(|spec| revision_of(&spec.downsync).to_string());
    let is_told = generation >= policy.told_generation();
    // With staged updates the revision also depends on the objects: rule `admitted` looks at those.
    let is_staged = spec.is_some_and(|spec| spec.updates == Updates::Staged);
    let is_of_revision = revision.is_some() && (revision == after.revision || (is_staged && after.revision.is_some()));
    found.at(seen.place()).holds("revision", is_told && is_of_revision, || {
        format!(
            "{} is placed for generation {generation} and revision {:?}; status has told of {}, and the revision of that \
             generation is {revision:?}",
            after.name,
            after.revision,
            policy.told_generation()
        )
    });
    let (Some(spec), Some(stage)) = (spec, after.stage_of(&policy.name)) else {
        return;
    };
    let newest_told = policy.specs.get(&policy.told_generation());
    let is_stopped = newest_told.is_some_and(|spec| spec.paused) || policy.deleted.is_some_and(|at| generation >= at);
    found.at(seen.place()).holds("stop", !is_stopped, || {
        format!("{} is placed though paused or being deleted", after.name)
    });
    let index = spec.stages.iter().position(|known| known.name == stage);
    let unproven = index.and_then(|index| unproven_before((replay, seen), (policy, spec), index, after));
    found
        .at(seen.place())
        .holds("justified", index.is_some() && unproven.is_none(), || {
            format!("{}: {}", after.name, unproven.unwrap_or_default())
        });
    let later = replay.others_open(policy, &after.name).find(|(other, placed)| {
        let position = spec.stages.iter().position(|known| known.name == *other);
        placed.revision == after.revision && position > index
    });
    // An edit that is taken back brings the revision back that later stages still have.
    let is_taken_back = is_staged && before.is_some_and(Placed::is_open);
    found
        .at(seen.place())
        .holds("one-active", later.is_none() || is_taken_back, || {
            format!(
                "{} is placed while {:?} is open at the same revision",
                after.name,
                later.map(|(name, _)| name)
            )
        });
    let is_opened = before.is_none_or(|before| !before.is_open());
    if is_opened && let (Some(revision), Some(attempt)) = (&after.revision, after.attempt) {
        let again = policy
            .opened
            .iter()
            .any(|(known, of, number, _)| known == stage && of == revision && *number == attempt);
        found.at(seen.place()).holds("once", !again, || {
            format!("{} is opened twice for attempt {attempt}", after.name)
        });
    }
    let told = policy.status.as_ref().and_then(|status| status.reason.clone());
    let is_announced = policy.status.as_ref().is_some_and(Policy::is_announcing);
    found.at(seen.place()).holds("intent", is_announced, || {
        format!("{} is placed, and status tells of {told:?}", after.name)
    });
}

/// The first stage before this one of which status does not say that it is proven.
fn unproven_before(
    (replay, seen): (&Replay, &Seen<'_>),
    (policy, spec): (&Policy, &StagedBindingPolicySpec),
    index: usize,
    after: &Placed,
) -> Option<String> {
    let stages = policy
        .told_before_placing(seen.commit.at)
        .map(|status| status.stages.as_slice())
        .unwrap_or_default();
    spec.stages[..index].iter().find_map(|stage| {
        let Some(record) = stages.iter().find(|record| record.name == stage.name) else {
            return Some(format!("status has no record of stage {}", stage.name));
        };
        let is_at_revision = record.revision == after.revision;
        if is_at_revision && record.state == StageState::Passed {
            return None;
        }
        // One that was left before another was put in front of it.
        let later_is_open = replay.others_open(policy, &after.name).any(|(other, placed)| {
            let position = spec.stages.iter().position(|known| known.name == other);
            let own = spec.stages.iter().position(|known| known.name == stage.name);
            placed.revision == after.revision && position > own
        });
        if later_is_open {
            return None;
        }
        let name = format!("{}.stage.{}", policy.name, stage.name);
        let placed = replay.placements.get(&name);
        let is_this_placement = placed.is_some_and(|placed| {
            let uid = record.binding_policy.as_ref().map(|recorded| recorded.uid.as_str());
            placed.is_open()
                && placed.revision == after.revision
                && placed.attempt == record.attempt
                && uid == Some(placed.uid.as_str())
        });
        let mut wanted: Vec<String> = stage.gates.iter().map(|gate| format!("gate/{}", gate.name)).collect();
        wanted.extend(
            stage
                .condition
                .as_ref()
                .filter(|text| !text.trim().is_empty())
                .map(|_| "condition".to_owned()),
        );
        let missing = wanted.iter().find(|name| !passes(record, name));
        let failing = record.checks.iter().find(|check| check.outcome != Outcome::Pass);
        let is_proven = is_at_revision && is_this_placement && missing.is_none() && failing.is_none();
        (!is_proven || record.settled_at.is_none()).then(|| {
            format!(
                "stage {} is {:?} at revision {:?} with checks {:?}; its placement: {placed:?}",
                stage.name,
                record.state,
                record.revision,
                record
                    .checks
                    .iter()
                    .map(|check| (&check.name, check.outcome))
                    .collect::<Vec<_>>()
            )
        })
    })
}

fn passes(record: &StageStatus, name: &str) -> bool {
    let mut checks = record.checks.iter().filter(|check| check.name == name).peekable();
    checks.peek().is_some() && checks.all(|check| check.outcome == Outcome::Pass)
}

fn removed(replay: &Replay, seen: &Seen<'_>, before: &Placed, found: &mut Found) {
    let Some(policy) = replay.owner_of(before) else { return };
    let Some(spec) = policy.specs.get(&policy.told_generation()) else {
        return;
    };
    let revision = if spec.updates == Updates::Staged {
        // As status has it of the last stage that has passed or is active.
        let records = policy.status.iter().flat_map(|status| &status.stages);
        let known = records.filter(|record| matches!(record.state, StageState::Active | StageState::Passed));
        known
            .filter_map(|record| record.revision.clone())
            .next_back()
            .unwrap_or_default()
    } else {
        revision_of(&spec.downsync).to_string()
    };
    let position = |name: &str| spec.stages.iter().position(|known| known.name == name);
    let own = before.stage_of(&policy.name).and_then(position);
    let later = replay
        .others_open(policy, &before.name)
        .any(|(other, placed)| placed.revision.as_deref() == Some(revision.as_str()) && position(other) > own);
    let is_allowed = spec.previous_stages != PreviousStages::Keep;
    found
        .at(seen.place())
        .holds("covered", own.is_some() && later && is_allowed, || {
            format!(
                "{} is removed; a later one is open at the revision: {later}; {:?}",
                before.name, spec.previous_stages
            )
        });
    let is_stopped = spec.paused || policy.deleted.is_some_and(|at| policy.told_generation() >= at);
    found.at(seen.place()).holds("stop", !is_stopped, || {
        format!("{} is removed though paused or being deleted", before.name)
    });
}
