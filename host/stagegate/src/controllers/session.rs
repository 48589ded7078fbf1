//! One reconcile: decides, has questions answered until a plan comes out, and has it carried out; what has moved meanwhile is read again.
//! Must not know what any question is about.

use std::fmt::Display;
use std::time::Duration;

use jiff::Timestamp;
use stagegate_runtime::Runtime;
use stagegate_runtime::controller::Next;
use stagegate_runtime::request::RequestError;
use tracing::debug;

/// Refused versions in one reconcile before it is put off.
const CONFLICTS_MAX: usize = 8;
/// When a question found no answer: its object is on the move, and its watch event comes sooner than this.
pub const UNANSWERED: Duration = Duration::from_secs(1);
/// When what did not come to a lasting answer is tried again: an evaluation that ran out of time, a refused reading.
pub const RETRY: Duration = Duration::from_secs(30);

/// What one controller decides about, with the facts at hand.
pub trait Session: Send {
    /// What is asked before there is a plan.
    type Asked: Send;
    type Plan: Send;
    /// What a reconcile fails at.
    type Failure: From<RequestError> + Send;

    /// Decisions before other objects get their turn.
    const ROUNDS_MAX: usize;

    fn decide(&mut self) -> Decided<Self::Asked, Self::Plan>;

    /// Puts answers among the facts, or reads them again.
    fn answer(&mut self, asked: Self::Asked) -> impl Future<Output = Result<Answered, Self::Failure>> + Send;

    /// Carries the plan out.
    fn act(&mut self, plan: Self::Plan) -> impl Future<Output = Result<Acted, RequestError>> + Send;

    /// Reads again what writes are conditional on.
    fn refresh(&mut self) -> impl Future<Output = Result<Answered, Self::Failure>> + Send;

    /// What it is when a write failed.
    fn failed_to_write(error: RequestError) -> Self::Failure;
}

/// What a decision came to.
pub enum Decided<Q, P> {
    Ask(Q),
    Act(P),
}

/// What became of questions.
pub enum Answered {
    /// There are other facts now.
    Anew,
    /// There is no answer now.
    Not,
    /// What was to be decided about is gone: its watch event tells, if there is anything to tell.
    Gone,
}

impl Answered {
    pub const fn of_reading(is_there: bool) -> Self {
        match is_there {
            true => Self::Anew,
            false => Self::Gone,
        }
    }
}

/// What became of a plan.
pub enum Acted {
    Done(Next),
    /// Something is different from what the plan rested on.
    ReadAgain,
}

/// Questions and answers, then the writes.
///
/// # Errors
/// What cannot be read or written; a write that was refused for its version only when it was tried [`CONFLICTS_MAX`] times before.
pub async fn run<S: Session>(
    mut session: S,
    (runtime, about): (&Runtime, impl Display + Send),
) -> Result<Next, S::Failure> {
    let mut conflicts = 0;
    for _round in 0..S::ROUNDS_MAX {
        let answered = match session.decide() {
            Decided::Ask(asked) => session.answer(asked).await?,
            Decided::Act(plan) => match session.act(plan).await {
                Ok(Acted::Done(next)) => return Ok(next),
                Ok(Acted::ReadAgain) => session.refresh().await?,
                Err(error) if error.is_outdated() && conflicts < CONFLICTS_MAX => {
                    conflicts += 1;
                    runtime.metrics.conflict();
                    debug!(%about, error = error.chain(), "a version has moved on; deciding again");
                    session.refresh().await?
                }
                Err(error) => return Err(S::failed_to_write(error)),
            },
        };
        match answered {
            Answered::Anew => {}
            Answered::Not => {
                debug!(%about, "a question has no answer now");
                return Ok(later());
            }
            Answered::Gone => return Ok(Next::default()),
        }
    }
    debug!(%about, rounds = S::ROUNDS_MAX, "still asking; others first");
    Ok(later())
}

const fn later() -> Next {
    Next {
        wake_in: Some(UNANSWERED),
    }
}

/// Whichever comes first.
pub fn earlier(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}

/// Never in the past, and never before the instant itself.
pub fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default() + Duration::from_millis(1)
}
