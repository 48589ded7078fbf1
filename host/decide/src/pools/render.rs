//! The workload of one pool: everything that the template says, and what follows from the pool. Must not look at what is there.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use kube::Resource as _;
use serde_json::{Map, Value, json};
use stagegate_api::Digest;
use stagegate_api::workloads::{
    APPLIED_DIGEST, NODE_POOL_OF_NODE, POOL_NAME, REF_NODE_POOL, REVISION_HASH, REVISION_NUMBER, TemplateType,
    WorkloadView, YurtAppDaemon,
};

use super::facts::Pool;
use super::spec::Checked;
use super::taints;

/// What an apply carries that must create its object. The API server gives no object this version, so one that is there already is a
/// conflict (kube-apiserver 1.34: 201, then 409).
pub const CREATE_VERSION: &str = "1";

/// Characters of the hash at the end of a workload's name.
const HASH_CHARS: usize = 5;

/// The name of a pool's workload: `<daemon>-<pool>-<hash>`, cut before the hash to what the kind allows. A StatefulSet needs room for what
/// the API server adds in the labels of its Pods.
///
/// ```
/// use stagegate_api::workloads::TemplateType;
/// use stagegate_decide::pools::child_name;
///
/// let name = child_name(TemplateType::Deployment, ("shop", "uid-1"), "hangzhou");
/// assert!(name.starts_with("shop-hangzhou-") && name.len() == "shop-hangzhou-".len() + 5);
/// assert_eq!(child_name(TemplateType::StatefulSet, ("shop", "uid-1"), &"p".repeat(63)).len(), 52);
/// ```
pub fn child_name(kind: TemplateType, (daemon, uid): (&str, &str), pool: &str) -> String {
    let chars_max = match kind {
        TemplateType::Deployment => 63,
        TemplateType::StatefulSet => 52,
    };
    let hash: String = Digest::of(&(uid, pool)).as_str().chars().take(HASH_CHARS).collect();
    let head = format!("{daemon}-{pool}").replace('.', "-");
    let head: String = head.chars().take(chars_max - HASH_CHARS - 1).collect();
    format!("{}-{hash}", head.trim_end_matches('-'))
}

/// A workload as it is to be, without a version.
#[derive(Clone, Debug)]
pub(super) struct Rendered {
    pub object: Value,
    pub digest: Digest,
    /// Of the object, for a comparison with what is there.
    pub view: WorkloadView,
}

/// What all workloads of a daemon have in common.
pub(super) struct Renderer<'a> {
    pub daemon: &'a YurtAppDaemon,
    pub checked: &'a Checked<'a>,
    /// The revision that they are made from.
    pub revision: Source<'a>,
}

/// A revision, and the template that it records.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub name: &'a str,
    /// As in [`REVISION_NUMBER`]; `None`: another controller made the workload.
    pub number: Option<i64>,
    pub template: &'a Map<String, Value>,
}

impl Renderer<'_> {
    /// The workload of this pool under this name. `None`: the template is no template of its kind.
    pub fn render(&self, name: &str, (pool, of): (&str, &Pool)) -> Option<Rendered> {
        let template = self.revision.template;
        let mut spec = without_nulls(template.get("spec")?);
        spec.as_object_mut()?.insert("selector".to_owned(), self.selector(pool));
        let ours = BTreeMap::from([(POOL_NAME, pool), (REVISION_HASH, self.revision.name)]);
        let pods = member(spec.as_object_mut()?, "template")?;
        extend(member(member(pods, "metadata")?, "labels")?, &ours);
        let pod = member(pods, "spec")?;
        let tolerations = pod.get("tolerations").cloned().unwrap_or_else(|| json!([]));
        let mut tolerations: Vec<Toleration> = serde_json::from_value(tolerations).ok()?;
        tolerations.extend(taints::missing(&tolerations, &of.taints));
        // An empty list, too: what is not applied would not be put back.
        pod.insert("tolerations".to_owned(), serde_json::to_value(tolerations).ok()?);
        extend(
            member(pod, "nodeSelector")?,
            &BTreeMap::from([(NODE_POOL_OF_NODE, pool)]),
        );
        let mut metadata = json!({
            "name": name,
            "namespace": self.daemon.metadata.namespace,
            "labels": text_map(template, "labels"),
            "annotations": text_map(template, "annotations"),
            "ownerReferences": [self.daemon.controller_owner_ref(&())?],
        });
        let labels = metadata["labels"].as_object_mut()?;
        for (key, value) in self.daemon.spec.selector.match_labels.iter().flatten() {
            labels.insert(key.clone(), json!(value));
        }
        extend(labels, &ours);
        let annotations = metadata["annotations"].as_object_mut()?;
        extend(annotations, &BTreeMap::from([(REF_NODE_POOL, pool)]));
        if let Some(number) = self.revision.number {
            annotations.insert(REVISION_NUMBER.to_owned(), json!(number.to_string()));
        }
        let mut object = json!({
            "apiVersion": "apps/v1", "kind": self.checked.kind.kind(), "metadata": metadata, "spec": spec,
        });
        let digest = Digest::of(&object);
        object["metadata"]["annotations"][APPLIED_DIGEST] = json!(digest);
        let view = serde_json::from_value(object.clone()).ok()?;
        Some(Rendered { object, digest, view })
    }

    /// The daemon's, with the pool, so that no two workloads have Pods in common.
    fn selector(&self, pool: &str) -> Value {
        let mut selector = self.daemon.spec.selector.clone();
        let labels = selector.match_labels.get_or_insert_default();
        labels.insert(POOL_NAME.to_owned(), pool.to_owned());
        json!(selector)
    }
}

/// The text members of a map in the template's metadata.
pub(super) fn text_map(template: &Map<String, Value>, name: &str) -> Map<String, Value> {
    let map = template.get("metadata").and_then(|metadata| metadata.get(name));
    let texts = map.and_then(Value::as_object).into_iter().flatten();
    texts
        .filter(|(_, value)| value.is_string())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn extend(map: &mut Map<String, Value>, with: &BTreeMap<&str, &str>) {
    for (key, value) in with {
        map.insert((*key).to_owned(), json!(value));
    }
}

/// The member of this name, which is made if there is none. `None`: it is no object.
fn member<'v>(of: &'v mut Map<String, Value>, name: &str) -> Option<&'v mut Map<String, Value>> {
    of.entry(name).or_insert_with(|| json!({})).as_object_mut()
}

/// A null in a template stands for nothing: Go's encoder writes one for an unset time.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), without_nulls(value)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(list) => list.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}
