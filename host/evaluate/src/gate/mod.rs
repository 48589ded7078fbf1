//! Gates: WebAssembly components that judge a stage. Must not know Kubernetes, processes or files.
//!
//! [`compile`] turns a component into an artifact, [`Engine`] and [`Gate`] run one. Compiling can take minutes and gigabytes
//! for a few kilobytes of hostile code, so it belongs into a process of its own under limits of the system; running is held
//! by [`Limits`], and a second wall around it is the caller's, too. Every call blocks its thread, which needs two
//! megabytes of stack.

pub mod answer;
mod compile;
mod config;
mod convert;
mod engine;
mod failure;
mod imports;
mod json;
pub mod limits;
mod run;
mod store;
mod text;
mod ticker;
mod wasi;
pub mod wire;

pub use compile::{Interface, compatibility, compile, inspect};
pub use config::check_config;
pub use engine::Engine;
pub use failure::{Failure, FailureKind};
pub use limits::Limits;
pub use run::{Evaluation, Gate};
pub use text::{FAILURE_CHARS_MAX, escaped, sentence};
