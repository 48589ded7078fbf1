//! What the author of a gate needs. A gate is a component that decides whether a stage of a rollout is done: a function
//! of the request that it is called with. This is a whole one:
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
//! Its package is a `cdylib`, the component, and an `rlib`, for its tests:
//!
//! ```toml
//! [lib]
//! crate-type = ["cdylib", "rlib"]
//!
//! [dependencies]
//! schemars = "1"
//! serde = { version = "1", features = ["derive"] }
//! stagegate-guest = { git = "…" }
//! ```
//!
//! `cargo build --target wasm32-wasip2 --profile gate` builds it: the profile is in this workspace's `Cargo.toml`, the
//! size of the stack in its `.cargo/config.toml`, and a gate of another workspace wants both. `stagegate gate check
//! FILE` says what a host thinks of the result, `stagegate gate configmap NAME FILE` writes the ConfigMap. How it is
//! tested without a cluster: [`harness`].
//!
//! **What is not known is an [`Error`] and never a default.** The outcome is then unknown, and the stage waits. So a
//! missing collector or column, a row without a value, a value of another type, and a cluster without a row are errors
//! here, and not empty lists. The host asks only when its own evidence is complete, but what a collector says is the
//! gate's to judge.

#![deny(missing_docs)]

#[allow(missing_docs, reason = "generated; `wit/gate.wit` says what each is")]
pub mod bindings;
mod column;
mod config;
mod destinations;
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

pub use bindings::stagegate::gate::types::{Destinations, EarlierVerdict, Health, Object, Outcome, Request};
pub use column::{Rows, Values};
pub use destinations::Destination;
pub use error::Error;
pub use evidence::Evidence;
pub use gate::Gate;
#[doc(hidden)]
pub use gate::{derived_schema, describe, evaluate};
pub use number::Number;
pub use verdict::{PIECE_NAME_CHARS_MAX, PIECE_VALUE_CHARS_MAX, PIECES_MAX, REASON_CHARS_MAX, Verdict};
