//! Carries a plan out, write by write, while what it rests on holds. Must not decide anything.

use std::time::Duration;

use jiff::Timestamp;
use stagegate_decide::staging::{Plan, Write};
use stagegate_runtime::request::RequestError;
use stagegate_runtime::{Runtime, progress};

use super::announce::{announce, of_status};
use super::apply;
use super::fresh_read::Reading;
use super::written::WrittenVersions;
use crate::metrics::RolloutMetrics;

/// How far a plan was carried out.
pub enum Carried {
    Whole,
    /// What it rests on is not known to hold any more: the rest was not written.
    TooLate,
}

/// With what a plan is carried out.
#[derive(Clone, Copy)]
pub struct Executor<'a> {
    pub runtime: &'a Runtime,
    pub metrics: &'a RolloutMetrics,
}

impl Executor<'_> {
    /// The writes in order. Each is asked whether it is still in time: one may have taken as long as the next was good for.
    pub async fn carry_out(
        &self,
        policy: &str,
        plan: &Plan,
        (reading, written): (&Reading, &mut WrittenVersions),
    ) -> Result<Carried, RequestError> {
        // The plan counts from the end of the reading. Its oldest part is older, and a clock that was set back meanwhile
        // makes nothing younger.
        let is_late = |end: Timestamp| {
            let worth = Duration::try_from(end.duration_since(reading.facts.now)).unwrap_or_default();
            self.runtime.clock.now() >= end || reading.begun.elapsed() >= worth
        };
        for write in &plan.writes {
            if plan.not_after.is_some_and(is_late) {
                return Ok(Carried::TooLate);
            }
            let version = apply::write(&self.runtime.client, policy, write).await?;
            written.note(write, version.as_deref());
            self.runtime.metrics.write();
            if matches!(write, Write::Status { .. }) {
                announce(self.runtime, &reading.facts, of_status(plan));
            }
            if matches!(write, Write::Open(_)) {
                self.metrics.stage_opened(progress::since_cause());
            }
        }
        Ok(Carried::Whole)
    }
}
