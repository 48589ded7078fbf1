//! What status records of one bound object of a stage: what its clusters have of it, and which of its updates they have not acknowledged.
//! Nothing of the object's content may be copied here.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::staged_status::DateTime;

/// One bound object, and what evidence about it must be newer than.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectStatus {
    /// API group; empty for the core group.
    #[schemars(length(max = 253))]
    pub group: String,
    /// Lower-case plural.
    #[schemars(length(max = 63))]
    pub resource: String,
    /// Absent for a cluster-scoped object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// Its name.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Its uid; another one is another object.
    #[schemars(length(max = 64))]
    pub uid: String,
    /// `metadata.generation`, for kinds that have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// The Binding's `resourceVersion` of the object when it was last looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub resource_version: Option<String>,
    /// A digest of what stands for the content of an object without generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub metadata_digest: Option<String>,
    /// With `updates: Staged`: digests of what the stage holds of the object, of its metadata and of all else, without status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub content_digest: Option<String>,
    /// The StatusCollectors bound to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 253)))]
    pub collectors: Vec<String>,
    /// CombinedStatus collection resourceVersion that its evidence must be newer than.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub baseline: Option<String>,
    /// The server's time of the last edit that moved `generation`; a report from before it is about an older version. Absent
    /// while the generation is 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DateTime>")]
    pub edited_at: Option<Time>,
    /// Updates that clusters have not acknowledged, one entry for all clusters of which the same is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    pub pending_updates: Vec<PendingUpdate>,
    /// What the clusters of a held stage have of the object while a release of another content of it is under way: `contentDigest` and
    /// `pendingUpdates` are those of the release then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_release: Option<ContentBefore>,
    /// With `updates: Staged`: the generations of the object that clusters of the stage reported last, one entry for all clusters that
    /// reported the same one. KubeStellar deletes their reports when it starts. Absent where status has no room for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    pub reported_generations: Vec<ReportedGeneration>,
}

/// A generation of an object that clusters of a stage reported last.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportedGeneration {
    /// `observedGeneration` in the cluster; empty when it reported none.
    #[schemars(length(max = 64))]
    pub observed_generation: String,
    /// The clusters, by name. Empty: all clusters of the set that was accepted last and that no other entry names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), inner(length(max = 253)))]
    pub clusters: Vec<String>,
}

/// What clusters have of an object until a release brings another content of it.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContentBefore {
    /// As `contentDigest` of the object.
    #[schemars(length(max = 128))]
    pub content_digest: String,
    /// As `pendingUpdates` of the object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    pub pending_updates: Vec<PendingUpdate>,
}

/// Updates of one object that some clusters have not acknowledged.
#[derive(Clone, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingUpdate {
    /// The clusters, by name. Empty where status has no room for so many names: all clusters of the stage but those of `except`,
    /// until the last of them has acknowledged the updates.
    #[schemars(length(max = 1024), inner(length(max = 253)))]
    pub clusters: Vec<String>,
    /// The clusters that an entry without names is not about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), inner(length(max = 253)))]
    pub except: Vec<String>,
    /// How many updates each of them has not acknowledged.
    pub unacknowledged: i64,
    /// The generation that each of them reported before the update; empty when it reported none.
    #[schemars(length(max = 64))]
    pub observed_generation: String,
    /// The time of the report before the update, in seconds since 1970; empty when there was none.
    #[schemars(length(max = 64))]
    pub reported_at: String,
    /// When the first of these updates was seen.
    #[schemars(with = "DateTime")]
    pub since: Time,
    /// When the last of them was seen.
    #[schemars(with = "DateTime")]
    pub edited_at: Time,
    /// When each of the clusters last acknowledged one of these updates. A time that is not later than `since` is no
    /// acknowledgement: it is the time since which a report has been in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DateTime>")]
    pub acknowledged_at: Option<Time>,
    /// The updates came so close together that an acknowledgement may be of an earlier one. The wait for the others ends only
    /// after a report from when the last of them was surely delivered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_quick_succession: bool,
}
