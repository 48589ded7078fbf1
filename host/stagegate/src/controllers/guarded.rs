//! An object that decodes, or its metadata and why the rest does not: one that cannot be read must not look like one that is gone.
//!
//! As kube's `DeserializeGuard`, which makes a tree of every object first and copies that; here the text is read once.

use std::borrow::Cow;
use std::sync::Arc;

use kube::Resource;
use kube::core::ObjectMeta;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

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
