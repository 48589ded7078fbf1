//! Every version of what KubeStellar writes, as watches tell of it, with the time at which they did. Must not change anything.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::ensure;
use futures::StreamExt as _;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use serde_json::{Value, json};
use stagegate_api::label;
use tokio::task::JoinHandle;

use super::format::{Millis, RecordedWrite, Roles, changes};

const KINDS: [&str; 3] = ["BindingPolicy", "Binding", "CombinedStatus"];

struct Version {
    seen: Instant,
    kind: &'static str,
    object: Value,
    is_gone: bool,
}

#[derive(Default)]
struct Seen {
    versions: Vec<Version>,
    /// A watch that was cut may have missed something.
    cuts: Vec<String>,
}

pub struct Followed {
    seen: Arc<Mutex<Seen>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Followed {
    pub fn from_now(client: &Client) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let tasks = KINDS.map(|kind| tokio::spawn(follow(client.clone(), kind, seen.clone())));
        let tasks = tasks.into();
        Self { seen, tasks }
    }

    /// Of the BindingPolicies of these names, since then.
    ///
    /// # Errors
    /// When versions may be missing.
    pub fn written(
        &self,
        policies: &BTreeSet<&str>,
        (since, roles): (Instant, &Roles),
    ) -> anyhow::Result<Vec<RecordedWrite>> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(seen.cuts.is_empty(), "a watch was cut: {:?}", seen.cuts);
        let own = seen.versions.iter().filter(|version| {
            let metadata = &version.object["metadata"];
            let policy = match version.kind {
                "CombinedStatus" => &metadata["labels"][label::BINDING_POLICY],
                _ => &metadata["name"],
            };
            policy.as_str().is_some_and(|name| policies.contains(name))
        });
        let written = own.map(|version| {
            let (object, is) = roles.shown(version.kind, &version.object);
            let at = version.seen.saturating_duration_since(since).as_millis();
            RecordedWrite {
                at: Millis::try_from(at).unwrap_or(Millis::MAX),
                object,
                is: if version.is_gone { Value::Null } else { is },
            }
        });
        Ok(changes(written))
    }
}

async fn follow(client: Client, kind: &'static str, into: Arc<Mutex<Seen>>) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("control.kubestellar.io", "v1alpha1", kind));
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let mut events = std::pin::pin!(watcher::watcher(api, watcher::Config::default()));
    while let Some(event) = events.next().await {
        let mut seen = into.lock().unwrap_or_else(PoisonError::into_inner);
        let (object, is_gone) = match event {
            Ok(Event::Apply(object)) => (object, false),
            Ok(Event::Delete(object)) => (object, true),
            Ok(_) => continue,
            Err(error) => {
                seen.cuts.push(format!("{kind}: {error}"));
                continue;
            }
        };
        seen.versions.push(Version {
            seen: Instant::now(),
            kind,
            object: json!(object),
            is_gone,
        });
    }
}
