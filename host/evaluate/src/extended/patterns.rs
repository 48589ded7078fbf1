//! `find` and `findAll`: the parts of a text that a regular expression matches.

use super::{Arguments, Returned, owned, text_at, units};
use crate::budget::charge_and_look;
use crate::patterns;
use crate::text::PATTERN;
use cel::common::types::{CelInt, CelList, CelString, INT_TYPE, STRING_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

/// Names that end in `@` are called where the pattern stands in the expression, and was compiled before it ran.
pub(crate) const FIND: &str = "@find";
pub(crate) const FIND_LITERAL: &str = "@find@";
pub(crate) const FIND_ALL: &str = "@findAll";
pub(crate) const FIND_ALL_LITERAL: &str = "@findAll@";

/// One search follows every state at every byte at worst. Of a thousand searches over the same text not each does.
const SEARCHES_PER_WORST: usize = 64;
/// For an element of the result, whatever its length.
const FOUND: u64 = 2;

pub(super) fn register(env: &mut Env) -> Result<(), DeclarationError> {
    let text = || STRING_TYPE;
    super::function(env, FIND, vec![text(), text()], find)?;
    super::function(env, FIND_LITERAL, vec![text(), text()], find_literal)?;
    for (name, function) in [
        (FIND_ALL, find_all as cel::common::functions::Function),
        (FIND_ALL_LITERAL, find_all_literal),
    ] {
        super::function(env, name, vec![text(), text()], function)?;
        super::function(env, name, vec![text(), text(), INT_TYPE], function)?;
    }
    Ok(())
}

fn find<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    charge_and_look(PATTERN)?;
    find_literal(args)
}

/// The first match, or the empty text.
fn find_literal<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let found = matches(&args, "find", Some(1))?;
    let first = found.into_iter().next().unwrap_or_default();
    Ok(owned(CelString::from(first.to_owned())))
}

fn find_all<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    charge_and_look(PATTERN)?;
    find_all_literal(args)
}

/// All matches that do not overlap, or the first so many; a negative limit is none.
fn find_all_literal<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let limit = args.get(2).and_then(|limit| limit.downcast_ref::<CelInt>());
    let limit = limit.and_then(|limit| usize::try_from(*limit.inner()).ok());
    let found = matches(&args, "findAll", limit)?;
    let found = found
        .into_iter()
        .map(|text| Box::new(CelString::from(text.to_owned())) as Box<dyn Val + 'v>);
    Ok(CowVal::owned(CelList::from(found.collect::<Vec<_>>())))
}

fn matches<'a>(args: &'a [CowVal<'_, '_>], name: &str, limit: Option<usize>) -> Result<Vec<&'a str>, ExecutionError> {
    let (text, pattern) = (text_at(args, 0)?, text_at(args, 1)?);
    let pattern = patterns::compiled(pattern).ok_or_else(|| ExecutionError::function_error(name, "pattern"))?;
    charge_and_look(1 + units(text.len().saturating_mul(pattern.size)))?;
    let mut found = Vec::new();
    let mut searched = pattern.regex.find_iter(text);
    while limit.is_none_or(|limit| found.len() < limit) {
        let Some(one) = searched.next() else { break };
        found.push(one.as_str());
        // The next search may look at all that is left, in vain.
        let left = (text.len() - one.end()).saturating_mul(pattern.size);
        charge_and_look(FOUND + units(one.len() / 16 + left / SEARCHES_PER_WORST))?;
    }
    Ok(found)
}
