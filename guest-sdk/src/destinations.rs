//! The clusters of the stage: their names and labels. Labels that the host does not know are an error.

use crate::Error;
use crate::bindings::stagegate::gate::types::{Destinations, Labels};

impl Destinations {
    /// How many clusters the stage has.
    pub fn len(&self) -> usize {
        self.names.ends.len()
    }

    /// Whether the stage has no cluster.
    pub fn is_empty(&self) -> bool {
        self.names.ends.is_empty()
    }

    /// The clusters, in the request's order.
    pub fn iter(&self) -> Iter<'_> {
        Iter {
            destinations: self,
            next: 0,
        }
    }

    /// The cluster at this index.
    pub fn get(&self, index: usize) -> Option<Destination<'_>> {
        let name = self.names.text(index)?;
        Some(Destination {
            name,
            labels: self.labels.as_ref(),
            index,
        })
    }
}

impl<'a> IntoIterator for &'a Destinations {
    type Item = Destination<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// An iterator over the clusters of a stage.
#[derive(Clone)]
pub struct Iter<'a> {
    destinations: &'a Destinations,
    next: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Destination<'a>;

    fn next(&mut self) -> Option<Destination<'a>> {
        let next = self.destinations.get(self.next)?;
        self.next += 1;
        Some(next)
    }
}

/// A cluster that the stage's placement selects.
#[derive(Clone, Copy)]
pub struct Destination<'a> {
    /// As KubeStellar calls it.
    pub name: &'a str,
    labels: Option<&'a Labels>,
    pub(crate) index: usize,
}

impl<'a> Destination<'a> {
    /// The value of the cluster's label `name`, if it has one.
    ///
    /// # Errors
    /// The host cannot read the cluster's labels.
    pub fn label(&self, name: &str) -> Result<Option<&'a str>, Error> {
        let unknown = |why: &str| Error::new(format_args!("the labels of {} are unknown: {why}", self.name));
        let labels = (self.labels).ok_or_else(|| unknown("the host does not read the inventory"))?;
        if labels.unknown.iter().any(|unknown| *unknown as usize == self.index) {
            return Err(unknown("the host cannot read them"));
        }
        let contradicting = || unknown("the host contradicts itself");
        let end = |index: usize| labels.ends.get(index).map(|end| *end as usize);
        let begin = self.index.checked_sub(1).map_or(Some(0), end);
        let (begin, end) = begin.zip(end(self.index)).ok_or_else(contradicting)?;
        if begin > end || end > labels.keys.ends.len() {
            return Err(contradicting());
        }
        for label in begin..end {
            if labels.keys.text(label).ok_or_else(contradicting)? == name {
                return labels.values.text(label).map(Some).ok_or_else(contradicting);
            }
        }
        Ok(None)
    }
}
