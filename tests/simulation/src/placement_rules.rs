//! The rules about placements in their order: which is the first, what status has told before one is opened, what stays where it is,
//! and what is taken away only when something else serves the same clusters. Must not look at evidence of versions.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use stagegate_api::{Binding, BindingPolicy, Destination, Phase, PreviousStages, Stage, StageState, annotation};
use stagegate_decide::names::{ObjectKey, PlacementName, StageName};
use stagegate_decide::staging::{Facts, Placement, Plan, Reason, Write};

use crate::controller::talk::Talk;
use crate::oracle::{Oracle, Parts, Violation};
use crate::proofs::is_attempted;
use crate::server::{Resource, uid_of};
use crate::versions::version_of_reports;

/// A rule, and how it is broken.
type Broken = (&'static str, String);

/// What was placed and told until now.
#[derive(Clone, Debug, Default)]
pub struct PlacementRules {
    /// Policies by uid, and the revisions at which one of their stages was opened or changed.
    begun: BTreeSet<(String, String)>,
    /// The placements by uid, and attempts, for which status has reported a completed rollout, and the stages before each of them.
    completed: BTreeMap<(String, i64), Vec<String>>,
}

impl Oracle {
    /// A write was carried out.
    pub fn placed(&mut self, facts: &Facts, write: &Write) {
        match write {
            Write::Open(placement) | Write::Update(placement) | Write::Adopt(placement) => {
                self.placements.begun.insert(begun(facts, placement));
            }
            Write::Status { status, .. } if status.phase == Some(Phase::Completed) => {
                let active = status.active_stage.as_deref().unwrap_or_default();
                let record = status.stages.iter().find(|record| record.name == active);
                let placement = record.and_then(|record| Some((record.binding_policy.clone()?.uid, record.attempt?)));
                let names = stage_names(facts).take_while(|name| *name != active);
                let before: Vec<String> = names.map(str::to_owned).collect();
                self.placements.completed.extend(placement.map(|of_it| (of_it, before)));
            }
            _ => {}
        }
    }

    /// The rule about placements that this write would break, with the server as it is before.
    pub fn judge_placements(&self, (talk, write): (&Talk, &Write), parts: Parts<'_>) -> Option<Violation> {
        let facts = &talk.facts;
        let moved = match write {
            Write::Open(placement) | Write::Update(placement) | Write::Adopt(placement) => Some(&placement.name),
            Write::Remove { name, .. } => Some(name),
            _ => None,
        };
        let is_leaving = facts.policy.object.metadata.deletion_timestamp.is_some();
        let deleted = moved.filter(|_| is_leaving);
        let deleted = deleted.map(|name| {
            (
                "deleted",
                format!("{name} is written while its policy is being deleted"),
            )
        });
        let broken = deleted.or_else(|| match write {
            Write::Open(placement) => self
                .is_too_early(facts, placement)
                .or_else(|| untold(facts, placement, parts))
                .or_else(|| soaked_too_early(facts, &placement.name)),
            Write::Update(placement) => soaked_too_early(facts, &placement.name),
            Write::Remove { name, .. } => self
                .is_to_stay(facts, name, parts)
                .or_else(|| unserved(talk, name, parts)),
            _ => None,
        });
        broken.map(|(rule, text)| Violation {
            rule,
            text,
            facts: Some(Box::new(facts.clone())),
        })
    }

    /// A soak that has not begun waits for something, and status says for what, or it is being done.
    pub fn said_of_soak(&mut self, facts: &Facts, plan: &Plan) {
        let written = plan.writes.iter().find_map(|write| match write {
            Write::Status { status, .. } => Some(&**status),
            _ => None,
        });
        let is_moving = plan.writes.iter().any(|write| !matches!(write, Write::Status { .. }));
        let Some(status) = written.filter(|_| !is_moving) else {
            return;
        };
        let active = status.active_stage.as_deref().unwrap_or_default();
        let record = status.stages.iter().find(|record| record.name == active);
        let has_begun = record.is_none_or(|record| record.passing_since.is_some());
        let is_silent = status.reason.as_deref() == Some(Reason::Soaking.as_str()) && !has_begun;
        let broken = is_silent.then(|| {
            let text = format!("status says that stage {active} soaks, and not why that has not begun");
            ("told", text)
        });
        self.note(broken, facts);
    }
}

/// Whether a stage with a soak passes although an earlier stage is still placed: its soak starts when that placement is removed.
fn soaked_too_early(facts: &Facts, opened: &PlacementName) -> Option<Broken> {
    let policy = &facts.policy.object;
    let name = policy.metadata.name.as_deref()?;
    let is_opened = |stage: &&Stage| PlacementName::of(name, StageName::of(&stage.name)) == *opened;
    let position = policy.spec.stages.iter().position(|stage| is_opened(&stage))?;
    let active = policy.status.as_ref()?.active_stage.as_deref()?;
    let before = policy.spec.stages[..position]
        .iter()
        .find(|stage| stage.name == active)?;
    let left = before.soak.as_ref().and_then(|_| left_before(facts, active))?;
    let text = format!("stage {active} has soaked while stage {left} was still placed");
    Some(("soak", text))
}

/// An earlier stage that has passed, and that is still placed although its placement is to be removed when the active stage has taken over.
/// What the controller has placed behind the active stage at the same revision, as before an edit that was taken back, keeps all earlier
/// ones.
fn left_before<'f>(facts: &'f Facts, active: &str) -> Option<&'f str> {
    let policy = &facts.policy.object;
    let (name, uid) = (policy.metadata.name.as_deref()?, uid_of(&policy.metadata));
    let open = |stage: &str| {
        let placement = facts
            .placements
            .get(&PlacementName::of(name, StageName::of(stage)))?
            .object()?;
        let is_ours = placement.owner_references().iter().any(|owner| owner.uid == uid);
        let is_staying = placement.metadata.deletion_timestamp.is_none();
        (is_ours && is_staying && !placement.spec.cluster_selectors.is_empty()).then_some(placement)
    };
    let is_behind = |stage: &&str| *stage != active;
    let revision = |placement: &BindingPolicy| placement.annotations().get(annotation::REVISION).cloned();
    let own = revision(open(active)?);
    let keeps_others = |later: &BindingPolicy| is_attempted(later) && revision(later) == own;
    let mut behind = stage_names(facts).skip_while(is_behind).skip(1);
    if policy.spec.previous_stages == PreviousStages::Keep || behind.any(|stage| open(stage).is_some_and(keeps_others))
    {
        return None;
    }
    let is_to_go = |stage: &&str| {
        let mut records = policy.status.iter().flat_map(|status| &status.stages);
        let record = records.find(|record| record.name == *stage);
        record.is_some_and(|record| record.state == StageState::Passed && record.completed_at.is_none())
            && open(stage).is_some()
    };
    stage_names(facts).take_while(is_behind).find(is_to_go)
}

fn begun(facts: &Facts, placement: &Placement) -> (String, String) {
    let revision = placement.annotations.get(annotation::REVISION).cloned();
    (
        uid_of(&facts.policy.object.metadata).to_owned(),
        revision.unwrap_or_default(),
    )
}

impl Oracle {
    /// Whether nothing was placed at the revision, and this is not the first stage.
    fn is_too_early(&self, facts: &Facts, placement: &Placement) -> Option<Broken> {
        let policy = facts.policy.object.metadata.name.as_deref().unwrap_or_default();
        let first = facts.policy.object.spec.stages.first()?;
        let is_first = PlacementName::of(policy, StageName::of(&first.name)) == placement.name;
        let has_begun = self.placements.begun.contains(&begun(facts, placement));
        (!is_first && !has_begun).then(|| {
            let text = format!("{} is opened, and no stage before it was", placement.name);
            ("first", text)
        })
    }

    /// Whether a rollout was completed with this placement as it is. An edit may have put its stage before one that came first.
    fn is_to_stay(&self, facts: &Facts, name: &PlacementName, (_, _, server): Parts<'_>) -> Option<Broken> {
        let live = server.placements.get(name.as_str())?;
        let annotations = live.metadata.annotations.as_ref();
        let attempt = annotations.and_then(|all| all.get(annotation::ATTEMPT)?.parse().ok());
        let of_it = (uid_of(&live.metadata).to_owned(), attempt?);
        let is_open = !live.spec.cluster_selectors.is_empty();
        let before = self.placements.completed.get(&of_it).filter(|_| is_open)?;
        let policy = facts.policy.object.metadata.name.as_deref().unwrap_or_default();
        let is_its = |stage: &str| PlacementName::of(policy, StageName::of(stage)) == *name;
        let mut after = stage_names(facts).skip_while(|stage| !is_its(stage));
        let has_moved = after.any(|stage| before.iter().any(|earlier| earlier == stage));
        (!has_moved).then(|| {
            let text = format!("{name} is removed, and a rollout was completed there");
            ("lasting", text)
        })
    }
}

fn stage_names(facts: &Facts) -> impl Iterator<Item = &str> {
    facts.policy.object.spec.stages.iter().map(|stage| stage.name.as_str())
}

/// Whether status has not told that this placement is going to be opened: who writes it could end before telling.
fn untold(facts: &Facts, placement: &Placement, (_, _, server): Parts<'_>) -> Option<Broken> {
    let policy = facts.policy.object.metadata.name.as_deref().unwrap_or_default();
    let is_it = |stage: &&Stage| PlacementName::of(policy, StageName::of(&stage.name)) == placement.name;
    let stage = facts.policy.object.spec.stages.iter().find(is_it)?;
    let told = server.policies.get(policy)?;
    // Another policy of the name has been told nothing yet.
    if uid_of(&told.metadata) != uid_of(&facts.policy.object.metadata) {
        return None;
    }
    let status = told.status.as_ref();
    // One that has come too late before is told of as that.
    let reasons = [Reason::Opening, Reason::EvidenceExpired].map(Reason::as_str);
    let words = format!("stage {}", stage.name);
    let is_told = status.is_some_and(|status| {
        let mut conditions = status.conditions.iter();
        // What a person has to do comes first.
        conditions.any(|condition| {
            let is_opening = reasons.contains(&condition.reason.as_str()) && condition.message.contains(&words);
            is_opening || (condition.type_ == "Stalled" && condition.status == "True")
        })
    });
    (!is_told).then(|| {
        let text = format!("{} is opened, and status has not told of it", placement.name);
        ("told", text)
    })
}

/// Whether a cluster that another placement of the policy has taken over would lose the workload, as far as the API server tells: the
/// transport has not taken what names the cluster there, or the cluster has not been seen to have the objects.
fn unserved(talk: &Talk, name: &PlacementName, (kubestellar, fleet, server): Parts<'_>) -> Option<Broken> {
    let facts = &talk.facts;
    let leaving = server.placements.get(name.as_str())?;
    if leaving.spec.cluster_selectors.is_empty() {
        return None;
    }
    let shared = &server.bindings.get(name.as_str())?.spec.destinations;
    let read = |name: &str| facts.bindings.get(name)?.object.as_ref()?.object();
    let known = read(name.as_str());
    let tells = facts
        .bindings
        .keys()
        .any(|name| read(name.as_str()).is_some_and(|binding| taken(binding) > 0));
    // It is the active stage that takes clusters over.
    let active = facts.policy.object.status.as_ref()?.active_stage.as_deref()?;
    let active = PlacementName::of(talk.policy(), StageName::of(active));
    for (other, later) in &facts.placements {
        let is_active = *other == active && other != name;
        // One that is being deleted takes nothing over.
        let is_to_serve = |later: &&BindingPolicy| {
            is_active && later.metadata.deletion_timestamp.is_none() && is_served(facts, later)
        };
        let Some(later) = later.object().filter(is_to_serve) else {
            continue;
        };
        let Some(binding) = read(other.as_str()) else { continue };
        let is_shared = |destination: &&Destination| {
            // One that came since the reading is unknown to whoever decided.
            shared.contains(destination) && known.is_some_and(|known| known.spec.destinations.contains(destination))
        };
        for destination in binding.spec.destinations.iter().filter(is_shared) {
            let cluster = &destination.cluster_id;
            let is_there = fleet
                .members
                .get(cluster)
                .is_some_and(|member| member.has_work_of(other.as_str()));
            if tells && !is_there && Some(taken(binding)) != binding.metadata.generation {
                let text = format!("{name} is removed before the transport has taken {other} for cluster {cluster}");
                return Some(("covered", text));
            }
            for object in binding.spec.workload.objects() {
                let key = ObjectKey {
                    group: object.group.clone(),
                    resource: object.resource.clone(),
                    namespace: object.namespace.clone(),
                    name: object.name.clone(),
                };
                let version = version_of_reports(facts, &key, uid_of(&later.metadata));
                let basis = version.and_then(|version| kubestellar.basis.get(&version));
                let is_told = basis.is_some_and(|basis| basis.contains_key(cluster));
                let is_returned = Resource::of(&key.resource).is_some_and(Resource::is_evaluated);
                if is_returned && !is_told {
                    let text =
                        format!("{name} is removed, and nothing tells of {key} in cluster {cluster} under {other}");
                    return Some(("covered", text));
                }
            }
        }
    }
    None
}

fn taken(binding: &Binding) -> i64 {
    let status = binding.status.as_ref();
    status.map(|status| status.observed_generation).unwrap_or_default()
}

/// Whether the placement is the policy's, open, and as the spec has its stage.
fn is_served(facts: &Facts, placement: &BindingPolicy) -> bool {
    let policy = facts.policy.object.metadata.name.as_deref().unwrap_or_default();
    let uid = uid_of(&facts.policy.object.metadata);
    let is_owned = |meta: &ObjectMeta| {
        let owners = meta.owner_references.as_deref().unwrap_or_default();
        owners.iter().any(|owner| owner.uid == uid)
    };
    let is_its = |stage: &Stage| {
        Some(PlacementName::of(policy, StageName::of(&stage.name)).as_str()) == placement.metadata.name.as_deref()
            && stage.cluster_selectors == placement.spec.cluster_selectors
    };
    is_owned(&placement.metadata) && facts.policy.object.spec.stages.iter().any(is_its)
}
