//! Methods of lists: `isSorted`, `sum`, `min`, `max`, and `indexOf` and `lastIndexOf`, which texts have too. Elements are compared and
//! added as operators do it.

use super::{Arguments, Returned, argument, method, owned, units};
use crate::budget::{charge, charge_and_look};
use crate::{charged, text};
use cel::common::types::{CelBool, CelInt, CelList, DYN_TYPE, LIST_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError};
use std::cmp::Ordering;

pub(super) fn register(env: &mut Env) -> Result<(), DeclarationError> {
    method(env, "isSorted", (LIST_TYPE, vec![]), is_sorted)?;
    method(env, "sum", (LIST_TYPE, vec![]), sum)?;
    method(env, "min", (LIST_TYPE, vec![]), min)?;
    method(env, "max", (LIST_TYPE, vec![]), max)?;
    // The rewritten syntax tree calls them as functions, which texts have, too.
    super::function(env, text::INDEX_OF, vec![LIST_TYPE, DYN_TYPE], index_of)?;
    super::function(env, text::LAST_INDEX_OF, vec![LIST_TYPE, DYN_TYPE], last_index_of)
}

/// The elements of the first argument, each paid for in full.
fn elements<'a, 'v>(args: &'a [CowVal<'_, 'v>]) -> Result<&'a [Box<dyn Val + 'v>], ExecutionError> {
    let list = argument::<CelList<'v>>(args, 0)?.inner();
    charge_and_look(1 + units(list.len()))?;
    list.iter().try_for_each(|item| charged::walk(item.as_ref()))?;
    Ok(list)
}

fn compare(one: &dyn Val, other: &dyn Val) -> Result<Ordering, ExecutionError> {
    let incomparable = || {
        let types = [one, other].map(|value| value.get_type().name().to_owned());
        ExecutionError::no_such_overload("comparison", types.to_vec())
    };
    let comparer = one.as_comparer().ok_or_else(incomparable)?;
    comparer.compare(other).map_err(|_| incomparable())
}

fn is_sorted<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let mut sorted = true;
    for pair in elements(&args)?.windows(2) {
        if let [one, next] = pair {
            sorted &= compare(one.as_ref(), next.as_ref())? != Ordering::Greater;
        }
    }
    Ok(owned(CelBool::from(sorted)))
}

/// Of numbers of one type, or of durations; nothing adds up to the int 0.
fn sum<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let Some((first, rest)) = elements(&args)?.split_first() else {
        return Ok(owned(CelInt::from(0)));
    };
    let not_a_summand = |value: &dyn Val| ExecutionError::no_such_member_overload("sum", vec![named(value)]);
    if !["int", "uint", "double", "google.protobuf.Duration"].contains(&first.get_type().name()) {
        return Err(not_a_summand(first.as_ref()));
    }
    let mut total = first.clone_as_boxed();
    for item in rest {
        if item.get_type() != total.get_type() {
            return Err(not_a_summand(item.as_ref()));
        }
        let adder = total.as_adder().ok_or_else(|| not_a_summand(item.as_ref()))?;
        total = adder.add(item.as_ref())?.into_owned();
    }
    Ok(CowVal::Owned(total))
}

fn named(value: &dyn Val) -> String {
    format!("list of {}", value.get_type().name())
}

fn min<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    extreme(&args, "min", Ordering::Less)
}

fn max<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    extreme(&args, "max", Ordering::Greater)
}

/// The first of the elements that no other one is before, in this order. There is none of no elements.
fn extreme<'b, 'v>(args: &[CowVal<'b, 'v>], name: &str, wanted: Ordering) -> Returned<'b, 'v> {
    let (first, rest) = elements(args)?
        .split_first()
        .ok_or_else(|| ExecutionError::function_error(name, "an empty list"))?;
    // Compared with itself: a list of one that has no order has no extreme either.
    compare(first.as_ref(), first.as_ref())?;
    let mut found = first;
    for item in rest {
        if compare(item.as_ref(), found.as_ref())? == wanted {
            found = item;
        }
    }
    Ok(CowVal::Owned(found.clone_as_boxed()))
}

fn index_of<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    position(&args, |list, is_it| list.iter().position(is_it))
}

fn last_index_of<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    position(&args, |list, is_it| list.iter().rposition(is_it))
}

/// Where the second argument is in the first, or -1.
fn position<'b, 'v>(
    args: &[CowVal<'b, 'v>],
    search: impl Fn(&[Box<dyn Val + 'v>], &dyn Fn(&Box<dyn Val + 'v>) -> bool) -> Option<usize>,
) -> Returned<'b, 'v> {
    let list = elements(args)?;
    let wanted = args.get(1).ok_or_else(ExecutionError::missing_argument_or_target)?;
    charge(1)?;
    let found = search(list, &|item| item.equals(wanted.as_ref()));
    let found = found.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1);
    Ok(owned(CelInt::from(found)))
}
