//! The functions that charge for work before the engine does it. Their names begin with `@`, so that no text can call them:
//! only the rewritten syntax tree does.
//!
//! Each takes a value, charges for what is about to happen to it, and hands it back as it was, borrowed if it was borrowed.

use crate::answer;
use crate::budget::charge;
use crate::value::{DataList, DataMap, Unaddable};
use cel::common::types::{CelInt, CelList, CelMap, CelMapKey, CelNull, DYN_TYPE, INT_TYPE, LIST_TYPE};
use cel::common::value::{BuiltinRef, CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError};
use std::cell::RefCell;

/// `@copy(x)`: `x` is copied, or walked, once.
pub(crate) const COPY: &str = "@copy";
/// `@addend(x)`: `x` is copied, and added to something. A map is no addend: the engine would add its keys to a list.
pub(crate) const ADDEND: &str = "@addend";
/// `@range(x, n)`: a loop over `x` whose body weighs `n`. Makes the keys of a map a sorted list, because the engine visits
/// them in another order every time.
pub(crate) const RANGE: &str = "@range";
/// `@elements(x)`: the elements of the list `x` are copied.
pub(crate) const ELEMENTS: &str = "@elements";
/// `@characters(x)`: each character of `x` becomes a string.
pub(crate) const CHARACTERS: &str = "@characters";
/// `@count(n)`: a list of `n` elements is made.
pub(crate) const COUNT: &str = "@count";
/// `@text(x)`: `x` is written out as text, whoever owns it.
pub(crate) const TEXT: &str = "@text";
/// `@distinct(list)`: the method `distinct`, whose work grows with the square of the list.
pub(crate) const DISTINCT: &str = "@distinct";
/// `@answer(x)`: `x` is the result.
pub(crate) const ANSWER: &str = "@answer";

/// Bytes copied for a unit.
const BYTES_PER_UNIT: usize = 16;
/// Comparisons made for a unit.
const COMPARISONS_PER_UNIT: usize = 4;
/// Units for what one clause of `format` may write whatever its argument: 309 digits and a precision of 100.
const CLAUSE: u64 = 32;

/// Adds the functions to `env`.
pub(crate) fn register(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_overload(COPY, COPY, vec![DYN_TYPE], copy)?;
    env.add_overload(ADDEND, ADDEND, vec![DYN_TYPE], addend)?;
    env.add_overload(RANGE, RANGE, vec![DYN_TYPE, INT_TYPE], range)?;
    env.add_overload(ELEMENTS, ELEMENTS, vec![DYN_TYPE], elements)?;
    env.add_overload(CHARACTERS, CHARACTERS, vec![DYN_TYPE], characters)?;
    env.add_overload(COUNT, COUNT, vec![DYN_TYPE], count)?;
    env.add_overload(TEXT, TEXT, vec![DYN_TYPE], text)?;
    env.add_overload(DISTINCT, DISTINCT, vec![LIST_TYPE], distinct)?;
    env.add_overload(ANSWER, ANSWER, vec![DYN_TYPE], take_answer)
}

thread_local! {
    static RESULT: RefCell<Option<Result<answer::Answer, answer::TooLarge>>> = const { RefCell::new(None) };
}

/// The result of the evaluation that ran last on this thread, if it had one.
pub(crate) fn answer() -> Option<Result<answer::Answer, answer::TooLarge>> {
    RESULT.take()
}

type Arguments<'b, 'v> = Vec<CowVal<'b, 'v>>;
type Returned<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// The engine picked the overload by the number of arguments, so there is one.
fn first<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    args.into_iter()
        .next()
        .ok_or_else(ExecutionError::missing_argument_or_target)
}

fn copy<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let value = first(args)?;
    charge_copy(value.as_ref())?;
    Ok(value)
}

fn addend<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let value = copy(args)?;
    Ok(match value.as_builtin() {
        BuiltinRef::Map(_) => CowVal::owned(Unaddable(value.into_owned())),
        _ => value,
    })
}

fn range<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let weight = args
        .get(1)
        .and_then(|weight| weight.downcast_ref::<CelInt>())
        .map_or(1, |weight| *weight.inner());
    let value = first(args)?;
    let turns = value.as_sizer().map_or(0, |sizer| *sizer.size().inner());
    charge(1 + turns.unsigned_abs().saturating_mul(weight.unsigned_abs()))?;
    if let Some(map) = value.downcast_ref::<CelMap>() {
        return sorted_keys(map);
    }
    if let Some(list) = value.downcast_ref::<CelList>() {
        charge_bound(list)?;
    }
    Ok(value)
}

/// The keys of a map as a list, in order: the engine visits them in another one every time.
pub(crate) fn sorted_keys<'b, 'v>(map: &CelMap<'v>) -> Returned<'b, 'v> {
    let mut keys: Vec<&CelMapKey<'v>> = map.inner().keys().collect();
    keys.sort_unstable();
    let mut list = Vec::with_capacity(keys.len());
    for key in keys {
        charge_copy(key.inner())?;
        list.push(key.inner().clone_as_boxed());
    }
    Ok(CowVal::owned(CelList::from(list)))
}

fn elements<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let value = first(args)?;
    match value.downcast_ref::<CelList>() {
        Some(list) => {
            charge(1 + units(list.inner().len()))?;
            charge_bound(list)?;
        }
        None => charge_copy(value.as_ref())?,
    }
    Ok(value)
}

fn characters<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let value = first(args)?;
    match value.as_builtin() {
        BuiltinRef::String(text) => charge(1 + units(text.inner().len()))?,
        _ => charge_copy(value.as_ref())?,
    }
    Ok(value)
}

fn count<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let value = first(args)?;
    // A negative count makes nothing.
    charge(
        1 + value
            .downcast_ref::<CelInt>()
            .map_or(0, |n| u64::try_from(*n.inner()).unwrap_or(0)),
    )?;
    Ok(value)
}

fn text<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let value = first(args)?;
    charge_text(value.as_ref())?;
    Ok(value)
}

/// The first of each set of equal elements, in order.
fn distinct<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let list = first(args)?;
    let list = list
        .downcast_ref::<CelList>()
        .ok_or_else(ExecutionError::missing_argument_or_target)?;
    let mut unique: Vec<&(dyn Val + 'v)> = Vec::new();
    for item in list.inner() {
        charge(1 + units(unique.len() / COMPARISONS_PER_UNIT))?;
        if !unique.iter().any(|seen| item.equals(*seen)) {
            unique.push(item.as_ref());
        }
    }
    Ok(CowVal::owned(CelList::from(
        unique.into_iter().map(|item| item.clone_as_boxed()).collect::<Vec<_>>(),
    )))
}

fn take_answer<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let read = answer::read(first(args)?.as_ref());
    RESULT.with_borrow_mut(|result| *result = Some(read));
    Ok(CowVal::owned(CelNull))
}

/// Charges for copying `value`: what the expression made is copied whole, what the caller gave is shared.
pub(crate) fn charge_copy(value: &dyn Val) -> Result<(), ExecutionError> {
    if is_data(value) {
        return charge(1);
    }
    match value.as_builtin() {
        BuiltinRef::String(text) => charge(1 + units(text.inner().len() / BYTES_PER_UNIT)),
        BuiltinRef::Bytes(bytes) => charge(1 + units(bytes.inner().len() / BYTES_PER_UNIT)),
        BuiltinRef::List(list) => {
            charge(1)?;
            list.inner().iter().try_for_each(|item| charge_copy(item.as_ref()))
        }
        BuiltinRef::Map(map) => {
            charge(1)?;
            map.inner().iter().try_for_each(|(key, value)| {
                charge_copy(key.inner())?;
                charge_copy(value.as_ref())
            })
        }
        BuiltinRef::Optional(optional) => optional.option().map_or_else(|| charge(1), charge_copy),
        _ => charge(1),
    }
}

/// Charges for copying each element of `list` once, beyond the unit that its turn of the loop costs anyway.
fn charge_bound(list: &CelList<'_>) -> Result<(), ExecutionError> {
    for item in list.inner() {
        match item.as_builtin() {
            BuiltinRef::Other => (),
            BuiltinRef::String(text) if text.inner().len() < BYTES_PER_UNIT => (),
            _ if is_data(item.as_ref()) => (),
            _ => charge_copy(item.as_ref())?,
        }
    }
    Ok(())
}

/// Charges for writing out `value` in full.
fn charge_text(value: &dyn Val) -> Result<(), ExecutionError> {
    match value.as_builtin() {
        BuiltinRef::List(list) => {
            charge(1)?;
            list.inner().iter().try_for_each(|item| charge_text(item.as_ref()))
        }
        BuiltinRef::Map(map) => {
            charge(1)?;
            map.inner().iter().try_for_each(|(key, value)| {
                charge_text(key.inner())?;
                charge_text(value.as_ref())
            })
        }
        BuiltinRef::String(_) | BuiltinRef::Bytes(_) => charge_copy(value),
        _ => charge(CLAUSE),
    }
}

/// Charges for looking at all of `value`, whoever owns it.
pub(crate) fn walk(value: &dyn Val) -> Result<(), ExecutionError> {
    weigh(value).map(drop)
}

/// [`walk`], and how many units that was.
pub(crate) fn weigh(value: &dyn Val) -> Result<u64, ExecutionError> {
    let own = match value.as_builtin() {
        BuiltinRef::String(text) => 1 + units(text.inner().len() / BYTES_PER_UNIT),
        BuiltinRef::Bytes(bytes) => 1 + units(bytes.inner().len() / BYTES_PER_UNIT),
        _ => 1,
    };
    charge(own)?;
    match value.as_builtin() {
        BuiltinRef::List(list) => sum(own, list.inner().iter().map(|item| weigh(item.as_ref()))),
        BuiltinRef::Map(map) => {
            let entries = map.inner().iter();
            sum(
                own,
                entries.flat_map(|(key, value)| [weigh(key.inner()), weigh(value.as_ref())]),
            )
        }
        BuiltinRef::Optional(optional) => sum(own, optional.option().map(weigh)),
        _ => Ok(own),
    }
}

fn sum(own: u64, parts: impl IntoIterator<Item = Result<u64, ExecutionError>>) -> Result<u64, ExecutionError> {
    parts
        .into_iter()
        .try_fold(own, |sum, part| Ok(sum.saturating_add(part?)))
}

fn is_data(value: &dyn Val) -> bool {
    value
        .as_any()
        .is_some_and(|any| any.is::<DataMap>() || any.is::<DataList>())
}

fn units(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
