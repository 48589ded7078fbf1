//! The value of `pools` from the workloads of a YurtAppDaemon, as the controller would show them. Must not evaluate.

use std::collections::BTreeMap;

use anyhow::{Context as _, anyhow};
use serde_json::Value;
use stagegate_api::workloads::{NodePool, REF_NODE_POOL, TemplateType, WorkloadView};
use stagegate_decide::checks::PoolReport;

use super::given::Given;
use crate::commands::{Failure, Result};

/// A workload, or a List of workloads, in which NodePools give the labels of pools.
///
/// # Errors
/// Anything else, and a workload that names no pool.
pub fn given(value: &Value, shown: &str) -> Result<Given> {
    let kind = |value: &Value| value.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    let whole = std::slice::from_ref(value);
    let is_list = kind(value).ends_with("List");
    let objects = match value.get("items").and_then(Value::as_array).filter(|_| is_list) {
        Some(items) => items,
        None => whole,
    };
    // The API server leaves out the kind of the items of a list of one kind.
    let of_list = kind(value).strip_suffix("List").unwrap_or_default().to_owned();
    let (mut labels, mut workloads) = (BTreeMap::new(), Vec::new());
    for object in objects {
        let kind = Some(kind(object))
            .filter(|kind| !kind.is_empty())
            .unwrap_or(of_list.clone());
        let reading = || format!("reading a {kind} of {shown}");
        if kind == "NodePool" {
            let pool: NodePool = parsed(object).with_context(reading).map_err(Failure::Input)?;
            labels.insert(
                pool.metadata.name.unwrap_or_default(),
                pool.metadata.labels.unwrap_or_default(),
            );
            continue;
        }
        let Some(kind) = TemplateType::ALL.into_iter().find(|known| known.kind() == kind) else {
            let error = anyhow!("{shown} holds a {kind}; give Deployments or StatefulSets, and NodePools");
            return Err(Failure::Input(error));
        };
        let view: WorkloadView = parsed(object).with_context(reading).map_err(Failure::Input)?;
        workloads.push((kind, view));
    }
    let mut pools = Vec::new();
    let mut note = None;
    for (kind, view) in &workloads {
        let annotations = view.metadata.annotations.iter().flatten();
        let mut named = annotations.filter(|(key, _)| *key == REF_NODE_POOL);
        let name = view.metadata.name.as_deref().unwrap_or_default();
        let (_, pool) = named
            .next()
            .ok_or_else(|| anyhow!("{} {name} has no annotation {REF_NODE_POOL}", kind.kind()))
            .map_err(Failure::Input)?;
        let none = BTreeMap::new();
        let of_pool = labels.get(pool).unwrap_or_else(|| {
            note.get_or_insert_with(|| format!("no NodePool {pool} is given, so the labels of that pool are empty"));
            &none
        });
        if view.status.observed_generation != view.metadata.generation {
            note.get_or_insert_with(|| {
                format!("the status of {name} is not about its last change: the controller would evaluate nothing")
            });
        }
        pools.push(PoolReport::of(kind.plural(), (pool, of_pool), &view.row(pool)));
    }
    pools.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Given::Pools(pools, note))
}

fn parsed<K: serde::de::DeserializeOwned>(object: &Value) -> serde_json::Result<K> {
    serde_json::from_value(object.clone())
}
