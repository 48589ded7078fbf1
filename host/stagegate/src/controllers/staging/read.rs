//! Reads from the API server itself, past the watches. Must not answer from a cache, nor pass on what a server that is
//! behind answers: what it gives is what the last round before a placement rests on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, ManagedFieldsEntry};
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, DynamicResourceScope, ObjectMeta as KubeMeta, PartialObjectMeta};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use stagegate_api::{CombinedStatusView, StagedBindingPolicy, StagedBindingPolicyStatus, label};
use stagegate_clock::SharedClock;
use stagegate_decide::names::{Digest, ObjectKey, ResourceVersion};
use stagegate_decide::staging::{ContentDigest, Decoded, ObjectFacts, ObjectMeta};
use stagegate_runtime::request::{RequestError, request};
use stagegate_runtime::store::{ObjectId, Store};
use stagegate_runtime::watch::{order, order_of};

use crate::controllers::kinds::{Guarded, decoded};
use crate::controllers::objects::api_resource;

/// Requests of one reading that are under way at once.
const CONCURRENCY: usize = 8;
/// Objects of one kind that are read one by one.
const SINGLY_MAX: usize = 4;
/// Label prefix of KubeStellar's status controller (its "singleton status" marks).
const STATUS_LABEL_PREFIX: &str = "managed-by.kubestellar.io/";
/// What `kubectl apply` keeps of the last manifest; KubeStellar's transport drops it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Field manager of KubeStellar's status controller.
const STATUS_MANAGER: &str = "Status";

/// Where one kind is read, and what its watch had told before: an answer that is older than that is none.
pub struct Reader<'a, K> {
    client: &'a Client,
    store: &'a Store<Guarded<K>>,
    seen: u64,
}

impl<'a, K> Reader<'a, K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    /// For requests that begin from now on.
    pub fn new(client: &'a Client, store: &'a Store<Guarded<K>>) -> Self {
        let seen = store.seen();
        Self { client, store, seen }
    }

    /// `None`: not there (any more).
    pub async fn one(&self, name: &str) -> Result<Option<Guarded<K>>, RequestError> {
        let api: Api<Guarded<K>> = Api::all(self.client.clone());
        let what = format!("get {} {name}", K::plural(&()));
        let found = get_opt(&api, what.clone(), name).await?;
        match found {
            Some(object) if self.store.knew_newer(&object, self.seen) => Err(RequestError::Older { what }),
            found => Ok(found),
        }
    }

    /// The version of the collection that a list is of.
    fn baseline(&self, list: &ListMeta, what: &str) -> Result<ResourceVersion, RequestError> {
        let baseline = list.resource_version.clone().unwrap_or_default();
        if order(&baseline).is_some_and(|listed| listed < self.seen) {
            return Err(RequestError::Older { what: what.to_owned() });
        }
        Ok(baseline.into())
    }

    /// All of the kind, and the version of their collection: the undecodable ones are left to the caller.
    pub async fn all(&self) -> Result<(Vec<Guarded<K>>, ResourceVersion), RequestError> {
        let what = format!("list {}", K::plural(&()));
        let api: Api<Guarded<K>> = Api::all(self.client.clone());
        let list = request(what.clone(), api.list(&ListParams::default())).await?;
        let version = self.baseline(&list.metadata, &what)?;
        Ok((list.items, version))
    }

    pub async fn each(&self, names: &BTreeSet<String>) -> Result<BTreeMap<String, Decoded<K>>, RequestError> {
        let reads = names.iter().cloned().map(|name| async move {
            let object = self.one(&name).await?;
            Ok((name, object))
        });
        let read: Vec<(String, Option<Guarded<K>>)> =
            stream::iter(reads).buffer_unordered(CONCURRENCY).try_collect().await?;
        let present = read
            .into_iter()
            .filter_map(|(name, object)| Some((name, decoded(&object?))));
        Ok(present.collect())
    }
}

/// The status alone, of a policy whose spec cannot be decoded. `None`: there is none that can.
pub async fn status(client: &Client, policy: &str) -> Result<Option<StagedBindingPolicyStatus>, RequestError> {
    let resource = ApiResource::erase::<StagedBindingPolicy>(&());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let object = get_opt(&api, format!("get stagedbindingpolicies {policy}"), policy).await?;
    let status = object.and_then(|mut object| object.data.get_mut("status").map(Value::take));
    Ok(status.and_then(|status| serde_json::from_value(status).ok()))
}

/// CombinedStatuses by `namespace/name`, and the version of the collection that they are of.
type Combined = (BTreeMap<String, Decoded<CombinedStatusView>>, ResourceVersion);

/// The CombinedStatuses of these BindingPolicies, at one version of their collection. Where few are `known` these alone are
/// read: what the server looks through for a label grows with the cluster. One that the watch has not reported is missing then,
/// until it has.
///
/// A list without a resourceVersion parameter is served from the newest state (Kubernetes API concepts, "resource
/// versions"), so nothing that it does not hold is older than the version it gives.
pub async fn combined(
    reader: &Reader<'_, CombinedStatusView>,
    placements: &BTreeSet<String>,
    known: BTreeSet<ObjectId>,
) -> Result<Combined, RequestError> {
    if known.is_empty() {
        let api: Api<PartialObjectMeta<CombinedStatusView>> = Api::all(reader.client.clone());
        let what = "list metadata of a combinedstatus";
        let list = request(what, api.list_metadata(&ListParams::default().limit(1))).await?;
        return Ok((BTreeMap::new(), reader.baseline(&list.metadata, what)?));
    }
    let names: Vec<&str> = placements.iter().map(String::as_str).collect();
    let labelled = ListParams::default().labels(&format!("{} in ({})", label::BINDING_POLICY, names.join(",")));
    if known.len() <= SINGLY_MAX
        && let Some(combined) = combined_singly(reader, known, &labelled).await?
    {
        return Ok(combined);
    }
    let (items, baseline) = list_combined(reader, Api::all(reader.client.clone()), &labelled).await?;
    Ok((by_id(&items), baseline))
}

/// `None`: one of them was written between two of the lists, so that together they are of no version.
async fn combined_singly(
    reader: &Reader<'_, CombinedStatusView>,
    known: BTreeSet<ObjectId>,
    labelled: &ListParams,
) -> Result<Option<Combined>, RequestError> {
    let lists = known.into_iter().map(|id| {
        let namespace = id.namespace.unwrap_or_default();
        let api = Api::namespaced(reader.client.clone(), &namespace);
        let named = labelled.clone().fields(&format!("metadata.name={}", id.name));
        async move { list_combined(reader, api, &named).await }
    });
    let lists: Vec<(Vec<Guarded<CombinedStatusView>>, ResourceVersion)> =
        stream::iter(lists).buffer_unordered(CONCURRENCY).try_collect().await?;
    let oldest = lists.iter().min_by_key(|(_, version)| order(version.as_str()));
    let Some(oldest) = oldest.map(|(_, version)| version.clone()) else {
        return Ok(None);
    };
    // What is no newer than the oldest list was the same in it.
    let was_there = |item: &Guarded<CombinedStatusView>| {
        order_of(item)
            .zip(order(oldest.as_str()))
            .is_some_and(|(item, oldest)| item <= oldest)
    };
    let items: Vec<_> = lists.into_iter().flat_map(|(items, _)| items).collect();
    Ok(items.iter().all(was_there).then(|| (by_id(&items), oldest)))
}

async fn list_combined(
    reader: &Reader<'_, CombinedStatusView>,
    api: Api<Guarded<CombinedStatusView>>,
    params: &ListParams,
) -> Result<(Vec<Guarded<CombinedStatusView>>, ResourceVersion), RequestError> {
    let what = "list combinedstatuses";
    let list = request(what, api.list(params)).await?;
    let version = reader.baseline(&list.metadata, what)?;
    Ok((list.items, version))
}

fn by_id(items: &[Guarded<CombinedStatusView>]) -> BTreeMap<String, Decoded<CombinedStatusView>> {
    let items = items
        .iter()
        .map(|item| (ObjectId::of(item.meta()).to_string(), decoded(item)));
    items.collect()
}

/// One object to read: the version that its Binding names it with, and the resourceVersion that it names.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub key: ObjectKey,
    pub version: String,
    pub resource_version: ResourceVersion,
    /// Whether a digest of all that travels to clusters is needed, not the metadata alone.
    pub is_whole: bool,
}

/// A read of each. What an object holds is digested at once and kept nowhere.
pub async fn objects(
    (client, clock): (&Client, &SharedClock),
    wanted: Vec<Wanted>,
) -> Result<Vec<(ObjectKey, ObjectFacts)>, RequestError> {
    let reads = wanted.into_iter().map(|wanted| object((client, clock), wanted));
    stream::iter(reads).buffer_unordered(CONCURRENCY).try_collect().await
}

async fn object(
    (client, clock): (&Client, &SharedClock),
    wanted: Wanted,
) -> Result<(ObjectKey, ObjectFacts), RequestError> {
    let asked_at = Some(clock.now());
    let Wanted {
        key,
        version,
        resource_version,
        is_whole,
    } = wanted;
    let resource = api_resource(&key.group, &version, &key.resource);
    let read = if is_whole {
        let api: Api<DynamicObject> = api_of(client, &key, &resource);
        let found = get_opt(&api, format!("get {key}"), &key.name).await;
        found.map(|found| found.map(whole_object))
    } else {
        let api: Api<PartialObjectMeta<DynamicObject>> = api_of(client, &key, &resource);
        let found = get_opt(&api, format!("get metadata of {key}"), &key.name).await;
        found.map(|found| found.map(|object| object_meta(object.metadata, None)))
    };
    let (found, refused) = match read {
        Ok(found) => (found, None),
        // Rights are granted by people: the policy's status has to say which one is missing.
        Err(error) if error.is_forbidden() => (None, Some(error.chain())),
        Err(error) => return Err(error),
    };
    let answer = ObjectFacts {
        asked_for: resource_version,
        asked_at,
        found,
        refused,
    };
    Ok((key, answer))
}

fn api_of<K>(client: &Client, key: &ObjectKey, resource: &ApiResource) -> Api<K>
where
    K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
{
    match &key.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    }
}

fn whole_object(object: DynamicObject) -> ObjectMeta {
    let content = content_digest(&object);
    object_meta(object.metadata, Some(content))
}

/// See [`ContentDigest`].
fn content_digest(object: &DynamicObject) -> ContentDigest {
    let mut body = object.data.clone();
    if let Some(members) = body.as_object_mut() {
        members.remove("status");
    }
    let labels = object.metadata.labels.iter().flatten();
    let labels: BTreeMap<_, _> = labels
        .filter(|(label, _)| !label.starts_with(STATUS_LABEL_PREFIX))
        .collect();
    let annotations = object.metadata.annotations.iter().flatten();
    let annotations: BTreeMap<_, _> = annotations.filter(|(name, _)| *name != LAST_APPLIED).collect();
    ContentDigest::of(&(labels, annotations), &body)
}

fn object_meta(metadata: KubeMeta, content_digest: Option<ContentDigest>) -> ObjectMeta {
    ObjectMeta {
        uid: metadata.uid.clone().unwrap_or_default().into(),
        resource_version: metadata.resource_version.clone().unwrap_or_default().into(),
        generation: metadata.generation,
        edited_at: edited_at(&metadata),
        made_at: metadata.creation_timestamp.as_ref().map(|time| time.0),
        metadata_digest: metadata_digest(metadata),
        content_digest,
    }
}

/// See [`ObjectMeta::edited_at`].
fn edited_at(metadata: &KubeMeta) -> Option<Timestamp> {
    let entries = metadata.managed_fields.iter().flatten();
    let times = entries
        .filter(|entry| is_editor(entry) && owns_content(entry))
        .map(|entry| entry.time.as_ref());
    // An entry without a time may be of any: then nobody knows.
    let times: Option<Vec<Timestamp>> = times.map(|time| time.map(|time| time.0)).collect();
    times?.into_iter().max()
}

fn is_editor(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() != Some(STATUS_MANAGER) && entry.subresource.as_deref() != Some("status")
}

/// A manager that owns nothing but metadata (labels, annotations) has not moved the generation.
fn owns_content(entry: &ManagedFieldsEntry) -> bool {
    let fields = entry.fields_v1.as_ref().and_then(|fields| fields.0.as_object());
    fields.is_none_or(|fields| fields.is_empty() || fields.keys().any(|field| field != "f:metadata"))
}

/// See [`ObjectMeta::metadata_digest`]: what stays the same while only statuses are written.
fn metadata_digest(mut metadata: KubeMeta) -> String {
    metadata.resource_version = None;
    metadata.generation = None;
    if let Some(labels) = &mut metadata.labels {
        labels.retain(|label, _| !label.starts_with(STATUS_LABEL_PREFIX));
    }
    if let Some(entries) = &mut metadata.managed_fields {
        entries.retain(is_editor);
    }
    let value = serde_json::to_value(&metadata).unwrap_or_else(|error| json!(error.to_string()));
    let without_empty = match value {
        // A label that was taken away again leaves an empty map behind.
        Value::Object(members) => members
            .into_iter()
            .filter(|(_, member)| *member != json!({}) && *member != json!([]))
            .collect(),
        other => other,
    };
    Digest::of(&without_empty).to_string()
}

/// 404 is an answer.
async fn get_opt<K>(api: &Api<K>, what: String, name: &str) -> Result<Option<K>, RequestError>
where
    K: Clone + Debug + DeserializeOwned,
{
    match request(what, api.get(name)).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use kube::core::ObjectMeta as KubeMeta;
    use serde_json::json;

    use super::{Combined, ObjectId, Reader, Store, combined, edited_at, metadata_digest};

    /// From a server that lists `a` at version 100, `b` at 105, and both at 110; with how many requests. `b` is of `version`, and
    /// these are known.
    async fn read_of(known: &[&str], version: u32) -> (Combined, usize) {
        let asked = Arc::new(Mutex::new(0));
        let counted = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            *counted.lock().unwrap() += 1;
            let item = |name: &str, version: u32| json!({"metadata": {"name": name, "namespace": "n", "resourceVersion": version.to_string()}});
            let (a, b) = (item("a", 99), item("b", version));
            let query = request.uri().query().unwrap_or_default();
            let (at, items) = match query {
                _ if query.contains("metadata.name%3Da") => (100, vec![a]),
                _ if query.contains("metadata.name%3Db") => (105, vec![b]),
                _ => (110, vec![a, b]),
            };
            let list = json!({"metadata": {"resourceVersion": at.to_string()}, "items": items});
            async move { Ok::<_, Infallible>(Response::new(Body::from(list.to_string().into_bytes()))) }
        });
        let (client, store) = (Client::new(service, "default"), Store::default());
        let known = known.iter().map(|name| ObjectId {
            namespace: Some("n".to_owned()),
            name: (*name).to_owned(),
        });
        let read = combined(&Reader::new(&client, &store), &["p".to_owned()].into(), known.collect()).await;
        let asked = *asked.lock().unwrap();
        (read.unwrap(), asked)
    }

    #[tokio::test]
    async fn what_is_read_singly_is_of_one_version_or_read_as_a_whole() {
        let ((found, baseline), asked) = read_of(&["a", "b"], 100).await;
        assert_eq!((found.len(), baseline.as_str(), asked), (2, "100", 2));
        let ((found, baseline), asked) = read_of(&["a", "b"], 103).await;
        assert_eq!((found.len(), baseline.as_str(), asked), (2, "110", 3));
    }

    #[tokio::test]
    async fn many_are_read_with_one_request_and_of_none_only_the_version() {
        let ((found, baseline), asked) = read_of(&["a", "b", "c", "d", "e"], 100).await;
        assert_eq!((found.len(), baseline.as_str(), asked), (2, "110", 1));
        let ((found, baseline), asked) = read_of(&[], 100).await;
        assert_eq!((found.len(), baseline.as_str(), asked), (0, "110", 1));
    }

    fn metadata(change: impl FnOnce(&mut serde_json::Value)) -> KubeMeta {
        let mut value = json!({
            "name": "cm", "namespace": "default", "uid": "u", "resourceVersion": "1",
            "managedFields": [{"manager": "kubectl", "operation": "Update", "time": "2026-01-01T00:00:00Z"}],
        });
        change(&mut value);
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_status_write_leaves_the_mark_and_an_edit_moves_it() {
        let before = metadata_digest(metadata(|_| {}));
        let status_written = metadata(|value| {
            value["resourceVersion"] = json!("2");
            value["labels"] = json!({"managed-by.kubestellar.io/singletonstatus": "true"});
            let fields = value["managedFields"].as_array_mut().unwrap();
            fields.push(json!({"manager": "Status", "operation": "Update", "time": "2026-01-02T00:00:00Z"}));
            fields.push(json!({"manager": "kubelet", "operation": "Update", "subresource": "status"}));
        });
        assert_eq!(before, metadata_digest(status_written));
        let edited = metadata(|value| value["managedFields"][0]["time"] = json!("2026-01-02T00:00:00Z"));
        assert_ne!(before, metadata_digest(edited));
    }

    #[test]
    fn the_last_edit_is_the_newest_write_that_is_none_of_a_status() {
        let second = |second: &str| Some(format!("2026-01-{second}T00:00:00Z").parse().unwrap());
        let written = |entries: serde_json::Value| edited_at(&metadata(|value| value["managedFields"] = entries));
        let entry = |manager: &str, day: &str| json!({"manager": manager, "time": format!("2026-01-{day}T00:00:00Z")});
        assert_eq!(written(json!([entry("a", "02"), entry("b", "01")])), second("02"));
        assert_eq!(written(json!([entry("a", "01"), entry("Status", "03")])), second("01"));
        let mut status = entry("kubelet", "03");
        status["subresource"] = json!("status");
        assert_eq!(written(json!([entry("a", "01"), status])), second("01"));
        let mut scaled = entry("scaler", "03");
        scaled["subresource"] = json!("scale");
        assert_eq!(written(json!([entry("a", "01"), scaled])), second("03"));
        let owning = |manager: &str, day: &str, field: &str| {
            let mut owning = entry(manager, day);
            owning["fieldsV1"] = json!({"f:metadata": {}, field: {}});
            owning
        };
        assert_eq!(
            written(json!([owning("a", "01", "f:spec"), owning("b", "03", "f:metadata")])),
            second("01")
        );
        assert_eq!(
            written(json!([owning("a", "01", "f:spec"), owning("b", "03", "f:data")])),
            second("03")
        );
        assert_eq!(written(json!([entry("a", "01"), {"manager": "b"}])), None);
        assert_eq!(written(json!([])), None);
    }
}
