//! What clients ask before they know anything: health, version, groups and resources, in the plain and the aggregated
//! form.

use std::collections::BTreeMap;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::answers::{json_response, no_such_page};
use super::call::Call;
use super::openapi;
use super::target::Target;
use crate::kinds::{Kind, SharedKind};
use crate::refusal::Refusal;
use crate::server::Server;

/// The Kubernetes release whose behaviour this server follows.
const MINOR: &str = "34";

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Versions and their kinds, per group.
type Groups = BTreeMap<String, BTreeMap<String, Vec<SharedKind>>>;

pub(super) fn answer(server: &Server, target: &Target, call: &Call) -> Result<Response, Refusal> {
    let groups = groups(server);
    let aggregated = wants_aggregated(call);
    let body = match target {
        Target::Health => return Ok("ok".into_response()),
        Target::OldOpenApi => return Ok(openapi::empty_old_document()),
        Target::Version => json!({
            "major": "1", "minor": MINOR, "gitVersion": format!("v1.{MINOR}.0+stagegate"),
            "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "", "compiler": "", "platform": "",
        }),
        Target::CoreVersions if aggregated => return Ok(aggregated_response(&groups, |group| group.is_empty())),
        Target::Groups if aggregated => return Ok(aggregated_response(&groups, |group| !group.is_empty())),
        Target::CoreVersions => json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
        }),
        Target::Groups => {
            let listed: Vec<Value> = groups
                .iter()
                .filter(|(name, _)| !name.is_empty())
                .map(|(name, versions)| group(name, versions))
                .collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": listed})
        }
        Target::Group(name) => {
            let Some(versions) = groups.get(name) else {
                return Ok(no_such_page());
            };
            let mut found = group(name, versions);
            found["kind"] = json!("APIGroup");
            found["apiVersion"] = json!("v1");
            found
        }
        Target::GroupVersion(name, version) => {
            let kinds = groups
                .get(name)
                .and_then(|versions| versions.get(version))
                .ok_or_else(Refusal::no_such_path)?;
            resource_list(kinds)
        }
        Target::OpenApiIndex => openapi::index(groups.values().flat_map(|versions| versions.values())),
        Target::OpenApi(name, version) => match groups.get(name).and_then(|versions| versions.get(version)) {
            Some(kinds) => openapi::document(kinds),
            None => return Ok(http::StatusCode::NOT_FOUND.into_response()),
        },
        Target::Resource(_) => return Err(Refusal::no_such_path()),
    };
    Ok(json_response(200, body.to_string()))
}

fn wants_aggregated(call: &Call) -> bool {
    let first = call.header(header::ACCEPT).split(',').next().unwrap_or_default();
    first.contains("as=APIGroupDiscoveryList") && first.contains("v=v2") && !first.contains("v=v2beta1")
}

fn groups(server: &Server) -> Groups {
    let mut groups = Groups::new();
    for kind in server.state().kinds() {
        groups
            .entry(kind.group.clone())
            .or_default()
            .entry(kind.version.clone())
            .or_default()
            .push(kind.clone());
    }
    groups
}

fn group(name: &str, versions: &BTreeMap<String, Vec<SharedKind>>) -> Value {
    let listed: Vec<Value> = by_preference(versions)
        .into_iter()
        .map(|(version, _)| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    json!({"name": name, "versions": listed, "preferredVersion": listed.first()})
}

/// Stable versions before betas before alphas, higher numbers first.
fn by_preference(versions: &BTreeMap<String, Vec<SharedKind>>) -> Vec<(&String, &Vec<SharedKind>)> {
    let rank = |version: &str| {
        let stability = if version.contains("alpha") {
            2
        } else {
            i32::from(version.contains("beta"))
        };
        let digits: String = version.chars().skip(1).take_while(char::is_ascii_digit).collect();
        (stability, std::cmp::Reverse(digits.parse::<u32>().unwrap_or(0)))
    };
    let mut sorted: Vec<_> = versions.iter().collect();
    sorted.sort_by_key(|(version, _)| rank(version));
    sorted
}

/// In the order in which a real server registers them.
fn verbs(kind: &Kind) -> &'static [&'static str] {
    match kind {
        _ if kind.is_custom() => &[
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "create",
            "update",
            "watch",
        ],
        _ if kind.is_namespace() => &["create", "delete", "get", "list", "patch", "update", "watch"],
        _ => &[
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        ],
    }
}

/// Which version is stored, as `discovery.StorageVersionHash` of k8s.io/apiserver says it.
fn storage_version_hash(kind: &Kind) -> Value {
    let stored = format!("{}/{}/{}", kind.stored_as.group, kind.version, kind.kind);
    let digest: [u8; 32] = Sha256::digest(stored).into();
    serde_json::to_value(ByteString(digest[..8].to_vec())).unwrap_or_default()
}

fn with_names(mut resource: Value, kind: &Kind) -> Value {
    for (member, names) in [("shortNames", &kind.short_names), ("categories", &kind.categories)] {
        if !names.is_empty() {
            resource[member] = json!(names);
        }
    }
    resource
}

const STATUS_VERBS: &[&str] = &["get", "patch", "update"];

fn resource_list(kinds: &[SharedKind]) -> Value {
    let mut resources = Vec::new();
    for kind in kinds {
        let resource = json!({
            "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind,
            "verbs": verbs(kind), "storageVersionHash": storage_version_hash(kind),
        });
        resources.push(with_names(resource, kind));
        if kind.status {
            resources.push(json!({
                "name": format!("{}/status", kind.plural), "singularName": "", "namespaced": kind.namespaced,
                "kind": kind.kind, "verbs": STATUS_VERBS,
            }));
        }
        if kind.scale.is_some() {
            resources.push(json!({
                "name": format!("{}/scale", kind.plural), "singularName": "", "namespaced": kind.namespaced,
                "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": STATUS_VERBS,
            }));
        }
    }
    let group_version = kinds.first().map(|kind| kind.api_version()).unwrap_or_default();
    let mut list = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": resources});
    // The oldest group answers as it did before there was a version to name.
    if group_version != "v1" {
        list["apiVersion"] = json!("v1");
    }
    list
}

fn aggregated_response(groups: &Groups, wanted: impl Fn(&str) -> bool) -> Response {
    let items: Vec<Value> = groups
        .iter()
        .filter(|(name, _)| wanted(name))
        .map(|(name, versions)| {
            let versions: Vec<Value> = by_preference(versions)
                .into_iter()
                .map(|(version, kinds)| {
                    let resources: Vec<Value> = kinds.iter().map(|kind| aggregated_resource(kind)).collect();
                    json!({"version": version, "freshness": "Current", "resources": resources})
                })
                .collect();
            {
                let metadata = match name.as_str() {
                    "" => json!({}),
                    name => json!({"name": name}),
                };
                json!({"metadata": metadata, "versions": versions})
            }
        })
        .collect();
    let list = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    });
    let mut response = json_response(200, list.to_string());
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
    response
}

fn aggregated_resource(kind: &Kind) -> Value {
    // A built-in kind's is that of the list around it.
    let (group, version) = match kind.is_custom() {
        true => (kind.group.as_str(), kind.version.as_str()),
        false => ("", ""),
    };
    let response_kind = json!({"group": group, "version": version, "kind": kind.kind});
    let resource = json!({
        "resource": kind.plural, "singularResource": kind.singular, "verbs": verbs(kind), "responseKind": response_kind,
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
    });
    let mut resource = with_names(resource, kind);
    let mut subresources = Vec::new();
    if kind.status {
        subresources.push(json!({"subresource": "status", "responseKind": response_kind, "verbs": STATUS_VERBS}));
    }
    if kind.scale.is_some() {
        let scale = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
        subresources.push(json!({"subresource": "scale", "responseKind": scale, "verbs": STATUS_VERBS}));
    }
    if !subresources.is_empty() {
        resource["subresources"] = Value::Array(subresources);
    }
    resource
}
