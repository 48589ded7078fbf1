//! A process of the host: its watches, its memory and its reconciles. `stagegate_decide` makes its decisions; between them it
//! does what the shell does, one step at a time.

pub mod seen;
pub mod talk;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use stagegate_api::{BindingPolicy, StagedBindingPolicy};
use stagegate_decide::staging::Write;

use crate::queue::{Millis, timestamp};
use crate::server::{Refused, Server};
use seen::Seen;
use talk::{Memory, Talk};

/// The users' StatusCollector.
pub const COLLECTOR: &str = "available";
/// Longest wait for the watches to tell of a write of this process.
const BEHIND_MAX: Millis = 1_000;

/// The last versions that a process has written for a policy, and until when it waits for the watches to deliver them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    policy: u64,
    placement: u64,
    until: Millis,
}

#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Counts its starts: events of an earlier life are void.
    pub life: u64,
    pub is_up: bool,
    pub is_leader: bool,
    /// How often the lease has changed hands, as it knows.
    pub transitions: u64,
    /// Since when it may decide.
    pub leads_since: Millis,
    /// It stands still until then: what it has sent may still arrive.
    pub paused_until: Millis,
    /// Policies of which a write was under way when it was paused.
    pub in_flight: BTreeSet<String>,
    /// When those writes reach the API server.
    pub arrives_at: Millis,
    pub skew_ms: Millis,
    pub seen: Seen,
    pub memories: BTreeMap<String, Memory>,
    pub talks: BTreeMap<String, Talk>,
    /// Policies to reconcile again after the reconcile that is under way.
    pub touched: BTreeSet<String>,
    /// Policies that will be reconciled without an event, and when.
    pub waking: BTreeMap<String, Millis>,
    /// By policy.
    pub written: BTreeMap<String, Written>,
    /// Until when a watch delivers nothing.
    pub late: BTreeMap<seen::Watched, Millis>,
}

impl Process {
    /// What its clock shows.
    pub fn now(&self, now: Millis) -> Timestamp {
        timestamp(now + self.skew_ms)
    }

    /// Ends it where it is.
    pub fn kill(&mut self) {
        *self = Self {
            life: self.life + 1,
            skew_ms: self.skew_ms,
            ..Self::default()
        };
    }

    /// Whether the watches have yet to tell of what it wrote itself.
    pub fn is_behind(&mut self, policy: &str, now: Millis) -> bool {
        let Some(written) = self.written.get(policy).copied() else {
            return false;
        };
        let is_told = self.seen.policies.seen >= written.policy && self.seen.placements.seen >= written.placement;
        let is_behind = !is_told && now < written.until;
        if !is_behind {
            self.written.remove(policy);
        }
        is_behind
    }

    /// Begins a reconcile; `None`: there is no such policy.
    pub fn begin(&mut self, policy: &str, views: &mut talk::Views, now: Millis) -> Option<Talk> {
        let time = self.now(now);
        let memory = self.memories.entry(policy.to_owned()).or_default();
        let mut talk = Talk::begin(policy, &self.seen, (memory, views), time)?;
        let since = timestamp(self.leads_since + self.skew_ms);
        talk.facts.watching_since = talk.facts.watching_since.map(|watching| watching.max(since));
        talk.facts.lease_transitions = self.transitions;
        Some(talk)
    }

    /// The write was carried out and made this version.
    pub fn note_written(&mut self, policy: &str, (write, version): (&Write, u64), now: Millis) {
        let written = self.written.entry(policy.to_owned()).or_default();
        match write {
            Write::Status { .. } => written.policy = version,
            _ => written.placement = version,
        }
        written.until = now + BEHIND_MAX;
    }
}

/// Carries out one write as the API server does. Gives the version that it made, if it made one.
///
/// # Errors
/// The object is not the version that was decided on.
pub fn write(server: &mut Server, policy: &str, write: &Write) -> Result<Option<u64>, Refused> {
    let before = server.counter.version;
    match write {
        Write::CreateEvidenceCollector(collector) => {
            match server.collectors.create(&mut server.counter, collector.clone()) {
                Ok(_) | Err(Refused::Exists) => {}
                Err(refused) => return Err(refused),
            }
            return Ok(None);
        }
        Write::RestoreEvidenceCollector {
            precondition,
            collector,
        } => {
            let name = collector.metadata.name.clone().unwrap_or_default();
            let put_back = |object: &mut stagegate_api::StatusCollector| object.spec = collector.spec.clone();
            server
                .collectors
                .update(&mut server.counter, (&name, Some(precondition)), put_back)?;
            return Ok(None);
        }
        Write::CreateClosed(placement) => {
            let stored = BindingPolicy {
                spec: server.pruned(placement.spec.clone()),
                ..placement.clone()
            };
            server.placements.create(&mut server.counter, stored)?;
        }
        Write::Open(placement) | Write::Update(placement) | Write::Adopt(placement) | Write::Fence(placement) => {
            let at = (placement.name.as_str(), Some(&placement.precondition));
            let spec = server.pruned(placement.spec.clone());
            let annotations = placement.annotations.clone();
            let change = |object: &mut BindingPolicy| {
                object.spec = spec;
                object.metadata.annotations.get_or_insert_default().extend(annotations);
            };
            server.placements.update(&mut server.counter, at, change)?;
        }
        // The simulated policies' updates are immediate.
        Write::Release(_) | Write::Hold(_) | Write::Unhold { .. } => return Ok(None),
        Write::Remove { name, precondition } => {
            server
                .placements
                .delete(&mut server.counter, (name.as_str(), Some(precondition)))?;
        }
        Write::Status { precondition, status } => {
            let at = (policy, Some(precondition));
            let put = |object: &mut StagedBindingPolicy| object.status = Some((**status).clone());
            server.policies.update(&mut server.counter, at, put)?;
        }
    }
    Ok((server.counter.version > before).then_some(server.counter.version))
}
