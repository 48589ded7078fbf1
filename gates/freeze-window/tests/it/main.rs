//! The gate's cases, and its table of time zones against the tz database.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails by the panic")]

mod cases;
mod zones;
