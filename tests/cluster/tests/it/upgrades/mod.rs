//! Upgrades: for each release there is recorded what it leaves in an API server in the middle of rollouts (`tests/data/releases`). It is put back as it
//! was, today's manifests are applied over the release's, and today's program must write nothing, and then go on. Must not know what a release wrote.

mod beginning;
mod fixture;
mod reports;
mod rollouts;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use kube::Client;
use libtest_mimic::Trial;
use serde_json::{Value, json};
use stagegate_api::crd;
use stagegate_cluster_tests::audit;
use stagegate_cluster_tests::control_plane::ControlPlane;
use stagegate_cluster_tests::etcd::Stored;
use stagegate_cluster_tests::host::Host;
use stagegate_cluster_tests::installation::{Installation, Kind, USER, apply as kubectl_apply};

use crate::{gates, scenario};
use fixture::Fixture;
use reports::Reports;
use rollouts::Rollouts;

/// Set: that of the workspace's version is recorded anew.
const UPDATE: &str = "UPDATE_RELEASE";
/// How long nothing may be written.
const IDLE: Duration = Duration::from_secs(10);
/// From the start of the program until it leads: the lease of the earlier holder has to run out.
const LEADS_MAX: Duration = Duration::from_secs(30);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(200);

pub fn trials() -> Vec<Trial> {
    if std::env::var_os(UPDATE).is_some() {
        let record = |kind: Kind| {
            let name = format!("upgrades::record::{kind:?}");
            Trial::test(name.clone(), move || {
                crate::within(&name.replace("::", "/"), async |folder| record(folder, kind).await)
            })
        };
        return fixture::KINDS.map(record).into();
    }
    let upgrade = |fixture: Fixture| {
        let name = format!("upgrades::{}", fixture.name());
        Trial::test(name.clone(), move || {
            crate::within(&name.replace("::", "/"), async |folder| upgrade(folder, &fixture).await)
        })
    };
    fixture::all().into_iter().map(upgrade).collect()
}

async fn record(folder: &Path, kind: Kind) -> anyhow::Result<()> {
    let plane = ControlPlane::start_with(&folder.join("server"), &[]).await?;
    let client = plane.client().await?;
    prepare(&client, kind).await?;
    let installation = Installation::install(&plane, kind).await?;
    scenario::apply(&client, &gates::config_map("min-available")?).await?;
    let host = start(&installation, folder)?;
    let mut world = (Rollouts::of(&client, kind), Reports::of(&client, kind));
    beginning::bring_about(&client, kind, (&mut world.0, &mut world.1)).await?;
    host.stop()?;
    Fixture::of_today(kind).write(&plane.stored().await?)
}

async fn upgrade(folder: &Path, fixture: &Fixture) -> anyhow::Result<()> {
    let kind = fixture.kind;
    let stored = fixture.stored()?;
    let plane = ControlPlane::start_with(&folder.join("server"), &stored).await?;
    let client = plane.client().await?;
    prepare(&client, kind).await?;
    kubectl_apply(&plane, &["-f", &fixture.installation()]).context("what the release has shipped")?;
    let installation = Installation::install(&plane, kind).await?;
    scenario::apply(&client, &gates::config_map("min-available")?).await?;

    let from = std::fs::metadata(plane.audit_log())?.len();
    let host = start(&installation, folder)?;
    leads(&host).await?;
    tokio::time::sleep(IDLE).await;
    nothing_moves(&plane, from, &stored).await?;

    let mut rollouts = Rollouts::of(&client, kind);
    rollouts.look().await?;
    let unread = rollouts.differing(&stored);
    ensure!(
        unread.is_empty(),
        "today's definition does not serve all that was stored: {unread:?}"
    );
    let expected = rollouts.left();
    ensure!(!rollouts.have_ended(), "nothing is in the middle of a rollout");
    let mut reports = Reports::of(&client, kind);
    rollouts.end(&mut reports).await?;
    ensure!(
        *rollouts.went() == expected,
        "went through {:?}, not {expected:?}",
        rollouts.went()
    );
    host.stop()?;
    Ok(())
}

/// What must be there before an installation, and is none of ours.
async fn prepare(client: &Client, kind: Kind) -> anyhow::Result<()> {
    if kind == Kind::NodePools {
        let mut definition = serde_json::to_value(crd::node_pools("v1beta2"))?;
        definition["apiVersion"] = json!("apiextensions.k8s.io/v1");
        definition["kind"] = json!("CustomResourceDefinition");
        scenario::apply(client, &definition).await?;
    }
    Ok(())
}

fn start(installation: &Installation, folder: &Path) -> anyhow::Result<Host> {
    Host::start(
        &installation.arguments()?,
        installation.environment(),
        &folder.join("host.log"),
    )
}

async fn leads(host: &Host) -> anyhow::Result<()> {
    let begun = std::time::Instant::now();
    while !host.said().contains("\"leading\"") {
        ensure!(
            begun.elapsed() < LEADS_MAX,
            "the program does not lead:\n{}",
            host.said()
        );
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// All is as it was put back, and what the program has written since is known: once, the fencing token of each closed placement, because a
/// new leader has a higher one.
async fn nothing_moves(plane: &ControlPlane, from: u64, stored: &[Stored]) -> anyhow::Result<()> {
    let (mut written, mut refused) = (Vec::new(), BTreeSet::new());
    for asked in audit::answered(&plane.audit_log(), from)? {
        let is_read = ["get", "list", "watch"].contains(&asked.right.verb.as_str());
        if asked.user != USER || is_read || asked.right.resource == "leases" {
            continue;
        }
        match asked.code {
            403 => drop(refused.insert((asked.right.resource, asked.name))),
            _ => written.push(format!("{} {}", asked.right, asked.name)),
        }
    }
    written.sort();
    let expected: Vec<String> = closed(stored)
        .map(|name| format!("patch bindingpolicies.control.kubestellar.io {name}"))
        .collect();
    ensure!(written == expected, "wrote {written:?}, not {expected:?}");
    let held: BTreeSet<(String, String)> = held(stored).collect();
    ensure!(
        refused == held,
        "the API server refused writes of {refused:?}, and {held:?} are held"
    );

    let (before, now) = (contents(stored), contents(&plane.stored().await?));
    let keys: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let moved = keys.into_iter().filter(|key| before.get(*key) != now.get(*key));
    let moved: Vec<&String> = moved.collect();
    ensure!(moved.is_empty(), "changed: {moved:?}");
    Ok(())
}

/// The names of the stages' placements that select no cluster.
fn closed(stored: &[Stored]) -> impl Iterator<Item = String> {
    let placements = of_kind(stored, "BindingPolicy");
    let closed = placements.filter(|object| object["spec"]["clusterSelectors"].as_array().is_none_or(Vec::is_empty));
    let mut names: Vec<String> = closed.filter_map(name).collect();
    names.retain(|name| name.contains(".stage."));
    names.sort();
    names.into_iter()
}

/// Bindings that name an older version than there is: what writes Bindings tries again and again to bring them up to date.
fn held(stored: &[Stored]) -> impl Iterator<Item = (String, String)> {
    let deployments = stored.iter().filter(|one| one.object["kind"] == "Deployment");
    let versions: BTreeMap<Option<String>, String> = deployments
        .map(|one| (name(&one.object), one.revision.to_string()))
        .collect();
    let is_outdated = move |named: &Value| {
        let version = versions.get(&named["name"].as_str().map(str::to_owned));
        version.is_some_and(|version| named["resourceVersion"] != json!(version))
    };
    let bindings = of_kind(stored, "Binding").filter(move |binding| {
        let named = binding["spec"]["workload"]["namespaceScope"].as_array();
        named.into_iter().flatten().any(&is_outdated)
    });
    bindings.filter_map(|binding| Some(("bindings".to_owned(), name(binding)?)))
}

/// By key: what rollouts are made of, but for annotations, and for the Lease, which is renewed all the time.
fn contents(stored: &[Stored]) -> BTreeMap<String, Value> {
    let kept = stored
        .iter()
        .filter(|one| fixture::is_kept(&one.key) && one.object["kind"] != "Lease");
    let contents = kept.map(|one| {
        let mut object = one.object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|member, _| !["annotations", "managedFields"].contains(&member.as_str()));
        }
        (one.key.clone(), object)
    });
    contents.collect()
}

fn of_kind<'a>(stored: &'a [Stored], kind: &str) -> impl Iterator<Item = &'a Value> {
    stored
        .iter()
        .map(|one| &one.object)
        .filter(move |object| object["kind"] == kind)
}

fn name(object: &Value) -> Option<String> {
    object["metadata"]["name"].as_str().map(str::to_owned)
}
