//! A request for a resource that is served. Must not answer it.

use super::call::Call;
use super::target::Resource;
use crate::kinds::SharedKind;
use crate::server::Server;

/// A request for a resource, with everything the verbs need.
pub(crate) struct Request<'a> {
    pub server: &'a Server,
    /// As it was asked for.
    pub kind: &'a SharedKind,
    pub resource: &'a Resource,
    pub call: &'a Call,
}
