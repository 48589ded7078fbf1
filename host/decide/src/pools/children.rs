//! The workloads that there are, each with its pool, and what each pool's is to be. Must not decide what goes.

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kube::Resource as _;
use kube::core::ObjectMeta;
use stagegate_api::workloads::{POOL_NAME, REF_NODE_POOL, REVISION_HASH, REVISION_NUMBER, WorkloadView, YurtAppDaemon};

use super::compare::Compared;
use super::facts::{Child, Facts, Pool};
use super::judge::Aim;
use super::memo::Memo;
use super::plan::{ChildRef, Draft, Write};
use super::render::{CREATE_VERSION, Common, Rendered, Source, child_name};
use super::revisions::recorded;
use super::spec::Checked;
use super::stages::{self, Candidate, PoolEvidence, Walk};
use crate::precondition::Precondition;
use crate::selector::is_label_value;
use crate::time::after;

/// When a pool is looked at again that something is in the way of.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(60);

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
    Missing(Box<Rendered>),
    /// The daemon's workload.
    Own(&'a WorkloadView, Arc<Compared>),
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
    own: Option<&'a Arc<WorkloadView>>,
}

impl<'a> Children<'a> {
    /// With what each pool's workload is to be made from: that of `aim`, or, before the pool's turn has come, what it was made from.
    pub fn of(
        (facts, checked): (&'a Facts, &Checked<'_>),
        pools: &'a Arc<BTreeMap<String, Pool>>,
        aim: Aim<'_>,
        memo: &mut Memo,
    ) -> Self {
        let target = aim.source;
        let common = Common::of(&facts.daemon, checked.kind, target).map(Arc::new);
        memo.renew(facts, pools, (target, common));
        let (matches, surplus, stray) = sorted((facts, checked), pools, memo);
        let mut look = Look {
            facts,
            checked,
            target,
            memo,
            commons: BTreeMap::new(),
        };
        // A workload that has the revision is compared with it once.
        let mut compared: Vec<Option<Wanted<'a>>> = Vec::new();
        let mut candidates: Vec<Candidate<'_>> = Vec::new();
        for found in &matches {
            let is_at = match found.own {
                Some(view) => look.memo.place(view).is_some_and(|place| place.is_at),
                None => invalid_of(facts, found.pool).is_some_and(|child| is_at(child.metadata(), target)),
            };
            let wanted = is_at.then(|| look.aimed(found));
            candidates.push(Candidate {
                pool: found.pool,
                of: found.of,
                own: found.own.map(|view| &**view),
                evidence: wanted.as_ref().map_or(PoolEvidence::Older, Wanted::evidence),
            });
            compared.push(wanted);
        }
        // One that cannot be read is not deleted, so it would hold the update for ever.
        let is_of_gone = |(pool, view): &(&str, &WorkloadView)| {
            let metadata = &view.metadata;
            !pools.contains_key(*pool) && is_at(metadata, target) && metadata.deletion_timestamp.is_none()
        };
        let is_one_gone = surplus.iter().any(is_of_gone);
        let walk = stages::walk((facts, checked), aim, (&candidates, is_one_gone));
        let mut needs_revisions = false;
        let turns = walk.turns.iter().zip(compared);
        let wanted = matches.iter().zip(turns).map(|(found, (turn, known))| {
            if *turn {
                return known.unwrap_or_else(|| look.aimed(found));
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
                    return look.older(found, Source { number, ..source });
                }
                (None, None) => found.own.map_or(State::Waiting, |_| State::Kept),
                (Some(name), None) => {
                    needs_revisions = true;
                    found.own.map_or_else(|| lost(name), |_| State::Kept)
                }
            };
            found.with(state)
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
                    draft.writes.extend(apply(pool, rendered, (CREATE_VERSION, None)));
                }
                State::Own(view, compared)
                    if compared.is_to_be_applied && may_be_tried(facts, pool, &compared.rendered, draft) =>
                {
                    match left_until(facts, view, &compared.rendered) {
                        Some(until) => draft.wake(until),
                        None => draft.writes.extend(apply_over(pool, view, compared)),
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
    /// What keeps the workload from being of the revision that is aimed at and rolled out, as the predicate of a sentence about the pool.
    pub fn obstacle(&self) -> Option<&str> {
        match &self.state {
            State::Own(_, compared) => compared.unproven.or(compared.unhealthy.as_deref()),
            other => Some(other.unproven()),
        }
    }

    /// What the workload, which is of the revision, tells of it.
    fn evidence(&self) -> PoolEvidence {
        match &self.state {
            State::Own(_, compared) => match compared.unproven {
                Some(why) => PoolEvidence::Unproven(why.to_owned()),
                None => PoolEvidence::Proven {
                    is_healthy: compared.unhealthy.is_none(),
                },
            },
            other => PoolEvidence::Unproven(other.unproven().to_owned()),
        }
    }
}

impl State<'_> {
    /// What it is instead of a workload of the revision.
    fn unproven(&self) -> &str {
        match self {
            Self::Missing(_) => "has no workload yet",
            Self::Leaving => "has a workload that is being deleted",
            Self::Orphan(_) => "has a workload that nothing controls yet",
            Self::Skipped(why) => why,
            Self::Waiting => "has no workload until the turn of its stage comes",
            Self::Kept | Self::Own(..) => OLDER,
        }
    }
}

impl<'a> Match<'a> {
    fn with(&self, state: State<'a>) -> Wanted<'a> {
        Wanted {
            pool: self.pool,
            own: self.own.map(|view| &**view),
            state,
        }
    }
}

/// All workloads of the daemon: those of pools that match, those that are too many, with their pools, and those of no known pool.
type Sorted<'a> = (Vec<Match<'a>>, Vec<(&'a str, &'a WorkloadView)>, Vec<&'a WorkloadView>);

fn sorted<'a>(
    (facts, checked): (&'a Facts, &Checked<'_>),
    pools: &'a BTreeMap<String, Pool>,
    memo: &Memo,
) -> Sorted<'a> {
    let matching = || pools.iter().filter(|(_, pool)| checked.pools.matches(&pool.labels));
    let names = LazyCell::new(|| -> BTreeMap<String, &str> {
        let named = matching().map(|(pool, _)| (name_of(&facts.daemon, checked, pool), pool.as_str()));
        named.collect()
    });
    let mut by_pool: BTreeMap<&str, Vec<&'a Arc<WorkloadView>>> = BTreeMap::new();
    let mut stray = Vec::new();
    for view in known(facts) {
        let Some(place) = memo.place(view) else {
            continue;
        };
        match place.pool.as_deref().or_else(|| names.get(name(view)).copied()) {
            Some(pool) => by_pool.entry(pool).or_default().push(view),
            None => stray.push(&**view),
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
        });
        surplus.extend(own.map(|view| (pool.as_str(), &**view)));
    }
    // Those that are known by their name alone are in a pool that matches.
    let rest = by_pool.into_values().flatten();
    surplus.extend(rest.filter_map(|view| Some((pool_of(view)?, &**view))));
    (matches, surplus, stray)
}

fn lost(revision: &str) -> State<'static> {
    State::Skipped(format!(
        "has no workload, and ControllerRevision {revision}, which it would be made from until the turn of its stage comes, is not there"
    ))
}

/// The revision that a workload was made from.
pub(super) fn revision_of(workload: &ObjectMeta) -> Option<&str> {
    Some(workload.labels.as_ref()?.get(REVISION_HASH)?.as_str())
}

/// The number that its revision had then. `None`: another controller made the workload.
pub(super) fn number_of(workload: &ObjectMeta) -> Option<i64> {
    let number = workload.annotations.as_ref()?.get(REVISION_NUMBER)?;
    Some(number.parse().unwrap_or_default())
}

/// Whether it was made from this revision since that became the newest.
pub(super) fn is_at(workload: &ObjectMeta, target: Source<'_>) -> bool {
    let number = number_of(workload);
    revision_of(workload) == Some(target.name) && (number.is_none() || number == target.number)
}

/// What is looked at.
struct Look<'a, 'c> {
    facts: &'a Facts,
    checked: &'c Checked<'c>,
    /// What is aimed at.
    target: Source<'c>,
    memo: &'c mut Memo,
    /// What workloads of older revisions have in common, by what they are made from. `None`: it is no template.
    commons: BTreeMap<SourceKey, Option<Arc<Common>>>,
}

/// Where its template is, its name and its number.
type SourceKey = (usize, String, Option<i64>);

impl<'a> Look<'a, '_> {
    /// What there is in the pool, beside what is to be there by the revision that is aimed at.
    fn aimed(&mut self, found: &Match<'a>) -> Wanted<'a> {
        let known = found
            .own
            .and_then(|view| Some((view, self.memo.compared(view, found.pool)?)));
        if let Some((view, compared)) = known {
            return found.with(State::Own(view, compared.clone()));
        }
        let state = state(self, found, self.memo.common());
        if let (Some(view), State::Own(_, compared)) = (found.own, &state) {
            self.memo.keep(view, compared);
        }
        found.with(state)
    }

    /// The same by this revision.
    fn older(&mut self, found: &Match<'a>, revision: Source<'_>) -> Wanted<'a> {
        let template = std::ptr::from_ref(revision.template).addr();
        let key = (template, revision.name.to_owned(), revision.number);
        let made = || Common::of(&self.facts.daemon, self.checked.kind, revision).map(Arc::new);
        let common = self.commons.entry(key).or_insert_with(made).clone();
        found.with(state(self, found, common))
    }
}

fn state<'a>(look: &Look<'a, '_>, found: &Match<'a>, common: Option<Arc<Common>>) -> State<'a> {
    let Look { facts, checked, .. } = *look;
    let Match { pool, of, own } = *found;
    if !is_label_value(pool) {
        return State::Skipped(
            "has a name of more than 63 characters, which is no label value: give it a shorter one".to_owned(),
        );
    }
    if of.is_invalid {
        return State::Skipped("cannot be read, so its taints are not known: correct its spec".to_owned());
    }
    let Some(common) = common else {
        return State::Skipped(format!(
            "cannot have a workload: spec.workloadTemplate is no template of a {}",
            checked.kind.kind()
        ));
    };
    let our_name = name_of(&facts.daemon, checked, pool);
    if let Some(view) = own {
        if view.metadata.deletion_timestamp.is_some() {
            return State::Leaving;
        }
        let rendered = common.in_pool(name(view), (pool, of), &our_name);
        return State::Own(view, Arc::new(Compared::of(view, rendered, look.target.name)));
    }
    let its_name = our_name.as_str();
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
    let is_its = |view: &&Arc<WorkloadView>| is_orphan(checked, view, pool);
    match known(facts).find(is_its) {
        Some(view) => State::Orphan(view),
        None => match invalid_of(facts, pool) {
            Some(child) => unreadable(kind, child.metadata().name.as_deref().unwrap_or_default()),
            None => State::Missing(Box::new(common.in_pool(its_name, (pool, of), its_name))),
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
        let mut is_own = || owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == uid);
        matches!(child, Child::Invalid { .. }) && is_own()
    })
}

/// The one in this pool.
fn invalid_of<'a>(facts: &'a Facts, pool: &str) -> Option<&'a Child> {
    invalid(facts).find(|child| pool_named_in(child.metadata()) == Some(pool))
}

/// The pause before a workload is applied once more as it was: another client changes it all the time, or an apply changes nothing. Doubled by
/// each further one in a row.
const PAUSE_FIRST: SignedDuration = SignedDuration::from_secs(1);
const PAUSE_MAX: SignedDuration = SignedDuration::from_secs(60);

/// Until when it is left as it is found.
fn left_until(facts: &Facts, view: &WorkloadView, rendered: &Rendered) -> Option<Timestamp> {
    let applied = facts
        .applied
        .get(name(view))
        .filter(|applied| applied.digest == rendered.digest)?;
    let doublings = applied.times.saturating_sub(1).min(6);
    let pause = PAUSE_FIRST.saturating_mul(1 << doublings).min(PAUSE_MAX);
    Some(after(applied.at, pause)).filter(|until| facts.now < *until)
}

/// A workload that was refused is tried again after a while, and at once when it is another one.
fn may_be_tried(facts: &Facts, pool: &str, rendered: &Rendered, draft: &mut Draft) -> bool {
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

/// `None`: never, see [`Rendered::object`]. Over the object of this version and uid, or none.
fn apply(pool: &str, rendered: &Rendered, (version, uid): (&str, Option<&str>)) -> Option<Write> {
    let mut object = rendered.object()?;
    object["metadata"]["resourceVersion"] = version.into();
    if let Some(uid) = uid {
        object["metadata"]["uid"] = uid.into();
    }
    Some(Write::ApplyChild {
        pool: pool.to_owned(),
        object,
        digest: rendered.digest.clone(),
        takes_over: false,
    })
}

/// The same over what there is.
fn apply_over(pool: &str, view: &WorkloadView, compared: &Compared) -> Option<Write> {
    let [version, uid] =
        [&view.metadata.resource_version, &view.metadata.uid].map(|text| text.as_deref().unwrap_or_default());
    let mut write = apply(pool, &compared.rendered, (version, Some(uid)))?;
    if let Write::ApplyChild { takes_over, .. } = &mut write {
        *takes_over = compared.is_of_others;
    }
    Some(write)
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

fn known(facts: &Facts) -> impl Iterator<Item = &Arc<WorkloadView>> {
    facts.children.values().filter_map(|child| match child {
        Child::Known(view) => Some(view),
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

pub(super) fn is_own(daemon: &YurtAppDaemon, view: &WorkloadView) -> bool {
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
