//! One write as policies see it: what expressions know as `request`, `object`, `oldObject` and `namespaceObject`. Must not decide.

use serde_json::{Map, Value, json};
use stagegate_evaluate::{Shape, Value as Known};

/// What a write does to its object. Patches and server-side apply create or update, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
        }
    }
}

/// Group, version and kind of an object.
#[derive(Clone, Debug)]
pub struct KindName {
    pub group: String,
    pub version: String,
    pub kind: String,
}

/// A resource in one version, and the kind of the objects that its requests carry.
#[derive(Clone, Debug)]
pub struct Form {
    pub group: String,
    pub version: String,
    pub plural: String,
    pub kind: KindName,
}

/// Who sends a request. The server asks nobody for a proof.
#[derive(Clone, Copy, Debug)]
pub struct User<'a> {
    /// Empty: nobody is named.
    pub name: &'a str,
}

impl User<'_> {
    fn info(self) -> Value {
        match self.name {
            "" => json!({"username": "system:anonymous", "groups": ["system:unauthenticated"]}),
            name => json!({"username": name, "groups": ["system:authenticated"]}),
        }
    }
}

/// One write.
pub struct Review<'a> {
    pub operation: Operation,
    /// The form that was asked for, then the others of the same objects.
    pub forms: &'a [Form],
    pub subresource: Option<&'static str>,
    /// Empty for a deletion of several objects.
    pub name: &'a str,
    /// Of a Namespace, its name.
    pub namespace: &'a str,
    pub object: Option<&'a Value>,
    pub old: Option<&'a Value>,
    /// The Namespace of that name, if it is stored.
    pub namespace_object: Option<&'a Value>,
    pub dry_run: bool,
    pub user: User<'a>,
    /// An object in one of the forms.
    pub render: &'a dyn Fn(&Form, &Value) -> Value,
}

impl Review<'_> {
    /// The request is about Namespaces, which are in none.
    pub(super) fn is_about_namespaces(&self) -> bool {
        let asked = self.forms.first();
        asked.is_some_and(|form| form.group.is_empty() && form.plural == "namespaces")
    }

    pub(super) fn is_namespaced(&self) -> bool {
        !self.namespace.is_empty() && !self.is_about_namespaces()
    }

    /// The labels that namespace selectors look at; `None` where they select everything.
    pub(super) fn namespace_labels(&self) -> Option<&Value> {
        let writes_namespace = self.subresource.is_none() && self.operation != Operation::Delete;
        match () {
            () if self.is_about_namespaces() && writes_namespace => Some(labels_of(self.object)),
            () if self.namespace.is_empty() => None,
            () => Some(labels_of(self.namespace_object)),
        }
    }

    /// What expressions know, with the objects in the form that the policy was matched by.
    pub(super) fn known(&self, form: &Form) -> Vec<(&'static str, Known)> {
        let shown = |object: Option<&Value>| match object {
            Some(object) => Known::from(&(self.render)(form, object)),
            None => Known::null(),
        };
        let namespace = self.namespace_object.filter(|_| self.is_namespaced());
        vec![
            ("object", shown(self.object)),
            ("oldObject", shown(self.old)),
            ("request", Known::from(&self.request(form))),
            ("namespaceObject", namespace.map_or_else(Known::null, Known::from)),
        ]
    }

    fn request(&self, form: &Form) -> Value {
        let kind =
            |form: &Form| json!({"group": form.kind.group, "version": form.kind.version, "kind": form.kind.kind});
        let resource = |form: &Form| json!({"group": form.group, "version": form.version, "resource": form.plural});
        let asked = self.forms.first().unwrap_or(form);
        let mut request = json!({
            "kind": kind(form), "resource": resource(form), "requestKind": kind(asked), "requestResource": resource(asked),
            "operation": self.operation.name(), "userInfo": self.user.info(), "dryRun": self.dry_run,
        });
        let optional = [
            ("name", self.name),
            ("namespace", self.namespace),
            ("subResource", self.subresource.unwrap_or_default()),
            ("requestSubResource", self.subresource.unwrap_or_default()),
        ];
        let given = optional.into_iter().filter(|(_, value)| !value.is_empty());
        if let Some(members) = request.as_object_mut() {
            members.extend(
                given
                    .map(|(member, value)| (member.to_owned(), Value::from(value)))
                    .collect::<Map<_, _>>(),
            );
        }
        request
    }
}

fn labels_of(object: Option<&Value>) -> &Value {
    object.map_or(&Value::Null, |object| &object["metadata"]["labels"])
}

/// The variables of every expression. Of `request` only what [`Review::known`] gives, so that what it lacks is refused with the policy.
pub(super) fn declared() -> Vec<(String, Shape)> {
    let texts = |names: &[&'static str]| Shape::record(names.iter().map(|name| (*name, Shape::String)));
    let (kind, resource) = (
        texts(&["group", "version", "kind"]),
        texts(&["group", "version", "resource"]),
    );
    let user = Shape::record([
        ("username", Shape::String),
        ("uid", Shape::String),
        ("groups", Shape::list(Shape::String)),
        ("extra", Shape::map(Shape::list(Shape::String))),
    ]);
    let request = Shape::record([
        ("kind", kind.clone()),
        ("resource", resource.clone()),
        ("subResource", Shape::String),
        ("requestKind", kind),
        ("requestResource", resource),
        ("requestSubResource", Shape::String),
        ("name", Shape::String),
        ("namespace", Shape::String),
        ("operation", Shape::String),
        ("userInfo", user),
        ("dryRun", Shape::Bool),
    ]);
    let namespace = Shape::record(["metadata", "spec", "status"].map(|member| (member, Shape::Any)));
    [
        ("object", Shape::Any),
        ("oldObject", Shape::Any),
        ("request", request),
        ("namespaceObject", namespace),
    ]
    .map(|(name, shape)| (name.to_owned(), shape))
    .into()
}
