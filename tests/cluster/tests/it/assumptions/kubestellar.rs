//! About KubeStellar's controller-manager and its Bindings: what it leaves alone, and what admission can hold it to.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use stagegate_api::ADMITTED_VERSIONS;

use super::case::{Case, until};
use crate::scenario::apply;
use crate::world::{objects_of, repository};

/// It looks at a change 2 s after it, and tries again what was refused after ever longer pauses.
const QUIET_S: u64 = 6;
/// From the change of a BindingPolicy until its ManifestWorks are there.
const RELEASED_MAX: Duration = Duration::from_secs(10);

pub async fn annotations_survive(case: Case) -> anyhow::Result<()> {
    case.write("one", "web:1").await?;
    collect(&case, &["first", "second"]).await?;
    case.place("first").await?;
    case.comes(&[("a/one", "web:1"), ("b/one", "web:1")]).await?;
    case.annotate(json!({"example.com/note": "not of KubeStellar"})).await?;

    survives(&case, "an object that is edited", case.write("one", "web:2")).await?;
    survives(&case, "an object that is added", case.write("two", "web:1")).await?;
    survives(&case, "an object that is deleted", case.delete("two")).await?;
    survives(&case, "a cluster that joins", case.join("c")).await?;
    survives(&case, "another collector", case.place("second")).await
}

/// After a change KubeStellar writes the Binding, with the annotation.
async fn survives(case: &Case, change: &str, happens: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let before = case.binding().await?["metadata"]["generation"].clone();
    happens.await?;
    let written = until(&format!("the Binding follows {change}"), async || {
        let binding = case.binding().await?;
        let is_written = binding["metadata"]["generation"] != before;
        Ok(if is_written {
            Ok(binding)
        } else {
            Err("as before".to_owned())
        })
    })
    .await?;
    let annotations = &written["metadata"]["annotations"];
    ensure!(
        annotations["example.com/note"] == "not of KubeStellar",
        "after {change} the Binding's annotations are {annotations}"
    );
    Ok(())
}

pub async fn admission_holds(case: Case) -> anyhow::Result<()> {
    for object in objects_of(&repository("deploy/kustomize/staged-updates/policy.yaml"))? {
        apply(&case.client, &object).await?;
    }
    case.write("web", "web:1").await?;
    collect(&case, &["first", "second"]).await?;
    case.place("first").await?;
    case.comes(&[("a/web", "web:1"), ("b/web", "web:1")]).await?;
    list(&case).await?;
    await_in_force(&case).await?;

    // One cluster may leave; the last one may not.
    case.leave("b").await?;
    case.comes(&[("a/web", "web:1")]).await?;
    let last = case.works().await?;
    let since = Timestamp::now();
    case.leave("a").await?;
    case.stay(&last, QUIET_S).await?;
    was_refused(&case, since)?;
    case.join("a").await?;
    case.join("b").await?;
    case.comes(&[("a/web", "web:1"), ("b/web", "web:1")]).await?;

    // KubeStellar sees the edit and tries to write it.
    let works = case.works().await?;
    let since = Timestamp::now();
    case.write("web", "web:2").await?;
    case.stay(&works, QUIET_S).await?;
    was_refused(&case, since)?;

    list(&case).await?;
    case.place("second").await?;
    let released = case.comes(&[("a/web", "web:2"), ("b/web", "web:2")]);
    let released = tokio::time::timeout(RELEASED_MAX, released).await;
    released.with_context(|| format!("the edit does not come within {RELEASED_MAX:?} of its release"))?
}

/// What holds a Binding shows in nothing else: KubeStellar has tried to write it since then.
fn was_refused(case: &Case, since: Timestamp) -> anyhow::Result<()> {
    let refused = case.asked(since)?.into_iter().find(|request| {
        let right = &request.right;
        (right.verb.as_str(), right.resource.as_str(), request.code) == ("update", "bindings", 403)
    });
    refused.context("KubeStellar has not tried to write the Binding, so nothing has held it")?;
    Ok(())
}

/// Holds the Binding at the version that the Deployment has now.
async fn list(case: &Case) -> anyhow::Result<()> {
    let version = case.version("web").await?.context("no Deployment web")?;
    let list = format!("apps/deployments/{}/web@{version}", case.name);
    case.annotate(json!({ADMITTED_VERSIONS: list})).await
}

async fn collect(case: &Case, collectors: &[&str]) -> anyhow::Result<()> {
    for name in collectors {
        let collector = json!({
            "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "StatusCollector", "metadata": {"name": name},
            "spec": {"select": [{"name": "replicas", "def": "returned.status.replicas"}], "limit": 20},
        });
        apply(&case.client, &collector).await?;
    }
    Ok(())
}

/// An admission policy takes effect a moment after it was written.
async fn await_in_force(case: &Case) -> anyhow::Result<()> {
    let emptied = Patch::Merge(json!({"spec": {"workload": {"namespaceScope": null}}}));
    let dry_run = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    until("the admission policy refuses", async || {
        Ok(match case.bindings().patch(&case.name, &dry_run, &emptied).await {
            Ok(_) => Err("admitted".to_owned()),
            Err(error) if error.to_string().contains("held by a staged update") => Ok(()),
            Err(error) => bail!("a Binding that is emptied is refused for another reason: {error}"),
        })
    })
    .await
}
