//! The versions that the control plane has now: the objects that KubeStellar selects, by the Binding of a BindingPolicy that selects no
//! cluster, and what each of them holds. Must not look at any stage.

use std::collections::BTreeMap;

use kube::{Resource as _, ResourceExt as _};
use stagegate_api::staged_status::MAX_RECORDED;
use stagegate_api::{Binding, BindingPolicy, BindingPolicySpec, BoundObject};

use crate::checks::finding::Finding;
use crate::checks::reason::Reason;
use crate::names::{Digest, ObjectKey, PlacementName};
use crate::staging::evidence::{collector, kinds, objects::question_about};
use crate::staging::input::{
    BindingFacts, Decoded, Facts, ObjectFacts, OwnedPlacement, Slot, admitted, binding_view,
    clauses::{revision_of, without_evidence},
    placement::owner_of,
};
use crate::staging::plan::Write;
use crate::staging::question::Question;
use crate::time::after;

/// The most that the list of admitted versions may take, in bytes: annotations of one object end at 256 KiB, and others have their part.
pub const LIST_BYTES_MAX: usize = 200 * 1024;

/// All objects at one version each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    /// Of the clauses and of what the objects hold.
    pub revision: Digest,
    /// As [`stagegate_api::ADMITTED_VERSIONS`] has it.
    pub list: String,
}

/// Why the versions are not known now.
#[derive(Clone, Debug, PartialEq)]
pub struct Unknown {
    pub finding: Finding,
    /// What has to be read first.
    pub questions: Vec<Question>,
    /// What makes them known.
    pub writes: Vec<Write>,
    /// A person has to act.
    pub is_stalled: bool,
}

impl Unknown {
    const fn waiting(finding: Finding) -> Self {
        Self {
            finding,
            questions: Vec::new(),
            writes: Vec::new(),
            is_stalled: false,
        }
    }

    fn stalled(finding: Finding) -> Self {
        Self {
            is_stalled: true,
            ..Self::waiting(finding)
        }
    }

    fn after_write(reason: Reason, text: String, write: Write) -> Self {
        Self {
            writes: vec![write],
            ..Self::waiting(Finding::unknown(reason, text))
        }
    }
}

/// Which versions there are. While one is unknown there is no revision.
pub fn versions(facts: &Facts) -> Result<Versions, Unknown> {
    let name = observer_name(facts);
    let own = observer(facts, &name)?;
    let binding = binding_of(facts, &name, &own)?;
    let objects = binding_view::objects(binding);
    require_number(&name, objects.len())?;
    require_rest(facts, &name)?;
    let mut questions = Vec::new();
    let mut missing = None;
    let mut versions: BTreeMap<ObjectKey, String> = BTreeMap::new();
    for object in &objects {
        match version_of(facts, object) {
            Ok(version) => drop(versions.insert(binding_view::key(object), version)),
            Err(Unread::Question(question)) => questions.push(*question),
            Err(Unread::Finding(finding)) => drop(missing.get_or_insert(finding)),
        }
    }
    if !questions.is_empty() || missing.is_some() {
        let not_read = || Finding::unknown(Reason::VersionsUnknown, "the objects have not been read yet");
        let unknown = Unknown::waiting(missing.unwrap_or_else(not_read));
        return Err(Unknown { questions, ..unknown });
    }
    let list = admitted::list_of(&objects);
    require_room(list.len(), objects.len())?;
    let clauses = revision_of(&facts.policy.object.spec.downsync);
    Ok(Versions {
        revision: Digest::of(&(clauses, versions.iter().collect::<Vec<_>>())),
        list,
    })
}

/// In place of versions that are not known: no placement is at this revision, and no Binding has this list.
pub fn none() -> Versions {
    Versions {
        revision: Digest::of("versions unknown"),
        list: "unknown".to_owned(),
    }
}

/// Of the BindingPolicy that selects the objects and no cluster.
pub fn observer_name(facts: &Facts) -> PlacementName {
    PlacementName::of_versions(&facts.policy.object.name_any())
}

/// Our BindingPolicy that selects the objects, or why there is none. It is never changed in place but for its collectors: a Binding that
/// belongs to it is of these clauses.
fn observer<'a>(facts: &'a Facts, name: &PlacementName) -> Result<OwnedPlacement<'a>, Unknown> {
    let policy = &facts.policy.object;
    match Slot::of(facts, name) {
        Slot::Invalid(error) => Err(Unknown::waiting(Finding::unknown(
            Reason::InvalidObject,
            format!(
                "BindingPolicy {name} cannot be read ({error}): delete it; it selects no cluster, and is made anew"
            ),
        ))),
        Slot::Foreign => Err(Unknown::stalled(Finding::unknown(
            Reason::BindingPolicyNotOwned,
            format!(
                "there is a BindingPolicy {name} that this policy does not own, and updates: Staged needs one of that name: give this policy \
                 another name, or delete that BindingPolicy (this removes its workload from its clusters)"
            ),
        ))),
        Slot::Leaving(_) => Err(Unknown::waiting(Finding::unknown(
            Reason::NameInUse,
            format!("the earlier BindingPolicy {name} is still being deleted"),
        ))),
        Slot::Absent => {
            let is_bound = |entry: &&BindingFacts| entry.object.is_some();
            if facts.bindings.get(name).filter(is_bound).is_some() {
                return Err(Unknown::waiting(Finding::unknown(
                    Reason::NameInUse,
                    format!("the Binding of an earlier BindingPolicy {name} still exists: waiting for its deletion"),
                )));
            }
            let mut object = BindingPolicy::new(name.as_str(), observer_spec(facts));
            object.meta_mut().owner_references = Some(vec![owner_of(policy)]);
            Err(Unknown::after_write(
                Reason::Placing,
                format!("creating BindingPolicy {name}, which selects the objects and no cluster"),
                Write::CreateClosed(object),
            ))
        }
        Slot::Closed(own) | Slot::Open(own) if !is_observer_spec(facts, &own.object.spec) => {
            let text = format!("replacing BindingPolicy {name}, which does not select what spec.downsync says");
            let removal = Write::Remove {
                name: name.clone(),
                precondition: own.precondition(),
            };
            Err(Unknown::after_write(Reason::Placing, text, removal))
        }
        Slot::Closed(own) | Slot::Open(own) => Ok(own),
    }
}

/// The clauses without what reports something back: that would change objects, or ask clusters for nothing.
fn observer_spec(facts: &Facts) -> BindingPolicySpec {
    let mut downsync = without_evidence(&facts.policy.object.spec.downsync);
    for clause in &mut downsync {
        clause.status_collectors.clear();
    }
    BindingPolicySpec {
        cluster_selectors: Vec::new(),
        downsync,
    }
}

/// The other spec that the observer may have: one turns into the other when KubeStellar is to show that it works.
pub fn other_observer_spec(facts: &Facts, spec: &BindingPolicySpec) -> BindingPolicySpec {
    let usual = observer_spec(facts);
    if *spec != usual {
        return usual;
    }
    BindingPolicySpec {
        downsync: collector::with_evidence(&usual.downsync),
        ..usual
    }
}

fn is_observer_spec(facts: &Facts, spec: &BindingPolicySpec) -> bool {
    let usual = observer_spec(facts);
    *spec == usual || *spec == other_observer_spec(facts, &usual)
}

fn binding_of<'a>(facts: &'a Facts, name: &PlacementName, own: &OwnedPlacement<'_>) -> Result<&'a Binding, Unknown> {
    let missing = || {
        let text = format!("no Binding {name} yet: KubeStellar writes it about 2 s after the BindingPolicy");
        Unknown::waiting(Finding::unknown(Reason::BindingMissing, text))
    };
    let entry = facts.bindings.get(name).and_then(|entry| entry.object.as_ref());
    match entry.ok_or_else(missing)? {
        Decoded::Invalid { error } => Err(Unknown::waiting(Finding::unknown(
            Reason::InvalidObject,
            format!("Binding {name} cannot be read ({error}): another KubeStellar version may have written it"),
        ))),
        Decoded::Object(binding) if binding_view::owner_uid(binding) != Some(own.uid()) => Err(missing()),
        Decoded::Object(binding) if binding.metadata.deletion_timestamp.is_some() => Err(missing()),
        Decoded::Object(binding) => Ok(binding),
    }
}

fn require_number(name: &PlacementName, objects: usize) -> Result<(), Unknown> {
    if objects == 0 {
        return Err(Unknown::waiting(Finding::unknown(
            Reason::NoObjects,
            format!(
                "Binding {name} names no object, so nothing is changed: create what spec.downsync selects, or correct its clauses"
            ),
        )));
    }
    if objects > MAX_RECORDED {
        let text =
            format!("Binding {name} has {objects} objects, at most {MAX_RECORDED} can be judged: split the policy");
        return Err(Unknown::stalled(Finding::unknown(Reason::TooManyObjects, text)));
    }
    Ok(())
}

/// The set of objects must have stood for a while, and ten times as long after a loss: a restart of KubeStellar empties Bindings.
fn require_rest(facts: &Facts, name: &PlacementName) -> Result<(), Unknown> {
    let Some(entry) = facts.bindings.get(name) else {
        return Ok(());
    };
    let seen = &entry.observed;
    let rested = after(seen.since, facts.settings.settle());
    let recovered = seen.lost_at.map(|lost| after(lost, facts.settings.settle_after_loss()));
    let until = recovered.map_or(rested, |recovered| recovered.max(rested));
    if facts.now >= until {
        return Ok(());
    }
    let text = format!(
        "the set of objects of Binding {name} last changed at {:.1}: it counts from {until:.1} on, if it stays unchanged",
        seen.since
    );
    let finding = Finding::unknown(Reason::Settling, text).wake_at(until);
    // Nothing of it has changed since this process began to watch.
    let is_restart = seen.first_seen.is_none() && facts.policy.object.status.is_some();
    Err(Unknown::waiting(if is_restart {
        finding.after_restart()
    } else {
        finding
    }))
}

fn require_room(bytes: usize, objects: usize) -> Result<(), Unknown> {
    if bytes <= LIST_BYTES_MAX {
        return Ok(());
    }
    let text = format!(
        "the list of the {objects} admitted versions takes {bytes} bytes, and an annotation has room for {LIST_BYTES_MAX}: split the policy"
    );
    Err(Unknown::stalled(Finding::unknown(Reason::TooLargeToHold, text)))
}

/// Why the version of an object is not known.
enum Unread {
    Question(Box<Question>),
    Finding(Finding),
}

/// What tells two versions of an object apart: its uid and what travels to clusters. For kinds of which no cluster returns a status, and
/// where the object may not be read, its resourceVersion; with createOnly the uid alone, because edits do not travel.
fn version_of(facts: &Facts, object: &BoundObject) -> Result<String, Unread> {
    let (key, named) = (binding_view::key(object), binding_view::resource_version(object));
    let by_number = || format!("resourceVersion {named}");
    if kinds::is_never_returned(&object.group, &object.resource) {
        return Ok(by_number());
    }
    let is_answered = |known: &&ObjectFacts| known.is_answer_to(named) && known.is_whole();
    let Some(known) = facts.objects.get(&key).filter(is_answered) else {
        return Err(Unread::Question(Box::new(question_about(facts, object))));
    };
    if known.refused.is_some() {
        return Ok(by_number());
    }
    let unknown = |text: String| Unread::Finding(Finding::unknown(Reason::VersionsUnknown, text));
    let Some(found) = &known.found else {
        return Err(unknown(format!(
            "{key} is selected, but it is not on this control plane: nothing is changed until KubeStellar has noticed, or it is back"
        )));
    };
    if object.create_only {
        return Ok(format!("uid {}", found.uid));
    }
    if found.resource_version.borrowed() != named {
        return Err(unknown(format!(
            "{key} was changed a moment ago: nothing is changed until KubeStellar has noticed"
        )));
    }
    match &found.content_digest {
        Some(content) => Ok(format!("uid {} content {content}", found.uid)),
        None => Ok(by_number()),
    }
}
