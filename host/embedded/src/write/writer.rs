//! One write request on one resource, and the step that ends each of them: storing the object. Must not know which verb writes.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::admission::{self, Policy};
use crate::cause::Cause;
use crate::fields::{Manager, Operation, Typing};
use crate::kinds::{SharedKind, crd};
use crate::refusal::Refusal;
use crate::store::{Key, ObjectPlace, Revision, State};
use crate::time::seconds;

/// What happens to fields the kind does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// The part of the object a write may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Main,
    Status,
    /// The number of replicas, wherever it stands in the main part.
    Scale,
}

impl Part {
    pub(super) fn subresource(self) -> Option<&'static str> {
        match self {
            Part::Main => None,
            Part::Status => Some("status"),
            Part::Scale => Some("scale"),
        }
    }
}

/// Who writes, and how.
#[derive(Clone, Debug)]
pub struct Author {
    /// Empty: nobody is named.
    pub user: String,
    pub manager: String,
    pub dry_run: bool,
    pub force: bool,
    pub validation: FieldValidation,
}

/// A finished write.
pub struct WriteResult {
    pub revision: Arc<Revision>,
    pub created: bool,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

/// One write request on one resource.
pub struct Writer<'a> {
    pub state: &'a mut State,
    /// Under which the objects are stored.
    pub kind: SharedKind,
    /// As it was asked for.
    pub asked: SharedKind,
    /// Empty for cluster-scoped kinds.
    pub namespace: &'a str,
    pub part: Part,
    pub author: &'a Author,
    pub now: Timestamp,
    pub warnings: Vec<String>,
}

/// Whose work the managedFields of a write are.
pub(super) enum Ownership {
    /// An edit by the author: they follow from the difference.
    Edit,
    /// They came out of server-side apply.
    Applied,
}

impl Writer<'_> {
    pub(super) fn place(&self, name: &str) -> ObjectPlace {
        let key = Key {
            namespace: self.namespace.to_owned(),
            name: name.to_owned(),
        };
        ObjectPlace {
            resource: self.kind.stored_as.clone(),
            key,
        }
    }

    pub(super) fn current(&self, name: &str) -> Result<Arc<Revision>, Refusal> {
        self.state
            .get(&self.place(name))
            .cloned()
            .ok_or_else(|| Refusal::not_found(&self.kind, name))
    }

    pub(super) fn typing<'k>(kind: &'k SharedKind) -> Typing<'k> {
        kind.schema()
            .map_or(Typing::Named { parent: "", name: "" }, Typing::Schema)
    }

    pub(super) fn manager(&self, operation: Operation) -> Manager {
        Manager {
            name: self.author.manager.clone(),
            operation,
            api_version: self.kind.api_version(),
            subresource: self.part.subresource().map(str::to_owned),
        }
    }

    /// When the author of an edit became the owner of what it changed; of a scale nobody says.
    pub(super) fn time_of_ownership(&self) -> Option<String> {
        (self.part != Part::Scale).then(|| self.time())
    }

    pub(super) fn time(&self) -> String {
        seconds(self.now)
    }

    /// Stores the object, unless this is a dry run.
    pub(super) fn commit(&mut self, mut object: Value, created: bool) -> Result<WriteResult, Refusal> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let invalid = |causes: Vec<Cause>| Refusal::invalid(&self.kind, &name, &causes);
        let (mut defined, mut policy) = (Vec::new(), None);
        if self.kind.is_definition() {
            defined = crd::kinds(&object).map_err(invalid)?;
            crd::establish(&mut object, &self.time());
        } else if self.kind.is_admission(admission::POLICIES) {
            policy = Some(Policy::compile(&object).map_err(invalid)?);
        }
        let revision = if self.author.dry_run {
            Arc::new(Revision::render(&self.kind, &object, self.state.version()))
        } else {
            let kind = self.kind.clone();
            let in_force = self.state.policies_mut();
            if kind.is_admission(admission::BINDINGS) {
                in_force.bind(&object);
            }
            in_force.keep(policy);
            let revision = self.state.put_or_remove(&kind, object);
            if !defined.is_empty() {
                self.state.serve(defined);
            }
            self.state.settle(self.now);
            revision
        };
        Ok(WriteResult {
            revision,
            created,
            warnings: std::mem::take(&mut self.warnings),
        })
    }
}
