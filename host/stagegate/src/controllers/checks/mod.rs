//! Answers to the questions of checks, for all controllers: expressions are evaluated here, gates are asked by [`super::gates`]. Must not
//! judge.

pub mod evaluate;
pub mod memory;

use std::sync::Arc;

use stagegate_decide::checks::{AnswersMut, Evidence, Question};
use stagegate_runtime::request::RequestError;

use self::evaluate::{ToShow, Work, Worked, evaluate, remember};
use self::memory::CheckMemory;
use super::evaluator::Evaluator;
use super::gates::{GateSession, Gates};

/// By what the questions of checks are answered.
#[derive(Clone, Copy)]
pub struct CheckMeans<'a> {
    pub evaluator: &'a Arc<Evaluator>,
    pub gates: &'a Gates,
}

impl CheckMeans<'_> {
    /// Evaluates; `false`: nothing that was not known.
    pub async fn evaluate(self, work: Vec<Work>, (mut facts, memory): (AnswersMut<'_>, &mut CheckMemory)) -> bool {
        let mut answered = false;
        for worked in evaluate(self.evaluator.clone(), work).await {
            answered |= match &worked {
                Worked::Compiled(..) => true,
                Worked::Verdict(key, ..) => !facts.verdicts.contains_key(key),
            };
            remember((facts.reborrow(), memory), worked);
        }
        answered
    }

    /// Answers what needs nothing from the API server but the components of gates; `false`: nothing could be. `session` lives as long as the
    /// conversation.
    ///
    /// # Errors
    /// What could not be read.
    pub async fn answer(
        self,
        questions: Vec<Question>,
        (mut facts, memory): (AnswersMut<'_>, &mut CheckMemory),
        session: &mut GateSession,
    ) -> Result<bool, RequestError> {
        let (mut work, mut of_gates) = (Vec::new(), Vec::new());
        for question in questions {
            match question {
                Question::Compile { digest, text, root } => work.push(Work::Compile { digest, text, root }),
                Question::Check {
                    key,
                    text,
                    evidence: Evidence::Pools(pools),
                } => {
                    let shown = ToShow::Pools(pools);
                    work.push(Work::Check { key, text, shown });
                }
                Question::Module { .. } | Question::Config { .. } | Question::Gate(_) => of_gates.push(question),
                // Of other controllers, which answer them by themselves.
                _ => {}
            }
        }
        let evaluated = self.evaluate(work, (facts.reborrow(), memory)).await;
        let asked = self.gates.answer(of_gates, (facts, memory), session).await?;
        Ok(evaluated || asked)
    }
}
