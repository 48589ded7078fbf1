//! KubeStellar's controller-manager against one API server that is its hosting cluster, its workload description space and its inventory
//! space at once. Must not play any part of it.
//!
//! What it must find to start: a ControlPlane of type wds and one of type its whose Secret holds a kubeconfig, and the inventory's kinds. Those
//! belong to projects that it builds on; loose definitions do.

use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine as _;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::assets::Assets;
use crate::control_plane::ControlPlane;
use crate::controller::{Controller, Pace, Program};
use crate::process::Signal;

/// The name of the workload description space.
pub(crate) const WDS: &str = "wds1";
const ITS: &str = "its1";
const NAMESPACE: &str = "spaces";

/// The running controller-manager.
pub struct KubeStellar {
    controller: Controller,
}

impl KubeStellar {
    /// Makes the API server a space and starts the controller-manager; returns when its controllers work.
    ///
    /// # Errors
    /// With the end of its log.
    pub async fn start(plane: &ControlPlane, pace: Pace) -> anyhow::Result<KubeStellar> {
        let client = plane.client().await?;
        prepare(&client, &plane.kubeconfig()).await?;
        let mut arguments = vec![
            format!("--kubeconfig={}", plane.kubeconfig().display()),
            format!("--wds-name={WDS}"),
            format!("--its-name={ITS}"),
            "--controllers=binding,status".to_owned(),
            "--metrics-bind-address=127.0.0.1:0".to_owned(),
            "--health-probe-bind-address=127.0.0.1:0".to_owned(),
            "--pprof-bind-address=127.0.0.1:0".to_owned(),
        ];
        arguments.extend(pace.flags("wds"));
        let program = Program {
            name: "kubestellar",
            path: Assets::get()?.kubestellar.clone(),
            arguments,
            // Both of its controllers say so.
            at_work: ("Started workers", 2),
        };
        let controller = Controller::start(program, plane.folder()).await?;
        Ok(KubeStellar { controller })
    }

    /// SIGKILL.
    ///
    /// # Errors
    /// When it was not running.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.controller.kill()
    }

    /// Ends it with the stacks of its goroutines in its log. Whether it had locked itself out: its controller of CombinedStatuses takes a
    /// lock for reading twice over, and waits for ever if another of its workers asks for writing in between (v0.30.0,
    /// `compareCombinedStatus`). The CombinedStatus is never written again then.
    ///
    /// # Errors
    /// When it does not end.
    pub fn end_and_tell_whether_locked(&mut self) -> anyhow::Result<bool> {
        Ok(self.controller.end(Signal::Quit)? && is_locked(&self.controller.said()?))
    }

    /// As of [`Controller::start_again`].
    ///
    /// # Errors
    /// With the end of its log.
    pub async fn start_again(&mut self) -> anyhow::Result<Instant> {
        self.controller.start_again().await
    }

    /// # Errors
    /// When it has ended: with the end of its log.
    pub fn check(&mut self) -> anyhow::Result<()> {
        self.controller.check()
    }
}

/// Whether one of the goroutines waits for a lock that it holds itself.
fn is_locked(stacks: &str) -> bool {
    let frames = ["compareCombinedStatus", "generateCombinedStatus", "RWMutex).RLock"];
    let mut goroutines = stacks.split("\n\n");
    goroutines.any(|stack| frames.iter().all(|frame| stack.contains(frame)))
}

async fn prepare(client: &Client, kubeconfig: &Path) -> anyhow::Result<()> {
    let spaces = cluster_scoped(client, ("tenancy.kflex.kubestellar.org", "v1alpha1", "ControlPlane"));
    let definitions = cluster_scoped(client, ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"));
    create(&definitions, control_planes()).await?;
    let namespaces = cluster_scoped(client, ("", "v1", "Namespace"));
    create(
        &namespaces,
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
    )
    .await?;
    let config = base64::engine::general_purpose::STANDARD.encode(std::fs::read(kubeconfig)?);
    let secrets: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &kind(("", "v1", "Secret")));
    create(
        &secrets,
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "space"}, "data": {"kubeconfig": config, "incluster": config}}),
    )
    .await?;
    for (name, cptype) in [(WDS, "wds"), (ITS, "its")] {
        let labels = json!({"kflex.kubestellar.io/cptype": cptype});
        create_when_served(
            &spaces,
            json!({"apiVersion": "tenancy.kflex.kubestellar.org/v1alpha1", "kind": "ControlPlane",
                "metadata": {"name": name, "labels": labels}, "spec": {"type": "host"}}),
        )
        .await?;
        let secret = json!({"namespace": NAMESPACE, "name": "space", "key": "kubeconfig", "inClusterKey": "incluster"});
        let status = json!({"status": {"conditions": [], "observedGeneration": 1, "secretRef": secret}});
        spaces
            .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
            .await?;
    }
    Ok(())
}

/// Nobody but the controller-manager reads them.
fn control_planes() -> Value {
    let open = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "controlplanes.tenancy.kflex.kubestellar.org"},
        "spec": {
            "group": "tenancy.kflex.kubestellar.org",
            "scope": "Cluster",
            "names": {"kind": "ControlPlane", "plural": "controlplanes"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": open}],
        },
    })
}

fn kind((group, version, kind): (&str, &str, &str)) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

fn cluster_scoped(client: &Client, of: (&str, &str, &str)) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &kind(of))
}

async fn create(api: &Api<DynamicObject>, object: Value) -> anyhow::Result<()> {
    let object = serde_json::from_value(object)?;
    api.create(&PostParams::default(), &object).await?;
    Ok(())
}

/// A definition that was just installed is served a moment later.
async fn create_when_served(api: &Api<DynamicObject>, object: Value) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        match create(api, object.clone()).await {
            Err(_) if begun.elapsed() < Duration::from_secs(20) => tokio::time::sleep(Duration::from_millis(100)).await,
            created => return created,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_locked;

    #[test]
    fn only_a_goroutine_that_waits_for_its_own_lock_is_locked_out() {
        let own = "goroutine 7 [sync.RWMutex.RLock]:\nsync.(*RWMutex).RLock(...)\n\
                   status.(*combinedStatusResolution).generateCombinedStatus(0x1)\n\
                   status.(*combinedStatusResolution).compareCombinedStatus(0x1)\n";
        let writer = "goroutine 8 [sync.RWMutex.Lock]:\nsync.(*RWMutex).Lock(...)\n\
                      status.(*combinedStatusResolution).evaluateWorkStatus(0x1)\n";
        let reader = "goroutine 9 [sync.RWMutex.RLock]:\nsync.(*RWMutex).RLock(...)\n\
                      status.(*combinedStatusResolution).queryingContentRequirements(0x1)\n";
        assert!(is_locked(&format!("{writer}\n{own}\n{reader}")));
        assert!(!is_locked(&format!("{writer}\n{reader}")));
        let elsewhere = own.replace("RLock", "Lock");
        assert!(!is_locked(&format!("{elsewhere}\n{reader}")));
    }
}
