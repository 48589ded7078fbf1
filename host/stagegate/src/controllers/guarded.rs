//! An object that decodes, or its metadata and why the rest does not: one that cannot be read must not look like one that is gone.
//!
//! As kube's `DeserializeGuard`, which makes a tree of every object first and copies that; here the text is read once.

use std::borrow::Cow;
use std::sync::Arc;

use kube::Resource;
use kube::core::ObjectMeta;
use lz4_flex::block::{compress_prepend_size, decompress_size_prepended};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use stagegate_api::CombinedStatusView;
use stagegate_runtime::store::Packing;

/// Shared by the store that watches it and the facts of decisions.
#[derive(Clone, Debug)]
pub struct Guarded<K>(pub Result<Arc<K>, Invalid>);

/// What is known of an object that does not decode.
#[derive(Clone, Debug)]
pub struct Invalid {
    pub error: String,
    pub metadata: ObjectMeta,
}

impl<K> Guarded<K> {
    /// When it decodes.
    pub fn object(&self) -> Option<&K> {
        self.0.as_deref().ok()
    }
}

/// As what text objects of a kind are packed.
pub trait Form<K> {
    fn text(object: &K) -> serde_json::Result<String>;
    fn object(text: &str) -> serde_json::Result<K>;
}

/// As the API server writes it.
pub struct Json;

impl<K: Serialize + DeserializeOwned> Form<K> for Json {
    fn text(object: &K) -> serde_json::Result<String> {
        serde_json::to_string(object)
    }

    fn object(text: &str) -> serde_json::Result<K> {
        serde_json::from_str(text)
    }
}

/// What a view holds, without what it was made of.
pub struct View;

impl Form<CombinedStatusView> for View {
    fn text(object: &CombinedStatusView) -> serde_json::Result<String> {
        object.to_text()
    }

    fn object(text: &str) -> serde_json::Result<CombinedStatusView> {
        CombinedStatusView::from_text(text)
    }
}

/// Objects are packed that come out again as they were: a time or a number may be more exact than its text. Should one not decode
/// again all the same, it is as one that never did.
pub fn packing<K: PartialEq, F: Form<K>>() -> Packing<Guarded<K>> {
    Packing {
        pack: |guarded| {
            let object = guarded.object()?;
            let packed = compress_prepend_size(F::text(object).ok()?.as_bytes());
            (unpacked::<K, F>(&packed).object() == Some(object)).then(|| packed.into())
        },
        unpack: unpacked::<K, F>,
    }
}

fn unpacked<K, F: Form<K>>(packed: &[u8]) -> Guarded<K> {
    let invalid = |error: String, metadata| Guarded(Err(Invalid { error, metadata }));
    let text = decompress_size_prepended(packed).map(String::from_utf8);
    let text = match text {
        Ok(Ok(text)) => text,
        Ok(Err(error)) => return invalid(error.to_string(), ObjectMeta::default()),
        Err(error) => return invalid(error.to_string(), ObjectMeta::default()),
    };
    match F::object(&text) {
        Ok(object) => Guarded(Ok(Arc::new(object))),
        Err(error) => {
            let known = serde_json::from_str::<MetadataOnly>(&text);
            let metadata = known.map(|known| known.metadata).unwrap_or_default();
            invalid(error.to_string(), metadata)
        }
    }
}

#[derive(Deserialize)]
struct MetadataOnly {
    #[serde(default)]
    metadata: ObjectMeta,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Guarded<K> {
    /// From JSON text or a JSON value; a deserializer of anything else is refused.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let error = match serde_json::from_str(text.get()) {
            Ok(object) => return Ok(Self(Ok(Arc::new(object)))),
            Err(error) => error.to_string(),
        };
        let MetadataOnly { metadata } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        // Where in the text it stands tells nobody anything: the text is the server's.
        let error = error
            .rsplit_once(" at line ")
            .map_or(error.as_str(), |(said, _)| said)
            .to_owned();
        Ok(Self(Err(Invalid { error, metadata })))
    }
}

impl<K: Resource + Clone> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        match &self.0 {
            Ok(object) => object.meta(),
            Err(invalid) => &invalid.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match &mut self.0 {
            Ok(object) => Arc::make_mut(object).meta_mut(),
            Err(invalid) => &mut invalid.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::WatchEvent;
    use serde_json::json;
    use stagegate_api::Binding;

    use super::*;

    fn round<K: PartialEq, F: Form<K>>(guarded: &Guarded<K>) -> Option<Guarded<K>> {
        let Packing { pack, unpack } = packing::<K, F>();
        pack(guarded).map(|packed| unpack(&packed))
    }

    #[test]
    fn what_was_packed_is_the_same_again() {
        let policy = json!({
            "apiVersion": "community.kubestellar.io/v1alpha1", "kind": "StagedBindingPolicy",
            "metadata": {
                "name": "shop", "uid": "u", "resourceVersion": "7", "generation": 2,
                "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"a": "\"b\""},
            },
            "spec": {
                "downsync": [{"objectSelectors": [{"matchLabels": {"app": "shop"}}]}],
                "stages": [{
                    "name": "dev", "clusterSelectors": [{}], "condition": "obj.results.all(r, r.name == \"é\")", "soak": "10m",
                    "gates": [{"name": "g", "module": {"configMap": {"namespace": "n", "name": "m", "key": "k"}}, "config": {"z": 1.5, "a": [null]}}],
                }],
            },
            "status": {"phase": "Holding", "stages": [{"name": "dev", "state": "Active", "placedAt": "2026-01-01T00:00:01Z"}]},
        });
        let policy: Guarded<stagegate_api::StagedBindingPolicy> = serde_json::from_str(&policy.to_string()).unwrap();
        assert!(policy.object().is_some(), "{policy:?}");
        assert_eq!(round::<_, Json>(&policy).unwrap().object(), policy.object());
        let combined = json!({
            "metadata": {"name": "o.b", "namespace": "n", "uid": "u", "resourceVersion": "9", "labels": {"other": "x"}},
            "results": [
                {"name": "c", "columnNames": ["sum"], "rows": [{"columns": [{"type": "Number", "float": "3"}]}]},
                {"name": "d", "rowErrors": [{"wec": {"clusterId": "w"}, "columnName": "x", "error": "no \"key\""}]},
            ],
        });
        let combined: Guarded<CombinedStatusView> = serde_json::from_str(&combined.to_string()).unwrap();
        assert!(combined.object().is_some(), "{combined:?}");
        assert_eq!(round::<_, View>(&combined).unwrap().object(), combined.object());
    }

    #[test]
    fn what_would_come_out_otherwise_is_not_packed() {
        let created = |at: &str| json!({"metadata": {"name": "a", "creationTimestamp": at}, "spec": {"destinations": [], "workload": {}}});
        let of = |at: &str| serde_json::from_value::<Binding>(created(at)).unwrap();
        let guarded = |at: &str| Guarded(Ok(Arc::new(of(at))));
        assert!(round::<_, Json>(&guarded("2026-01-01T00:00:00Z")).is_some());
        assert!(round::<_, Json>(&guarded("2026-01-01T00:00:00.5Z")).is_none());
    }

    #[test]
    fn what_does_not_decode_is_not_packed_and_a_text_that_does_not_is_no_object() {
        let torn = json!({"metadata": {"name": "a"}, "spec": 1});
        let torn: Guarded<Binding> = serde_json::from_str(&torn.to_string()).unwrap();
        assert!(torn.object().is_none() && round::<_, Json>(&torn).is_none());
        let unpack = packing::<Binding, Json>().unpack;
        let unpacked = unpack(&compress_prepend_size(b"{\"metadata\": {\"name\": \"a\"}}"));
        assert!(unpacked.object().is_none());
        assert_eq!(unpacked.meta().name.as_deref(), Some("a"));
        for no_text_of_ours in [&b""[..], &compress_prepend_size(b"\xff")] {
            assert!(unpack(no_text_of_ours).object().is_none());
        }
    }

    #[test]
    fn what_decodes_is_given_and_of_what_does_not_the_metadata_and_the_reason() {
        let of = |destinations: serde_json::Value| {
            let object = json!({
                "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "Binding", "metadata": {"name": "a"},
                "spec": {"destinations": destinations, "workload": {}},
            });
            // As a server writes it: the type comes first.
            let line = format!("{{\"type\":\"ADDED\",\"object\":{object}}}");
            match serde_json::from_str::<WatchEvent<Guarded<Binding>>>(&line).unwrap() {
                WatchEvent::Added(guarded) => guarded,
                other => panic!("{other:?}"),
            }
        };
        let sound = of(json!([{"clusterId": "dev"}]));
        assert_eq!(sound.0.as_ref().unwrap().spec.destinations[0].cluster_id, "dev");
        let torn = of(json!("dev"));
        assert_eq!(torn.meta().name.as_deref(), Some("a"));
        let invalid = torn.0.unwrap_err();
        assert!(
            invalid.error.contains("invalid type: string") && !invalid.error.contains("line"),
            "{}",
            invalid.error
        );
        assert!(serde_json::from_str::<Guarded<Binding>>("{\"metadata\": 1}").is_err());
    }
}
