//! What the process remembers of one YurtAppDaemon between two decisions. All of it may be lost: it saves requests and writes.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use stagegate_api::Digest;
use stagegate_api::workloads::YurtAppDaemon;
use stagegate_decide::pools::{Applied, Facts, Memo, Plan, Refusal, Revision, Write, is_recount};
use tokio::time::Instant;

use crate::controllers::checks::memory::CheckMemory;

/// Verdicts of expressions that are remembered: those of a stage's condition, some changes of evidence long. What is remembered goes into
/// the facts of each round.
const VERDICTS_MAX: usize = 32;

/// Between two writes of status that differ in counts and words alone.
const RECOUNT_PAUSE: Duration = Duration::from_secs(1);

/// Applies of one workload that are further apart do not belong together.
const ROW_GAP_MAX: SignedDuration = SignedDuration::from_mins(3);

#[derive(Default)]
pub struct Memory {
    /// The uid of the daemon that all this is about: another one may come to have its name.
    pub uid: Option<String>,
    /// By pool.
    pub refused: BTreeMap<String, Refusal>,
    pub refused_revision: Option<Refusal>,
    /// By workload.
    pub applied: BTreeMap<String, Applied>,
    pub no_pools_since: Option<Timestamp>,
    /// By NodePool.
    pub gone_since: BTreeMap<String, Timestamp>,
    /// ControllerRevisions as they were read last: what one records never changes.
    pub revisions: Vec<Revision>,
    /// Workloads were refused in the last plan.
    pub new_refusals: bool,
    pub status_written_at: Option<Instant>,
    /// The status that was written last, and the version that it made.
    pub written: Option<(Digest, Option<String>)>,
    /// A status that the API server did not store whole.
    pub pruned: Option<Digest>,
    pub has_told_of_pruning: bool,
    /// About its checks.
    pub checks: CheckMemory,
    /// Plans in a row that came too late to be carried out.
    pub late: u32,
    /// What decisions found out.
    pub found: Memo,
}

impl Memory {
    /// Forgets verdicts over evidence that has long moved on, and applies that no row goes on from.
    pub fn prune(&mut self, now: Timestamp) {
        self.checks.verdicts.shorten(VERDICTS_MAX);
        self.applied
            .retain(|_, applied| now.duration_since(applied.at) < ROW_GAP_MAX);
    }

    pub fn has_new_refusals(&mut self) -> bool {
        std::mem::take(&mut self.new_refusals)
    }

    /// A workload was applied.
    pub fn note_applied(&mut self, name: String, digest: Digest, now: Timestamp) {
        let before = self.applied.get(&name);
        let is_again = |before: &&Applied| before.digest == digest && now.duration_since(before.at) < ROW_GAP_MAX;
        let times = before.filter(is_again).map_or(0, |before| before.times);
        let times = times.saturating_add(1);
        self.applied.insert(name, Applied { digest, at: now, times });
    }

    /// A ControllerRevision was created; its uid and version are read with the next list.
    pub fn note_revision(&mut self, facts: &Facts, (name, number, data): (&str, i64, Value)) {
        self.revisions.push(Revision {
            name: name.to_owned(),
            uid: String::new().into(),
            resource_version: String::new().into(),
            owner: facts.daemon.metadata.uid.clone().map(Into::into),
            number,
            data,
        });
    }

    /// Compares what is stored with what was written: a definition that knows fewer members drops the others.
    pub fn note_stored(&mut self, daemon: &YurtAppDaemon) {
        let Some((written, version)) = &self.written else {
            return;
        };
        if *version == daemon.metadata.resource_version {
            let is_whole = daemon
                .status
                .as_ref()
                .is_some_and(|status| Digest::of(status) == *written);
            self.pruned = (!is_whole).then(|| written.clone());
            // What is stored in this version is known now.
            self.written = None;
        }
    }

    /// Takes a status write out of the plan that would change nothing again, or that only counts anew too soon; for how long.
    ///
    /// A plan that writes more keeps it: the daemon's version is what the other writes rest on.
    pub fn leave_status(&self, plan: &mut Plan, facts: &Facts) -> Option<Duration> {
        if plan.writes.iter().any(|write| !matches!(write, Write::Status { .. })) {
            return None;
        }
        let status = plan.writes.iter().find_map(|write| match write {
            Write::Status { status, .. } => Some(status),
            _ => None,
        })?;
        let pause = if self.pruned.as_ref().is_some_and(|pruned| *pruned == Digest::of(status)) {
            None
        } else {
            let found = facts.daemon.status.as_ref();
            let since = self
                .status_written_at
                .filter(|_| found.is_some_and(|found| is_recount(found, status)));
            let left = since.map(|at| RECOUNT_PAUSE.saturating_sub(at.elapsed()));
            Some(left.filter(|left| !left.is_zero())?)
        };
        plan.writes.retain(|write| !matches!(write, Write::Status { .. }));
        plan.events.clear();
        pause
    }
}
