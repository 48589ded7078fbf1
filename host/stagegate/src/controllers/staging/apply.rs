//! Carries out what staging decided, each write conditional on the version that was decided on. Must not decide.

use kube::{Api, Client};
use serde_json::{Value, json};
use stagegate_api::{ADMITTED_VERSIONS, Binding, BindingPolicy, StagedBindingPolicy, StatusCollector};
use stagegate_decide::precondition::Precondition;
use stagegate_decide::staging::{Placement, Write};
use stagegate_runtime::events::REPORTER;
use stagegate_runtime::request::RequestError;

use crate::controllers::write::{Patches, Target, Writer, delete, metadata, whole};

const WRITER: Writer = Writer { manager: REPORTER };
const PLACEMENT_MEMBERS: &[&str] = &["clusterSelectors", "downsync"];
const COLLECTOR_MEMBERS: &[&str] = &["filter", "groupBy", "combinedFields", "select", "limit"];
const STATUS_MEMBERS: &[&str] = &[
    "observedGeneration",
    "activeStage",
    "clusters",
    "phase",
    "reason",
    "conditions",
    "stages",
    "tracking",
];

/// One write for the policy of this name. Gives the object's new version; `None` after a deletion or the creation of a StatusCollector.
///
/// # Errors
/// [`RequestError::is_outdated`] when the object is not the version that was decided on.
pub async fn write(client: &Client, policy: &str, write: &Write) -> Result<Option<String>, RequestError> {
    let placements: Patches<BindingPolicy> = Api::all(client.clone());
    match write {
        Write::CreateEvidenceCollector(collector) => match WRITER.create(&Api::all(client.clone()), collector).await {
            // Another policy's reconcile was first, or it is foreign: its watch event tells which.
            Err(error) if error.is_conflict() => Ok(None),
            answer => answer.map(|_version| None),
        },
        Write::RestoreEvidenceCollector {
            precondition,
            collector,
        } => {
            let name = collector.metadata.name.as_deref().unwrap_or_default();
            let body = json!({"metadata": metadata(precondition), "spec": whole(&collector.spec, COLLECTOR_MEMBERS)});
            WRITER
                .patch::<StatusCollector>(&Api::all(client.clone()), name, body)
                .await
        }
        Write::CreateClosed(placement) => WRITER.create(&Api::all(client.clone()), placement).await,
        Write::Open(placement) | Write::Update(placement) | Write::Adopt(placement) | Write::Fence(placement) => {
            WRITER
                .patch(&placements, placement.name.as_str(), placement_patch(placement))
                .await
        }
        Write::Hold(hold) | Write::Release(hold) => {
            let admitted = json!(hold.versions);
            admit(client, (hold.name.as_str(), &hold.precondition), admitted).await
        }
        Write::Unhold { name, precondition } => admit(client, (name.as_str(), precondition), Value::Null).await,
        Write::Remove { name, precondition } => {
            let name = name.as_str();
            delete(&placements, Target { name, precondition }).await?;
            Ok(None)
        }
        Write::Status { precondition, status } => {
            let api: Patches<StagedBindingPolicy> = Api::all(client.clone());
            WRITER
                .patch_status(
                    &api,
                    Target {
                        name: policy,
                        precondition,
                    },
                    whole(status, STATUS_MEMBERS),
                )
                .await
        }
    }
}

/// Replaces the list of admitted versions of a Binding.
async fn admit(
    client: &Client,
    (name, precondition): (&str, &Precondition),
    admitted: Value,
) -> Result<Option<String>, RequestError> {
    let mut metadata = metadata(precondition);
    metadata["annotations"] = json!({ADMITTED_VERSIONS: admitted});
    let bindings: Patches<Binding> = Api::all(client.clone());
    WRITER.patch(&bindings, name, json!({"metadata": metadata})).await
}

fn placement_patch(placement: &Placement) -> serde_json::Value {
    let mut metadata = metadata(&placement.precondition);
    metadata["annotations"] = json!(placement.annotations);
    json!({"metadata": metadata, "spec": whole(&placement.spec, PLACEMENT_MEMBERS)})
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use stagegate_api::crd;

    use super::{COLLECTOR_MEMBERS, PLACEMENT_MEMBERS, STATUS_MEMBERS};

    fn members(kind: &str, part: &str) -> BTreeSet<String> {
        let crds = crd::all_for_playground();
        let crd = crds.iter().find(|crd| crd.spec.names.kind == kind).unwrap();
        let schema = crd.spec.versions[0]
            .schema
            .as_ref()
            .unwrap()
            .open_api_v3_schema
            .as_ref()
            .unwrap();
        let part = &schema.properties.as_ref().unwrap()[part];
        part.properties.as_ref().unwrap().keys().cloned().collect()
    }

    fn set(members: &[&str]) -> BTreeSet<String> {
        members.iter().map(|member| (*member).to_owned()).collect()
    }

    #[test]
    fn a_patch_that_replaces_a_part_whole_knows_every_member_of_it() {
        assert_eq!(members("StagedBindingPolicy", "status"), set(STATUS_MEMBERS));
        assert_eq!(members("BindingPolicy", "spec"), set(PLACEMENT_MEMBERS));
        assert_eq!(members("StatusCollector", "spec"), set(COLLECTOR_MEMBERS));
    }
}
