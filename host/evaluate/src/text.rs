//! Methods of text whose work or result is not in proportion to their receiver, made anew so that they can charge first.
//!
//! They answer what the engine's own answer, in the same code-point positions; only the price differs. Names begin with
//! `@`: the rewritten syntax tree calls them in place of the engine's.

use crate::budget::{charge, charge_and_look};
use crate::patterns;
use cel::common::types::{CelBool, CelInt, CelList, CelString, INT_TYPE, LIST_TYPE, STRING_TYPE, Type};
use cel::common::value::CowVal;
use cel::{DeclarationError, Env, ExecutionError};

/// `matches` with a pattern that stands in the expression: compiled and remembered before the first evaluation.
pub(crate) const MATCHES_LITERAL: &str = "@matches@";
/// `matches` with a pattern that is computed.
pub(crate) const MATCHES: &str = "@matches";
pub(crate) const INDEX_OF: &str = "@indexOf";
pub(crate) const JOIN: &str = "@join";
pub(crate) const LAST_INDEX_OF: &str = "@lastIndexOf";
pub(crate) const REPLACE: &str = "@replace";

const BYTES_PER_UNIT: usize = 16;
/// For compiling a computed pattern, whether or not it is remembered: what is charged may not depend on history.
pub(crate) const PATTERN: u64 = 2_000;

/// Adds the functions to `env`.
pub(crate) fn register(env: &mut Env) -> Result<(), DeclarationError> {
    let text = || STRING_TYPE;
    let signatures: [(&str, Vec<Type>, cel::common::functions::Function); 10] = [
        (INDEX_OF, vec![text(), text()], index_of),
        (INDEX_OF, vec![text(), text(), INT_TYPE], index_of),
        (LAST_INDEX_OF, vec![text(), text()], last_index_of),
        (LAST_INDEX_OF, vec![text(), text(), INT_TYPE], last_index_of),
        (JOIN, vec![LIST_TYPE], join),
        (JOIN, vec![LIST_TYPE, text()], join),
        (MATCHES, vec![text(), text()], matches),
        (MATCHES_LITERAL, vec![text(), text()], matches_literal),
        (REPLACE, vec![text(), text(), text()], replace),
        (REPLACE, vec![text(), text(), text(), INT_TYPE], replace),
    ];
    for (name, arguments, function) in signatures {
        let id = format!("{name}/{}", arguments.len());
        env.add_overload(name, &id, arguments, function)?;
    }
    Ok(())
}

type Arguments<'b, 'v> = Vec<CowVal<'b, 'v>>;
type Returned<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// The text at `index`. The engine picked the overload by its types, so it is one.
fn text_at<'a>(args: &'a [CowVal<'_, '_>], index: usize) -> Result<&'a str, ExecutionError> {
    let text = args.get(index).and_then(|arg| arg.downcast_ref::<CelString>());
    text.map(CelString::inner)
        .ok_or_else(ExecutionError::missing_argument_or_target)
}

fn int_at(args: &[CowVal<'_, '_>], index: usize) -> Option<i64> {
    args.get(index)?.downcast_ref::<CelInt>().map(|int| *int.inner())
}

fn charge_bytes(bytes: usize) -> Result<(), ExecutionError> {
    charge(1 + u64::try_from(bytes / BYTES_PER_UNIT).unwrap_or(u64::MAX))
}

/// The position of the first `needle` at or after an offset, or -1.
fn index_of<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let (text, needle) = (text_at(&args, 0)?, text_at(&args, 1)?);
    charge_bytes(text.len() + needle.len())?;
    let found = match int_at(&args, 2) {
        None => text.find(needle).map(|at| characters(&text[..at])),
        Some(offset) => {
            let (start, offset) = match bound("indexOf", text, needle, offset)? {
                Bound::Position(position) => return Ok(CowVal::owned(CelInt::from(position))),
                Bound::Start { byte, character } => (byte, character),
            };
            text[start..]
                .find(needle)
                .map(|at| offset + characters(&text[start..start + at]))
        }
    };
    Ok(CowVal::owned(CelInt::from(found.unwrap_or(-1))))
}

/// The position of the last `needle` that begins at or before an offset, or -1.
fn last_index_of<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let (text, needle) = (text_at(&args, 0)?, text_at(&args, 1)?);
    charge_bytes(text.len() + needle.len())?;
    let end = match int_at(&args, 2) {
        None => text.len(),
        Some(offset) => match bound("lastIndexOf", text, needle, offset)? {
            Bound::Position(position) => return Ok(CowVal::owned(CelInt::from(position))),
            Bound::Start { byte, .. } => {
                let length = needle.chars().count();
                text[byte..]
                    .char_indices()
                    .nth(length)
                    .map_or(text.len(), |(at, _)| byte + at)
            }
        },
    };
    let found = text[..end].rfind(needle).map(|at| characters(&text[..at]));
    Ok(CowVal::owned(CelInt::from(found.unwrap_or(-1))))
}

/// What an offset means for a search.
enum Bound {
    /// The answer: the empty text is found wherever it is looked for.
    Position(i64),
    /// Where to search from.
    Start { byte: usize, character: i64 },
}

fn bound(function: &str, text: &str, needle: &str, offset: i64) -> Result<Bound, ExecutionError> {
    let out_of_range = || ExecutionError::function_error(function, "offset");
    let skip = usize::try_from(offset).map_err(|_| out_of_range())?;
    if needle.is_empty() {
        return Ok(Bound::Position(offset.min(characters(text))));
    }
    let (byte, _) = text.char_indices().nth(skip).ok_or_else(out_of_range)?;
    Ok(Bound::Start {
        byte,
        character: offset,
    })
}

fn characters(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

/// The texts of a list, one after the other, with a separator between them.
fn join<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let list = args.first().and_then(|list| list.downcast_ref::<CelList>());
    let list = list.ok_or_else(ExecutionError::missing_argument_or_target)?.inner();
    let separator = if args.len() > 1 { text_at(&args, 1)? } else { "" };
    let mut parts = Vec::with_capacity(list.len());
    let mut bytes = 0usize;
    for item in list {
        let part = item
            .downcast_ref::<CelString>()
            .ok_or_else(|| ExecutionError::UnexpectedType {
                got: item.get_type().name().to_owned(),
                want: STRING_TYPE.name().to_owned(),
            })?;
        bytes = bytes.saturating_add(part.inner().len()).saturating_add(separator.len());
        parts.push(part.inner());
    }
    charge_bytes(bytes)?;
    Ok(CowVal::owned(CelString::from(parts.join(separator))))
}

/// The text with the first n, or all, occurrences of another replaced.
fn replace<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let (text, from, to) = (text_at(&args, 0)?, text_at(&args, 1)?, text_at(&args, 2)?);
    // A negative count means all.
    let most = int_at(&args, 3)
        .and_then(|n| usize::try_from(n).ok())
        .unwrap_or(usize::MAX);
    charge_bytes(text.len() + from.len())?;
    let times = text.matches(from).take(most).count();
    charge_bytes(times.saturating_mul(to.len()).saturating_add(text.len()))?;
    Ok(CowVal::owned(CelString::from(text.replacen(from, to, most))))
}

fn matches<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    charge_and_look(PATTERN)?;
    matches_literal(args)
}

fn matches_literal<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let (text, pattern) = (text_at(&args, 0)?, text_at(&args, 1)?);
    let invalid = || ExecutionError::function_error("matches", "pattern");
    let pattern = patterns::compiled(pattern).ok_or_else(invalid)?;
    // At worst every state is followed at every byte, which takes the smallest patterns a microsecond or two.
    let work = text.len().saturating_mul(pattern.size);
    charge_and_look(1 + u64::try_from(work).unwrap_or(u64::MAX))?;
    Ok(CowVal::owned(CelBool::from(pattern.regex.is_match(text))))
}
