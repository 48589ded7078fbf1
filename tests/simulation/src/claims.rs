//! The rules about what the controller says and in which order it acts, whatever runs in the clusters. Must not look at evidence.
//!
//! What is compared is what the API server holds, what users asked for, and what was said before; never what a decision rests on.

use std::collections::{BTreeMap, BTreeSet};

use stagegate_api::{StageState, StagedBindingPolicy, StagedBindingPolicyStatus};
use stagegate_decide::names::{PlacementName, StageName};
use stagegate_decide::staging::{Decoded, Facts, Plan, Reason, Write};

use crate::server::{Server, uid_of};

/// A rule, and how it is broken.
type Broken = (&'static str, String);
/// A generation of the policy and a number of leaders.
type Fence = (i64, u64);

/// What was said and done until now.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// Events about what holds a stage, with all that may make them news.
    said: BTreeSet<(String, Fence, String, Reason)>,
    /// The newest view on which all was done that was to be done while a placement, by its uid, was closed.
    fences: BTreeMap<String, Fence>,
}

impl Claims {
    /// Whether a plan says what it must not, whoever will carry it out.
    pub fn in_plan(plan: &Plan, facts: &Facts) -> Option<Broken> {
        let statuses = plan.writes.iter().filter_map(|write| match write {
            Write::Status { status, .. } => Some(&**status),
            _ => None,
        });
        let mut texts: Vec<&str> = plan.events.iter().map(|event| event.message.as_str()).collect();
        for status in statuses {
            texts.extend(status.conditions.iter().map(|condition| condition.message.as_str()));
            for stage in &status.stages {
                texts.extend(stage.message.as_deref());
                texts.extend(stage.not_evaluated.iter().map(String::as_str));
                texts.extend(stage.checks.iter().map(|check| check.message.as_str()));
            }
            let broken = contradicts_itself(status).or_else(|| takes_back(&facts.policy.object, status));
            if broken.is_some() {
                return broken;
            }
        }
        let unseen = texts.into_iter().find(|text| text.chars().any(char::is_control))?;
        Some((
            "printable",
            format!("a text would change a terminal: {}", unseen.escape_debug()),
        ))
    }

    /// Whether this write comes out of turn, with the server as it is before.
    pub fn in_order(&self, write: &Write, facts: &Facts, server: &Server) -> Option<Broken> {
        let policy = &facts.policy.object;
        if let Write::Fence(placement) = write {
            return self.lowered(placement.name.as_str(), facts, server);
        }
        let moved = match write {
            Write::Open(placement) | Write::Update(placement) | Write::Adopt(placement) => placement.name.as_str(),
            Write::Remove { name, .. } => name.as_str(),
            Write::CreateClosed(placement) => placement.metadata.name.as_deref().unwrap_or_default(),
            _ => return None,
        };
        if policy.spec.paused {
            return Some(("stop", format!("{moved} is written while paused")));
        }
        let live = server.placements.get(moved);
        if let Write::Remove { .. } = write {
            let is_open = live.is_some_and(|live| !live.spec.cluster_selectors.is_empty());
            let is_cached = matches!(facts.read, stagegate_decide::staging::Read::Cached);
            return (is_open && is_cached).then(|| ("fresh", format!("{moved} is removed on cached facts")));
        }
        let Write::Open(_) = write else { return None };
        let fence = live.and_then(|live| self.fences.get(uid_of(&live.metadata)));
        if fence.is_some_and(|fence| *fence > fence_of(facts)) {
            return Some((
                "fenced",
                format!("{moved} is opened by a process whose view is older than that of another one"),
            ));
        }
        self.untold(moved, facts, server)
    }

    /// Whether a process with an older view takes back what keeps its like from opening the placement.
    fn lowered(&self, fenced: &str, facts: &Facts, server: &Server) -> Option<Broken> {
        let live = server.placements.get(fenced)?;
        let fence = self.fences.get(uid_of(&live.metadata))?;
        (*fence > fence_of(facts)).then(|| {
            let text = format!(
                "the fencing token of {fenced} is written by a process whose view is older than that of another one"
            );
            ("fenced", text)
        })
    }

    /// Whether a stage is opened before status has told that the one before it has passed.
    fn untold(&self, opened: &str, facts: &Facts, server: &Server) -> Option<Broken> {
        let policy = &facts.policy.object;
        let name = policy.metadata.name.as_deref().unwrap_or_default();
        let stages = &policy.spec.stages;
        let is_it =
            |stage: &stagegate_api::Stage| PlacementName::of(name, StageName::of(&stage.name)).as_str() == opened;
        let before = stages.iter().position(is_it)?.checked_sub(1)?;
        let told = server.policies.get(name)?.status.as_ref()?;
        let told = told.stages.iter().find(|known| known.name == stages[before].name);
        let has_news = told.is_some_and(|known| known.attempt.is_some() || known.state == StageState::Passed);
        (!has_news).then(|| {
            (
                "told",
                format!(
                    "{opened} is opened, and status has never told of stage {}",
                    stages[before].name
                ),
            )
        })
    }

    /// All of a plan was done.
    pub fn carried_out(&mut self, plan: &Plan, facts: &Facts) -> Option<Broken> {
        let fence = fence_of(facts);
        let placements = facts.placements.values().filter_map(Decoded::object);
        let uid = uid_of(&facts.policy.object.metadata);
        for placement in placements.filter(|placement| placement.spec.cluster_selectors.is_empty()) {
            let owners = placement.metadata.owner_references.as_deref().unwrap_or_default();
            if owners.iter().any(|owner| owner.uid == uid) {
                let known = self
                    .fences
                    .entry(uid_of(&placement.metadata).to_owned())
                    .or_insert(fence);
                *known = fence.max(*known);
            }
        }
        let status = plan.writes.iter().find_map(|write| match write {
            Write::Status { status, .. } => Some(&**status),
            _ => None,
        })?;
        // A stage that waits for its placement begins anew, also where the deletion of a placement came into view too late.
        let is_waiting = |name: &String| {
            let mut stages = status.stages.iter();
            stages.any(|stage| stage.name == *name && stage.state == StageState::Pending)
        };
        self.said.retain(|(_, _, stage, _)| !is_waiting(stage));
        let held = plan
            .events
            .iter()
            .find(|event| Some(event.reason.as_str()) == status.reason.as_deref())?;
        let stage = status.active_stage.clone().unwrap_or_default();
        let record = status.stages.iter().find(|known| known.name == stage)?;
        let attempt = record.attempt?;
        // What holds a placement that was made anew is news.
        let placement = record.binding_policy.as_ref().map(|placement| placement.uid.as_str());
        let said = (
            format!("{uid} {}", placement.unwrap_or_default()),
            (fence.0, u64::try_from(attempt).unwrap_or_default()),
            stage,
            held.reason,
        );
        (!self.said.insert(said)).then(|| {
            (
                "once",
                format!("the Event {} comes again: {}", held.reason.as_str(), held.message),
            )
        })
    }
}

fn fence_of(facts: &Facts) -> Fence {
    let generation = facts.policy.object.metadata.generation;
    (generation.unwrap_or_default(), facts.lease_transitions)
}

/// As kstatus reads conditions, which looks at `Reconciling` first.
fn contradicts_itself(status: &StagedBindingPolicyStatus) -> Option<Broken> {
    let both = |one: &str, other: &str| {
        (is_true(status, one) && is_true(status, other))
            .then(|| ("kstatus", format!("{one} and {other} are both true")))
    };
    both("Stalled", "Reconciling")
        .or_else(|| both("Stalled", "Ready"))
        .or_else(|| both("Reconciling", "Ready"))
}

fn is_true(status: &StagedBindingPolicyStatus, type_: &str) -> bool {
    let mut conditions = status.conditions.iter();
    conditions.any(|condition| condition.type_ == type_ && condition.status == "True")
}

/// Whether a pause makes a rollout unfinished that was complete. A placement that another owner has taken is no pause.
fn takes_back(policy: &StagedBindingPolicy, status: &StagedBindingPolicyStatus) -> Option<Broken> {
    let before = policy.status.as_ref()?;
    let revisions = |status: &StagedBindingPolicyStatus| -> Vec<(String, Option<String>, StageState)> {
        let stages = status.stages.iter();
        stages
            .map(|stage| (stage.name.clone(), stage.revision.clone(), stage.state))
            .collect()
    };
    let is_same = revisions(before) == revisions(status);
    let is_only_paused = policy.spec.paused && is_same && !is_true(status, "Stalled");
    (is_only_paused && is_true(before, "Completed") && !is_true(status, "Completed"))
        .then(|| ("lasting", "a pause takes the completion back".to_owned()))
}
