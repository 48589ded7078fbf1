//! The controller's side of gates: which ConfigMaps hold which components ([`sources`], `modules`), and calls of them
//! (`call`). Must not judge, and must not run a component: that is the sandbox's.

mod call;
mod columns;
mod destinations;
mod modules;
pub mod sources;
pub mod unpack;

use std::sync::Arc;

use stagegate_decide::checks::{AnswersMut, GateCall, ModuleFacts, Question};
use stagegate_runtime::Runtime;
use stagegate_runtime::controller;
use stagegate_runtime::request::RequestError;
use stagegate_sandbox::Sandbox;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::call::{Called, Calls, SeenEvidence};
use self::modules::Modules;
use super::checks::memory::CheckMemory;
use super::evaluator::Lasting;
use crate::metrics::RolloutMetrics;

/// Policies that are busy with their gates at the same time: a component takes its seconds, and what is left of the
/// controller's places is for policies that ask for none.
const PLACES_MAX: usize = controller::CONCURRENCY / 2;

/// Tries in a row that found evidence moved, before the next is told to the user: a busy rollout has some.
const MOVES_MAX: u32 = 5;

/// Answers questions about gates, for all policies of all controllers.
pub struct Gates {
    modules: Arc<Modules>,
    calls: Calls,
    places: Arc<Semaphore>,
}

/// What a conversation about one policy has of its gates; goes with it.
#[derive(Default)]
pub struct GateSession {
    seen: SeenEvidence,
    /// Kept to the end, as what timed out is remembered no longer than that.
    place: Option<OwnedSemaphorePermit>,
    /// Evidence had moved on when a gate was to be shown it.
    has_moved: bool,
    has_read_anew: bool,
}

impl GateSession {
    /// Whether reading anew, once in a conversation, may bring an answer: what was read and is still so is kept.
    pub fn is_worth_reading_anew(&mut self) -> bool {
        self.has_moved && !std::mem::replace(&mut self.has_read_anew, true)
    }
}

impl Gates {
    pub fn new(runtime: &Runtime, sandbox: Arc<Sandbox>, metrics: Arc<RolloutMetrics>) -> Self {
        let modules = Arc::new(Modules::new(runtime.client.clone(), runtime.clock.clone(), sandbox));
        let calls = Calls::new(runtime.client.clone(), modules.clone(), metrics);
        Self {
            modules,
            calls,
            places: Arc::new(Semaphore::new(PLACES_MAX)),
        }
    }

    /// Answers those that are about gates, one after the other; `false`: none could be answered, or too many other
    /// policies are busy with theirs.
    ///
    /// # Errors
    /// Evidence that could not be read. A component that cannot be read is an answer.
    pub async fn answer(
        &self,
        questions: Vec<Question>,
        (mut facts, memory): (AnswersMut<'_>, &mut CheckMemory),
        talk: &mut GateSession,
    ) -> Result<bool, RequestError> {
        if questions.is_empty() {
            return Ok(false);
        }
        if talk.place.is_none() {
            talk.place = self.places.clone().try_acquire_owned().ok();
        }
        if talk.place.is_none() {
            return Ok(false);
        }
        let mut answered = false;
        for question in questions {
            answered |= match question {
                Question::Module { source, version } => {
                    let module = self.modules.module(&source, &version).await;
                    module.is_some_and(|module| {
                        let answer = ModuleFacts {
                            asked_for: version,
                            module,
                        };
                        memory.modules.insert(source.clone(), answer.clone());
                        facts.modules.insert(source, answer);
                        true
                    })
                }
                Question::Config { key, source, config } => {
                    let answer = self.modules.config(&key, &source, &config).await;
                    answer.is_some_and(|answer| {
                        memory.configs.insert(key.clone(), answer.clone());
                        facts.configs.insert(key, answer);
                        true
                    })
                }
                Question::Gate(call) => self.verdict(*call, (facts.reborrow(), memory), talk).await?,
                _ => false,
            };
        }
        Ok(answered)
    }

    async fn verdict(
        &self,
        call: GateCall,
        (facts, memory): (AnswersMut<'_>, &mut CheckMemory),
        talk: &mut GateSession,
    ) -> Result<bool, RequestError> {
        let called = self.calls.verdict(&call, &mut talk.seen).await?;
        let (verdict, lasting) = match called {
            Called::Verdict(verdict, lasting) => {
                memory.moves = 0;
                (verdict, lasting)
            }
            Called::EvidenceMoved if memory.moves < MOVES_MAX => {
                memory.moves += 1;
                talk.has_moved = true;
                return Ok(false);
            }
            Called::EvidenceMoved => {
                let message = "the evidence changes faster than it can be read";
                (call::unknown(call.now, message), Lasting::No)
            }
            Called::ComponentMoved => return Ok(false),
        };
        match lasting {
            Lasting::Yes => memory.gate_verdicts.insert(call.key.clone(), verdict.clone()),
            Lasting::No => memory.is_to_retry = true,
        }
        // Asked again with the same time it would be asked for ever.
        let is_new = facts
            .gate_verdicts
            .get(&call.key)
            .is_none_or(|known| known.at != verdict.at);
        facts.gate_verdicts.insert(call.key, verdict);
        Ok(is_new)
    }
}
