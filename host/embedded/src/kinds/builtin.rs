//! The built-in kinds, as one table. Which of them count a generation and have a status subresource follows their
//! registry strategies in Kubernetes 1.34.

use std::sync::Arc;

use k8s_openapi::api;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::kind::{Body, Document, Kind, Publish, ResourceId, Scale, SharedKind};
use super::tables;

/// A built-in type: how it is decoded, and its published schema.
#[derive(Clone, Copy)]
struct Type {
    decode: fn(&Value) -> Result<Value, serde_json::Error>,
    schema: Publish,
}

const fn typed<T: Serialize + DeserializeOwned + JsonSchema>() -> Type {
    Type {
        decode: decode::<T>,
        schema: publish::<T>,
    }
}

fn decode<T: Serialize + DeserializeOwned>(body: &Value) -> Result<Value, serde_json::Error> {
    check_microseconds(body)?;
    serde_json::to_value(serde::Deserialize::deserialize(body).map(|decoded: T| decoded)?)
}

/// Where times stand that have six digits, no fewer and no more, after the second (`metav1.MicroTime`), in Leases and Events.
const WITH_MICROSECONDS: &[&str] = &[
    "/spec/acquireTime",
    "/spec/renewTime",
    "/eventTime",
    "/series/lastObservedTime",
];

/// A client that writes other times is refused by a real server, and must be here: the Lease would never be held.
fn check_microseconds(body: &Value) -> Result<(), serde_json::Error> {
    let times = WITH_MICROSECONDS.iter().filter_map(|at| body.pointer(at)?.as_str());
    for time in times {
        let digits = time
            .split_once('.')
            .map_or("", |(_, rest)| rest)
            .trim_end_matches(|c: char| !c.is_ascii_digit());
        let digits = digits.split(['+', '-']).next().unwrap_or_default();
        let (part, wanted) = match time.find('.').or_else(|| time.find('Z')) {
            Some(_) if digits.len() == 6 && digits.bytes().all(|byte| byte.is_ascii_digit()) => continue,
            Some(at) => (&time[at..], ".000000"),
            None => (time, "2006"),
        };
        let message = format!(
            "parsing time {time:?} as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse {part:?} as {wanted:?}"
        );
        return Err(serde::de::Error::custom(message));
    }
    Ok(())
}

fn publish<T: JsonSchema>(generator: &mut SchemaGenerator) -> String {
    generator.subschema_for::<T>();
    T::schema_name().into_owned()
}

/// Scope and subresource facts of a kind, as letters in the table below.
struct Traits {
    namespaced: bool,
    generation: bool,
    status: bool,
    scale: bool,
    conditional_put: bool,
    put_creates: bool,
}

/// `n` namespaced, `g` generation, `s` status subresource, `r` scale (replicas), `c` PUT needs a resourceVersion, `u`
/// PUT makes what is not there.
fn traits(letters: &str) -> Traits {
    let has = |letter| letters.contains(letter);
    Traits {
        namespaced: has('n'),
        generation: has('g'),
        status: has('s'),
        scale: has('r'),
        conditional_put: has('c'),
        put_creates: has('u'),
    }
}

/// Group/version, plural, kind, short names, traits, type.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    Type,
);

// One kind per line.
#[rustfmt::skip]
const KINDS: &[Row] = &[
    ("v1", "namespaces", "Namespace", "ns", "s", typed::<api::core::v1::Namespace>()),
    ("v1", "configmaps", "ConfigMap", "cm", "n", typed::<api::core::v1::ConfigMap>()),
    ("v1", "secrets", "Secret", "", "n", typed::<api::core::v1::Secret>()),
    ("v1", "services", "Service", "svc", "nsu", typed::<api::core::v1::Service>()),
    ("v1", "endpoints", "Endpoints", "ep", "nu", typed::<api::core::v1::Endpoints>()),
    ("v1", "serviceaccounts", "ServiceAccount", "sa", "n", typed::<api::core::v1::ServiceAccount>()),
    ("v1", "pods", "Pod", "po", "ngs", typed::<api::core::v1::Pod>()),
    ("v1", "events", "Event", "ev", "nu", typed::<api::core::v1::Event>()),
    ("v1", "nodes", "Node", "no", "s", typed::<api::core::v1::Node>()),
    ("v1", "persistentvolumes", "PersistentVolume", "pv", "s", typed::<api::core::v1::PersistentVolume>()),
    ("v1", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", "ns",
        typed::<api::core::v1::PersistentVolumeClaim>()),
    ("v1", "replicationcontrollers", "ReplicationController", "rc", "ngsr",
        typed::<api::core::v1::ReplicationController>()),
    ("v1", "resourcequotas", "ResourceQuota", "quota", "nsu", typed::<api::core::v1::ResourceQuota>()),
    ("v1", "limitranges", "LimitRange", "limits", "nu", typed::<api::core::v1::LimitRange>()),
    ("v1", "podtemplates", "PodTemplate", "", "ngu", typed::<api::core::v1::PodTemplate>()),
    ("apps/v1", "deployments", "Deployment", "deploy", "ngsr", typed::<api::apps::v1::Deployment>()),
    ("apps/v1", "statefulsets", "StatefulSet", "sts", "ngsr", typed::<api::apps::v1::StatefulSet>()),
    ("apps/v1", "daemonsets", "DaemonSet", "ds", "ngs", typed::<api::apps::v1::DaemonSet>()),
    ("apps/v1", "replicasets", "ReplicaSet", "rs", "ngsr", typed::<api::apps::v1::ReplicaSet>()),
    ("apps/v1", "controllerrevisions", "ControllerRevision", "", "n", typed::<api::apps::v1::ControllerRevision>()),
    ("batch/v1", "jobs", "Job", "", "ngs", typed::<api::batch::v1::Job>()),
    ("batch/v1", "cronjobs", "CronJob", "cj", "ngs", typed::<api::batch::v1::CronJob>()),
    ("autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa", "ns",
        typed::<api::autoscaling::v2::HorizontalPodAutoscaler>()),
    ("networking.k8s.io/v1", "ingresses", "Ingress", "ing", "ngs", typed::<api::networking::v1::Ingress>()),
    ("networking.k8s.io/v1", "ingressclasses", "IngressClass", "", "g", typed::<api::networking::v1::IngressClass>()),
    ("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", "netpol", "ng",
        typed::<api::networking::v1::NetworkPolicy>()),
    ("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", "ngsc",
        typed::<api::policy::v1::PodDisruptionBudget>()),
    ("coordination.k8s.io/v1", "leases", "Lease", "", "ncu", typed::<api::coordination::v1::Lease>()),
    ("discovery.k8s.io/v1", "endpointslices", "EndpointSlice", "", "ng", typed::<api::discovery::v1::EndpointSlice>()),
    ("events.k8s.io/v1", "events", "Event", "ev", "nu", typed::<api::events::v1::Event>()),
    ("storage.k8s.io/v1", "storageclasses", "StorageClass", "sc", "", typed::<api::storage::v1::StorageClass>()),
    ("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", "pc", "g",
        typed::<api::scheduling::v1::PriorityClass>()),
    ("rbac.authorization.k8s.io/v1", "roles", "Role", "", "nu", typed::<api::rbac::v1::Role>()),
    ("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding", "", "nu", typed::<api::rbac::v1::RoleBinding>()),
    ("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", "", "u", typed::<api::rbac::v1::ClusterRole>()),
    ("rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", "", "u",
        typed::<api::rbac::v1::ClusterRoleBinding>()),
    ("admissionregistration.k8s.io/v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", "", "gsc",
        typed::<api::admissionregistration::v1::ValidatingAdmissionPolicy>()),
    ("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", "", "gc",
        typed::<api::admissionregistration::v1::ValidatingAdmissionPolicyBinding>()),
    ("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", "", "g",
        typed::<api::admissionregistration::v1::ValidatingWebhookConfiguration>()),
    ("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", "", "g",
        typed::<api::admissionregistration::v1::MutatingWebhookConfiguration>()),
    ("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", "crd,crds", "gsc",
        typed::<CustomResourceDefinition>()),
    ("apiregistration.k8s.io/v1", "apiservices", "APIService", "", "sc", typed::<APIService>()),
];

/// Plural and the fields that selectors may name, comma separated.
const SELECTABLE: &[(&str, &str)] = &[
    (
        "events",
        "involvedObject.kind,involvedObject.namespace,involvedObject.name,involvedObject.uid,involvedObject.apiVersion,\
         involvedObject.resourceVersion,involvedObject.fieldPath,reason,reportingComponent,source,type",
    ),
    (
        "pods",
        "spec.nodeName,spec.restartPolicy,spec.schedulerName,spec.serviceAccountName,status.phase,status.podIP",
    ),
    ("secrets", "type"),
    ("namespaces", "status.phase"),
    ("jobs", "status.successful"),
    ("replicasets", "status.replicas"),
    ("nodes", "spec.unschedulable"),
];

/// All built-in kinds.
pub fn kinds() -> Vec<SharedKind> {
    KINDS.iter().map(|row| Arc::new(kind(row))).collect()
}

fn kind(&(group_version, plural, kind, short_names, letters, type_): &Row) -> Kind {
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    let Traits {
        namespaced,
        generation,
        status,
        scale,
        conditional_put,
        put_creates,
    } = traits(letters);
    let in_all = [
        "pods",
        "services",
        "deployments",
        "statefulsets",
        "daemonsets",
        "replicasets",
        "jobs",
        "cronjobs",
    ];
    let category = match group {
        _ if in_all.contains(&plural) => Some("all"),
        "admissionregistration.k8s.io" | "apiextensions.k8s.io" | "apiregistration.k8s.io" => Some("api-extensions"),
        _ => None,
    };
    let selectable = SELECTABLE
        .iter()
        .filter(|(of, _)| *of == plural)
        .flat_map(|(_, fields)| fields.split(','));
    let stored_group = if group == "events.k8s.io" { "" } else { group };
    Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        short_names: short_names
            .split(',')
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect(),
        categories: category.into_iter().map(str::to_owned).collect(),
        namespaced,
        generation,
        status,
        scale: scale.then(|| Scale {
            wanted: "spec.replicas".to_owned(),
            present: "status.replicas".to_owned(),
            selector: Some("spec.selector".to_owned()),
        }),
        conditional_put,
        put_creates,
        body: Body::Typed(type_.decode),
        columns: tables::columns(plural),
        selectable: selectable.map(str::to_owned).collect(),
        stored_as: ResourceId {
            group: stored_group.to_owned(),
            plural: plural.to_owned(),
        },
        document: Document::Published(type_.schema),
    }
}
