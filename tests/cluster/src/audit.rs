//! What a user asked of the API server, as its audit log tells. Must not judge whether it should have.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::Path;

use anyhow::Context as _;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

/// What RBAC grants, without names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    pub verb: String,
    /// Empty: the core group.
    pub group: String,
    pub resource: String,
    /// Empty: the object itself.
    pub subresource: String,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if !self.subresource.is_empty() {
            write!(f, "/{}", self.subresource)?;
        }
        Ok(())
    }
}

/// What one user did.
#[derive(Debug, Default)]
pub struct Used {
    pub rights: BTreeSet<Right>,
    /// Those that the server refused for want of a right.
    pub refused: BTreeSet<Right>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    verb: String,
    user: User,
    /// Absent for paths that are no object, as `/version`.
    object_ref: Option<ObjectRef>,
    response_status: Option<ResponseStatus>,
    request_received_timestamp: Timestamp,
}

#[derive(Deserialize)]
struct User {
    /// Absent where the server could not find out who asks.
    #[serde(default)]
    username: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct ObjectRef {
    resource: String,
    api_group: String,
    subresource: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

/// While it is not ready, as in `unready`, a server refuses what it grants: it has not read the roles yet.
///
/// # Errors
/// A log that is missing, or holds a line that is no entry; a last line that is still being written is none.
pub fn used_by(user: &str, log: &Path, unready: &[Range<Timestamp>]) -> anyhow::Result<Used> {
    let text = std::fs::read_to_string(log).with_context(|| format!("reading {}", log.display()))?;
    let mut used = Used::default();
    for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let entry: Entry = serde_json::from_str(line).with_context(|| format!("an entry of {}", log.display()))?;
        let Some(of) = entry.object_ref.filter(|_| entry.user.username == user) else {
            continue;
        };
        let right = Right {
            verb: entry.verb,
            group: of.api_group,
            resource: of.resource,
            subresource: of.subresource,
        };
        let asked_at = entry.request_received_timestamp;
        let is_ready = !unready.iter().any(|times| times.contains(&asked_at));
        if is_ready && entry.response_status.is_some_and(|status| status.code == 403) {
            used.refused.insert(right.clone());
        }
        used.rights.insert(right);
    }
    Ok(used)
}
