//! Expressions evaluated over what they are shown, without asking the API server. Must not decide what an answer means.

use std::sync::Arc;

use serde_json::Value;
use stagegate_decide::checks::{AnswersMut, Compilation, ConditionEvidence, PoolReport, Root, Verdict, VerdictKey};
use stagegate_decide::names::Digest;
use stagegate_runtime::progress;
use tracing::debug_span;

use super::memory::CheckMemory;
use crate::controllers::evaluator::{Evaluator, Lasting};
use crate::controllers::variables::Shown;

/// Whatever can be evaluated without asking the API server.
pub enum Work {
    Compile {
        digest: Digest,
        text: String,
        root: Root,
    },
    Check {
        key: VerdictKey,
        text: String,
        shown: ToShow,
    },
}

/// What an expression sees.
pub enum ToShow {
    Clause(Value),
    /// The CombinedStatus, where the condition names it, and the rest.
    Condition(Option<Value>, Box<ConditionEvidence>),
    Pools(Vec<PoolReport>),
}

impl ToShow {
    const fn root(&self) -> Root {
        match self {
            Self::Clause(_) => Root::Clause,
            Self::Condition(..) => Root::CombinedStatus,
            Self::Pools(_) => Root::Pools,
        }
    }

    fn shown(&self) -> Shown<'_> {
        match self {
            Self::Clause(clause) => Shown {
                clause: Some(clause),
                ..Shown::default()
            },
            Self::Condition(combined, rest) => Shown {
                clause: None,
                combined: combined.as_ref(),
                clusters: rest.clusters.as_deref(),
                object: rest.object.as_ref(),
                pools: None,
            },
            Self::Pools(pools) => Shown {
                pools: Some(pools),
                ..Shown::default()
            },
        }
    }
}

pub enum Worked {
    Compiled(Digest, Compilation),
    Verdict(VerdictKey, Verdict, Lasting),
}

/// Puts an answer among the facts, and remembers it if it lasts.
pub fn remember((facts, memory): (AnswersMut<'_>, &mut CheckMemory), worked: Worked) {
    match worked {
        Worked::Compiled(digest, answer) => {
            memory.compiled.insert(digest.clone(), answer.clone());
            facts.compiled.insert(digest, answer);
        }
        Worked::Verdict(key, verdict, lasting) => {
            match lasting {
                Lasting::Yes => memory.verdicts.insert(key.clone(), verdict.clone()),
                Lasting::No => memory.is_to_retry = true,
            }
            facts.verdicts.insert(key, verdict);
        }
    }
}

/// On a thread where blocking is allowed; under paused time, tokio's clock stands still meanwhile.
pub async fn evaluate(evaluator: Arc<Evaluator>, work: Vec<Work>) -> Vec<Worked> {
    if work.is_empty() {
        return Vec::new();
    }
    let span = debug_span!("evaluate", expressions = work.len());
    let evaluated = tokio::task::spawn_blocking(move || {
        let _entered = span.enter();
        work.into_iter()
            .map(|work| match work {
                Work::Compile { digest, text, root } => Worked::Compiled(digest, evaluator.compilation(&text, root)),
                Work::Check { key, text, shown } => {
                    let (verdict, lasting) = evaluator.verdict(&text, shown.root(), shown.shown());
                    Worked::Verdict(key, verdict, lasting)
                }
            })
            .collect()
    });
    // A panic or a shutdown answers nothing: the questions stay open.
    let worked = evaluated.await.unwrap_or_default();
    progress::step();
    worked
}
