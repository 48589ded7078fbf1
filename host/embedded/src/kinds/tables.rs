//! The tables of built-in kinds, as Kubernetes' own printers make them (kubernetes/pkg/printers/internalversion). Must
//! not say anything about custom kinds: their columns stand in their definitions.

use super::cells::Shown;
use super::columns::{Column, Source};

/// Plural, column, what it shows; a column after `+` is for `-o wide`.
type Row = (&'static str, &'static str, Shown);

const CREATED: Shown = Shown::Since(&[".metadata.creationTimestamp"]);
const CONTAINERS: Shown = Shown::OrNone(".spec.template.spec.containers[*].name");
const IMAGES: Shown = Shown::OrNone(".spec.template.spec.containers[*].image");

// One column per line.
#[rustfmt::skip]
const TABLES: &[Row] = &[
    ("namespaces", "Status", Shown::Text(".status.phase")),
    ("namespaces", "Age", CREATED),
    ("configmaps", "Data", Shown::Entries(&[".data", ".binaryData"])),
    ("configmaps", "Age", CREATED),
    ("secrets", "Type", Shown::Text(".type")),
    ("secrets", "Data", Shown::Entries(&[".data"])),
    ("secrets", "Age", CREATED),
    ("serviceaccounts", "Secrets", Shown::Entries(&[".secrets"])),
    ("serviceaccounts", "Age", CREATED),
    ("services", "Type", Shown::Text(".spec.type")),
    ("services", "Cluster-IP", Shown::OrNone(".spec.clusterIP")),
    ("services", "External-IP", Shown::OrNone(".spec.externalIPs[*]")),
    ("services", "Port(s)", Shown::Ports),
    ("services", "Age", CREATED),
    ("services", "+Selector", Shown::Selector(".spec.selector")),
    ("pods", "Ready", Shown::Ratio(".status.containerStatuses[?(@.ready==true)]", ".spec.containers[*]")),
    ("pods", "Status", Shown::Text(".status.phase")),
    ("pods", "Restarts", Shown::Restarts),
    ("pods", "Age", CREATED),
    ("pods", "+IP", Shown::OrNone(".status.podIP")),
    ("pods", "+Node", Shown::OrNone(".spec.nodeName")),
    ("events", "Last Seen", Shown::Since(&[".series.lastObservedTime", ".lastTimestamp", ".eventTime", ".firstTimestamp"])),
    ("events", "Type", Shown::Text(".type")),
    ("events", "Reason", Shown::Text(".reason")),
    ("events", "Object", Shown::Regarding),
    ("events", "+Subobject", Shown::Text(".involvedObject.fieldPath")),
    ("events", "+Source", Shown::Text(".source.component")),
    ("events", "Message", Shown::Text(".message")),
    ("events", "+First Seen", Shown::Since(&[".firstTimestamp", ".eventTime"])),
    ("events", "+Count", Shown::Number(".count")),
    ("events", "+Name", Shown::Text(".metadata.name")),
    ("deployments", "Ready", Shown::Ratio(".status.readyReplicas", ".spec.replicas")),
    ("deployments", "Up-to-date", Shown::Number(".status.updatedReplicas")),
    ("deployments", "Available", Shown::Number(".status.availableReplicas")),
    ("deployments", "Age", CREATED),
    ("deployments", "+Containers", CONTAINERS),
    ("deployments", "+Images", IMAGES),
    ("deployments", "+Selector", Shown::Selector(".spec.selector")),
    ("statefulsets", "Ready", Shown::Ratio(".status.readyReplicas", ".spec.replicas")),
    ("statefulsets", "Age", CREATED),
    ("statefulsets", "+Containers", CONTAINERS),
    ("statefulsets", "+Images", IMAGES),
    ("replicasets", "Desired", Shown::Number(".spec.replicas")),
    ("replicasets", "Current", Shown::Number(".status.replicas")),
    ("replicasets", "Ready", Shown::Number(".status.readyReplicas")),
    ("replicasets", "Age", CREATED),
    ("replicasets", "+Containers", CONTAINERS),
    ("replicasets", "+Images", IMAGES),
    ("replicasets", "+Selector", Shown::Selector(".spec.selector")),
    ("daemonsets", "Desired", Shown::Number(".status.desiredNumberScheduled")),
    ("daemonsets", "Current", Shown::Number(".status.currentNumberScheduled")),
    ("daemonsets", "Ready", Shown::Number(".status.numberReady")),
    ("daemonsets", "Up-to-date", Shown::Number(".status.updatedNumberScheduled")),
    ("daemonsets", "Available", Shown::Number(".status.numberAvailable")),
    ("daemonsets", "Node Selector", Shown::Selector(".spec.template.spec.nodeSelector")),
    ("daemonsets", "Age", CREATED),
    ("daemonsets", "+Containers", CONTAINERS),
    ("daemonsets", "+Images", IMAGES),
    ("daemonsets", "+Selector", Shown::Selector(".spec.selector")),
    ("jobs", "Completions", Shown::Ratio(".status.succeeded", ".spec.completions")),
    ("jobs", "Age", CREATED),
    ("cronjobs", "Schedule", Shown::Text(".spec.schedule")),
    ("cronjobs", "Timezone", Shown::OrNone(".spec.timeZone")),
    ("cronjobs", "Age", CREATED),
    ("leases", "Holder", Shown::Text(".spec.holderIdentity")),
    ("leases", "Age", CREATED),
    ("ingresses", "Class", Shown::OrNone(".spec.ingressClassName")),
    ("ingresses", "Hosts", Shown::OrNone(".spec.rules[*].host")),
    ("ingresses", "Age", CREATED),
    ("validatingadmissionpolicies", "Validations", Shown::Number(".spec.validations[*]")),
    ("validatingadmissionpolicies", "ParamKind", Shown::OrUnset(".spec.paramKind.kind")),
    ("validatingadmissionpolicies", "Age", CREATED),
    ("validatingadmissionpolicybindings", "PolicyName", Shown::Text(".spec.policyName")),
    ("validatingadmissionpolicybindings", "ParamRef", Shown::OrUnset(".spec.paramRef.name")),
    ("validatingadmissionpolicybindings", "Age", CREATED),
    ("customresourcedefinitions", "Created At", Shown::Text(".metadata.creationTimestamp")),
];

/// The columns after the name; the age alone for a kind without a table of its own.
pub fn columns(plural: &str) -> Vec<Column> {
    let own: Vec<Column> = TABLES
        .iter()
        .filter(|(of, ..)| *of == plural)
        .map(|(_, name, shown)| column(name, *shown))
        .collect();
    if own.is_empty() {
        vec![column("Age", CREATED)]
    } else {
        own
    }
}

fn column(name: &str, shown: Shown) -> Column {
    let (name, priority) = match name.strip_prefix('+') {
        Some(name) => (name, 1),
        None => (name, 0),
    };
    let type_ = match shown {
        Shown::Number(_) => "integer",
        _ => "string",
    };
    Column {
        name: name.to_owned(),
        type_: type_.to_owned(),
        format: String::new(),
        description: String::new(),
        priority,
        source: Source::Shown(shown),
    }
}
