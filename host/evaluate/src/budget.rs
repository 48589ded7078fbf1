//! What one evaluation may spend, and the account it is charged to.
//!
//! Functions of the engine are plain function pointers, so the account of the running evaluation lives in a thread-local. It
//! only ever goes down. `||`, `&&`, `all`, `exists` and optional access swallow errors, therefore the account and not the
//! result says whether an evaluation stayed within its limits: [`settle`] is asked first, always.

use crate::error::EvalErrorKind;
use cel::ExecutionError;
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// The limits of one evaluation.
///
/// A unit of fuel is about one loop step of eight operations, or 16 bytes copied, or one list element made: a million units
/// are 0.1 to 0.4 s of one core and at most some 100 MB of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Units of work.
    pub fuel: u64,
    /// Milliseconds from the moment the evaluation begins; waiting for a thread does not count.
    pub deadline_ms: u64,
}

impl Default for Budget {
    /// A million units and one second.
    fn default() -> Self {
        Budget {
            fuel: 1_000_000,
            deadline_ms: 1000,
        }
    }
}

/// How many charges pass between two looks at the clock. Between two charges may lie the copy of a whole object: the engine
/// puts one into the error of `obj + 1`, even where that error is swallowed.
const CHARGES_PER_CLOCK: u32 = 16;

struct Account {
    given: u64,
    fuel: u64,
    deadline: Instant,
    charges: u32,
    exceeded: Option<EvalErrorKind>,
}

thread_local! {
    static ACCOUNT: RefCell<Option<Account>> = const { RefCell::new(None) };
}

/// Opens the account of the evaluation that starts now on this thread.
pub(crate) fn open(budget: Budget) {
    // A deadline beyond what the clock can express is none: 10 years are.
    let wait = Duration::from_millis(budget.deadline_ms.min(315_360_000_000));
    let account = Account {
        given: budget.fuel,
        fuel: budget.fuel,
        deadline: Instant::now() + wait,
        charges: 0,
        exceeded: None,
    };
    ACCOUNT.with_borrow_mut(|open| *open = Some(account));
}

/// Closes the account and says what was spent. An error is the reason for which no result of the evaluation may be used.
pub(crate) fn settle() -> Result<u64, EvalErrorKind> {
    match ACCOUNT.take() {
        Some(Account {
            exceeded: Some(kind), ..
        }) => Err(kind),
        Some(account) if Instant::now() > account.deadline => Err(EvalErrorKind::DeadlineExceeded),
        Some(account) => Ok(account.given - account.fuel),
        None => Ok(0),
    }
}

/// Takes `units` from the account, or fails, now and ever after, when they are not there or the time is over.
pub(crate) fn charge(units: u64) -> Result<(), ExecutionError> {
    spend(units, false)
}

/// [`charge`] for work that is long whatever its price: looks at the clock first.
pub(crate) fn charge_and_look(units: u64) -> Result<(), ExecutionError> {
    spend(units, true)
}

fn spend(units: u64, look: bool) -> Result<(), ExecutionError> {
    ACCOUNT.with_borrow_mut(|open| {
        // Without an account nothing may be spent: fail closed.
        let Some(account) = open else { return Err(out()) };
        if account.exceeded.is_some() {
            return Err(out());
        }
        account.charges = account.charges.wrapping_add(1);
        if (look || account.charges.is_multiple_of(CHARGES_PER_CLOCK)) && Instant::now() > account.deadline {
            account.exceeded = Some(EvalErrorKind::DeadlineExceeded);
            return Err(out());
        }
        match account.fuel.checked_sub(units) {
            Some(left) => account.fuel = left,
            None => {
                account.fuel = 0;
                account.exceeded = Some(EvalErrorKind::BudgetExceeded);
                return Err(out());
            }
        }
        Ok(())
    })
}

/// Carries the news through the engine; what the caller is told comes from [`settle`].
fn out() -> ExecutionError {
    ExecutionError::InternalError(String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exceeded_account_stays_exceeded() {
        open(Budget {
            fuel: 10,
            deadline_ms: 10_000,
        });
        assert!(charge(10).is_ok());
        assert!(charge(1).is_err());
        assert!(charge(0).is_err());
        assert_eq!(settle(), Err(EvalErrorKind::BudgetExceeded));
    }

    #[test]
    fn a_passed_deadline_is_seen_without_any_charge() {
        open(Budget {
            fuel: 10,
            deadline_ms: 0,
        });
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(settle(), Err(EvalErrorKind::DeadlineExceeded));
    }

    #[test]
    fn nothing_can_be_charged_without_an_account() {
        assert!(charge(0).is_err());
    }
}
