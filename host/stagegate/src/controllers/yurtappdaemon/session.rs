//! What a reconcile of a YurtAppDaemon decides on, reads and writes. Must not answer a question itself.

use stagegate_decide::checks::Question;
use stagegate_decide::pools::{Decision, Facts, Plan, Write, decide};
use stagegate_runtime::controller::Next;
use stagegate_runtime::request::RequestError;
use tokio::time::Instant;

use super::YurtAppDaemons;
use super::apply::{Applier, Carried};
use super::memory::Memory;
use crate::controllers::checks::CheckMeans;
use crate::controllers::gates::GateSession;
use crate::controllers::session::{Acted, Answered, Decided, RETRY, Session, UNANSWERED, earlier, until};

/// Each of 32 stages may have its condition and 8 gates asked, once from the watches and once after a reading.
const ROUNDS_MAX: usize = 2 * 32 * 9 + 8;

/// What a reconcile works with.
pub(super) struct DaemonSession<'a> {
    controller: &'a YurtAppDaemons,
    facts: Facts,
    memory: &'a mut Memory,
    talk: GateSession,
    /// When the facts were asked for.
    begun: Instant,
}

/// What is asked before there is a plan.
pub(super) enum Asked {
    /// Everything is to be read from the API server.
    Reading,
    OfChecks(Vec<Question>),
}

impl<'a> DaemonSession<'a> {
    /// With the facts of the watches.
    pub(super) fn of(controller: &'a YurtAppDaemons, facts: Facts, memory: &'a mut Memory) -> Self {
        Self {
            controller,
            facts,
            memory,
            talk: GateSession::default(),
            begun: Instant::now(),
        }
    }
}

impl Session for DaemonSession<'_> {
    type Asked = Asked;
    type Plan = Plan;
    type Failure = RequestError;

    const ROUNDS_MAX: usize = ROUNDS_MAX;

    fn decide(&mut self) -> Decided<Asked, Plan> {
        match decide(&self.facts, &mut self.memory.found) {
            Decision::FreshRead => Decided::Ask(Asked::Reading),
            Decision::Ask(questions) => Decided::Ask(Asked::OfChecks(questions)),
            Decision::Act(plan) => Decided::Act(plan),
        }
    }

    async fn answer(&mut self, asked: Asked) -> Result<Answered, RequestError> {
        let questions = match asked {
            // What was read is on the move.
            Asked::Reading if self.facts.read.is_anew() => return Ok(Answered::Not),
            Asked::Reading => return self.refresh().await,
            Asked::OfChecks(questions) => questions,
        };
        let means = CheckMeans {
            evaluator: &self.controller.evaluator,
            gates: &self.controller.gates,
        };
        let answers = (self.facts.answers_mut(), &mut self.memory.checks);
        let is_answered = means.answer(questions, answers, &mut self.talk).await?;
        Ok(if is_answered { Answered::Anew } else { Answered::Not })
    }

    async fn act(&mut self, mut plan: Plan) -> Result<Acted, RequestError> {
        let Self { controller, memory, .. } = self;
        let runtime = &controller.runtime;
        memory.prune(runtime.clock.now());
        let left_for = memory.leave_status(&mut plan, &self.facts);
        let wake_in = plan.wake_at.map(|at| until(at, runtime.clock.now()));
        // Those of a plan that was not carried out to its end are not of this one.
        memory.new_refusals = false;
        let applier = Applier {
            client: &runtime.client,
            clock: &runtime.clock,
            metrics: &runtime.metrics,
        };
        match applier.carry_out((&plan, self.begun), &mut self.facts, memory).await {
            Ok(Carried::TooLate) => {
                let next = controller.put_off_late(&self.facts.daemon, memory);
                return Ok(Acted::Done(next));
            }
            Ok(Carried::Whole) => {
                // A plan without a write is in time whenever it comes.
                if !plan.writes.is_empty() {
                    memory.late = 0;
                }
                controller.announce(&self.facts.daemon, &plan);
            }
            Err(error) if error.is_outdated() || !memory.new_refusals => return Err(error),
            Err(_) => {}
        }
        // What was refused goes into status at once; the watches report all else, but for revisions.
        if memory.has_new_refusals() {
            return Ok(Acted::ReadAgain);
        }
        let look_again = plan.writes.iter().any(is_of_revisions).then_some(UNANSWERED);
        let retry_in = std::mem::take(&mut memory.checks.is_to_retry).then_some(RETRY);
        let again = earlier(left_for, earlier(look_again, retry_in));
        Ok(Acted::Done(Next {
            wake_in: earlier(wake_in, again),
        }))
    }

    async fn refresh(&mut self) -> Result<Answered, RequestError> {
        self.begun = Instant::now();
        match self.controller.read_anew(&self.facts.daemon, self.memory).await? {
            Some(read) => {
                self.facts = read;
                Ok(Answered::Anew)
            }
            // It is gone, or another one has its name: looked at again, as the watch may have reported that before.
            None => Ok(Answered::Not),
        }
    }

    fn failed_to_write(error: RequestError) -> RequestError {
        error
    }
}

/// Revisions are not watched.
const fn is_of_revisions(write: &Write) -> bool {
    matches!(
        write,
        Write::CreateRevision { .. } | Write::RaiseRevision { .. } | Write::DeleteRevision { .. }
    )
}
