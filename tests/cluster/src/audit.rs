//! What a user asked of the API server, as its audit log tells. Must not judge whether it should have.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
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
    #[serde(rename = "requestURI")]
    request_uri: String,
    user: User,
    /// Absent where the client did not say what it is.
    #[serde(default)]
    user_agent: String,
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
    namespace: String,
    name: String,
    resource: String,
    api_group: String,
    subresource: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

/// One answered request about objects.
#[derive(Clone, Debug)]
pub struct Answered {
    pub user: String,
    /// What the client called itself.
    pub agent: String,
    /// What it needed.
    pub right: Right,
    /// Empty for what is in none, and where the request is about all of them.
    pub namespace: String,
    /// Empty where the request is about more than one object.
    pub name: String,
    /// Nothing of it is ever stored.
    pub is_dry_run: bool,
    /// Of HTTP.
    pub code: u16,
    pub asked_at: Timestamp,
}

/// All answered requests that stand in the log after its first `from` bytes.
///
/// # Errors
/// A log that is missing, or holds a line that is no entry; a last line that is still being written is none.
pub fn answered(log: &Path, from: u64) -> anyhow::Result<Vec<Answered>> {
    let read = || format!("reading {}", log.display());
    let mut file = File::open(log).with_context(read)?;
    file.seek(SeekFrom::Start(from)).with_context(read)?;
    let mut lines = BufReader::new(file);
    let (mut answered, mut line) = (Vec::new(), String::new());
    while lines.read_line(&mut line).with_context(read)? > 0 && line.ends_with('\n') {
        let entry: Entry = serde_json::from_str(&line).with_context(|| format!("an entry of {}", log.display()))?;
        if let Some(of) = entry.object_ref {
            let right = Right {
                verb: entry.verb,
                group: of.api_group,
                resource: of.resource,
                subresource: of.subresource,
            };
            answered.push(Answered {
                user: entry.user.username,
                agent: entry.user_agent,
                right,
                namespace: of.namespace,
                name: of.name,
                is_dry_run: entry.request_uri.contains("dryRun="),
                code: entry.response_status.map_or(0, |status| status.code),
                asked_at: entry.request_received_timestamp,
            });
        }
        line.clear();
    }
    Ok(answered)
}

/// While it is not ready, as in `unready`, a server refuses what it grants: it has not read the roles yet.
///
/// # Errors
/// As of [`answered`].
pub fn used_by(user: &str, log: &Path, unready: &[Range<Timestamp>]) -> anyhow::Result<Used> {
    let mut used = Used::default();
    for answer in answered(log, 0)?.into_iter().filter(|answer| answer.user == user) {
        let Answered {
            right, code, asked_at, ..
        } = answer;
        let is_ready = !unready.iter().any(|times| times.contains(&asked_at));
        if is_ready && code == 403 {
            used.refused.insert(right.clone());
        }
        used.rights.insert(right);
    }
    Ok(used)
}
