//! The clusters of a stage, and the rows that they are to have. Must not judge what the rows say.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use stagegate_api::EvidenceRow;

use crate::names::ClusterName;

/// The clusters of a stage that have to acknowledge updates.
#[derive(Clone, Debug)]
pub struct Clusters<'a> {
    /// Those of the Binding and of the set that was accepted last.
    pub all: BTreeSet<ClusterName<&'a str>>,
    /// Those that the set which was accepted last does not have.
    pub new: BTreeSet<ClusterName<&'a str>>,
    /// Those that the Binding had named at no earlier look, while no set has been accepted: they may have missed an update.
    pub late: BTreeSet<ClusterName<&'a str>>,
    /// All of them once more: most often the cluster of a row stands in the row's place.
    in_order: Vec<ClusterName<&'a str>>,
}

impl<'a> Clusters<'a> {
    pub fn of(
        bound: impl IntoIterator<Item = ClusterName<&'a str>>,
        accepted: &BTreeSet<ClusterName<&'a str>>,
    ) -> Self {
        let all: BTreeSet<ClusterName<&str>> = accepted.iter().copied().chain(bound).collect();
        let new = all.difference(accepted).copied().collect();
        Self {
            new,
            ..Self::without_new(all)
        }
    }

    /// All of them were accepted.
    pub fn without_new(all: BTreeSet<ClusterName<&'a str>>) -> Self {
        Self {
            in_order: all.iter().copied().collect(),
            new: BTreeSet::new(),
            late: BTreeSet::new(),
            all,
        }
    }

    /// `before`: the clusters that the Binding had named at earlier looks.
    pub fn with_named_before(self, before: &BTreeSet<ClusterName<&str>>) -> Self {
        let is_late = !before.is_empty() && !self.has_accepted();
        let late = self.new.iter().filter(|cluster| is_late && !before.contains(*cluster));
        Self {
            late: late.copied().collect(),
            ..self
        }
    }

    /// Whether a set of clusters has been accepted.
    pub(crate) fn has_accepted(&self) -> bool {
        self.new.len() < self.all.len()
    }

    /// The cluster that the row at this place is of.
    pub(crate) fn of_row(&self, at: usize, row: &'a EvidenceRow) -> Option<ClusterName<&'a str>> {
        let name = row.cluster.borrowed();
        let in_place = self.in_order.get(at).filter(|cluster| **cluster == name);
        in_place.or_else(|| self.all.get(&name)).copied()
    }
}

/// Rows that are asked for in the order of their clusters, which is their own.
pub(crate) struct InOrder<'a>(pub(crate) &'a [EvidenceRow]);

impl<'a> InOrder<'a> {
    /// Most often the next row is the one that is asked for.
    pub(crate) fn row(&mut self, cluster: ClusterName<&str>) -> Option<&'a EvidenceRow> {
        let order = |row: &EvidenceRow| row.cluster.borrowed().cmp(&cluster);
        let found = match order(self.0.first()?) {
            Ordering::Equal => Ok(0),
            Ordering::Greater => Err(0),
            Ordering::Less => self.0.binary_search_by(order),
        };
        let (Ok(at) | Err(at)) = found;
        self.0 = &self.0[at..];
        let (row, rest) = found.ok().and(self.0.split_first())?;
        self.0 = rest;
        Some(row)
    }
}
