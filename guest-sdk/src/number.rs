//! Numbers as people read them.

use std::fmt;

/// Shows at most six decimals, without zeros at the end: `2`, `99.5`, `0.666667`. For reasons and evidence, where the
/// standard library's seventeen digits say nothing, and the code that writes them would be a seventh of a small gate.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Number(pub f64);

const MILLIONTHS: u128 = 1_000_000;

impl fmt::Display for Number {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(value) = *self;
        if value.is_nan() {
            return formatter.write_str("not a number");
        }
        let sign = if value < 0.0 { "-" } else { "" };
        if value.is_infinite() {
            return write!(formatter, "{sign}infinite");
        }
        // A float beyond the largest integer becomes that: what is far too much may look less.
        let millionths = (value.abs() * MILLIONTHS as f64).round() as u128;
        let (whole, mut rest) = (millionths / MILLIONTHS, millionths % MILLIONTHS);
        let sign = if millionths == 0 { "" } else { sign };
        write!(formatter, "{sign}{whole}")?;
        if rest == 0 {
            return Ok(());
        }
        let mut width = 6;
        while rest % 10 == 0 {
            rest /= 10;
            width -= 1;
        }
        write!(formatter, ".{rest:0width$}")
    }
}

#[cfg(test)]
mod tests {
    use super::Number;

    #[test]
    fn at_most_six_decimals_are_shown() {
        let shown = [
            (0.0, "0"),
            (-0.0, "0"),
            (2.0, "2"),
            (-2.5, "-2.5"),
            (99.95, "99.95"),
            (2.0 / 3.0, "0.666667"),
            (0.000_000_4, "0"),
            (-0.000_000_4, "0"),
            (1.000_001, "1.000001"),
            (9_007_199_254_740_993.0, "9007199254740992"),
            (f64::NAN, "not a number"),
            (f64::NEG_INFINITY, "-infinite"),
        ];
        for (value, text) in shown {
            assert_eq!(Number(value).to_string(), text);
        }
    }
}
