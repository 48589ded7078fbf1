//! Schema, defaults and rules, judged by an API server in this process: exactly what `kubectl apply` would be told.

use anyhow::Context as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube::api::{DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind, Status};
use kube::{Client, Resource as _};
use serde_json::Value;
use stagegate_api::MAX_POLICY_AND_STAGE_NAME;
use stagegate_clock::TokioClock;
use stagegate_embedded::Server;
use stagegate_evaluate::meant;

use super::finding::Finding;
use super::kinds::Kinds;
use super::policy::{STAGES, items};
use crate::commands::{Failure, Result};
use crate::manifests::Manifest;

/// What a server says where what is wrong with an object's shape keeps its rules from being asked.
const NOT_ALL_CHECKED: &str = "some validation rules were not checked";

/// How the message of the rule begins by which a policy's name and a stage's must fit into one label value.
const NAMES_TOO_LONG: &str = "spec.stages: metadata.name and a stage's name together";

/// The same of the rule by which no status is returned into objects that are updated stage by stage.
const STATUSES_WANTED: &str = "spec.downsync: with updates: Staged no clause may set";

/// The findings of all manifests, each judged alone, and the kinds that the server knows.
pub fn findings(manifests: &[Manifest]) -> Result<(Vec<Finding>, Kinds)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime
        .context("starting the validating API server")
        .map_err(Failure::Environment)?;
    runtime.block_on(async {
        let server = Server::new(TokioClock::shared());
        let definitions = stagegate_api::crd::all_for_playground();
        server
            .install_crds(definitions)
            .context("loading the definitions")
            .map_err(Failure::Environment)?;
        let client = server.client();
        let mut findings = Vec::new();
        for manifest in manifests {
            findings.extend(judge(&client, manifest).await?);
        }
        let kinds = Kinds::of(&client).await.map_err(Failure::Environment)?;
        Ok((findings, kinds))
    })
}

async fn judge(client: &Client, manifest: &Manifest) -> Result<Vec<Finding>> {
    if manifest.name().is_empty() {
        return Ok(vec![Finding::error(
            manifest,
            manifest.place("/metadata"),
            "schema",
            "metadata.name is missing",
        )]);
    }
    let Some((resource, scope)) = resource(manifest) else {
        let message = format!("there is no {} in {}", manifest.kind(), manifest.api_version());
        return Ok(vec![Finding::error(
            manifest,
            manifest.place("/apiVersion"),
            "schema",
            message,
        )]);
    };
    // Unknown fields hide what else is wrong, so they are asked for alone.
    let mut findings = Vec::new();
    for validation in ["Strict", "Ignore"] {
        let request = creation((&resource, scope), manifest, validation).map_err(Failure::Environment)?;
        match client.request::<DynamicObject>(request).await {
            Ok(_) => break,
            Err(kube::Error::Api(status)) if status.code == 400 => findings.extend(unknown_fields(manifest, &status)),
            Err(kube::Error::Api(status)) => {
                findings.extend(causes(manifest, &status));
                break;
            }
            Err(error) => {
                let error = anyhow::Error::new(error).context("asking the validating API server");
                return Err(Failure::Environment(error));
            }
        }
    }
    Ok(findings)
}

/// Whether objects of a kind have a namespace.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Cluster,
    Namespaced,
}

/// A namespace that every server has. What a manifest says of its own is left to the cluster, which may have it or not.
const ANY_NAMESPACE: &str = "default";

/// A dry run of a creation. Not an apply, which refuses unknown fields whatever the validation.
fn creation(
    (resource, scope): (&ApiResource, Scope),
    manifest: &Manifest,
    validation: &str,
) -> anyhow::Result<http::Request<Vec<u8>>> {
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let mut object = manifest.value.clone();
    let namespace = (scope == Scope::Namespaced).then_some(ANY_NAMESPACE);
    if let (Some(namespace), Some(metadata)) = (namespace, object.get_mut("metadata")) {
        metadata["namespace"] = namespace.into();
    }
    let body = serde_json::to_vec(&object).context("writing an object as JSON")?;
    let url = DynamicObject::url_path(resource, namespace);
    let mut request = kube::core::Request::new(url)
        .create(&params, body)
        .context("building a request")?;
    *request.uri_mut() = format!("{}&fieldValidation={validation}", request.uri())
        .parse()
        .context("building a request")?;
    Ok(request)
}

fn resource(manifest: &Manifest) -> Option<(ApiResource, Scope)> {
    let (group, version) = manifest.api_version().split_once('/')?;
    let kind = GroupVersionKind::gvk(group, version, manifest.kind());
    let served = definition(manifest)?;
    let scope = match served.spec.scope.as_str() {
        "Namespaced" => Scope::Namespaced,
        _ => Scope::Cluster,
    };
    Some((
        ApiResource::from_gvk_with_plural(&kind, &served.spec.names.plural),
        scope,
    ))
}

/// The definition of the manifest's kind, if it serves the manifest's version.
fn definition(manifest: &Manifest) -> Option<CustomResourceDefinition> {
    let (group, version) = manifest.api_version().split_once('/')?;
    stagegate_api::crd::all_for_playground().into_iter().find(|crd| {
        crd.spec.group == group
            && crd.spec.names.kind == manifest.kind()
            && crd.spec.versions.iter().any(|served| served.name == version)
    })
}

/// The schema of the manifest's kind in its version.
fn schema_of(manifest: &Manifest) -> Option<JSONSchemaProps> {
    let (_, version) = manifest.api_version().split_once('/')?;
    let served = definition(manifest)?.spec.versions.into_iter();
    let mut of_version = served.filter(|served| served.name == version);
    of_version.find_map(|served| served.schema)?.open_api_v3_schema
}

/// The field beside the unknown one that was probably meant.
fn meant_field<'s>(mut schema: &'s JSONSchemaProps, field: &str) -> Option<&'s str> {
    let path = pointer(field);
    let (within, unknown) = path.rsplit_once('/')?;
    for step in within.split('/').skip(1) {
        schema = match (&schema.items, step.parse::<usize>()) {
            (Some(JSONSchemaPropsOrArray::Schema(element)), Ok(_)) => element,
            _ => schema.properties.as_ref()?.get(step)?,
        };
    }
    let known = schema.properties.as_ref()?;
    meant(unknown, known.keys().map(String::as_str))
}

/// `strict decoding error: unknown field "spec.stage", unknown field "spec.x"`: one finding for each.
fn unknown_fields(manifest: &Manifest, status: &Status) -> Vec<Finding> {
    let fields = status
        .message
        .split("unknown field \"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next());
    let schema = schema_of(manifest);
    let finding = |field: &str| {
        let place = manifest.place(&pointer(field));
        let finding = Finding::error(manifest, place, "schema", format!("unknown field {field:?}"));
        match schema.as_ref().and_then(|schema| meant_field(schema, field)) {
            Some(meant) => finding.advise(format!("did you mean {meant}?")),
            None => finding,
        }
    };
    let findings: Vec<Finding> = fields.map(finding).collect();
    match findings.is_empty() {
        true => vec![Finding::error(
            manifest,
            manifest.place(""),
            "schema",
            status.message.clone(),
        )],
        false => findings,
    }
}

fn causes(manifest: &Manifest, status: &Status) -> Vec<Finding> {
    let causes = status
        .details
        .as_ref()
        .map(|details| details.causes.as_slice())
        .unwrap_or_default();
    if causes.is_empty() {
        return vec![Finding::error(
            manifest,
            manifest.place(""),
            "schema",
            status.message.clone(),
        )];
    }
    causes
        .iter()
        // That there may be more to find once these are mended goes without saying.
        .filter(|cause| !cause.message.contains(NOT_ALL_CHECKED))
        .flat_map(|cause| {
            let of_rule = |rule: &str| cause.message.find(rule).map(|begin| &cause.message[begin..]);
            match (of_rule(NAMES_TOO_LONG), of_rule(STATUSES_WANTED)) {
                (Some(message), _) => names_too_long(manifest, message),
                (None, Some(message)) => statuses_wanted(manifest, message),
                (None, None) => vec![of_cause(manifest, &cause.field, &cause.message)],
            }
        })
        .collect()
}

/// The rule is about the whole policy; the mistake is in each field by which a clause wants a status.
fn statuses_wanted(manifest: &Manifest, message: &str) -> Vec<Finding> {
    const FIELDS: [&str; 2] = ["wantSingletonReportedState", "wantMultiWECReportedState"];
    let mut places: Vec<String> = Vec::new();
    for clause in items(manifest, "/spec/downsync") {
        let is_set = |field: &&str| clause.value.get(*field) == Some(&Value::Bool(true));
        let fields = FIELDS.into_iter().filter(is_set);
        places.extend(fields.map(|field| format!("{}/{field}", clause.pointer)));
    }
    if places.is_empty() {
        places = vec!["/spec/downsync".to_owned()];
    }
    let finding = |place: &String| Finding::error(manifest, manifest.place(place), "schema", message);
    places.iter().map(finding).collect()
}

/// The rule is about the whole policy; the mistake is in each name of a stage that does not fit beside the policy's, or in that alone
/// if no name would fit.
fn names_too_long(manifest: &Manifest, message: &str) -> Vec<Finding> {
    let room = MAX_POLICY_AND_STAGE_NAME.saturating_sub(manifest.name().len());
    let names = items(manifest, STAGES)
        .into_iter()
        .map(|stage| format!("{}/name", stage.pointer));
    let mut places: Vec<String> = names.filter(|name| manifest.text_at(name).len() > room).collect();
    if room == 0 || places.is_empty() {
        places = vec!["/metadata/name".to_owned()];
    }
    let finding = |place: &String| Finding::error(manifest, manifest.place(place), "schema", message);
    places.iter().map(finding).collect()
}

/// Messages of rules name their field themselves, and say `Invalid value: "object": ` before it, which tells nothing.
fn of_cause(manifest: &Manifest, field: &str, message: &str) -> Finding {
    let said = ["Invalid value: \"object\": ", "Invalid value: \"array\": "];
    let said = said
        .iter()
        .find_map(|prefix| message.strip_prefix(prefix))
        .unwrap_or(message);
    let named = said
        .split_once(": ")
        .map(|(named, _)| named)
        .filter(|named| named.starts_with("spec.") || *named == "metadata.name");
    // The root, as servers write it.
    let field = if field == "<nil>" { "" } else { field };
    let field = if field.is_empty() {
        named.unwrap_or_default()
    } else {
        field
    };
    let text = match field.is_empty() || named.is_some() {
        true => said.to_owned(),
        false => format!("{field}: {said}"),
    };
    Finding::error(manifest, manifest.place(&pointer(field)), "schema", text)
}

/// A field path as servers write it (`spec.stages[0].name`, `metadata.labels[a.b/c]`) as a JSON pointer.
pub fn pointer(field: &str) -> String {
    let mut pointer = String::new();
    let mut rest = field;
    while !rest.is_empty() {
        let (step, tail) = match rest.strip_prefix('[') {
            Some(inside) => inside.split_once(']').unwrap_or((inside, "")),
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        pointer.push('/');
        pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
        rest = tail.strip_prefix('.').unwrap_or(tail);
    }
    pointer
}

#[cfg(test)]
mod tests {
    use super::pointer;

    #[test]
    fn field_paths_become_json_pointers() {
        assert_eq!(pointer("spec.stages[0].name"), "/spec/stages/0/name");
        assert_eq!(pointer("metadata.labels[a.b/c]"), "/metadata/labels/a.b~1c");
        assert_eq!(pointer(""), "");
        assert_eq!(pointer("spec.stages[1]"), "/spec/stages/1");
    }
}
