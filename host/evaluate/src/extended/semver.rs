//! `semver`: versions by Semantic Versioning 2.0.0 (<https://semver.org>), or what can be made one.

use super::{Arguments, Returned, argument, function, method, opaque, order, owned, text_at, type_of};
use cel::common::types::{BOOL_TYPE, CelBool, CelInt, STRING_TYPE};
use cel::common::value::CowVal;
use cel::{DeclarationError, Env, ExecutionError};
use std::sync::Arc;

/// A version. What is built of it does not count: two versions that differ in nothing else are equal.
#[derive(Clone, Debug)]
struct Semver(Arc<::semver::Version>);

impl PartialEq for Semver {
    fn eq(&self, other: &Self) -> bool {
        self.0.cmp_precedence(&other.0).is_eq()
    }
}

opaque!(Semver, "kubernetes.Semver");

pub(super) fn register(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_type(type_of::<Semver>())?;
    for (name, convert) in [
        ("semver", semver as cel::common::functions::Function),
        ("isSemver", is_semver),
    ] {
        function(env, name, vec![STRING_TYPE], convert)?;
        function(env, name, vec![STRING_TYPE, BOOL_TYPE], convert)?;
    }
    let version = || type_of::<Semver>();
    method(env, "major", (version(), vec![]), major)?;
    method(env, "minor", (version(), vec![]), minor)?;
    method(env, "patch", (version(), vec![]), patch)?;
    method(env, "isLessThan", (version(), vec![version()]), is_less_than)?;
    method(env, "isGreaterThan", (version(), vec![version()]), is_greater_than)?;
    method(env, "compareTo", (version(), vec![version()]), compare_to)
}

/// The version that `text` is. To `normalize` is to take a leading `v`, leading zeros of the numbers, and a version that ends after its
/// first or second number, which has no pre-release then.
pub(super) fn parsed(text: &str, normalize: bool) -> Option<::semver::Version> {
    if !normalize {
        return ::semver::Version::parse(text).ok();
    }
    let parts: Vec<&str> = text.strip_prefix('v').unwrap_or(text).splitn(3, '.').collect();
    let is_short = parts.len() < 3;
    if is_short && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return None;
    }
    let mut parts: Vec<String> = parts.into_iter().map(without_leading_zeros).collect();
    parts.resize(3, "0".to_owned());
    ::semver::Version::parse(&parts.join(".")).ok()
}

fn without_leading_zeros(part: &str) -> String {
    let rest = part.trim_start_matches('0');
    match rest.chars().next() {
        Some(first) if first.is_ascii_digit() || rest.len() == part.len() => rest.to_owned(),
        None if part.is_empty() => String::new(),
        _ => format!("0{rest}"),
    }
}

fn parsed_of(args: &[CowVal<'_, '_>]) -> Result<Option<::semver::Version>, ExecutionError> {
    let normalize = args.get(1).and_then(|flag| flag.downcast_ref::<CelBool>());
    let text = text_at(args, 0)?;
    Ok(parsed(text, normalize.is_some_and(|flag| *flag.inner())))
}

fn semver<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let version = parsed_of(&args)?.ok_or_else(|| ExecutionError::function_error("semver", "text"))?;
    Ok(owned(Semver(Arc::new(version))))
}

fn is_semver<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    Ok(owned(CelBool::from(parsed_of(&args)?.is_some())))
}

fn version<'a>(args: &'a [CowVal<'_, '_>], index: usize) -> Result<&'a ::semver::Version, ExecutionError> {
    argument::<Semver>(args, index).map(|version| &*version.0)
}

/// One of the numbers, which may be larger than an int.
fn number<'b, 'v>(name: &str, number: u64) -> Returned<'b, 'v> {
    let number = i64::try_from(number).map_err(|_| ExecutionError::function_error(name, "too large"))?;
    Ok(owned(CelInt::from(number)))
}

fn major<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    number("major", version(&args, 0)?.major)
}

fn minor<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    number("minor", version(&args, 0)?.minor)
}

fn patch<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    number("patch", version(&args, 0)?.patch)
}

fn is_less_than<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let is_less = version(&args, 0)?.cmp_precedence(version(&args, 1)?).is_lt();
    Ok(owned(CelBool::from(is_less)))
}

fn is_greater_than<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let is_greater = version(&args, 0)?.cmp_precedence(version(&args, 1)?).is_gt();
    Ok(owned(CelBool::from(is_greater)))
}

fn compare_to<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    Ok(order(version(&args, 0)?.cmp_precedence(version(&args, 1)?)))
}
