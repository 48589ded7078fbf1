//! The kinds that an API server knows by itself and those that the files define, so far as clauses name them. Must not judge a clause.

use anyhow::Context as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;
use serde_json::Value;
use stagegate_evaluate::meant;

use crate::manifests::Manifest;

/// What discovery tells of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Empty for the core group.
    pub group: String,
    pub kind: String,
    /// Lower-case plural.
    pub resource: String,
    pub is_namespaced: bool,
}

#[derive(Debug)]
pub struct Kinds(Vec<Entry>);

impl Kinds {
    /// Those that the server serves.
    pub async fn of(client: &Client) -> anyhow::Result<Self> {
        let asking = "asking the validating API server which kinds it serves";
        let mut entries = Vec::new();
        entries.extend(of_list("", client.list_core_api_resources("v1").await.context(asking)?));
        for group in client.list_api_groups().await.context(asking)?.groups {
            for version in &group.versions {
                let list = client.list_api_group_resources(&version.group_version).await;
                entries.extend(of_list(&group.name, list.context(asking)?));
            }
        }
        Ok(Self(entries))
    }

    /// And those that CustomResourceDefinitions among the files define.
    pub fn and_defined(mut self, manifests: &[Manifest]) -> Self {
        let definitions = manifests
            .iter()
            .filter(|manifest| manifest.kind() == "CustomResourceDefinition");
        self.0.extend(definitions.map(|manifest| Entry {
            group: manifest.text_at("/spec/group").to_owned(),
            kind: manifest.text_at("/spec/names/kind").to_owned(),
            resource: manifest.text_at("/spec/names/plural").to_owned(),
            is_namespaced: manifest.text_at("/spec/scope") != "Cluster",
        }));
        self
    }

    /// The kind of a manifest; one that is unknown is taken to be namespaced and to have a regular plural.
    pub fn of_manifest(&self, manifest: &Manifest) -> Entry {
        let group = manifest.api_version().split_once('/').map_or("", |(group, _)| group);
        let known = self
            .0
            .iter()
            .find(|entry| entry.group == group && entry.kind == manifest.kind());
        known.cloned().unwrap_or_else(|| Entry {
            group: group.to_owned(),
            kind: manifest.kind().to_owned(),
            resource: plural(&manifest.kind().to_lowercase()),
            is_namespaced: true,
        })
    }

    /// The groups that have the resource.
    pub fn groups_of(&self, resource: &str) -> Vec<&str> {
        let having = self.0.iter().filter(|entry| entry.resource == resource);
        let mut groups: Vec<&str> = having.map(|entry| entry.group.as_str()).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    pub fn has_group(&self, group: &str) -> bool {
        self.0.iter().any(|entry| entry.group == group)
    }

    /// The resource that a word means which is none: a kind (`Deployment`), its singular, or one with a letter wrong.
    pub fn meant(&self, word: &str) -> Option<&str> {
        let by_kind = self
            .0
            .iter()
            .find(|entry| entry.kind.eq_ignore_ascii_case(word) || entry.resource.eq_ignore_ascii_case(word));
        by_kind.map(|entry| entry.resource.as_str()).or_else(|| {
            let near = meant(word, self.0.iter().map(|entry| entry.resource.as_str()))?;
            // Two words of one length that differ in much are two kinds.
            (near.len().abs_diff(word.len()) <= 1 && differing(near, word) <= 2).then_some(near)
        })
    }
}

/// How many letters stand in one word and not, at the same distance from its begin or end, in the other.
fn differing(one: &str, other: &str) -> usize {
    let same_begin = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let rest = |text: &str| text.len() - same_begin;
    let same_end = one
        .bytes()
        .rev()
        .zip(other.bytes().rev())
        .take(rest(one).min(rest(other)))
        .take_while(|(a, b)| a == b)
        .count();
    rest(one).max(rest(other)) - same_end
}

fn of_list(group: &str, list: APIResourceList) -> Vec<Entry> {
    let whole = list
        .resources
        .into_iter()
        .filter(|resource| !resource.name.contains('/'));
    whole
        .map(|resource| Entry {
            group: group.to_owned(),
            kind: resource.kind,
            resource: resource.name,
            is_namespaced: resource.namespaced,
        })
        .collect()
}

fn plural(singular: &str) -> String {
    match singular.strip_suffix('y') {
        Some(stem) if !singular.ends_with("ay") && !singular.ends_with("ey") => format!("{stem}ies"),
        _ if singular.ends_with('s') || singular.ends_with('x') || singular.ends_with("ch") => format!("{singular}es"),
        _ => format!("{singular}s"),
    }
}

/// A label map of a manifest; values that are no text are left out.
pub fn labels(value: &Value, pointer: &str) -> std::collections::BTreeMap<String, String> {
    let labels = value.pointer(pointer).and_then(Value::as_object);
    labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}
