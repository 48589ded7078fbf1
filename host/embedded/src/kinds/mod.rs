//! What the server knows about resources. Built-in kinds come from a table, custom ones from their definition. Must not store anything.

mod age;
pub mod builtin;
mod cells;
mod columns;
pub mod crd;
pub mod defaults;
pub mod events;
mod json_path;
mod kind;
mod scale;
mod tables;
pub mod validation;

pub use kind::{Body, DEFINITIONS_GROUP, Document, Kind, ResourceId, Scale, SharedKind};
pub use scale::seen_as_scale;
