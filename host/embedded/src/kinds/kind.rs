//! What the server knows about a resource: names, scope, who counts its generation, how its bodies are checked, its
//! table columns. Must not know where a kind comes from.

use std::sync::Arc;

use serde_json::Value;

use super::columns::Column;
use crate::admission;
use crate::schema::Schema;

/// The group of CustomResourceDefinitions.
pub const DEFINITIONS_GROUP: &str = "apiextensions.k8s.io";

/// Group and plural name: what identifies stored objects whatever version they are read in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId {
    pub group: String,
    pub plural: String,
}

/// One resource in one version.
pub struct Kind {
    pub group: String,
    pub version: String,
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub list_kind: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    /// `metadata.generation` counts changes of what is desired.
    pub generation: bool,
    /// `/status` exists, and only there is status written.
    pub status: bool,
    /// `/scale` exists.
    pub scale: Option<Scale>,
    /// PUT must carry a resourceVersion.
    pub conditional_put: bool,
    /// PUT makes what is not there.
    pub put_creates: bool,
    pub body: Body,
    pub columns: Vec<Column>,
    /// Paths (dotted, without a leading dot) that field selectors may name, besides name and namespace.
    pub selectable: Vec<String>,
    /// Under which resource the objects are stored; differs only for `events.k8s.io`.
    pub stored_as: ResourceId,
    /// For `kubectl explain`.
    pub document: Document,
}

pub type SharedKind = Arc<Kind>;

/// Where the numbers of the scale subresource stand, as dotted paths without a leading dot.
#[derive(Clone, Debug)]
pub struct Scale {
    pub wanted: String,
    pub present: String,
    /// A label selector, as text or as an object with `matchLabels`.
    pub selector: Option<String>,
}

/// Adds a type's schema, and those that it refers to, to the generator's; says under which name.
pub type Publish = fn(&mut schemars::SchemaGenerator) -> String;

/// A schema for people.
pub enum Document {
    /// A definition's, as it was given.
    Given(Value),
    /// A built-in type's, as Kubernetes publishes it.
    Published(Publish),
}

/// How a body is read.
pub enum Body {
    /// A built-in type: decoded and encoded again, so that wrong types are refused and unknown fields noticed.
    Typed(fn(&Value) -> Result<Value, serde_json::Error>),
    Structural(Box<Schema>),
}

impl Kind {
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    pub fn id(&self) -> ResourceId {
        ResourceId {
            group: self.group.clone(),
            plural: self.plural.clone(),
        }
    }

    /// `deployments.apps`, as messages and logs name it.
    pub fn resource(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// Group and plural as a path, as etcd's keys have them.
    pub fn resource_path(&self) -> String {
        match self.schema() {
            Some(_) => format!("{}/{}", self.group, self.plural),
            None => self.plural.clone(),
        }
    }

    pub fn schema(&self) -> Option<&Schema> {
        match &self.body {
            Body::Structural(schema) => Some(schema),
            Body::Typed(_) => None,
        }
    }

    pub fn is_custom(&self) -> bool {
        self.schema().is_some()
    }

    pub fn is_definition(&self) -> bool {
        self.kind == "CustomResourceDefinition" && self.group == DEFINITIONS_GROUP
    }

    /// A resource of admission policies, by its plural.
    pub fn is_admission(&self, plural: &str) -> bool {
        self.group == admission::GROUP && self.plural == plural
    }

    pub fn is_namespace(&self) -> bool {
        self.kind == "Namespace" && self.group.is_empty()
    }

    /// `events.k8s.io` events are a second spelling of core events.
    pub fn is_event_alias(&self) -> bool {
        self.stored_as.group != self.group
    }
}
