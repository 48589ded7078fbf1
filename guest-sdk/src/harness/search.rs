//! Looks for evidence that opens a gate by becoming worse. Steps only ever take knowledge away or move numbers the bad
//! way, so that no sequence of them may lead from a verdict that is no pass to a pass.

use super::case::{Case, Got};
use super::step::{Step, steps};
use super::worse::Worse;
use crate::gate::evaluate;
use crate::{Error, Gate, Outcome, Request};

/// Pairs of steps that are tried of one case, and walks of several steps.
const PAIRS_MAX: usize = 1_200;
const WALKS: usize = 60;
const WALK_STEPS: usize = 8;

/// # Errors
/// A counterexample, or a case that is no request.
pub(super) fn search<G: Gate>(case: &Case, columns: &[Worse]) -> Result<(), Error> {
    let base = case.request()?;
    let singles = steps(&base, columns);
    for step in &singles {
        walk::<G>(case, &base, &[*step])?;
    }
    // A prime stride takes pairs from everywhere when there are too many of them.
    let pairs = singles.len() * singles.len();
    let stride = if pairs > PAIRS_MAX { 7_919 } else { 1 };
    for at in (0..pairs.min(PAIRS_MAX)).map(|at| at * stride % pairs) {
        walk::<G>(case, &base, &[singles[at / singles.len()], singles[at % singles.len()]])?;
    }
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..WALKS {
        let mut request = base.clone();
        let mut taken = Vec::new();
        for _ in 0..WALK_STEPS {
            let steps = steps(&request, columns);
            let Some(step) = steps.get(random.below(steps.len())) else {
                break;
            };
            let Some(worse) = step.apply(&request) else { continue };
            request = worse;
            taken.push(*step);
        }
        walk::<G>(case, &base, &taken)?;
    }
    Ok(())
}

/// Takes the steps that can be taken, and fails where one of them opens the gate.
fn walk<G: Gate>(case: &Case, base: &Request, steps: &[Step]) -> Result<(), Error> {
    match opening_step::<G>(base, steps) {
        None => Ok(()),
        Some(last) => Err(counterexample::<G>(case, base, steps[..=last].to_vec())),
    }
}

/// The index of the first step after which the gate passes, though it did not before.
fn opening_step<G: Gate>(base: &Request, steps: &[Step]) -> Option<usize> {
    let passes = |request: &Request| outcome::<G>(request) == Outcome::Pass;
    let mut request = base.clone();
    let mut is_open = passes(base);
    for (at, step) in steps.iter().enumerate() {
        let Some(worse) = step.apply(&request) else { continue };
        let was_open = std::mem::replace(&mut is_open, passes(&worse));
        if is_open && !was_open {
            return Some(at);
        }
        request = worse;
    }
    None
}

pub(super) fn outcome<G: Gate>(request: &Request) -> Outcome {
    Got::of(evaluate::<G>(request)).outcome
}

/// Leaves out every step without which the gate still opens.
fn counterexample<G: Gate>(case: &Case, base: &Request, mut steps: Vec<Step>) -> Error {
    let mut at = 0;
    while at < steps.len() {
        let mut fewer = steps.clone();
        fewer.remove(at);
        match opening_step::<G>(base, &fewer) {
            Some(last) => {
                fewer.truncate(last + 1);
                steps = fewer;
            }
            None => at += 1,
        }
    }
    let mut text = format!("worse evidence opens the gate, case {}: {}", case.name, case.why);
    let mut request = base.clone();
    text += &format!("\n  at first: {}", said::<G>(&request));
    for step in &steps {
        let Some(worse) = step.apply(&request) else { continue };
        text += &format!("\n  {}: {}", step.on(&request), said::<G>(&worse));
        request = worse;
    }
    Error::new(text)
}

fn said<G: Gate>(request: &Request) -> String {
    let Got { outcome, reason, .. } = Got::of(evaluate::<G>(request));
    if reason.is_empty() {
        outcome.to_string()
    } else {
        format!("{outcome}, {reason}")
    }
}

/// Marsaglia's xorshift: the same walks every time.
struct Random(u64);

impl Random {
    /// Zero where there is nothing below.
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}
