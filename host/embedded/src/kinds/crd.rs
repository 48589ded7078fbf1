//! From a CustomResourceDefinition to the kinds it defines, and the status an API server gives it. Nothing is
//! registered here.

use std::sync::Arc;

use serde_json::{Value, json};

use super::columns::{Column, Source};
use super::kind::{Body, Document, Kind, ResourceId, Scale, SharedKind};
use crate::cause::Cause;
use crate::schema;

/// Keeps a definition until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The kinds of all served versions, or everything that is wrong with the definition.
pub fn kinds(definition: &Value) -> Result<Vec<SharedKind>, Vec<Cause>> {
    let mut causes = Vec::new();
    let names = Names::read(definition, &mut causes);
    let versions = definition
        .pointer("/spec/versions")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &json!([]), why));
    }
    let mut kinds = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{index}]");
        match kind(&names, version, &path) {
            Ok(kind) if version["served"] != false => kinds.push(Arc::new(kind)),
            Ok(_) => {}
            Err(wrong) => causes.extend(wrong),
        }
    }
    if causes.is_empty() { Ok(kinds) } else { Err(causes) }
}

/// The resource that a CustomResourceDefinition defines.
pub fn defined_by(definition: &Value) -> ResourceId {
    let text = |path: &str| {
        definition
            .pointer(path)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    ResourceId {
        group: text("/spec/group"),
        plural: text("/spec/names/plural"),
    }
}

struct Names {
    group: String,
    plural: String,
    singular: String,
    kind: String,
    list_kind: String,
    short_names: Vec<String>,
    categories: Vec<String>,
    namespaced: bool,
}

impl Names {
    fn read(definition: &Value, causes: &mut Vec<Cause>) -> Names {
        let spec = &definition["spec"];
        let mut required = |path: &str| match spec.pointer(path).and_then(Value::as_str) {
            Some(text) if !text.is_empty() => text.to_owned(),
            _ => {
                causes.push(Cause::required(format!("spec{}", path.replace('/', ".")), ""));
                String::new()
            }
        };
        let (group, plural, kind) = (required("/group"), required("/names/plural"), required("/names/kind"));
        let scope = required("/scope");
        if !matches!(scope.as_str(), "Namespaced" | "Cluster" | "") {
            let shown = Value::from(scope.as_str()).to_string();
            causes.push(Cause::not_supported("spec.scope", &shown, &["Cluster", "Namespaced"]));
        }
        let name = definition
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if name != format!("{plural}.{group}") {
            let why = "must be spec.names.plural+\".\"+spec.group";
            causes.push(Cause::invalid("metadata.name", &Value::from(name), why));
        }
        let optional = |name: &str| {
            spec["names"][name]
                .as_str()
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        let list = |name: &str| {
            let items = spec["names"][name].as_array().into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Names {
            singular: optional("singular").unwrap_or_else(|| kind.to_lowercase()),
            list_kind: optional("listKind").unwrap_or_else(|| format!("{kind}List")),
            short_names: list("shortNames"),
            categories: list("categories"),
            namespaced: scope == "Namespaced",
            group,
            plural,
            kind,
        }
    }
}

fn kind(names: &Names, version: &Value, path: &str) -> Result<Kind, Vec<Cause>> {
    let Some(document) = version
        .pointer("/schema/openAPIV3Schema")
        .filter(|schema| schema.is_object())
    else {
        return Err(vec![Cause::required(format!("{path}.schema.openAPIV3Schema"), "")]);
    };
    let schema = schema::compile(document, &format!("{path}.schema.openAPIV3Schema"))?;
    let text = |json: &Value, name: &str| json[name].as_str().unwrap_or_default().to_owned();
    let mut columns: Vec<Column> = version["additionalPrinterColumns"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|column| Column {
            name: text(column, "name"),
            type_: text(column, "type"),
            format: text(column, "format"),
            description: match text(column, "description") {
                none if none.is_empty() => {
                    let path = text(column, "jsonPath");
                    format!("Custom resource definition column (in JSONPath format): {path}")
                }
                given => given,
            },
            priority: column["priority"].as_i64().unwrap_or(0),
            source: Source::Path(text(column, "jsonPath")),
        })
        .collect();
    if columns.is_empty() {
        columns.push(Column::new("Age", "date", ".metadata.creationTimestamp"));
    }
    let selectable = version["selectableFields"].as_array().into_iter().flatten();
    Ok(Kind {
        group: names.group.clone(),
        version: text(version, "name"),
        plural: names.plural.clone(),
        singular: names.singular.clone(),
        kind: names.kind.clone(),
        list_kind: names.list_kind.clone(),
        short_names: names.short_names.clone(),
        categories: names.categories.clone(),
        namespaced: names.namespaced,
        generation: true,
        status: version
            .pointer("/subresources/status")
            .is_some_and(|status| !status.is_null()),
        scale: scale(version),
        conditional_put: true,
        put_creates: false,
        body: Body::Structural(Box::new(schema)),
        columns,
        selectable: selectable
            .map(|field| text(field, "jsonPath").trim_start_matches('.').to_owned())
            .collect(),
        stored_as: ResourceId {
            group: names.group.clone(),
            plural: names.plural.clone(),
        },
        document: Document::Given(document.clone()),
    })
}

fn scale(version: &Value) -> Option<Scale> {
    let paths = version
        .pointer("/subresources/scale")
        .filter(|scale| scale.is_object())?;
    let path = |name: &str| paths[name].as_str().map(|path| path.trim_start_matches('.').to_owned());
    Some(Scale {
        wanted: path("specReplicasPath")?,
        present: path("statusReplicasPath")?,
        selector: path("labelSelectorPath"),
    })
}

/// Sets the status of an accepted definition: established at once, since this server has nothing to wait for.
pub fn establish(definition: &mut Value, now: &str) {
    let names = definition["spec"]["names"].clone();
    let stored: Vec<Value> = definition["spec"]["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|version| version["storage"] == true)
        .map(|version| version["name"].clone())
        .collect();
    let condition = |type_: &str, reason: &str, message: &str| json!({"type": type_, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now});
    let since = definition
        .pointer("/status/conditions")
        .filter(|old| old.as_array().is_some_and(|c| !c.is_empty()));
    let conditions = since.cloned().unwrap_or_else(|| {
        json!([
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition(
                "Established",
                "InitialNamesAccepted",
                "the initial names have been accepted"
            ),
        ])
    });
    definition["status"] = json!({"acceptedNames": names, "storedVersions": stored, "conditions": conditions});
}

/// What an edit changed that objects rest on.
pub fn immutable(definition: &Value, old: &Value) -> Vec<Cause> {
    let fixed = ["/spec/scope", "/spec/names/kind"];
    let changed = fixed.into_iter().filter_map(|at| {
        let now = definition.pointer(at)?;
        let path = at.trim_start_matches('/').replace('/', ".");
        (old.pointer(at) != Some(now)).then(|| Cause::immutable(path, now))
    });
    changed.collect()
}

/// Fills in the names that a definition may leave out.
pub fn fill_defaults(definition: &mut Value) {
    let Some(names) = definition.pointer_mut("/spec/names").and_then(Value::as_object_mut) else {
        return;
    };
    let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    names
        .entry("singular")
        .or_insert_with(|| Value::from(kind.to_lowercase()));
    names
        .entry("listKind")
        .or_insert_with(|| Value::from(format!("{kind}List")));
    if let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) {
        spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    }
}
