//! What a reconcile of a policy decides on, reads and writes. Must not answer a question itself.

use std::time::Duration;

use stagegate_decide::staging::{Decision, Plan, Question, decide};
use stagegate_runtime::Runtime;
use stagegate_runtime::controller::Next;
use stagegate_runtime::request::RequestError;
use tracing::debug;

use super::announce::{announce, of_writes, put_off_late, tell_of_late_plans, tell_of_second_controller};
use super::answer::{Means, answer};
use super::execute::{Carried, Executor};
use super::fresh_read::{FreshReader, Reading};
use super::memory::Memory;
use super::options::StagingOptions;
use crate::controllers::gates::GateSession;
use crate::controllers::session::{Acted, Answered, Decided, RETRY, Session, earlier, until};

/// Rounds of question and answer before other policies get their turn.
const ROUNDS_MAX: usize = 32;

/// By then the watches of a new leader have told what the one before has written.
const WATCH_LATE_MAX: Duration = Duration::from_secs(15);

/// What a reconcile failed at: people look for the cause in different places.
pub enum Failure {
    Read(RequestError),
    Write(RequestError),
}

impl Failure {
    /// As the Event about it has it.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Read(_) => "ReadFailed",
            Self::Write(_) => "WriteFailed",
        }
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        Self::Read(error)
    }
}

/// What a reconcile works with.
pub struct PolicySession<'a> {
    /// The name of the policy.
    pub policy: &'a str,
    pub runtime: &'a Runtime,
    pub options: &'a StagingOptions,
    pub means: Means<'a>,
    pub reader: FreshReader<'a>,
    pub reading: Reading,
    pub memory: &'a mut Memory,
    /// Of this reconcile.
    pub talk: GateSession,
}

impl Session for PolicySession<'_> {
    type Asked = Vec<Question>;
    type Plan = Plan;
    type Failure = Failure;

    const ROUNDS_MAX: usize = ROUNDS_MAX;

    fn decide(&mut self) -> Decided<Vec<Question>, Plan> {
        let facts = &mut self.reading.facts;
        let at_work_since = self.runtime.leader_state.at_work_since();
        let is_late = at_work_since.is_some_and(|since| since.elapsed() < WATCH_LATE_MAX);
        if self.memory.contention.look(&facts.policy.object, facts.now, is_late) {
            tell_of_second_controller(self.runtime, facts);
        }
        facts.contested_at = self.memory.contention.contested_at();
        match decide(facts) {
            Decision::Ask(questions) => Decided::Ask(questions),
            Decision::Act(plan) => Decided::Act(plan),
        }
    }

    async fn answer(&mut self, questions: Vec<Question>) -> Result<Answered, Failure> {
        let (policy, reader) = (self.policy, self.reader);
        let (reading, memory) = (&mut self.reading, &mut *self.memory);
        if questions.contains(&Question::FreshRead) {
            let is_there = reader.fresh_read(policy, reading, memory).await?;
            return Ok(Answered::of_reading(is_there));
        }
        let is_of_placements = questions.contains(&Question::FreshPlacements);
        let answers = (&mut reading.facts, &mut *memory);
        if answer(self.means, questions, answers, &mut self.talk).await? {
            return Ok(Answered::Anew);
        }
        // Last, for what else was asked may make a stage pass, and then more is read.
        let is_there = if is_of_placements {
            reader.fresh_placements(policy, reading, memory).await?
        } else if self.talk.is_worth_reading_anew() {
            reader.fresh_read(policy, reading, memory).await?
        } else {
            return Ok(Answered::Not);
        };
        Ok(Answered::of_reading(is_there))
    }

    /// Carries the plan out and says when to look again.
    async fn act(&mut self, mut plan: Plan) -> Result<Acted, RequestError> {
        let (reading, memory) = (&mut self.reading, &mut *self.memory);
        let left_for = memory.status_backoff.leave(&mut plan, &reading.facts);
        let executor = Executor {
            runtime: self.runtime,
            metrics: &self.options.metrics,
        };
        let rests_on = (&*reading, &mut *memory);
        let wake_in = match executor.carry_out(self.policy, &plan, rests_on).await? {
            Carried::TooLate => {
                debug!(policy = self.policy, not_after = ?plan.not_after, "decided too long ago; deciding again");
                let next = put_off_late(self.runtime, &reading.facts, memory);
                reading.facts.late_plans = memory.late;
                tell_of_late_plans(self.runtime, self.policy, (&reading.facts, memory)).await;
                next.wake_in
            }
            Carried::Whole => {
                announce(self.runtime, &reading.facts, of_writes(&plan));
                memory.status_backoff.note_plan(&plan, &reading.facts);
                memory.prune(&reading.facts);
                memory.late = 0;
                let wake_in = plan.wake_at.map(|at| until(at, self.runtime.clock.now()));
                let retry_in = std::mem::take(&mut memory.checks.is_to_retry).then_some(RETRY);
                earlier(wake_in, retry_in)
            }
        };
        Ok(Acted::Done(Next {
            wake_in: earlier(wake_in, left_for),
        }))
    }

    async fn refresh(&mut self) -> Result<Answered, Failure> {
        let is_there = self.reader.refresh(self.policy, &mut self.reading, self.memory).await?;
        Ok(Answered::of_reading(is_there))
    }

    fn failed_to_write(error: RequestError) -> Failure {
        Failure::Write(error)
    }
}
