//! What the author of a gate needs. A gate is a component that decides whether a stage of a rollout is done: a function of the request
//! that it is called with. This is a whole one:
//!
//! ```
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use stagegate_guest::{Error, Gate, Number, Request, Verdict};
//!
//! /// The gate is its config: `{"maxErrorRate": 0.01}` in the policy.
//! #[derive(Deserialize, JsonSchema)]
//! #[serde(rename_all = "camelCase", deny_unknown_fields)]
//! struct ErrorBudget {
//!     /// Largest share of failed requests in any cluster.
//!     max_error_rate: f64,
//! }
//!
//! impl Gate for ErrorBudget {
//!     const NAME: &'static str = "error-budget";
//!     const VERSION: &'static str = env!("CARGO_PKG_VERSION");
//!     const SUMMARY: &'static str = "No cluster exceeds an error rate";
//!
//!     fn evaluate(&self, request: &Request) -> Result<Verdict, Error> {
//!         for object in &request.objects {
//!             let rates = object.column("errors", "rate")?.numbers()?.per_cluster("cluster", request)?;
//!             for (cluster, rate) in rates {
//!                 if rate > self.max_error_rate {
//!                     return Ok(Verdict::hold(format!("{} of the requests fail in {cluster}", Number(rate))));
//!                 }
//!             }
//!         }
//!         Ok(Verdict::pass().evidence("clusters", request.destinations.len()))
//!     }
//! }
//!
//! stagegate_guest::export!(ErrorBudget);
//! ```
//!
//! It is built with `cargo build --target wasm32-wasip2 --profile gate` as a `cdylib`, and is meant to be an `rlib`, too.
//!
//! What is not known is an [`Error`] and never a default: the outcome is then unknown, and the stage waits.

pub mod bindings;
mod column;
mod config;
mod error;
mod evidence;
mod gate;
#[cfg(not(target_family = "wasm"))]
pub mod harness;
mod index;
mod json;
pub mod log;
mod number;
mod verdict;

pub use bindings::stagegate::gate::types::{
    Destination, EarlierVerdict, EvidenceRow, Object, Outcome, Reported, Request,
};
pub use column::{Rows, Values};
pub use error::Error;
pub use evidence::Evidence;
pub use gate::Gate;
#[doc(hidden)]
pub use gate::{derived_schema, describe, evaluate};
pub use number::Number;
pub use verdict::{PIECE_NAME_CHARS_MAX, PIECE_VALUE_CHARS_MAX, PIECES_MAX, REASON_CHARS_MAX, Verdict};
