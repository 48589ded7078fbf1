//! About KubeStellar's controller-manager and its Bindings: what it leaves alone, and what admission can hold it to.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::case::{Case, until};
use crate::scenario::apply;
use crate::world::{objects_of, repository};

const VERSIONS: &str = "community.kubestellar.io/versions";
const HOLD: &str = "community.kubestellar.io/hold";
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
    for object in objects_of(&repository("tests/cluster/definitions/hold.yaml"))? {
        apply(&case.client, &object).await?;
    }
    case.write("web", "web:1").await?;
    collect(&case, &["first", "second", "third"]).await?;
    case.place("first").await?;
    case.comes(&[("a/web", "web:1"), ("b/web", "web:1")]).await?;
    list(&case, json!({})).await?;
    await_in_force(&case).await?;
    let works = case.works().await?;

    // KubeStellar sees the edit and tries to write it.
    let since = Timestamp::now();
    case.write("web", "web:2").await?;
    case.stay(&works, QUIET_S).await?;
    let refused = case.asked(since)?.into_iter().find(|request| {
        let right = &request.right;
        (right.verb.as_str(), right.resource.as_str(), request.code) == ("update", "bindings", 403)
    });
    refused.context("KubeStellar has not tried to write the Binding, so nothing has held it")?;

    // With the latch only a Binding that says Open is written, even at the listed versions: the latch would go.
    let latch = json!([{
        "group": "community.kubestellar.io", "version": "v1alpha1", "resource": "stagedbindingpolicies",
        "name": "held-by-stagegate", "resourceVersion": "0",
    }]);
    patch(&case, &json!({"spec": {"workload": {"clusterScope": latch}}}), false)
        .await
        .context("the latch changes no version")?;
    list(&case, json!({})).await?;
    case.place("second").await?;
    case.stay(&works, QUIET_S).await?;

    list(&case, json!({HOLD: "Open"})).await?;
    case.place("third").await?;
    let released = case.comes(&[("a/web", "web:2"), ("b/web", "web:2")]);
    let released = tokio::time::timeout(RELEASED_MAX, released).await;
    released.with_context(|| format!("the edit does not come within {RELEASED_MAX:?} of its release"))?
}

/// Holds the Binding at the version that the Deployment has now.
async fn list(case: &Case, and: Value) -> anyhow::Result<()> {
    let version = case.version("web").await?.context("no Deployment web")?;
    let mut annotations = and;
    annotations[VERSIONS] = json!(format!("apps/deployments/{}/web@{version}", case.name));
    case.annotate(annotations).await
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
    let emptied = json!({"spec": {"workload": {"namespaceScope": null}}});
    until("the admission policy refuses", async || {
        Ok(match patch(case, &emptied, true).await {
            Ok(()) => Err("admitted".to_owned()),
            Err(error) if format!("{error:#}").contains("held at the versions") => Ok(()),
            Err(error) => bail!("a Binding that is emptied is refused for another reason: {error:#}"),
        })
    })
    .await
}

async fn patch(case: &Case, patch: &Value, dry_run: bool) -> anyhow::Result<()> {
    let parameters = PatchParams {
        dry_run,
        ..PatchParams::default()
    };
    case.bindings()
        .patch(&case.name, &parameters, &Patch::Merge(patch))
        .await?;
    Ok(())
}
