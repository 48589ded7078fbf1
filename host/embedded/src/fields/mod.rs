//! Who set which field: field sets, how they follow from a change, and server-side apply. Everything here is a function
//! of JSON values and their typing; nothing is stored and no time is read.

mod changes;
mod managed;
mod merge;
mod set;
mod typing;

pub use changes::Changes;
pub use managed::{Apply, ManagedFields, Manager, Operation};
pub use typing::{Merge, Typing, repeated};
