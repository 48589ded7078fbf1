//! The functions and macros of the extended library that the engine does not have, a file each. They answer what the libraries of the same
//! names answer in Kubernetes. Each charges for its work before it does it; none repeats a text of its arguments in an error.

mod comprehensions;
mod formats;
mod lists;
mod network;
mod patterns;
mod quantity;
mod semver;
mod sets;
mod url;

use cel::common::functions::Function;
use cel::common::types::{CelInt, CelString, Type};
use cel::common::value::{CowVal, FromVal, Val};
use cel::{DeclarationError, Env, ExecutionError};
use std::cmp::Ordering;

pub(crate) use comprehensions::KEYS;
pub(crate) use patterns::{FIND, FIND_ALL, FIND_ALL_LITERAL, FIND_LITERAL};

/// Adds all of them to `env`.
pub(crate) fn register(env: &mut Env) -> Result<(), DeclarationError> {
    comprehensions::register(env)?;
    formats::register(env)?;
    lists::register(env)?;
    network::register(env)?;
    patterns::register(env)?;
    quantity::register(env)?;
    semver::register(env)?;
    sets::register(env)?;
    url::register(env)
}

/// Whether a call of the function or method `name` can succeed with `text` as its first argument, and `normalizes` as its second, which
/// makes only `semver` take more. `None`: whatever the text is, it can.
pub(crate) fn accepts(name: &str, text: &str, normalizes: bool) -> Option<(bool, &'static str)> {
    Some(match name {
        "cidr" | "containsCIDR" => (network::cidr_of(text).is_some(), "CIDR"),
        "ip" | "containsIP" | "isCanonical" => (network::ip_of(text).is_some(), "IP address"),
        "quantity" => (quantity::Quantity::parse(text).is_ok(), "quantity"),
        "semver" => (semver::parsed(text, normalizes).is_some(), "semantic version"),
        "url" => (url::Url::parse(text).is_some(), "URL"),
        _ => return None,
    })
}

pub(super) type Arguments<'b, 'v> = Vec<CowVal<'b, 'v>>;
pub(super) type Returned<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// Adds a function, whose name may be qualified.
fn function(env: &mut Env, name: &str, arguments: Vec<Type>, function: Function) -> Result<(), DeclarationError> {
    env.add_overload(name, &id(name, &arguments), arguments, function)
}

/// Adds a method: the type of its receiver, and those of its arguments.
fn method(
    env: &mut Env,
    name: &str,
    (receiver, arguments): (Type, Vec<Type>),
    function: Function,
) -> Result<(), DeclarationError> {
    let id = format!("{}.{}", receiver.name(), id(name, &arguments));
    env.add_member_overload(name, &id, receiver, arguments, function)
}

fn id(name: &str, arguments: &[Type]) -> String {
    let types: Vec<&str> = arguments.iter().map(Type::name).collect();
    format!("extended {name}({})", types.join(","))
}

/// The argument at `index`. The engine picked the overload by its types, so it has this one.
fn argument<'a, 'b, 'v, T: FromVal<'a, 'v>>(args: &'a [CowVal<'b, 'v>], index: usize) -> Result<&'a T, ExecutionError> {
    let found = args.get(index).and_then(|arg| T::from_val(arg.as_ref()));
    found.ok_or_else(ExecutionError::missing_argument_or_target)
}

fn text_at<'a>(args: &'a [CowVal<'_, '_>], index: usize) -> Result<&'a str, ExecutionError> {
    let text = args.get(index).and_then(|arg| arg.downcast_ref::<CelString>());
    text.map(CelString::inner)
        .ok_or_else(ExecutionError::missing_argument_or_target)
}

fn owned<'b, 'v>(value: impl Val + 'v) -> CowVal<'b, 'v> {
    CowVal::owned(value)
}

/// What `compareTo` returns.
fn order<'b, 'v>(order: Ordering) -> CowVal<'b, 'v> {
    owned(CelInt::from(order as i64))
}

fn units(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// The engine's view of a type of ours that is immutable and cheap to clone: its name in CEL, and equality. It has no operator.
macro_rules! opaque {
    ($type:ty, $name:literal) => {
        impl cel::common::value::StaticVal for $type {}

        impl cel::common::value::Val for $type {
            fn get_type(&self) -> &cel::common::types::Type {
                <Self as cel::common::value::Val>::cel_type()
            }

            fn cel_type() -> &'static cel::common::types::Type {
                static TYPE: cel::common::types::Type = cel::common::types::Type::new_unspecified_type($name);
                &TYPE
            }

            fn equals(&self, other: &dyn cel::common::value::Val) -> bool {
                other.downcast_ref::<$type>().is_some_and(|other| self == other)
            }

            fn clone_as_boxed<'v>(&self) -> Box<dyn cel::common::value::Val + 'v>
            where
                Self: 'v,
            {
                Box::new(self.clone())
            }

            fn as_any(&self) -> Option<&dyn std::any::Any> {
                Some(self)
            }
        }
    };
}
use opaque;

/// The type of values of `T`.
fn type_of<T: Val>() -> Type {
    T::cel_type().to_owned()
}
