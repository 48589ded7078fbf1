//! Every committed write in order, with who asked for it: what tests read to say what was done to a cluster, and when.
//! Nothing in here is read by the server itself.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::history::Change;
use super::revision::Revision;

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Position in the order of all changes of the server.
    pub version: u64,
    pub at: Timestamp,
    pub author: CommitAuthor,
    /// `deployments.apps`.
    pub resource: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The object is gone with this change; `after` is then its last state.
    pub removed: bool,
    before: Option<Arc<Revision>>,
    after: Arc<Revision>,
}

/// Whose doing a change is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitAuthor {
    /// The server's own: garbage collection, the end of a deletion, what is there from the start.
    Server,
    Request(CommitRequest),
}

/// The request that a change was the answer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitRequest {
    /// From [`crate::USER_HEADER`]; empty where there was none.
    pub user: String,
    /// The field manager.
    pub manager: String,
    /// As in [`crate::Request::verb`].
    pub verb: &'static str,
    /// `status`, or empty for the object itself.
    pub subresource: String,
    /// The uid and the resourceVersion that the request was conditional on.
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

impl Commit {
    pub(crate) fn new(at: Timestamp, author: CommitAuthor, resource: String, change: &Change) -> Commit {
        Commit {
            version: change.version,
            at,
            author,
            resource,
            namespace: change.after.key.namespace.clone(),
            name: change.after.key.name.clone(),
            uid: change.after.uid.clone(),
            removed: change.removed,
            before: change.before.clone(),
            after: change.after.clone(),
        }
    }

    /// The object before; `None` for one that was created.
    pub fn before(&self) -> Option<Value> {
        self.before.as_ref().map(|revision| revision.value())
    }

    /// The object afterwards; `None` for one that was removed.
    pub fn after(&self) -> Option<Value> {
        (!self.removed).then(|| self.after.value())
    }

    pub fn request(&self) -> Option<&CommitRequest> {
        match &self.author {
            CommitAuthor::Server => None,
            CommitAuthor::Request(request) => Some(request),
        }
    }
}
