//! What the host itself knows of every object in every cluster, and of the clusters. Whatever is missing is an error.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::Error;
use crate::bindings::stagegate::gate::types::{Destination, EvidenceRow, Object, Outcome, Reported, Request};

impl Request {
    /// The time of the judgement.
    pub fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.now_ms)
    }

    /// What each cluster says about each object: for every object all destinations, in the request's order.
    ///
    /// # Errors
    /// There is no object or no destination, or a cluster has never reported on an object.
    pub fn evidence(&self) -> Result<impl Iterator<Item = Evidence<'_>>, Error> {
        if self.objects.is_empty() || self.destinations.is_empty() {
            return Err(Error::new(
                "the request has no object or no destination: there is nothing to judge",
            ));
        }
        for Destination { name, evidence, .. } in &self.destinations {
            if evidence.len() != self.objects.len() {
                return Err(Error::new(format_args!(
                    "{name} does not have one row of evidence for each object"
                )));
            }
            if let Some(at) = evidence.iter().position(|row| row.reported == Reported::Never) {
                let object = &self.objects[at];
                return Err(Error::new(format_args!("{name} has never reported on {object}")));
            }
        }
        Ok(self.objects.iter().enumerate().flat_map(move |(index, object)| {
            let rows = self.destinations.iter();
            rows.filter_map(move |destination| {
                let row = destination.evidence.get(index)?;
                Some(Evidence {
                    object,
                    destination,
                    row,
                })
            })
        }))
    }
}

impl Destination {
    /// The value of the cluster's label `name`, if it has one.
    ///
    /// # Errors
    /// The host cannot read the inventory, so that labels are unknown.
    pub fn label(&self, name: &str) -> Result<Option<&str>, Error> {
        let labels = self.labels.as_ref().ok_or_else(|| {
            Error::new(format_args!(
                "the labels of {} are unknown: the host does not read the inventory",
                self.name
            ))
        })?;
        Ok(labels
            .iter()
            .find(|(label, _)| label == name)
            .map(|(_, value)| value.as_str()))
    }
}

/// `pass`, `hold`, `fail` or `unknown`.
impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Pass => "pass",
            Self::Hold => "hold",
            Self::Fail => "fail",
            Self::Unknown => "unknown",
        })
    }
}

/// What one cluster that has reported says about one object.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    pub object: &'a Object,
    pub destination: &'a Destination,
    pub row: &'a EvidenceRow,
}

impl<'a> Evidence<'a> {
    pub fn cluster(&self) -> &'a str {
        &self.destination.name
    }

    /// `status.availableReplicas`
    ///
    /// # Errors
    /// The object's status has none.
    pub fn available(&self) -> Result<i64, Error> {
        self.number(self.row.available, "available replicas")
    }

    /// `status.readyReplicas`
    ///
    /// # Errors
    /// The object's status has none.
    pub fn ready(&self) -> Result<i64, Error> {
        self.number(self.row.ready, "ready replicas")
    }

    fn number(&self, value: Option<i64>, what: &str) -> Result<i64, Error> {
        value.ok_or_else(|| Error::new(format_args!("{} reports no {what} of {}", self.cluster(), self.object)))
    }
}
