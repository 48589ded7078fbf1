//! The structural schema of a custom resource, compiled once: what may stand where, what is dropped, filled in and
//! refused. It works on JSON values and knows nothing of storage or requests.

mod compile;
mod defaults;
mod identifiers;
mod node;
mod prune;
mod references;
mod rule;
mod rules;
mod validate;

pub use compile::compile;
pub use node::{ListKind, Schema};
