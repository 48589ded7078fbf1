//! `quantity`: numbers with the suffixes that Kubernetes writes amounts with, such as `1.5Gi`, `200m` and `3e6`. They are exact: whole
//! numbers of billionths, to which Kubernetes rounds away from zero, too.

use super::{Arguments, Returned, argument, function, method, opaque, order, owned, text_at, type_of};
use cel::common::types::{CelBool, CelDouble, CelInt, INT_TYPE, STRING_TYPE};
use cel::common::value::CowVal;
use cel::{DeclarationError, Env, ExecutionError};
use num_bigint::BigUint;

/// The longest text of a quantity, in bytes: it could hold every number that fits, written out.
const TEXT_BYTES: usize = 128;
/// Billionths of one.
const BILLION: i128 = 1_000_000_000;
/// An exponent beyond it makes any number too large, or a billionth.
const EXPONENT_MAX: i64 = 256;

/// A number of billionths, up to 1.7e29 of ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Quantity(i128);

opaque!(Quantity, "kubernetes.Quantity");

/// Why a text is no quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoQuantity {
    Syntax,
    TooLarge,
}

impl Quantity {
    pub(super) fn parse(text: &str) -> Result<Self, NoQuantity> {
        if text.len() > TEXT_BYTES {
            return Err(NoQuantity::Syntax);
        }
        let (is_negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let is_digit = |c: char| c.is_ascii_digit();
        let (whole, rest) = unsigned.split_at(unsigned.find(|c| !is_digit(c)).unwrap_or(unsigned.len()));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(rest.find(|c| !is_digit(c)).unwrap_or(rest.len())),
            None => ("", rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(NoQuantity::Syntax);
        }
        let (base, exponent) = suffix_of(suffix).ok_or(NoQuantity::Syntax)?;
        let digits: BigUint = format!("{whole}{fraction}").parse().map_err(|_| NoQuantity::Syntax)?;
        let places = i64::try_from(fraction.len()).map_err(|_| NoQuantity::Syntax)?;
        let billionths = match base {
            Base::Ten => scaled(digits, exponent - places + 9),
            Base::Two => scaled(digits << exponent.unsigned_abs(), 9 - places),
        };
        let billionths = i128::try_from(billionths).map_err(|_| NoQuantity::TooLarge)?;
        Ok(Self(if is_negative { -billionths } else { billionths }))
    }

    /// In ones, if it is a whole number of an int.
    fn as_int(self) -> Option<i64> {
        (self.0 % BILLION == 0).then(|| i64::try_from(self.0 / BILLION).ok())?
    }

    /// The double next to it.
    fn as_double(self) -> f64 {
        let (sign, size) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        let billion = BILLION.unsigned_abs();
        // What Rust parses is rounded once; a division would round twice.
        let written = format!("{sign}{}.{:09}", size / billion, size % billion);
        written.parse().unwrap_or(f64::NAN)
    }
}

/// A number times a power of ten, rounded up.
fn scaled(number: BigUint, power: i64) -> BigUint {
    if number == BigUint::ZERO {
        return number;
    }
    let factor = BigUint::from(10u8).pow(u32::try_from(power.unsigned_abs().min(2 * EXPONENT_MAX as u64)).unwrap_or(0));
    if power >= 0 {
        return number * factor;
    }
    (number + (&factor - BigUint::from(1u8))) / factor
}

enum Base {
    Ten,
    Two,
}

/// What a suffix multiplies by: a power of ten or two.
fn suffix_of(suffix: &str) -> Option<(Base, i64)> {
    let known = match suffix {
        "n" => (Base::Ten, -9),
        "u" => (Base::Ten, -6),
        "m" => (Base::Ten, -3),
        "" => (Base::Ten, 0),
        "k" => (Base::Ten, 3),
        "M" => (Base::Ten, 6),
        "G" => (Base::Ten, 9),
        "T" => (Base::Ten, 12),
        "P" => (Base::Ten, 15),
        "E" => (Base::Ten, 18),
        "Ki" => (Base::Two, 10),
        "Mi" => (Base::Two, 20),
        "Gi" => (Base::Two, 30),
        "Ti" => (Base::Two, 40),
        "Pi" => (Base::Two, 50),
        "Ei" => (Base::Two, 60),
        _ => {
            let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            (Base::Ten, exponent.clamp(-EXPONENT_MAX, EXPONENT_MAX))
        }
    };
    Some(known)
}

pub(super) fn register(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_type(type_of::<Quantity>())?;
    function(env, "quantity", vec![STRING_TYPE], quantity)?;
    function(env, "isQuantity", vec![STRING_TYPE], is_quantity)?;
    let of = |arguments| (type_of::<Quantity>(), arguments);
    method(env, "sign", of(vec![]), sign)?;
    method(env, "isInteger", of(vec![]), is_integer)?;
    method(env, "asInteger", of(vec![]), as_integer)?;
    method(env, "asApproximateFloat", of(vec![]), as_approximate_float)?;
    for other in [type_of::<Quantity>(), INT_TYPE] {
        method(env, "add", of(vec![other.to_owned()]), add)?;
        method(env, "sub", of(vec![other]), sub)?;
    }
    method(env, "isLessThan", of(vec![type_of::<Quantity>()]), is_less_than)?;
    method(env, "isGreaterThan", of(vec![type_of::<Quantity>()]), is_greater_than)?;
    method(env, "compareTo", of(vec![type_of::<Quantity>()]), compare_to)
}

fn quantity<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let parsed = Quantity::parse(text_at(&args, 0)?);
    let parsed = parsed.map_err(|_| ExecutionError::function_error("quantity", "text"))?;
    Ok(owned(parsed))
}

fn is_quantity<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let is_one = Quantity::parse(text_at(&args, 0)?).is_ok();
    Ok(owned(CelBool::from(is_one)))
}

fn this(args: &[CowVal<'_, '_>]) -> Result<Quantity, ExecutionError> {
    argument::<Quantity>(args, 0).copied()
}

/// The argument: a quantity, or an int.
fn other(args: &[CowVal<'_, '_>]) -> Result<Quantity, ExecutionError> {
    let other = args.get(1).ok_or_else(ExecutionError::missing_argument_or_target)?;
    match other.downcast_ref::<CelInt>() {
        Some(int) => Ok(Quantity(i128::from(*int.inner()) * BILLION)),
        None => argument::<Quantity>(args, 1).copied(),
    }
}

fn sign<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    Ok(order(this(&args)?.0.cmp(&0)))
}

fn is_integer<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    Ok(owned(CelBool::from(this(&args)?.as_int().is_some())))
}

fn as_integer<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let int = this(&args)?.as_int();
    let int = int.ok_or_else(|| ExecutionError::function_error("asInteger", "not an int"))?;
    Ok(owned(CelInt::from(int)))
}

fn as_approximate_float<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    Ok(owned(CelDouble::from(this(&args)?.as_double())))
}

fn add<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    made("add", this(&args)?.0.checked_add(other(&args)?.0))
}

fn sub<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    made("sub", this(&args)?.0.checked_sub(other(&args)?.0))
}

fn made<'b, 'v>(name: &'static str, billionths: Option<i128>) -> Returned<'b, 'v> {
    let made = billionths.ok_or(ExecutionError::Overflow(name, cel::Value::Null, cel::Value::Null))?;
    Ok(owned(Quantity(made)))
}

fn is_less_than<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    Ok(owned(CelBool::from(this(&args)? < other(&args)?)))
}

fn is_greater_than<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    Ok(owned(CelBool::from(this(&args)? > other(&args)?)))
}

fn compare_to<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    Ok(order(this(&args)?.cmp(&other(&args)?)))
}
