//! Puts every write before the admission policies: what it looks like to them, and a refusal where one of them denies it. A write comes here when
//! all else about its object is in order, as in a real API server, and before it is known whether it changes anything.

use std::borrow::Cow;

use serde_json::Value;

use super::writer::{Part, Writer};
use crate::admission::{Form, KindName, Operation, Outcome, Review, User};
use crate::kinds::{Kind, ResourceId, events, seen_as_scale};
use crate::refusal::Refusal;
use crate::store::{Key, ObjectPlace, Revision};

/// An object after and before a write.
pub(super) struct Change<'a> {
    pub new: Option<&'a Value>,
    pub old: Option<&'a Value>,
}

impl Writer<'_> {
    /// Asks the policies about a write of one object.
    pub(super) fn review(&mut self, operation: Operation, change: &Change<'_>) -> Result<(), Refusal> {
        let object = change.new.or(change.old);
        let name = object.and_then(|object| object["metadata"]["name"].as_str());
        let name = name.unwrap_or_default().to_owned();
        self.review_named(&name, (operation, change))
    }

    /// Asks them about a deletion; `name` is empty if several objects are deleted by one request.
    pub(super) fn review_deletion(&mut self, name: &str, current: &Revision) -> Result<(), Refusal> {
        if self.state.policies().are_none() {
            return Ok(());
        }
        let change = Change {
            new: None,
            old: Some(&current.value()),
        };
        self.review_named(name, (Operation::Delete, &change))
    }

    fn review_named(&mut self, name: &str, (operation, change): (Operation, &Change<'_>)) -> Result<(), Refusal> {
        if self.state.policies().are_none() {
            return Ok(());
        }
        let forms = self.forms();
        let namespace = match self.kind.is_namespace() {
            true => change
                .new
                .or(change.old)
                .and_then(|object| object["metadata"]["name"].as_str()),
            false => Some(self.namespace),
        };
        let namespace = namespace.unwrap_or_default();
        let stored = self.namespace_object(namespace);
        let [new, old] = [change.new, change.old].map(|object| self.as_written(object));
        let render = |form: &Form, object: &Value| self.rendered(form, object);
        let Outcome { denial, warnings } = self.state.policies().review(&Review {
            operation,
            forms: &forms,
            subresource: self.part.subresource(),
            name,
            namespace,
            object: new.as_deref(),
            old: old.as_deref(),
            namespace_object: stored.as_ref(),
            dry_run: self.author.dry_run,
            user: User {
                name: &self.author.user,
            },
            render: &render,
        });
        self.warnings.extend(warnings);
        match denial {
            Some(denial) => Err(Refusal::denied(&self.asked, name, &denial)),
            None => Ok(()),
        }
    }

    /// The form that was asked for, then the other versions under which the same objects are served.
    fn forms(&self) -> Vec<Form> {
        let others = self.state.kinds().filter(|kind| {
            kind.stored_as == self.asked.stored_as
                && (&kind.group, &kind.version) != (&self.asked.group, &self.asked.version)
        });
        let kinds = std::iter::once(&self.asked).chain(others);
        kinds.map(|kind| self.form(kind)).collect()
    }

    fn form(&self, kind: &Kind) -> Form {
        let [group, version, name] = match self.part {
            Part::Scale => ["autoscaling", "v1", "Scale"],
            Part::Main | Part::Status => [&kind.group, &kind.version, &kind.kind].map(String::as_str),
        };
        Form {
            group: kind.group.clone(),
            version: kind.version.clone(),
            plural: kind.plural.clone(),
            kind: KindName {
                group: group.to_owned(),
                version: version.to_owned(),
                kind: name.to_owned(),
            },
        }
    }

    /// What the request is about: of an object whose scale is written, the scale.
    fn as_written<'o>(&self, object: Option<&'o Value>) -> Option<Cow<'o, Value>> {
        let object = object?;
        Some(match (self.part, &self.kind.scale) {
            (Part::Scale, Some(paths)) => Cow::Owned(seen_as_scale(object, paths)),
            _ => Cow::Borrowed(object),
        })
    }

    fn rendered(&self, form: &Form, object: &Value) -> Value {
        let mut object = object.clone();
        if form.group != self.kind.stored_as.group && self.part != Part::Scale {
            object = events::from_core(object);
        }
        let KindName { group, version, kind } = &form.kind;
        object["kind"] = Value::from(kind.as_str());
        object["apiVersion"] = match group.as_str() {
            "" => Value::from(version.as_str()),
            group => Value::from(format!("{group}/{version}")),
        };
        object
    }

    fn namespace_object(&self, name: &str) -> Option<Value> {
        self.stored_namespace(name).map(|namespace| namespace.value())
    }

    /// The Namespace of that name.
    pub(super) fn stored_namespace(&self, name: &str) -> Option<&Revision> {
        let namespaces = ResourceId {
            group: String::new(),
            plural: "namespaces".to_owned(),
        };
        let place = ObjectPlace {
            resource: namespaces,
            key: Key {
                namespace: String::new(),
                name: name.to_owned(),
            },
        };
        self.state.get(&place).map(|namespace| &**namespace)
    }
}
