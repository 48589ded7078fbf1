//! Carries out what was decided about a YurtAppDaemon, each write conditional on the version that was decided on. Must not decide.

use std::sync::Arc;

use futures::stream::{self, StreamExt as _};
use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::api::{Patch, PatchParams};
use kube::core::ObjectMeta;
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::{Value, json};
use stagegate_api::Digest;
use stagegate_api::workloads::{TemplateType, WorkloadView, YurtAppDaemon, YurtAppDaemonStatus};
use stagegate_clock::SharedClock;
use stagegate_decide::pools::{ChildRef, Facts, Plan, Refusal, Write};
use stagegate_decide::precondition::Precondition;
use stagegate_runtime::metrics::RuntimeMetrics;
use stagegate_runtime::request::{RequestError, request};

use super::gather::kind_of;
use super::managed;
use tokio::time::Instant;

use super::memory::Memory;
use crate::controllers::guarded::Guarded;
use crate::controllers::lateness::Deadline;
use crate::controllers::write::{Patches, Target, Writer, delete, deletion_of, metadata, whole};

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
    /// It is as it is to be.
    Now {
        pool: String,
        name: String,
        digest: Digest,
    },
    Refused {
        pool: String,
        refusal: Refusal,
    },
}

/// What became of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    Whole,
    /// It came too late, or part of it.
    TooLate,
}

impl Applier<'_> {
    /// Revisions and status in order, then the workloads, several at once.
    ///
    /// # Errors
    /// The first write that failed but for a workload that was refused. One that is about another version than there is ends the plan.
    pub async fn carry_out(
        &self,
        (plan, begun): (&Plan, Instant),
        facts: &mut Facts,
        memory: &mut Memory,
    ) -> Result<Carried, RequestError> {
        let deadline = plan.not_after.map(|end| Deadline::of(end, facts.now, begun));
        let is_late = || deadline.is_some_and(|deadline| deadline.is_over(self.clock));
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
            if is_late() {
                return Ok(Carried::TooLate);
            }
            self.write(write, facts, memory).await?;
        }
        let daemon = facts.daemon.clone();
        let workloads = plan.writes.iter().filter(is_of_workload);
        // Named, because a closure in a stream may be called with any lifetime.
        let mut writes = Vec::new();
        for write in workloads {
            writes.push(async {
                // One may have taken as long as the next was good for.
                if is_late() {
                    return Ok(None);
                }
                self.write_workload(&daemon, write).await.map(Some)
            });
        }
        let done: Vec<Result<Option<Option<Applied>>, RequestError>> =
            stream::iter(writes).buffer_unordered(CONCURRENCY).collect().await;
        let (mut failed, mut carried) = (None, Carried::Whole);
        for done in done {
            match done {
                Ok(None) => carried = Carried::TooLate,
                Ok(Some(applied)) => note(applied, memory, self.clock.now()),
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        for write in plan.writes.iter().filter(is_pruning) {
            self.write(write, facts, memory).await?;
        }
        Ok(carried)
    }

    async fn write(&self, write: &Write, facts: &mut Facts, memory: &mut Memory) -> Result<(), RequestError> {
        let namespace = facts.daemon.namespace().unwrap_or_default();
        let revisions: Api<ControllerRevision> = Api::namespaced(self.client.clone(), &namespace);
        match write {
            Write::CreateRevision { name, number, data } => {
                let object = controller_revision(&facts.daemon, (name, *number, data));
                match WRITER.create(&revisions, &object).await.map_err(without_message) {
                    Err(error) if is_refusal(&error) => {
                        memory.refused_revision = Some(self.refusal(Digest::of(data), &error));
                        memory.new_refusals = true;
                        return Err(error);
                    }
                    answer => answer?,
                };
                memory.refused_revision = None;
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
            Write::ApplyChild {
                pool,
                object,
                digest,
                takes_over,
            } => {
                let mut object = object.clone();
                if *takes_over {
                    object["metadata"]["resourceVersion"] = json!(self.take_over((&api, kind), &object).await?);
                }
                let applied = self.apply((&api, kind), (pool, &object, digest)).await?;
                return Ok(Some(applied));
            }
            Write::AdoptChild { child, owners } => self.adopt((&api, kind), child, owners).await?,
            Write::DeleteChild(ChildRef { name, precondition, .. }) => {
                let params = deletion_of(precondition);
                let what = format!("delete {} {namespace}/{name}", kind.plural());
                match request(what, api.delete(name, &params)).await.map_err(without_message) {
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
        match answer.map_err(without_message) {
            Ok(_) => {
                self.metrics.write();
                Ok(Applied::Now {
                    pool: pool.to_owned(),
                    name: name.to_owned(),
                    digest: digest.clone(),
                })
            }
            Err(error) if is_refusal(&error) => Ok(Applied::Refused {
                pool: pool.to_owned(),
                refusal: self.refusal(digest.clone(), &error),
            }),
            Err(error) => Err(error),
        }
    }

    fn refusal(&self, digest: Digest, error: &RequestError) -> Refusal {
        let cause = match error {
            RequestError::Refused {
                code, reason, fields, ..
            } => cause(*code, reason, fields),
            other => other.to_string(),
        };
        let retry_at = self.clock.now().checked_add(RETRY_REFUSED);
        Refusal {
            digest,
            cause,
            retry_at: retry_at.unwrap_or(jiff::Timestamp::MAX),
        }
    }

    /// Makes the fields ours that others have written, so that those go that the template does not have. Gives the version then.
    async fn take_over(
        &self,
        (api, kind): (&Api<Guarded<WorkloadView>>, TemplateType),
        object: &Value,
    ) -> Result<Option<String>, RequestError> {
        let member = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
        let name = member("name");
        let what = format!("get {} {name}", kind.plural());
        let found = request(what, api.get_metadata(name)).await?;
        let fields = managed::taken_over(found.metadata.managed_fields.unwrap_or_default(), WRITER.manager);
        let body = Patch::Merge(json!({
            "metadata": {"uid": member("uid"), "resourceVersion": member("resourceVersion"), "managedFields": fields},
        }));
        let what = format!("patch {} {name}", kind.plural());
        let patched = request(what, api.patch_metadata(name, &PatchParams::default(), &body))
            .await
            .map_err(without_message)?;
        Ok(patched.metadata.resource_version)
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
        request(what, api.patch(name, &params, &body))
            .await
            .map_err(without_message)?;
        self.metrics.write();
        Ok(())
    }
}

fn note(applied: Option<Applied>, memory: &mut Memory, now: jiff::Timestamp) {
    match applied {
        None => {}
        Some(Applied::Now { pool, name, digest }) => {
            memory.refused.remove(&pool);
            memory.note_applied(name, digest, now);
        }
        Some(Applied::Refused { pool, refusal }) => {
            memory.new_refusals = true;
            memory.refused.insert(pool, refusal);
        }
    }
}

/// Whether the API server will not take it, whatever is tried now. What does not fit the schema of its kind in a configuration is answered
/// with 500 and no reason (kube-apiserver 1.34).
fn is_refusal(error: &RequestError) -> bool {
    match error {
        RequestError::Refused {
            code: 400 | 403 | 413 | 422,
            ..
        } => true,
        RequestError::Refused { code: 500, reason, .. } => reason.is_empty() || reason == "InternalError",
        _ => false,
    }
}

/// The server's message may quote values of a template, which goes into no Event and no log.
fn without_message(error: RequestError) -> RequestError {
    match error {
        RequestError::Refused {
            what,
            code,
            reason,
            fields,
            ..
        } => RequestError::Refused {
            what,
            code,
            message: cause(code, &reason, &fields),
            reason,
            fields,
        },
        other => other,
    }
}

/// Never the server's message: it may quote values of the template.
fn cause(code: u16, reason: &str, fields: &[String]) -> String {
    if fields.is_empty() {
        return format!("{code} {reason}");
    }
    format!("{code} {reason} because of {}", fields.join(", "))
}

fn controller_revision(daemon: &YurtAppDaemon, (name, number, data): (&str, i64, &Value)) -> ControllerRevision {
    let labels = daemon.spec.selector.match_labels.clone().unwrap_or_default();
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: daemon.namespace(),
            labels: Some(labels),
            owner_references: Some(daemon.controller_owner_ref(&()).into_iter().collect()),
            ..ObjectMeta::default()
        },
        revision: number,
        data: Some(RawExtension(data.clone())),
    }
}
