//! A list of requests as its file writes it. Must not send any.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// The file's.
    #[serde(skip)]
    pub name: String,
    #[expect(dead_code, reason = "for readers of the file, who must find one")]
    about: String,
    pub requests: Vec<Request>,
    /// Where the playground answers differently.
    #[serde(default)]
    pub differences: Vec<Listed>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// A sentence, once in the file.
    pub name: String,
    /// Method, path and query. `${ns}` is the subject's namespace, `${word}` what an earlier request kept; blanks are escaped.
    pub send: String,
    /// The body's media type, or one of the short names of [`media_type`].
    #[serde(default, rename = "type")]
    pub type_: Option<String>,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Sent as JSON.
    #[serde(default)]
    pub body: Option<Value>,
    /// Sent as it stands.
    #[serde(default)]
    pub text: Option<String>,
    /// Words for parts of the answer's body, as JSON pointers. From then on they stand in stored answers where these values were.
    #[serde(default)]
    pub keep: BTreeMap<String, String>,
    /// Sent again until the answer has this status.
    #[serde(default)]
    pub until: Option<u16>,
    /// The parts of the body that count, as JSON pointers; by itself all.
    #[serde(default)]
    pub only: Vec<String>,
    /// Lists of which only some elements count, or whose order does not.
    #[serde(default)]
    pub reduce: Vec<Reduce>,
}

/// Of a list, the elements that have one of some values somewhere, by itself all, in the order of these values.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reduce {
    pub list: String,
    pub by: String,
    #[serde(default)]
    pub to: BTreeSet<String>,
}

/// A difference that is accepted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    #[expect(dead_code, reason = "for readers of the file, who must find one")]
    because: String,
    /// JSON pointers into the answer (`/status`, `/headers/…`, `/body/…`): there or below. `*` is any one step.
    pub at: Vec<String>,
    /// The requests, each of which has a difference at each of these places.
    #[serde(rename = "in")]
    pub requests: Vec<String>,
}

impl Subject {
    pub fn read(path: &Path) -> anyhow::Result<Subject> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let mut subject: Subject =
            serde_saphyr::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
        subject.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut names = BTreeSet::new();
        for request in &subject.requests {
            ensure!(
                names.insert(&request.name),
                "{}: two requests are called {:?}",
                path.display(),
                request.name
            );
        }
        for request in subject.differences.iter().flat_map(|listed| &listed.requests) {
            ensure!(
                names.contains(request),
                "{}: no request is called {request:?}",
                path.display()
            );
        }
        Ok(subject)
    }

    pub fn namespace(&self) -> String {
        format!("requests-{}", self.name)
    }
}

impl Request {
    pub fn media_type(&self) -> &str {
        match self.type_.as_deref() {
            None => "application/json",
            Some("json") => "application/json-patch+json",
            Some("merge") => "application/merge-patch+json",
            Some("strategic") => "application/strategic-merge-patch+json",
            Some("apply") => "application/apply-patch+yaml",
            Some("yaml") => "application/yaml",
            Some(other) => other,
        }
    }
}
