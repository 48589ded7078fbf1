//! What a write has to go through before it is stored: decoding, metadata rules, defaults, validation, ownership of
//! fields, preconditions. One `Writer` serves one request; it holds the state lock, so a write is atomic.

mod admit;
mod create;
mod delete;
mod patch;
mod review;
mod strategic;
mod update;
mod writer;

pub use delete::{DeleteOptions, propagation};
pub use patch::Patch;
pub use writer::{Author, FieldValidation, Part, WriteResult, Writer};
