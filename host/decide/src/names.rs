//! Names and digests as types, with the limits that their users set. Must not read anything.

use std::borrow::Borrow;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use stagegate_api::{ClusterName, Digest, ResourceVersion, StageName, Uid};

const DNS_LABEL_LEN_MAX: usize = 63;

/// The name of a stage's BindingPolicy and Binding: `<policy>.stage.<stage>`, as the Go stager has it. It is only ever
/// built, never parsed: a policy may be called `a.stage.b`. Among the facts there may also be names that no stage has.
///
/// KubeStellar: BindingPolicy names become label values, at most 63 bytes; hence policy and stage together at most 56.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PlacementName(String);

impl PlacementName {
    /// Of this stage of this policy.
    pub fn of(policy: &str, stage: StageName<&str>) -> Self {
        Self(stagegate_api::stage_binding_policy_name(policy, stage.text()))
    }

    /// Of the BindingPolicy that selects this policy's objects and no cluster: `<policy>.versions`.
    pub fn of_versions(policy: &str) -> Self {
        Self(stagegate_api::versions_binding_policy_name(policy))
    }

    /// The name that a BindingPolicy has, whatever it is.
    pub fn of_object(object: &stagegate_api::BindingPolicy) -> Self {
        Self(object.metadata.name.clone().unwrap_or_default())
    }

    /// As the API server has it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for PlacementName {
    fn from(name: String) -> Self {
        Self(name)
    }
}

impl Borrow<str> for PlacementName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PlacementName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which workload object is meant, as a Binding names it; the version is left out because one object has several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Empty for the core group.
    pub group: String,
    /// Lower-case plural.
    pub resource: String,
    /// `None` for cluster-scoped objects.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
}

impl fmt::Display for ObjectKey {
    /// `deployments.apps default/nginx`, `namespaces shop`: what kubectl takes and a reader knows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " {namespace}/{}", self.name),
            None => write!(f, " {}", self.name),
        }
    }
}

impl std::str::FromStr for ObjectKey {
    type Err = String;

    /// The inverse of [`fmt::Display`]; used by tests' case files and for nothing that decides.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (kind, path) = text
            .split_once(' ')
            .ok_or_else(|| format!("no space between kind and name in {text:?}"))?;
        let (resource, group) = kind.split_once('.').unwrap_or((kind, ""));
        let (namespace, name) = match path.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, path),
        };
        Ok(Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace,
            name: name.to_owned(),
        })
    }
}

impl Serialize for ObjectKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ObjectKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// Whether it is a DNS label (RFC 1123).
pub fn is_dns_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty()
        && name.len() <= DNS_LABEL_LEN_MAX
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}
