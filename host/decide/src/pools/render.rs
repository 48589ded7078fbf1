//! The workload of one pool: everything that the template says, and what follows from the pool. Must not look at what is there.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Toleration;
use kube::Resource as _;
use serde_json::{Map, Value, json};
use stagegate_api::Digest;
use stagegate_api::workloads::{
    APPLIED_DIGEST, NODE_POOL_OF_NODE, POOL_NAME, REF_NODE_POOL, REVISION_HASH, REVISION_NUMBER, TemplateType,
    WorkloadView, YurtAppDaemon,
};

use super::facts::Pool;
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

/// What all workloads of one revision have in common.
#[derive(Debug, PartialEq)]
pub(super) struct Common {
    kind: TemplateType,
    pub revision: String,
    /// Without a name, a pool and tolerations.
    object: Value,
    /// Of the object.
    digest: Digest,
    /// The same for a comparison with what is there.
    pub view: WorkloadView,
    /// Of the template.
    tolerations: Vec<Toleration>,
}

/// A workload as it is to be, without a version.
#[derive(Clone, Debug)]
pub(super) struct Rendered {
    pub common: Arc<Common>,
    name: String,
    pub pool: String,
    pub tolerations: Vec<Toleration>,
    /// Of all that it is to be.
    pub digest: Digest,
    /// Its name is the one that a workload gets here, not one that another controller gave it.
    pub has_our_name: bool,
}

/// A revision, and the template that it records.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub name: &'a str,
    /// As in [`REVISION_NUMBER`]; `None`: another controller made the workload.
    pub number: Option<i64>,
    pub template: &'a Map<String, Value>,
}

impl Common {
    /// `None`: the template is no template of its kind.
    pub fn of(daemon: &YurtAppDaemon, kind: TemplateType, revision: Source<'_>) -> Option<Self> {
        let template = revision.template;
        let mut spec = without_nulls(template.get("spec")?);
        let mut selector = daemon.spec.selector.clone();
        selector.match_labels.get_or_insert_default();
        spec.as_object_mut()?.insert("selector".to_owned(), json!(selector));
        let pods = member(spec.as_object_mut()?, "template")?;
        let labels = member(member(pods, "metadata")?, "labels")?;
        labels.remove(POOL_NAME);
        labels.insert(REVISION_HASH.to_owned(), json!(revision.name));
        let pod = member(pods, "spec")?;
        let tolerations = pod.remove("tolerations").unwrap_or_else(|| json!([]));
        let tolerations: Vec<Toleration> = serde_json::from_value(tolerations).ok()?;
        member(pod, "nodeSelector")?.remove(NODE_POOL_OF_NODE);
        let mut labels = text_map(template, "labels");
        let of_selector = daemon.spec.selector.match_labels.iter().flatten();
        labels.extend(of_selector.map(|(key, value)| (key.clone(), json!(value))));
        labels.remove(POOL_NAME);
        labels.insert(REVISION_HASH.to_owned(), json!(revision.name));
        let mut annotations = text_map(template, "annotations");
        annotations.retain(|key, _| key != REF_NODE_POOL && key != APPLIED_DIGEST);
        if let Some(number) = revision.number {
            annotations.insert(REVISION_NUMBER.to_owned(), json!(number.to_string()));
        }
        let object = json!({
            "apiVersion": "apps/v1", "kind": kind.kind(), "spec": spec,
            "metadata": {
                "namespace": daemon.metadata.namespace, "labels": labels, "annotations": annotations,
                "ownerReferences": [daemon.controller_owner_ref(&())?],
            },
        });
        Some(Self {
            kind,
            revision: revision.name.to_owned(),
            digest: Digest::of(&object),
            view: serde_json::from_value(object.clone()).ok()?,
            object,
            tolerations,
        })
    }

    /// The workload of this pool under this name.
    pub fn in_pool(self: &Arc<Self>, name: &str, (pool, of): (&str, &Pool), our_name: &str) -> Rendered {
        let mut tolerations = self.tolerations.clone();
        tolerations.extend(taints::missing(&tolerations, &of.taints));
        Rendered {
            digest: Digest::of(&(&self.digest, name, pool, &tolerations)),
            common: self.clone(),
            name: name.to_owned(),
            pool: pool.to_owned(),
            tolerations,
            has_our_name: name == our_name,
        }
    }
}

impl Rendered {
    pub fn kind(&self) -> TemplateType {
        self.common.kind
    }

    /// All of it. `None`: never, as its members are where [`Common::of`] has put them.
    pub fn object(&self) -> Option<Value> {
        let mut object = self.common.object.clone();
        let pool = || json!(self.pool);
        let metadata = member(object.as_object_mut()?, "metadata")?;
        metadata.insert("name".to_owned(), json!(self.name));
        member(metadata, "labels")?.insert(POOL_NAME.to_owned(), pool());
        let annotations = member(metadata, "annotations")?;
        annotations.insert(REF_NODE_POOL.to_owned(), pool());
        annotations.insert(APPLIED_DIGEST.to_owned(), json!(self.digest));
        let spec = member(object.as_object_mut()?, "spec")?;
        let labels = member(member(spec, "selector")?, "matchLabels")?;
        labels.insert(POOL_NAME.to_owned(), pool());
        let pods = member(spec, "template")?;
        member(member(pods, "metadata")?, "labels")?.insert(POOL_NAME.to_owned(), pool());
        let pod = member(pods, "spec")?;
        member(pod, "nodeSelector")?.insert(NODE_POOL_OF_NODE.to_owned(), pool());
        // An empty list, too: what is not applied would not be put back.
        pod.insert("tolerations".to_owned(), json!(self.tolerations));
        Some(object)
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
