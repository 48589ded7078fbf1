//! Figures as numbers and as text. Must not print.

use std::cmp::Ordering;
use std::time::Duration;

use super::requests::Counts;

/// What this share of them did not exceed; zero of none.
pub fn quantile<T: Copy + Default + PartialOrd>(values: impl Iterator<Item = T>, hundredths: usize) -> T {
    let mut values: Vec<T> = values.collect();
    // No figure is without an order.
    values.sort_by(|one, other| one.partial_cmp(other).unwrap_or(Ordering::Equal));
    let at = (values.len() * hundredths).div_ceil(100).saturating_sub(1);
    values.get(at).copied().unwrap_or_default()
}

/// Beside a figure that has a goal; a goal is the most that the figure may be.
pub fn verdict(figure: f64, goal: Option<f64>) -> &'static str {
    match goal {
        Some(goal) if figure <= goal => "pass",
        Some(_) => "MISS",
        None => "",
    }
}

pub fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

pub fn count(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

/// An empty sum of floats is a negative zero.
pub fn number(value: f64) -> String {
    let value = value + 0.0;
    if value >= 100.0 || value == value.trunc() {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

/// A figure that may be absent.
pub fn optional(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), number)
}

pub fn counts(counts: &Counts) -> String {
    let texts: Vec<String> = counts
        .iter()
        .map(|(what, count)| format!("{count:.2} × {what}"))
        .collect();
    texts.join(", ")
}
