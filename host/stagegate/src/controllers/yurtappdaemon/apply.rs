//! Carries out what was decided about a YurtAppDaemon, each write conditional on the version that was decided on. Must not decide.

use std::sync::Arc;

use futures::stream::{self, StreamExt as _};
use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube::core::ObjectMeta;
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::{Value, json};
use stagegate_api::Digest;
use stagegate_api::workloads::{TemplateType, WorkloadView, YurtAppDaemon, YurtAppDaemonStatus};
use stagegate_clock::SharedClock;
use stagegate_decide::pools::{ChildRef, Facts, Plan, Refusal, Unchanged, Write};
use stagegate_decide::staging::Precondition;
use stagegate_runtime::metrics::RuntimeMetrics;
use stagegate_runtime::request::{RequestError, request};

use super::gather::kind_of;
use super::memory::Memory;
use super::read::revision;
use crate::controllers::guarded::Guarded;
use crate::controllers::write::{Patches, Target, Writer, delete, metadata, whole};

const WRITER: Writer = Writer {
    manager: "stagegate-yurtappdaemon",
};
const STATUS_MEMBERS: &[&str] = &[
    "observedGeneration",
    "collisionCount",
    "currentRevision",
    "updateRevision",
    "templateType",
    "activeStage",
    "stages",
    "phase",
    "reason",
    "totalWorkloads",
    "updatedWorkloads",
    "readyWorkloads",
    "nodepools",
    "workloadSummary",
    "conditions",
];
/// Workloads that are written at the same time.
const CONCURRENCY: usize = 8;
/// When a workload that was refused is tried again as it is.
const RETRY_REFUSED: SignedDuration = SignedDuration::from_secs(60);

/// With what a plan is carried out.
#[derive(Clone, Copy)]
pub struct Applier<'a> {
    pub client: &'a Client,
    pub clock: &'a SharedClock,
    pub metrics: &'a Arc<RuntimeMetrics>,
}

/// What became of a workload.
enum Applied {
    /// It has this version now.
    Now {
        pool: String,
        name: String,
        digest: Digest,
        before: Option<String>,
        version: String,
    },
    Refused {
        pool: String,
        refusal: Refusal,
    },
}

impl Applier<'_> {
    /// Revisions and status in order, then the workloads, several at once.
    ///
    /// # Errors
    /// The first write that failed but for a workload that was refused. One that is about another version than there is ends the plan.
    pub async fn carry_out(&self, plan: &Plan, facts: &mut Facts, memory: &mut Memory) -> Result<(), RequestError> {
        let is_of_workload = |write: &&Write| {
            matches!(
                write,
                Write::ApplyChild { .. } | Write::AdoptChild { .. } | Write::DeleteChild(_)
            )
        };
        let is_pruning = |write: &&Write| matches!(write, Write::DeleteRevision { .. });
        for write in plan
            .writes
            .iter()
            .filter(|write| !is_of_workload(write) && !is_pruning(write))
        {
            self.write(write, facts, memory).await?;
        }
        let daemon = facts.daemon.clone();
        let workloads = plan.writes.iter().filter(is_of_workload);
        // Named, because a closure in a stream may be called with any lifetime.
        let mut writes = Vec::new();
        for write in workloads {
            writes.push(self.write_workload(&daemon, write));
        }
        let done: Vec<Result<Option<Applied>, RequestError>> =
            stream::iter(writes).buffer_unordered(CONCURRENCY).collect().await;
        let mut failed = None;
        for done in done {
            match done {
                Ok(applied) => note(applied, memory),
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        for write in plan.writes.iter().filter(is_pruning) {
            self.write(write, facts, memory).await?;
        }
        Ok(())
    }

    async fn write(&self, write: &Write, facts: &mut Facts, memory: &mut Memory) -> Result<(), RequestError> {
        let namespace = facts.daemon.namespace().unwrap_or_default();
        let revisions: Api<ControllerRevision> = Api::namespaced(self.client.clone(), &namespace);
        match write {
            Write::CreateRevision { name, number, data } => {
                let object = controller_revision(&facts.daemon, (name, *number, data));
                match WRITER.create(&revisions, &object).await {
                    Err(error) if error.is_conflict() => {
                        // Its labels were edited, or it is another's: the next name is found with it among the facts.
                        let what = format!("get controllerrevision {namespace}/{name}");
                        let found = request(what, revisions.get(name)).await?;
                        memory.taken.push(revision(found));
                        return Err(error);
                    }
                    answer => answer?,
                };
                memory.note_revision(facts, (name, *number, data.clone()));
            }
            Write::RaiseRevision {
                name,
                precondition,
                number,
            } => {
                let body = json!({"metadata": metadata(precondition), "revision": number});
                let revisions: Patches<ControllerRevision> = Api::namespaced(self.client.clone(), &namespace);
                WRITER.patch(&revisions, name, body).await?;
                let known = memory.revisions.iter_mut().find(|known| known.name == *name);
                if let Some(known) = known {
                    known.number = *number;
                }
            }
            Write::DeleteRevision { name, precondition } => {
                let revisions: Patches<ControllerRevision> = Api::namespaced(self.client.clone(), &namespace);
                delete(&revisions, Target { name, precondition }).await?;
            }
            Write::Status { precondition, status } => {
                self.write_status((precondition, status), facts, memory).await?;
            }
            Write::ApplyChild { .. } | Write::AdoptChild { .. } | Write::DeleteChild(_) => {}
        }
        self.metrics.write();
        Ok(())
    }

    async fn write_status(
        &self,
        (precondition, status): (&Precondition, &YurtAppDaemonStatus),
        facts: &mut Facts,
        memory: &mut Memory,
    ) -> Result<(), RequestError> {
        let name = facts.daemon.name_any();
        let namespace = facts.daemon.namespace().unwrap_or_default();
        let daemons: Patches<YurtAppDaemon> = Api::namespaced(self.client.clone(), &namespace);
        let target = Target {
            name: &name,
            precondition,
        };
        let version = WRITER
            .patch_status(&daemons, target, whole(status, STATUS_MEMBERS))
            .await?;
        memory.written = Some((Digest::of(status), version.clone()));
        memory.status_written_at = Some(tokio::time::Instant::now());
        let daemon = Arc::make_mut(&mut facts.daemon);
        daemon.metadata.resource_version = version;
        daemon.status = Some(status.clone());
        Ok(())
    }

    /// Of a workload; `None`: it was adopted or deleted.
    async fn write_workload(&self, daemon: &YurtAppDaemon, write: &Write) -> Result<Option<Applied>, RequestError> {
        let namespace = daemon.namespace().unwrap_or_default();
        let kind = kind_of(daemon);
        let api: Api<Guarded<WorkloadView>> = Api::namespaced_with(self.client.clone(), &namespace, &kind);
        match write {
            Write::ApplyChild { pool, object, digest } => {
                let applied = self.apply((&api, kind), (pool, object, digest)).await?;
                return Ok(Some(applied));
            }
            Write::AdoptChild { child, owners } => self.adopt((&api, kind), child, owners).await?,
            Write::DeleteChild(ChildRef { name, precondition, .. }) => {
                let params = DeleteParams {
                    preconditions: Some(Preconditions {
                        uid: Some(precondition.uid.to_string()),
                        resource_version: Some(precondition.resource_version.to_string()),
                    }),
                    propagation_policy: Some(PropagationPolicy::Background),
                    ..DeleteParams::default()
                };
                let what = format!("delete {} {namespace}/{name}", kind.plural());
                match request(what, api.delete(name, &params)).await {
                    Err(error) if !error.is_not_found() => return Err(error),
                    _ => self.metrics.write(),
                }
            }
            _ => {}
        }
        Ok(None)
    }

    async fn apply(
        &self,
        (api, kind): (&Api<Guarded<WorkloadView>>, TemplateType),
        (pool, object, digest): (&str, &Value, &Digest),
    ) -> Result<Applied, RequestError> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let params = PatchParams::apply(WRITER.manager).force();
        let what = format!("apply {} {name}", kind.plural());
        let answer = request(what, api.patch(name, &params, &Patch::Apply(object))).await;
        match answer {
            Ok(found) => {
                self.metrics.write();
                Ok(Applied::Now {
                    pool: pool.to_owned(),
                    name: name.to_owned(),
                    digest: digest.clone(),
                    before: object["metadata"]["resourceVersion"].as_str().map(str::to_owned),
                    version: found.meta().resource_version.clone().unwrap_or_default(),
                })
            }
            Err(RequestError::Refused {
                code: code @ (400 | 403 | 422),
                reason,
                fields,
                ..
            }) => Ok(Applied::Refused {
                pool: pool.to_owned(),
                refusal: Refusal {
                    digest: digest.clone(),
                    cause: cause(code, &reason, &fields),
                    retry_at: self
                        .clock
                        .now()
                        .checked_add(RETRY_REFUSED)
                        .unwrap_or(jiff::Timestamp::MAX),
                },
            }),
            Err(error) => Err(error),
        }
    }

    async fn adopt(
        &self,
        (api, kind): (&Api<Guarded<WorkloadView>>, TemplateType),
        ChildRef { name, precondition, .. }: &ChildRef,
        owners: &[OwnerReference],
    ) -> Result<(), RequestError> {
        let mut metadata = metadata(precondition);
        metadata["ownerReferences"] = json!(owners);
        let params = PatchParams {
            field_manager: Some(WRITER.manager.to_owned()),
            ..PatchParams::default()
        };
        let body = Patch::Merge(json!({"metadata": metadata}));
        let what = format!("patch {} {name}", kind.plural());
        request(what, api.patch(name, &params, &body)).await?;
        self.metrics.write();
        Ok(())
    }
}

fn note(applied: Option<Applied>, memory: &mut Memory) {
    match applied {
        None => {}
        Some(Applied::Now {
            pool,
            name,
            digest,
            before,
            version,
        }) => {
            memory.refused.remove(&pool);
            if before.as_deref() == Some(version.as_str()) {
                let resource_version = version.into();
                memory.unchanged.insert(
                    name,
                    Unchanged {
                        digest,
                        resource_version,
                    },
                );
            } else {
                memory.unchanged.remove(&name);
            }
        }
        Some(Applied::Refused { pool, refusal }) => {
            memory.new_refusals = true;
            memory.refused.insert(pool, refusal);
        }
    }
}

/// Never the server's message: it may quote values of the template.
fn cause(code: u16, reason: &str, fields: &[String]) -> String {
    if fields.is_empty() {
        return format!("{code} {reason}");
    }
    format!("{code} {reason} because of {}", fields.join(", "))
}

fn owner_of(daemon: &YurtAppDaemon) -> Option<OwnerReference> {
    daemon.controller_owner_ref(&())
}

fn controller_revision(daemon: &YurtAppDaemon, (name, number, data): (&str, i64, &Value)) -> ControllerRevision {
    let mut labels = daemon.spec.selector.match_labels.clone().unwrap_or_default();
    let template = daemon.spec.workload_template.chosen();
    let of_template = template.and_then(|(_, template)| template.get("metadata")?.get("labels")?.as_object());
    for (key, value) in of_template.into_iter().flatten() {
        if let Some(value) = value.as_str() {
            labels.insert(key.clone(), value.to_owned());
        }
    }
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: daemon.namespace(),
            labels: Some(labels),
            owner_references: Some(owner_of(daemon).into_iter().collect()),
            ..ObjectMeta::default()
        },
        revision: number,
        data: Some(RawExtension(data.clone())),
    }
}
