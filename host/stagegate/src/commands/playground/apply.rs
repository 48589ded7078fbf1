//! Server-side apply of manifests, in an order in which each finds what it needs.

use std::collections::BTreeMap;

use anyhow::{Context as _, anyhow};
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use kube::discovery::{self, ApiCapabilities, Scope};

use crate::commands::{Failure, Result};
use crate::manifests::Manifest;

const FIELD_MANAGER: &str = "stagegate-playground";

/// Definitions first, then namespaces, then the rest, each group in the order of the files.
///
/// # Errors
/// The first object that is refused, with its file, its document and the server's message.
pub async fn all(client: &Client, manifests: &[Manifest]) -> Result<()> {
    let mut ordered: Vec<&Manifest> = manifests.iter().collect();
    ordered.sort_by_key(|manifest| match manifest.kind() {
        "CustomResourceDefinition" => 0,
        "Namespace" => 1,
        _ => 2,
    });
    let mut kinds = BTreeMap::new();
    for manifest in ordered {
        one(client, &mut kinds, manifest)
            .await
            .map_err(|error| Failure::Input(error.context(whereabouts(manifest))))?;
    }
    Ok(())
}

type Kinds = BTreeMap<(String, String), (ApiResource, ApiCapabilities)>;

async fn one(client: &Client, kinds: &mut Kinds, manifest: &Manifest) -> anyhow::Result<()> {
    if manifest.api_version().is_empty() || manifest.kind().is_empty() {
        return Err(anyhow!("apiVersion and kind are needed"));
    }
    if manifest.name().is_empty() {
        return Err(anyhow!("metadata.name is needed"));
    }
    let id = (manifest.api_version().to_owned(), manifest.kind().to_owned());
    if !kinds.contains_key(&id) {
        let types = TypeMeta {
            api_version: id.0.clone(),
            kind: id.1.clone(),
        };
        let gvk = GroupVersionKind::try_from(&types).context("reading apiVersion")?;
        let known = discovery::pinned_kind(client, &gvk)
            .await
            .with_context(|| format!("looking up {} in {}", id.1, id.0))?;
        kinds.insert(id.clone(), known);
    }
    let (resource, capabilities) = &kinds[&id];
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), resource),
        Scope::Namespaced => Api::namespaced_with(client.clone(), manifest.namespace().unwrap_or("default"), resource),
    };
    let params = PatchParams::apply(FIELD_MANAGER).force().validation_strict();
    match api
        .patch(manifest.name(), &params, &Patch::Apply(&manifest.value))
        .await
    {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(anyhow!("{}", status.message)),
        Err(error) => Err(error.into()),
    }
}

fn whereabouts(manifest: &Manifest) -> String {
    let (path, place) = (manifest.file.path.display(), manifest.place(""));
    format!(
        "{path}:{}: document {}: applying {} {:?}",
        place.line,
        manifest.document,
        manifest.kind(),
        manifest.name()
    )
}
