//! Texts with a unit, as fields of our kinds hold them: durations and sizes.

use std::time::Duration;

/// Reads a time such as `1h30m`, `2.5s` or `200ms`: one or more decimal numbers, each with h, m, s or ms.
///
/// The grammar is the part of Go's durations that the CRD accepts. `None` for anything else or beyond `u64` nanoseconds.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(unit_at);
        let unit_end = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let nanos_per_unit: u64 = match unit {
            "h" => 3_600_000_000_000,
            "m" => 60_000_000_000,
            "s" => 1_000_000_000,
            "ms" => 1_000_000,
            _ => return None,
        };
        total = total.checked_add(parse_amount(number, nanos_per_unit)?)?;
        rest = tail;
    }
    (!text.is_empty()).then_some(total)
}

/// Reads the soak of a stage: a time from 1s to 720h.
pub fn parse_soak(text: &str) -> Option<Duration> {
    let longest = Duration::from_secs(720 * 3600);
    parse_duration(text).filter(|time| (Duration::from_secs(1)..=longest).contains(time))
}

fn parse_amount(number: &str, nanos_per_unit: u64) -> Option<Duration> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.len() > 3 {
        return None;
    }
    let nanos = whole.parse::<u64>().ok()?.checked_mul(nanos_per_unit)?;
    let thousandths = fraction.parse::<u64>().ok()? * 10_u64.pow(3 - u32::try_from(fraction.len()).ok()?);
    let nanos = nanos.checked_add(thousandths * (nanos_per_unit / 1000))?;
    Some(Duration::from_nanos(nanos))
}

/// Reads a whole number of mebibytes such as `64Mi`: the part of Kubernetes' quantities that a gate's limits accept.
///
/// ```
/// use stagegate_api::parse_mebibytes;
///
/// assert_eq!(parse_mebibytes("64Mi"), Some(64));
/// assert_eq!(parse_mebibytes("64"), None);
/// assert_eq!(parse_mebibytes("064Mi"), None);
/// ```
pub fn parse_mebibytes(text: &str) -> Option<u32> {
    let number = text.strip_suffix("Mi")?;
    let is_decimal = !number.starts_with('0') && number.bytes().all(|byte| byte.is_ascii_digit());
    is_decimal.then(|| number.parse().ok())?
}
