//! Evaluating the checks of a stage: health, condition, gates and soak. Must not know what is placed, nor where.

pub(crate) mod answers;
pub(crate) mod check;
pub(crate) mod evaluate;
pub(crate) mod finding;
pub(crate) mod gate_call;
pub(crate) mod gates;
pub(crate) mod health;
pub(crate) mod question;
pub(crate) mod reason;
pub(crate) mod record;
pub(crate) mod soak;
pub(crate) mod spec;
pub(crate) mod steps;
pub(crate) mod variables;
pub(crate) mod verdict;
