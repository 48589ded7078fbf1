//! Gates: WebAssembly components that judge a stage. Must not know Kubernetes, processes or files.

mod failure;
pub mod limits;
pub mod wire;

pub use failure::{FAILURE_CHARS_MAX, Failure, FailureKind};
pub use limits::Limits;
