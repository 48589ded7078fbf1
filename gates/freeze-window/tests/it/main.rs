//! The gate's cases, and its table of time zones against the tz database.

mod cases;
mod zones;
