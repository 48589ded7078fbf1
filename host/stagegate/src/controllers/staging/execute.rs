//! Carries a plan out, write by write, while what it rests on holds. Must not decide anything.

use stagegate_decide::staging::{Plan, Write};
use stagegate_runtime::request::RequestError;
use stagegate_runtime::{Runtime, progress};

use super::announce::{announce, of_status};
use super::apply;
use super::fresh_read::Reading;
use super::memory::Memory;
use crate::controllers::lateness::Deadline;
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

/// One write, which is remembered.
pub async fn carry_out(
    runtime: &Runtime,
    policy: &str,
    (write, memory): (&Write, &mut Memory),
) -> Result<(), RequestError> {
    let result = apply::write(&runtime.client, policy, write).await;
    memory.contention.ended(write, &result);
    memory.written.note(write, result?.as_deref());
    runtime.metrics.write();
    Ok(())
}

impl Executor<'_> {
    /// The writes in order. Each is asked whether it is still in time: one may have taken as long as the next was good for.
    pub async fn carry_out(
        &self,
        policy: &str,
        plan: &Plan,
        (reading, memory): (&Reading, &mut Memory),
    ) -> Result<Carried, RequestError> {
        let deadline = plan
            .not_after
            .map(|end| Deadline::of(end, reading.facts.now, reading.begun));
        for write in &plan.writes {
            if deadline.is_some_and(|deadline| deadline.is_over(&self.runtime.clock)) {
                return Ok(Carried::TooLate);
            }
            carry_out(self.runtime, policy, (write, memory)).await?;
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
