//! `sets`: questions about lists in which neither order nor repetition counts. Every element is compared with every other one, so the price
//! is that of the product.

use super::{Arguments, Returned, argument, function, owned, units};
use crate::budget::charge_and_look;
use crate::charged;
use cel::common::types::{CelBool, CelList, LIST_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

/// Nodes of two values that are compared for a unit.
const NODES_PER_UNIT: u64 = 4;

pub(super) fn register(env: &mut Env) -> Result<(), DeclarationError> {
    function(env, "sets.contains", vec![LIST_TYPE, LIST_TYPE], contains)?;
    function(env, "sets.equivalent", vec![LIST_TYPE, LIST_TYPE], equivalent)?;
    function(env, "sets.intersects", vec![LIST_TYPE, LIST_TYPE], intersects)
}

type Items<'a, 'v> = &'a [Box<dyn Val + 'v>];

/// Both lists, when every comparison of an element of the one with an element of the other has been paid for.
fn lists<'a, 'v>(args: &'a [CowVal<'_, 'v>]) -> Result<(Items<'a, 'v>, Items<'a, 'v>), ExecutionError> {
    let (one, other) = (
        argument::<CelList<'v>>(args, 0)?.inner(),
        argument::<CelList<'v>>(args, 1)?.inner(),
    );
    let (ones, others) = (weight(one)?, weight(other)?);
    // Comparing two values takes no longer than the smaller of them is.
    let product = u128::min(
        u128::from(ones) * u128::from(units(other.len())),
        u128::from(others) * u128::from(units(one.len())),
    );
    charge_and_look(1 + u64::try_from(product).unwrap_or(u64::MAX) / NODES_PER_UNIT)?;
    Ok((one, other))
}

fn weight(items: &[Box<dyn Val + '_>]) -> Result<u64, ExecutionError> {
    items
        .iter()
        .try_fold(0u64, |sum, item| Ok(sum.saturating_add(charged::weigh(item.as_ref())?)))
}

fn has_all(list: Items<'_, '_>, wanted: Items<'_, '_>) -> bool {
    wanted.iter().all(|item| has(list, item.as_ref()))
}

fn has(list: Items<'_, '_>, wanted: &dyn Val) -> bool {
    list.iter().any(|item| item.equals(wanted))
}

fn contains<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let (list, wanted) = lists(&args)?;
    Ok(owned(CelBool::from(has_all(list, wanted))))
}

fn equivalent<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let (one, other) = lists(&args)?;
    Ok(owned(CelBool::from(has_all(one, other) && has_all(other, one))))
}

fn intersects<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let (one, other) = lists(&args)?;
    let shared = one.iter().any(|item| has(other, item.as_ref()));
    Ok(owned(CelBool::from(shared)))
}
