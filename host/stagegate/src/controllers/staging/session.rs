//! One reconcile: decides, answers the questions until a plan comes out, and has it carried out. Must not know what any question
//! is about.

use std::time::Duration;

use jiff::Timestamp;
use stagegate_decide::staging::{Decision, Plan, Question, decide};
use stagegate_runtime::Runtime;
use stagegate_runtime::controller::Next;
use stagegate_runtime::request::RequestError;
use tracing::debug;

use super::announce::{announce, of_writes, put_off_late, tell_of_late_plans};
use super::answer::{Means, answer};
use super::execute::{Carried, Executor};
use super::fresh_read::{FreshReader, Reading};
use super::hold_probe::HoldProbe;
use super::memory::Memory;
use super::options::StagingOptions;
use crate::controllers::checks::CheckMeans;
use crate::controllers::gates::{GateSession, Gates};

/// Rounds of question and answer before other policies get their turn.
const ROUNDS_MAX: usize = 32;
/// Refused versions in one reconcile before it is put off.
const CONFLICTS_MAX: usize = 8;
/// When a question found no answer: its object is on the move, and its watch event comes sooner than this.
const UNANSWERED: Duration = Duration::from_secs(1);

/// When what did not come to a lasting answer is tried again: an evaluation that ran out of time, a refused reading.
const RETRY: Duration = Duration::from_secs(30);

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
#[derive(Clone, Copy)]
pub struct Session<'a> {
    /// The name of the policy.
    pub policy: &'a str,
    pub runtime: &'a Runtime,
    pub options: &'a StagingOptions,
    pub gates: &'a Gates,
    pub probe: &'a HoldProbe,
    pub reader: FreshReader<'a>,
}

impl Session<'_> {
    /// Questions and answers, then the writes.
    pub async fn run(&self, mut reading: Reading, memory: &mut Memory) -> Result<Next, Failure> {
        let policy = self.policy;
        let mut conflicts = 0;
        let mut talk = GateSession::default();
        let means = Means {
            client: &self.runtime.client,
            clock: &self.runtime.clock,
            probe: self.probe,
            checks: CheckMeans {
                evaluator: &self.options.evaluator,
                gates: self.gates,
            },
        };
        for _round in 0..ROUNDS_MAX {
            let is_there = match decide(&reading.facts) {
                Decision::Ask(questions) if questions.contains(&Question::FreshRead) => {
                    self.reader.fresh_read(policy, &mut reading, memory).await?
                }
                Decision::Ask(questions) => {
                    let is_of_placements = questions.contains(&Question::FreshPlacements);
                    if answer(means, questions, (&mut reading.facts, memory), &mut talk).await? {
                        continue;
                    }
                    // Last, for what else was asked may make a stage pass, and then more is read.
                    if is_of_placements {
                        self.reader.fresh_placements(policy, &mut reading, memory).await?
                    } else if talk.is_worth_reading_anew() {
                        self.reader.fresh_read(policy, &mut reading, memory).await?
                    } else {
                        debug!(policy, "a question has no answer now");
                        return Ok(later());
                    }
                }
                Decision::Act(mut plan) => {
                    let left_for = memory.status_backoff.leave(&mut plan, &reading.facts);
                    match self.act(&plan, &mut reading, memory).await {
                        Ok(next) => return Ok(earlier(next, left_for)),
                        Err(error) if error.is_outdated() && conflicts < CONFLICTS_MAX => {
                            conflicts += 1;
                            self.runtime.metrics.conflict();
                            debug!(policy, error = error.chain(), "a version has moved on; deciding again");
                            self.reader.refresh(policy, &mut reading, memory).await?
                        }
                        Err(error) => return Err(Failure::Write(error)),
                    }
                }
            };
            if !is_there {
                return Ok(Next::default());
            }
        }
        debug!(policy, rounds = ROUNDS_MAX, "still asking; other policies first");
        Ok(later())
    }

    /// Carries the plan out and says when to look again.
    async fn act(&self, plan: &Plan, reading: &mut Reading, memory: &mut Memory) -> Result<Next, RequestError> {
        let policy = self.policy;
        let executor = Executor {
            runtime: self.runtime,
            metrics: &self.options.metrics,
        };
        match executor.carry_out(policy, plan, (reading, &mut memory.written)).await? {
            Carried::TooLate => {
                debug!(policy, not_after = ?plan.not_after, "decided too long ago; deciding again");
                let next = put_off_late(self.runtime, &reading.facts, memory);
                reading.facts.late_plans = memory.late;
                tell_of_late_plans(self.runtime, policy, &reading.facts).await;
                Ok(next)
            }
            Carried::Whole => {
                announce(self.runtime, &reading.facts, of_writes(plan));
                memory.status_backoff.note_plan(plan, &reading.facts);
                memory.prune(&reading.facts);
                memory.late = 0;
                let wake_in = plan.wake_at.map(|at| until(at, self.runtime.clock.now()));
                let retry_in = std::mem::take(&mut memory.checks.is_to_retry).then_some(RETRY);
                Ok(earlier(Next { wake_in }, retry_in))
            }
        }
    }
}

fn later() -> Next {
    Next {
        wake_in: Some(UNANSWERED),
    }
}

/// Whichever comes first.
fn earlier(next: Next, other: Option<Duration>) -> Next {
    Next {
        wake_in: next.wake_in.into_iter().chain(other).min(),
    }
}

/// Never in the past, and never before the instant itself.
fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default() + Duration::from_millis(1)
}
