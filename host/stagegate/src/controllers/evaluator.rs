//! Expressions compiled once and evaluated within limits, away from the threads that serve requests. Every way to have
//! no answer becomes `Unknown` with a text that holds no part of an object.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use stagegate_decide::names::Digest;
use stagegate_decide::staging::{Compilation, Root, Verdict};
use stagegate_evaluate::{Answer, Budget, CompileError, Compiled, EvalError, EvalErrorKind, Value, compile};
use stagegate_runtime::bounded::BoundedMap;
use stagegate_runtime::request::cut;

use super::variables::{self, Shown};
use crate::metrics::RolloutMetrics;

/// Expressions that stay compiled; about a kilobyte each.
const COMPILED_MAX: usize = 4096;
/// Longest text of a verdict or refusal.
const MESSAGE_CHARS_MAX: usize = 256;

/// Shared by all controllers of a process.
#[derive(Debug)]
pub struct Evaluator {
    compiled: Mutex<BoundedMap<Digest, Result<Compiled, String>>>,
    metrics: Arc<RolloutMetrics>,
}

impl Evaluator {
    pub fn new(metrics: Arc<RolloutMetrics>) -> Arc<Self> {
        Arc::new(Self {
            compiled: Mutex::new(BoundedMap::new(COMPILED_MAX)),
            metrics,
        })
    }

    /// Compiled over these variables, or why not: at most 256 characters. Blocks.
    pub fn compiled(&self, text: &str, variables: &[&str]) -> Result<Compiled, String> {
        self.compiled_once(Digest::of(&(text, variables)), || compile(text, variables))
    }

    /// A filter or a condition.
    fn check(&self, text: &str, root: Root) -> Result<Compiled, String> {
        let check = || variables::compile(text, root)?.of_bool();
        self.compiled_once(Digest::of(&(text, root)), check)
    }

    fn compiled_once(
        &self,
        digest: Digest,
        compile: impl FnOnce() -> Result<Compiled, CompileError>,
    ) -> Result<Compiled, String> {
        if let Some(known) = self.cache().get(&digest) {
            return known.clone();
        }
        self.metrics.compilation();
        let compiled = compile().map_err(|error| cut(&error.to_string(), MESSAGE_CHARS_MAX));
        self.cache().insert(digest, compiled.clone());
        compiled
    }

    /// Whether a check's text compiles, and which variables it names. Blocks.
    pub fn compilation(&self, text: &str, root: Root) -> Compilation {
        match self.check(text, root) {
            Ok(compiled) => Compilation::Compiles(variables::named(&compiled, root)),
            Err(message) => Compilation::Refused(message),
        }
    }

    /// What a check says about what it is shown, and whether it will say so again: a timeout says more about the machine than
    /// about the evidence. Blocks.
    pub fn verdict(&self, text: &str, root: Root, shown: Shown<'_>) -> (Verdict, Lasting) {
        let compiled = match self.check(text, root) {
            Ok(compiled) => compiled,
            Err(message) => return (Verdict::Unknown { message }, Lasting::Yes),
        };
        let bound = match variables::values(&variables::named(&compiled, root), shown) {
            Ok(bound) => bound,
            Err(message) => return (Verdict::Unknown { message }, Lasting::Yes),
        };
        let verdict = match self.eval(&compiled, &bound) {
            Ok(Answer::Bool(true)) => Verdict::True,
            Ok(Answer::Bool(false)) => Verdict::False {
                because: (root != Root::Clause)
                    .then(|| variables::why_false(text, root, &bound))
                    .flatten(),
            },
            Ok(other) => Verdict::Unknown {
                message: format!("it gives a {} where true or false is needed", other.kind()),
            },
            Err(error) => {
                let is_timed_out = matches!(error.kind, EvalErrorKind::DeadlineExceeded);
                let message = cut(&variables::explained(&error, (text, root), &bound), MESSAGE_CHARS_MAX);
                let lasting = if is_timed_out { Lasting::No } else { Lasting::Yes };
                return (Verdict::Unknown { message }, lasting);
            }
        };
        (verdict, Lasting::Yes)
    }

    /// One counted evaluation within the default budget. Blocks.
    pub fn eval(&self, compiled: &Compiled, bound: &[(&str, Value)]) -> Result<Answer, EvalError> {
        let begun = Instant::now();
        let answer = compiled.eval(bound, Budget::default());
        self.metrics.evaluation(begun.elapsed());
        answer
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, BoundedMap<Digest, Result<Compiled, String>>> {
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a verdict is worth remembering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    Yes,
    No,
}
