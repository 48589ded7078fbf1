//! What the host itself knows of every object in every cluster, and of the clusters. Whatever is missing is an error.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::bindings::stagegate::gate::types::{Health, Integers, Object, Outcome, Reported, Request};
use crate::{Destination, Destinations, Error};

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
                "the request has no object or no destination: there is nothing to evaluate",
            ));
        }
        for object in &self.objects {
            require_complete(object, &self.destinations)?;
        }
        Ok(self.objects.iter().flat_map(|object| {
            let destinations = self.destinations.iter();
            destinations.map(move |destination| Evidence { object, destination })
        }))
    }
}

/// One row for every destination, each of which has reported.
fn require_complete(object: &Object, destinations: &Destinations) -> Result<(), Error> {
    let evidence = &object.evidence;
    let count = destinations.iter().count();
    let is_whole = |numbers: &Integers| numbers.values.len() == count && numbers.nulls.is_sorted();
    let numbers = [
        &evidence.generation,
        &evidence.ready,
        &evidence.available,
        &evidence.total,
        &evidence.updated,
    ];
    let lengths = [
        destinations.len(),
        evidence.reported.len(),
        evidence.reported_at_ms.len(),
        evidence.health.len(),
    ];
    if lengths != [count; 4] || !numbers.into_iter().all(is_whole) {
        return Err(Error::new(format_args!(
            "the evidence about {object} does not have one row for each destination"
        )));
    }
    let mut reports = evidence.reported.iter();
    let silent = reports.position(|reported| *reported == Reported::Never);
    match silent.and_then(|index| destinations.get(index)) {
        Some(Destination { name, .. }) => Err(Error::new(format_args!("{name} has never reported on {object}"))),
        None => Ok(()),
    }
}

impl Integers {
    /// The value of the destination at this index.
    pub fn get(&self, index: usize) -> Option<i64> {
        let is_null = u32::try_from(index).is_ok_and(|index| self.nulls.binary_search(&index).is_ok());
        if is_null { None } else { self.values.get(index).copied() }
    }
}

/// `healthy`, `progressing` or `failed`.
impl fmt::Display for Health {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Healthy => "healthy",
            Self::Progressing => "progressing",
            Self::Failed => "failed",
        })
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
    /// The object that is reported on.
    pub object: &'a Object,
    /// The cluster that reports.
    pub destination: Destination<'a>,
}

impl<'a> Evidence<'a> {
    /// The name of the cluster.
    pub fn cluster(&self) -> &'a str {
        self.destination.name
    }

    /// When the cluster last changed its status of the object. None where the object's kind carries no status.
    pub fn reported_at(&self) -> Option<SystemTime> {
        let (evidence, index) = (&self.object.evidence, self.destination.index);
        match evidence.reported.get(index)? {
            Reported::WithStatus => {
                let reported_at = *evidence.reported_at_ms.get(index)?;
                Some(UNIX_EPOCH + Duration::from_millis(reported_at))
            }
            Reported::WithoutStatus | Reported::Never => None,
        }
    }

    /// `status.observedGeneration`
    ///
    /// # Errors
    /// The object's status has none.
    pub fn generation(&self) -> Result<i64, Error> {
        self.number(&self.object.evidence.generation, "observed generation")
    }

    /// How many replicas are ready: `status.readyReplicas`, or `numberReady` of a DaemonSet.
    ///
    /// # Errors
    /// The object's status has no such number.
    pub fn ready(&self) -> Result<i64, Error> {
        self.number(&self.object.evidence.ready, "ready replicas")
    }

    /// How many replicas are available: `status.availableReplicas`, or `numberAvailable` of a DaemonSet.
    ///
    /// # Errors
    /// The object's status has no such number.
    pub fn available(&self) -> Result<i64, Error> {
        self.number(&self.object.evidence.available, "available replicas")
    }

    /// How many replicas there are, old ones among them: `status.replicas`, or `desiredNumberScheduled` of a DaemonSet.
    ///
    /// # Errors
    /// The object's status has no such number.
    pub fn total(&self) -> Result<i64, Error> {
        self.number(&self.object.evidence.total, "number of replicas")
    }

    /// How many replicas run what the object says now: `status.updatedReplicas`, or `updatedNumberScheduled` of a
    /// DaemonSet.
    ///
    /// # Errors
    /// The object's status has no such number.
    pub fn updated(&self) -> Result<i64, Error> {
        self.number(&self.object.evidence.updated, "updated replicas")
    }

    /// Whether the object is healthy in the cluster, by the host's rules for its kind.
    pub fn health(&self) -> Health {
        let health = self.object.evidence.health.get(self.destination.index);
        health.copied().unwrap_or(Health::Progressing)
    }

    /// Whether [`Self::health`] is [`Health::Healthy`].
    pub fn is_healthy(&self) -> bool {
        self.health() == Health::Healthy
    }

    fn number(&self, numbers: &Integers, what: &str) -> Result<i64, Error> {
        let value = numbers.get(self.destination.index);
        value.ok_or_else(|| Error::new(format_args!("{} reports no {what} of {}", self.cluster(), self.object)))
    }
}
