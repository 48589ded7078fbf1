//! What a decision found out about workloads, for the next one: most of it is about what has not changed. Must not hold anything that
//! depends on the time, on status or on an answer.
//!
//! An entry is of one [`WorkloadView`] in memory, and keeps it: it can neither change nor make room for another one at its address. All
//! else that an entry rests on is in [`Basis`], which is compared whole. So a decision with a memo is the one without it (a property in
//! `host/decide/tests/it`). There are entries of the daemon's own workloads alone, since a namespace may hold many daemons.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::sync::Arc;

use stagegate_api::workloads::{WorkloadView, YurtAppDaemon};

use super::children::{is_at, is_own, pool_of};
use super::compare::Compared;
use super::facts::{Child, Facts, Pool};
use super::render::{Common, Source};

/// What was found out about the workloads of one YurtAppDaemon. An empty one is as good, but slower.
#[derive(Debug, Default)]
pub struct Memo {
    basis: Option<Basis>,
    /// By address.
    entries: BTreeMap<usize, Entry>,
    /// Counts decisions.
    round: u64,
}

/// What all entries rest on. Compared whole: what is made from a template, by its name, its number and the daemon, is [`Common`].
#[derive(Debug)]
struct Basis {
    daemon: [Option<String>; 2],
    revision: (String, Option<i64>),
    /// `None`: the template is no template of its kind.
    common: Option<Arc<Common>>,
    pools: Arc<BTreeMap<String, Pool>>,
}

#[derive(Debug)]
struct Entry {
    view: Arc<WorkloadView>,
    /// The decision that it was needed in last.
    round: u64,
    place: Place,
    /// With the revision of the basis, in the pool that this names.
    compared: Option<Arc<Compared>>,
}

/// Where one of the daemon's workloads belongs.
#[derive(Debug)]
pub(super) struct Place {
    /// The pool that it was made for, as far as it tells.
    pub pool: Option<Box<str>>,
    /// It was made from the revision since that became the newest.
    pub is_at: bool,
}

impl Memo {
    /// Makes an entry for each of the daemon's workloads that has none, and forgets those that are not among the facts.
    pub(super) fn renew(
        &mut self,
        facts: &Facts,
        pools: &Arc<BTreeMap<String, Pool>>,
        (target, common): (Source<'_>, Option<Arc<Common>>),
    ) {
        let basis = Basis {
            daemon: identity(&facts.daemon),
            revision: (target.name.to_owned(), target.number),
            common,
            pools: pools.clone(),
        };
        if !self.basis.as_ref().is_some_and(|known| known.is_like(&basis)) {
            self.entries.clear();
            self.basis = Some(basis);
        }
        self.round += 1;
        let round = self.round;
        for child in facts.children.values() {
            let Child::Known(view) = child else { continue };
            match self.entries.entry(address(view)) {
                Slot::Occupied(mut known) => known.get_mut().round = round,
                Slot::Vacant(free) if is_own(&facts.daemon, view) => {
                    free.insert(Entry {
                        view: view.clone(),
                        round,
                        place: Place {
                            pool: pool_of(view).map(Into::into),
                            is_at: is_at(&view.metadata, target),
                        },
                        compared: None,
                    });
                }
                Slot::Vacant(_) => {}
            }
        }
        self.entries.retain(|_, entry| entry.round == round);
    }

    /// What the workloads of this revision have in common: the entries' own, which is equal.
    pub(super) fn common(&self) -> Option<Arc<Common>> {
        self.basis.as_ref()?.common.clone()
    }

    /// `None`: it is not the daemon's.
    pub(super) fn place(&self, view: &Arc<WorkloadView>) -> Option<&Place> {
        self.entry(view).map(|entry| &entry.place)
    }

    /// With the revision that is aimed at, in this pool.
    pub(super) fn compared(&self, view: &Arc<WorkloadView>, pool: &str) -> Option<&Arc<Compared>> {
        let compared = self.entry(view)?.compared.as_ref()?;
        (compared.rendered.pool == pool).then_some(compared)
    }

    fn entry(&self, view: &Arc<WorkloadView>) -> Option<&Entry> {
        let entry = self.entries.get(&address(view));
        entry.filter(|entry| Arc::ptr_eq(&entry.view, view))
    }

    pub(super) fn keep(&mut self, view: &Arc<WorkloadView>, compared: &Arc<Compared>) {
        if let Some(entry) = self.entries.get_mut(&address(view)) {
            entry.compared = Some(compared.clone());
        }
    }

    /// The same, unless it was found out about another daemon.
    pub(super) fn place_in(&self, daemon: &YurtAppDaemon, view: &Arc<WorkloadView>) -> Option<&Place> {
        self.basis.as_ref().filter(|basis| basis.daemon == identity(daemon))?;
        self.place(view)
    }
}

impl Basis {
    fn is_like(&self, other: &Self) -> bool {
        self.daemon == other.daemon
            && self.revision == other.revision
            && self.common == other.common
            && Arc::ptr_eq(&self.pools, &other.pools)
    }
}

/// Its name and uid.
fn identity(daemon: &YurtAppDaemon) -> [Option<String>; 2] {
    [daemon.metadata.name.clone(), daemon.metadata.uid.clone()]
}

fn address(view: &Arc<WorkloadView>) -> usize {
    Arc::as_ptr(view).addr()
}
