//! WorkStatus objects, one per place, in the mailbox namespace of the cluster. Must not decide what they say.

use std::collections::BTreeMap;

use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use stagegate_api::{SourceRef, WorkStatus, WorkStatusSpec};

use super::fleet::ObjectInCluster;
use crate::client_errors::gone_is_fine;

const NAME_LEN_MAX: usize = 253;

/// Remembers what was last said, so that only news is written: a WorkStatus that somebody deletes stays away until
/// there is some.
#[derive(Default)]
pub(super) struct Reporter {
    said: BTreeMap<ObjectInCluster, (String, Option<Value>)>,
}

impl Reporter {
    pub(super) fn is_news(&self, place: &ObjectInCluster, status: Option<&Value>) -> bool {
        self.said.get(place).is_none_or(|(_, said)| said.as_ref() != status)
    }

    /// Writes spec and status apart, as an agent does: the status gets managed fields with a time of its own.
    pub(super) async fn say(
        &mut self,
        client: &kube::Client,
        place: &ObjectInCluster,
        (source, status): (SourceRef, Option<Value>),
    ) -> kube::Result<()> {
        let api: Api<WorkStatus> = Api::namespaced(client.clone(), &place.0);
        let name = name(&source);
        let found = api.get_opt(&name).await?;
        let had_status = match found {
            Some(found) => found.status.is_some(),
            None => {
                let report = WorkStatus::new(&name, WorkStatusSpec { source_ref: source });
                api.create(&PostParams::default(), &report).await?;
                false
            }
        };
        let operation = match &status {
            Some(status) => Some(json!([{"op": "add", "path": "/status", "value": status}])),
            None => had_status.then(|| json!([{"op": "remove", "path": "/status"}])),
        };
        if let Some(operation) = operation {
            let patch = serde_json::from_value(operation).map_err(kube::Error::SerdeError)?;
            api.patch_status(&name, &PatchParams::default(), &Patch::<()>::Json(patch))
                .await?;
        }
        self.said.insert(place.clone(), (name, status));
        Ok(())
    }

    pub(super) async fn unsay(&mut self, client: &kube::Client, place: &ObjectInCluster) -> kube::Result<()> {
        let Some((name, _)) = self.said.get(place) else {
            return Ok(());
        };
        let api: Api<WorkStatus> = Api::namespaced(client.clone(), &place.0);
        gone_is_fine(api.delete(name, &Default::default()).await.map(|_| ()))?;
        self.said.remove(place);
        Ok(())
    }
}

/// Like the agent's, with a word for the ManifestWork's uid.
fn name(source: &SourceRef) -> String {
    let namespace = if source.namespace.is_empty() {
        String::new()
    } else {
        format!("{}-", source.namespace)
    };
    let mut name = format!(
        "simulated-{}{}-{}-{namespace}{}",
        source.group, source.version, source.kind, source.name
    );
    name.make_ascii_lowercase();
    name.truncate(NAME_LEN_MAX);
    name
}
