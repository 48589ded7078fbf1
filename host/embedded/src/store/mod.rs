//! Everything the server remembers, and what follows from a change of it. Must not refuse anything: whether a change is allowed was
//! decided in `write`.

mod collection;
mod commits;
mod history;
mod place;
mod propagation;
mod revision;
mod settle;
mod state;

pub use collection::Collection;
pub use commits::{Commit, CommitAuthor, CommitRequest};
pub use history::Change;
pub use place::{Key, ObjectPlace};
pub use propagation::Propagation;
pub use revision::Revision;
pub use state::{Deleted, State};
