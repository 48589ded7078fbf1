//! The workloads that there are, each with its pool, and what each pool's is to be. Must not decide what goes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use jiff::{SignedDuration, Timestamp};
use kube::Resource as _;
use kube::core::ObjectMeta;
use stagegate_api::workloads::{
    APPLIED_DIGEST, ContainerView, NODE_POOL_OF_NODE, POOL_NAME, REF_NODE_POOL, REVISION_HASH, REVISION_NUMBER,
    WorkloadView, YurtAppDaemon,
};

use super::facts::{Child, Facts, Pool};
use super::judge::Aim;
use super::plan::{ChildRef, Draft, Write};
use super::render::{CREATE_VERSION, Common, Rendered, Source, child_name};
use super::revisions::recorded;
use super::spec::Checked;
use super::stages::{self, Candidate, PoolEvidence, Walk};
use crate::checks::variables::PoolReport;
use crate::health::{Health, health};
use crate::precondition::Precondition;
use crate::selector::is_label_value;
use crate::time::after;

/// When a pool is looked at again that something is in the way of.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(60);

/// What keeps a pool's workload from being of the revision, or from being as it was applied.
const OTHER: &str = "has a workload that is not as the revision says: it is of an older one, or was changed";

/// What keeps a pool's workload from being of the revision.
const OLDER: &str = "has the workload of an older revision";

/// All pools that match, and all workloads of the daemon.
pub(super) struct Children<'a> {
    /// By the names of their pools.
    pub wanted: Vec<Wanted<'a>>,
    /// Workloads whose pool does not match, with the pool; and those of a pool that has another one already.
    pub surplus: Vec<(&'a str, &'a WorkloadView)>,
    /// Workloads of no known pool.
    pub stray: Vec<&'a WorkloadView>,
    /// Whose turn it is.
    pub walk: Walk,
    /// A workload is to be as a revision says that is not known.
    pub needs_revisions: bool,
}

/// One pool that matches.
pub(super) struct Wanted<'a> {
    pub pool: &'a str,
    /// The daemon's workload, whatever is to become of it.
    pub own: Option<&'a WorkloadView>,
    pub state: State<'a>,
}

/// What there is in a pool.
pub(super) enum State<'a> {
    /// Nothing.
    Missing(Box<Rendered<'a>>),
    /// The daemon's workload.
    Own(&'a WorkloadView, Box<Rendered<'a>>),
    /// The daemon's workload, whose revision is not known: it stays as it is.
    Kept,
    /// Nothing, until the turn of the pool's stage comes.
    Waiting,
    /// The daemon's workload, which is being deleted.
    Leaving,
    /// A workload that nothing controls, and that has the labels of the daemon's.
    Orphan(&'a WorkloadView),
    /// No workload can be made here, and why.
    Skipped(String),
}

/// A pool that matches, with the daemon's workload in it.
struct Match<'a> {
    pool: &'a str,
    of: &'a Pool,
    own: Option<&'a WorkloadView>,
    /// That a workload gets here.
    our_name: String,
}

impl<'a> Children<'a> {
    /// With what each pool's workload is to be made from: that of `aim`, or, before the pool's turn has come, what it was made from.
    pub fn of(facts: &'a Facts, checked: &Checked<'_>, pools: &'a BTreeMap<String, Pool>, aim: Aim<'_>) -> Self {
        let (matches, surplus, stray) = sorted(facts, checked, pools);
        let look = Look {
            facts,
            checked,
            commons: RefCell::default(),
        };
        let target = aim.source;
        // A workload that has the revision is compared with it once.
        let mut compared: BTreeMap<&str, Wanted<'a>> = BTreeMap::new();
        let mut candidate = |found: &Match<'a>| {
            let own = found.own.map(|view| &view.metadata);
            let metadata = own.or_else(|| Some(invalid_of(facts, found.pool)?.metadata()));
            let is_at = metadata.is_some_and(|metadata| is_at(metadata, target));
            Candidate {
                pool: found.pool,
                of: found.of,
                own: found.own,
                evidence: match is_at {
                    true => {
                        let wanted = look.wanted(found, target);
                        let evidence = wanted.evidence(target.name, found.of);
                        compared.insert(found.pool, wanted);
                        evidence
                    }
                    false => PoolEvidence::Older,
                },
            }
        };
        let candidates: Vec<Candidate<'_>> = matches.iter().map(&mut candidate).collect();
        // One that cannot be read is not deleted, so it would hold the update for ever.
        let is_of_gone = |(pool, view): &(&str, &WorkloadView)| {
            let metadata = &view.metadata;
            !pools.contains_key(*pool) && is_at(metadata, target) && metadata.deletion_timestamp.is_none()
        };
        let is_one_gone = surplus.iter().any(is_of_gone);
        let walk = stages::walk((facts, checked), aim, (&candidates, is_one_gone));
        let mut needs_revisions = false;
        let wanted = matches.iter().zip(&walk.turns).map(|(found, turn)| {
            if *turn {
                let known = compared.remove(found.pool);
                return known.unwrap_or_else(|| look.wanted(found, target));
            }
            let current = facts
                .daemon
                .status
                .as_ref()
                .map(|status| status.current_revision.as_str());
            let kept = found
                .own
                .and_then(|view| revision_of(&view.metadata))
                .or(current)
                .filter(|name| !name.is_empty());
            let state = match (kept, kept.and_then(|name| recorded(facts, checked, name))) {
                (_, Some(source)) => {
                    let number = found.own.map_or(source.number, |view| number_of(&view.metadata));
                    return look.wanted(found, Source { number, ..source });
                }
                (None, None) => found.own.map_or(State::Waiting, |_| State::Kept),
                (Some(name), None) => {
                    needs_revisions = true;
                    found.own.map_or_else(|| lost(name), |_| State::Kept)
                }
            };
            Wanted {
                pool: found.pool,
                own: found.own,
                state,
            }
        });
        let wanted = wanted.collect();
        Self {
            wanted,
            surplus,
            stray,
            walk,
            needs_revisions,
        }
    }

    /// The daemon's workloads.
    pub fn own(&self) -> impl Iterator<Item = &'a WorkloadView> {
        let of_pools = self.wanted.iter().filter_map(|wanted| wanted.own);
        let others = self.surplus.iter().map(|(_, view)| *view);
        of_pools.chain(others).chain(self.stray.iter().copied())
    }

    /// Creates what is missing, changes what is otherwise, and adopts what has no controller.
    pub fn draft(&self, facts: &Facts, draft: &mut Draft) {
        for Wanted { pool, state, .. } in &self.wanted {
            match state {
                State::Missing(rendered) if may_be_tried(facts, pool, rendered, draft) => {
                    draft.writes.extend(apply(pool, rendered, None));
                }
                State::Own(view, rendered)
                    if is_to_be_applied(view, rendered) && may_be_tried(facts, pool, rendered, draft) =>
                {
                    match left_until(facts, view, rendered) {
                        Some(until) => draft.wake(until),
                        None => draft.writes.extend(apply(pool, rendered, Some(view))),
                    }
                }
                State::Orphan(view) => draft.writes.extend(adopt(&facts.daemon, pool, view)),
                // What is in the way may go without an event: it has no label of a pool.
                State::Skipped(_) => draft.wake(after(facts.now, LOOK_AGAIN)),
                State::Missing(_) | State::Own(..) | State::Kept | State::Waiting | State::Leaving => {}
            }
        }
    }
}

impl Wanted<'_> {
    /// What keeps the workload from being of the revision and rolled out, as the predicate of a sentence about the pool.
    pub fn obstacle(&self, revision: &str) -> Option<String> {
        match self.proven(revision) {
            Err(why) => Some(why),
            Ok((view, plural)) => match health("apps", plural, &view.row(self.pool)) {
                Health::Healthy => None,
                Health::Progressing(text) | Health::Failed(text) => Some(text.into_owned()),
            },
        }
    }

    /// What the workload, which is of the revision, tells of it.
    fn evidence(&self, revision: &str, of: &Pool) -> PoolEvidence {
        match self.proven(revision) {
            Err(why) => PoolEvidence::Unproven(why),
            Ok((view, plural)) => {
                PoolEvidence::Proven(PoolReport::of(plural, (self.pool, &of.labels), &view.row(self.pool)))
            }
        }
    }

    /// The workload and the plural of its kind, if it is as the revision says and its status is about that; or what it is instead.
    fn proven(&self, revision: &str) -> Result<(&WorkloadView, &'static str), String> {
        let (view, rendered) = match &self.state {
            State::Missing(_) => return Err("has no workload yet".to_owned()),
            State::Leaving => return Err("has a workload that is being deleted".to_owned()),
            State::Orphan(_) => return Err("has a workload that nothing controls yet".to_owned()),
            State::Skipped(why) => return Err(why.clone()),
            State::Waiting => return Err("has no workload until the turn of its stage comes".to_owned()),
            State::Kept => return Err(OLDER.to_owned()),
            State::Own(view, rendered) => (view, rendered),
        };
        if !is_of(view, rendered, revision) {
            return Err(OTHER.to_owned());
        }
        if view.status.observed_generation.is_none() || view.status.observed_generation != view.metadata.generation {
            return Err("has a workload whose last change its controller has not seen yet".to_owned());
        }
        Ok((view, rendered.kind().plural()))
    }
}

/// All workloads of the daemon: those of pools that match, those that are too many, with their pools, and those of no known pool.
type Sorted<'a> = (Vec<Match<'a>>, Vec<(&'a str, &'a WorkloadView)>, Vec<&'a WorkloadView>);

fn sorted<'a>(facts: &'a Facts, checked: &Checked<'_>, pools: &'a BTreeMap<String, Pool>) -> Sorted<'a> {
    let matching = || pools.iter().filter(|(_, pool)| checked.pools.matches(&pool.labels));
    let names: BTreeMap<&str, String> = matching()
        .map(|(pool, _)| (pool.as_str(), name_of(&facts.daemon, checked, pool)))
        .collect();
    let named: BTreeMap<&str, &str> = names.iter().map(|(pool, name)| (name.as_str(), *pool)).collect();
    let mut by_pool: BTreeMap<&str, Vec<&WorkloadView>> = BTreeMap::new();
    let mut stray = Vec::new();
    for view in known(facts).filter(|view| is_own(&facts.daemon, view)) {
        match pool_of(view).or_else(|| named.get(name(view)).copied()) {
            Some(pool) => by_pool.entry(pool).or_default().push(view),
            None => stray.push(view),
        }
    }
    let mut surplus = Vec::new();
    let mut matches = Vec::new();
    for (pool, of) in matching() {
        let mut own = by_pool.remove(pool.as_str()).unwrap_or_default();
        // The one that was there first has served longest.
        own.sort_by_key(|view| {
            let of = &view.metadata;
            let is_leaving = of.deletion_timestamp.is_some();
            (is_leaving, of.creation_timestamp.clone().map(|time| time.0), name(view))
        });
        let mut own = own.into_iter();
        matches.push(Match {
            pool,
            of,
            own: own.next(),
            our_name: names.get(pool.as_str()).cloned().unwrap_or_default(),
        });
        surplus.extend(own.map(|view| (pool.as_str(), view)));
    }
    for (pool, views) in by_pool {
        surplus.extend(views.into_iter().map(|view| (pool, view)));
    }
    (matches, surplus, stray)
}

fn lost(revision: &str) -> State<'static> {
    State::Skipped(format!(
        "has no workload, and ControllerRevision {revision}, which it would be made from until the turn of its stage comes, is not there"
    ))
}

/// The revision that a workload was made from.
fn revision_of(workload: &ObjectMeta) -> Option<&str> {
    Some(workload.labels.as_ref()?.get(REVISION_HASH)?.as_str())
}

/// The number that its revision had then. `None`: another controller made the workload.
fn number_of(workload: &ObjectMeta) -> Option<i64> {
    let number = workload.annotations.as_ref()?.get(REVISION_NUMBER)?;
    Some(number.parse().unwrap_or_default())
}

/// Whether it was made from this revision since that became the newest.
fn is_at(workload: &ObjectMeta, target: Source<'_>) -> bool {
    let number = number_of(workload);
    revision_of(workload) == Some(target.name) && (number.is_none() || number == target.number)
}

/// What is looked at.
struct Look<'a, 'c> {
    facts: &'a Facts,
    checked: &'c Checked<'c>,
    /// What workloads have in common, by what they are made from. `None`: it is no template.
    commons: RefCell<BTreeMap<SourceKey, Option<Rc<Common>>>>,
}

/// Where its template is, its name and its number.
type SourceKey = (usize, String, Option<i64>);

impl<'a> Look<'a, '_> {
    /// What there is in the pool, beside what is to be there by this revision.
    fn wanted(&self, found: &Match<'a>, revision: Source<'_>) -> Wanted<'a> {
        Wanted {
            pool: found.pool,
            own: found.own,
            state: state(self, found, revision),
        }
    }

    fn common(&self, revision: Source<'_>) -> Option<Rc<Common>> {
        let template = std::ptr::from_ref(revision.template).addr();
        let key = (template, revision.name.to_owned(), revision.number);
        let made = || Common::of(&self.facts.daemon, self.checked.kind, revision).map(Rc::new);
        self.commons.borrow_mut().entry(key).or_insert_with(made).clone()
    }
}

fn state<'a>(look: &Look<'a, '_>, found: &Match<'a>, revision: Source<'_>) -> State<'a> {
    let Look { facts, checked, .. } = *look;
    let Match {
        pool,
        of,
        own,
        ref our_name,
    } = *found;
    if !is_label_value(pool) {
        return State::Skipped(
            "has a name of more than 63 characters, which is no label value: give it a shorter one".to_owned(),
        );
    }
    if of.is_invalid {
        return State::Skipped("cannot be read, so its taints are not known: correct its spec".to_owned());
    }
    let its_name = own.map_or(our_name.as_str(), name);
    let Some(common) = look.common(revision) else {
        return State::Skipped(format!(
            "cannot have a workload: spec.workloadTemplate is no template of a {}",
            checked.kind.kind()
        ));
    };
    let rendered = Box::new(common.in_pool(its_name, (pool, of), our_name));
    if let Some(view) = own {
        return if view.metadata.deletion_timestamp.is_some() {
            State::Leaving
        } else {
            State::Own(view, rendered)
        };
    }
    let kind = checked.kind.kind();
    match facts.children.get(its_name) {
        None => {}
        Some(Child::Invalid { .. }) => return unreadable(kind, its_name),
        Some(Child::Known(view)) if is_orphan(checked, view, pool) => return State::Orphan(view),
        Some(Child::Known(_)) => {
            return State::Skipped(format!(
                "cannot have a workload: there is a {kind} {its_name} that does not belong to this YurtAppDaemon"
            ));
        }
    }
    let is_its = |view: &&WorkloadView| is_orphan(checked, view, pool);
    match known(facts).find(is_its) {
        Some(view) => State::Orphan(view),
        None => match invalid_of(facts, pool) {
            Some(child) => unreadable(kind, child.metadata().name.as_deref().unwrap_or_default()),
            None => State::Missing(rendered),
        },
    }
}

fn unreadable(kind: &str, name: &str) -> State<'static> {
    State::Skipped(format!("has a {kind} {name} that cannot be read: correct or delete it"))
}

/// The daemon's workloads that cannot be read.
fn invalid(facts: &Facts) -> impl Iterator<Item = &Child> {
    let uid = facts.daemon.metadata.uid.as_ref();
    facts.children.values().filter(move |child| {
        let mut owners = child.metadata().owner_references.iter().flatten();
        let is_own = owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == uid);
        matches!(child, Child::Invalid { .. }) && is_own
    })
}

/// The one in this pool.
fn invalid_of<'a>(facts: &'a Facts, pool: &str) -> Option<&'a Child> {
    invalid(facts).find(|child| pool_named_in(child.metadata()) == Some(pool))
}

/// Whether a workload is as the revision and the pool say. One that another controller made from this very revision is, if it has the
/// images of that; of one that was applied from here nothing may have been changed since, for what runs then proves nothing of the revision.
fn is_of(view: &WorkloadView, rendered: &Rendered<'_>, revision: &str) -> bool {
    let is_as_applied = || applied_digest(view) == Some(rendered.digest.as_str()) && !differs(view, rendered);
    let is_as_said = match is_of_others(view, rendered) {
        true => !lacks_images(view, rendered),
        false => is_as_applied(),
    };
    revision_of(&view.metadata) == Some(revision) && is_as_said
}

/// Whether the workload differs from what it is to be in something that is put back. One that another controller made waits for its next
/// revision, so that a takeover restarts nothing.
fn is_to_be_applied(view: &WorkloadView, rendered: &Rendered<'_>) -> bool {
    if is_of_others(view, rendered) {
        return revision_of(&view.metadata) != Some(&rendered.common.revision);
    }
    applied_digest(view) != Some(rendered.digest.as_str()) || differs(view, rendered)
}

/// Whether another controller made it: it has none of the annotations that are applied from here, nor the name that is given here. Without
/// the name, one of ours that lost both annotations would be proof of its revision whatever it runs.
fn is_of_others(view: &WorkloadView, rendered: &Rendered<'_>) -> bool {
    applied_digest(view).is_none() && number_of(&view.metadata).is_none() && !rendered.has_our_name
}

/// The pause before a workload is applied once more as it was: another client changes it all the time, or an apply changes nothing. Doubled by
/// each further one in a row.
const PAUSE_FIRST: SignedDuration = SignedDuration::from_secs(1);
const PAUSE_MAX: SignedDuration = SignedDuration::from_secs(60);

/// Until when it is left as it is found.
fn left_until(facts: &Facts, view: &WorkloadView, rendered: &Rendered<'_>) -> Option<Timestamp> {
    let applied = facts
        .applied
        .get(name(view))
        .filter(|applied| applied.digest == rendered.digest)?;
    let doublings = applied.times.saturating_sub(1).min(6);
    let pause = PAUSE_FIRST.saturating_mul(1 << doublings).min(PAUSE_MAX);
    Some(after(applied.at, pause)).filter(|until| facts.now < *until)
}

/// In labels, replicas, nodes or images.
fn differs(view: &WorkloadView, wanted: &Rendered<'_>) -> bool {
    let common = &wanted.common.view;
    let none = BTreeMap::new();
    let of = |map: &Option<BTreeMap<String, String>>, key: &str| -> Option<String> { map.as_ref()?.get(key).cloned() };
    let labels = view.metadata.labels.as_ref().unwrap_or(&none);
    let (found_pod, pod) = (&view.spec.template.spec, &common.spec.template.spec);
    let annotations = [&view.metadata.annotations, &common.metadata.annotations];
    let [found_number, number] = annotations.map(|all| of(all, REVISION_NUMBER));
    lacks(
        labels,
        common.metadata.labels.as_ref().unwrap_or(&none),
        (POOL_NAME, wanted.pool),
    ) || of(&view.metadata.annotations, REF_NODE_POOL).as_deref() != Some(wanted.pool)
        || found_number != number
        || common.spec.replicas.is_some() && common.spec.replicas != view.spec.replicas
        || lacks(
            &view.spec.template.metadata.labels,
            &common.spec.template.metadata.labels,
            (POOL_NAME, wanted.pool),
        )
        || lacks(
            &found_pod.node_selector,
            &pod.node_selector,
            (NODE_POOL_OF_NODE, wanted.pool),
        )
        || found_pod.tolerations != wanted.tolerations
        || lacks_images(view, wanted)
}

/// Whether one of these, or this one besides, is absent or has another value.
fn lacks(found: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>, (key, value): (&str, &str)) -> bool {
    wanted.iter().any(|(key, value)| found.get(key) != Some(value)) || found.get(key).is_none_or(|it| it != value)
}

/// Whether a container has another image than the template says, or is not there.
fn lacks_images(view: &WorkloadView, wanted: &Rendered<'_>) -> bool {
    let [found, wanted] = [&view.spec.template.spec, &wanted.common.view.spec.template.spec];
    let lacks = |found: &[ContainerView], wanted: &[ContainerView]| {
        let has = |container: &ContainerView| {
            let mut of_name = found.iter().filter(|it| it.name == container.name);
            container.image.is_none() || of_name.any(|it| it.image == container.image)
        };
        !wanted.iter().all(has)
    };
    lacks(&found.containers, &wanted.containers) || lacks(&found.init_containers, &wanted.init_containers)
}

fn applied_digest(view: &WorkloadView) -> Option<&str> {
    Some(view.metadata.annotations.as_ref()?.get(APPLIED_DIGEST)?.as_str())
}

/// A workload that was refused is tried again after a while, and at once when it is another one.
fn may_be_tried(facts: &Facts, pool: &str, rendered: &Rendered<'_>, draft: &mut Draft) -> bool {
    let refusal = facts
        .refused
        .get(pool)
        .filter(|refusal| refusal.digest == rendered.digest);
    match refusal.filter(|refusal| facts.now < refusal.retry_at) {
        None => true,
        Some(refusal) => {
            draft.wake(refusal.retry_at);
            false
        }
    }
}

/// `None`: never, see [`Rendered::object`].
fn apply(pool: &str, rendered: &Rendered<'_>, over: Option<&WorkloadView>) -> Option<Write> {
    let mut object = rendered.object()?;
    match over {
        None => object["metadata"]["resourceVersion"] = CREATE_VERSION.into(),
        Some(view) => {
            object["metadata"]["uid"] = view.metadata.uid.clone().unwrap_or_default().into();
            object["metadata"]["resourceVersion"] = view.metadata.resource_version.clone().unwrap_or_default().into();
        }
    }
    Some(Write::ApplyChild {
        pool: pool.to_owned(),
        object,
        digest: rendered.digest.clone(),
        takes_over: over.is_some_and(|view| is_of_others(view, rendered)),
    })
}

/// `None`: one of the two did not come from a server.
fn adopt(daemon: &YurtAppDaemon, pool: &str, view: &WorkloadView) -> Option<Write> {
    let mut owners = view.metadata.owner_references.clone().unwrap_or_default();
    owners.push(daemon.controller_owner_ref(&())?);
    let child = child_ref(pool, view)?;
    Some(Write::AdoptChild { child, owners })
}

/// `None`: it did not come from a server.
pub(super) fn child_ref(pool: &str, view: &WorkloadView) -> Option<ChildRef> {
    Some(ChildRef {
        name: name(view).to_owned(),
        pool: pool.to_owned(),
        precondition: Precondition::of(&view.metadata)?,
    })
}

fn known(facts: &Facts) -> impl Iterator<Item = &WorkloadView> {
    facts.children.values().filter_map(|child| match child {
        Child::Known(view) => Some(&**view),
        Child::Invalid { .. } => None,
    })
}

fn name(view: &WorkloadView) -> &str {
    view.metadata.name.as_deref().unwrap_or_default()
}

fn name_of(daemon: &YurtAppDaemon, checked: &Checked<'_>, pool: &str) -> String {
    let of = &daemon.metadata;
    let named = (
        of.name.as_deref().unwrap_or_default(),
        of.uid.as_deref().unwrap_or_default(),
    );
    child_name(checked.kind, named, pool)
}

fn is_own(daemon: &YurtAppDaemon, view: &WorkloadView) -> bool {
    view.controller_uid()
        .is_some_and(|uid| daemon.metadata.uid.as_deref() == Some(uid))
}

/// It may be made the daemon's: its Pods are those that the pool's workload would have.
fn is_orphan(checked: &Checked<'_>, view: &WorkloadView, pool: &str) -> bool {
    let labels = view.metadata.labels.clone().unwrap_or_default();
    let selected = view.spec.selector.match_labels.get(POOL_NAME);
    view.controller_uid().is_none()
        && view.metadata.deletion_timestamp.is_none()
        && checked.selector.matches(&labels)
        && selected.is_some_and(|selected| selected == pool)
}

/// The pool that it was made for: by its selector, which cannot be changed, or else by its annotation or its label.
pub(super) fn pool_of(view: &WorkloadView) -> Option<&str> {
    let by_selector = view.spec.selector.match_labels.get(POOL_NAME).map(String::as_str);
    by_selector.or_else(|| pool_named_in(&view.metadata))
}

/// Of a workload that cannot be read this is all.
fn pool_named_in(metadata: &ObjectMeta) -> Option<&str> {
    let by_annotation = metadata.annotations.as_ref().and_then(|all| all.get(REF_NODE_POOL));
    let by_label = || metadata.labels.as_ref().and_then(|all| all.get(POOL_NAME));
    by_annotation.or_else(by_label).map(String::as_str)
}
