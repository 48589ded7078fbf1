//! One number of policies, from an empty server to the last figure. Must not print.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use stagegate_api::{Phase, StagedBindingPolicy};
use stagegate_cluster_tests::audit::Answered;
use stagegate_cluster_tests::control_plane::ControlPlane;
use stagegate_cluster_tests::host;
use stagegate_cluster_tests::installation::{Installation, Kind, USER};

use crate::figures::{Figures, Flip};
use crate::kinds;
use crate::objects::{self, Answer, NAMESPACE, PASSING, STAGES, Stored, placement};
use crate::side::{CONCURRENCY, Side, Started, Who};

/// Changes that decide nothing.
const CHANGES: usize = 500;
/// Policies that are moved one at a time, at most.
const FLIPS_MAX: usize = 300;
/// Between two of them.
const FLIP_PAUSE: Duration = Duration::from_millis(100);
const BURST: usize = 90;
/// Moved after a restart.
const LAST: usize = 5;
const PLACED_MAX: Duration = Duration::from_secs(1_200);
const OPENED_MAX: Duration = Duration::from_secs(60);
/// After a start the evidence collector has to stand for 10 s, and a Binding for 3 s, before anything counts.
const TRUST: Duration = Duration::from_secs(14);
const IDLE: Duration = Duration::from_secs(10);

/// A server and both controllers.
struct Trial {
    // They end before their server does.
    sides: [Side; 2],
    plane: ControlPlane,
    client: Client,
    policies: usize,
    deployments: Vec<Stored>,
    /// Of Stagegate and of the floor.
    figures: [Figures; 2],
    /// The next policy that has not been moved.
    next: usize,
}

/// # Errors
/// Whatever does not come up or does not get done.
pub async fn run(policies: usize, folder: &Path) -> anyhow::Result<[Figures; 2]> {
    let mut trial = Trial::prepare(policies, folder).await?;
    trial.place().await?;
    trial.deliver().await?;
    trial.idle().await?;
    trial.change(false).await?;
    trial.change(true).await?;
    trial.flip().await?;
    trial.burst().await?;
    trial.restart().await?;
    Ok(trial.figures)
}

impl Trial {
    async fn prepare(policies: usize, folder: &Path) -> anyhow::Result<Trial> {
        let plane = ControlPlane::start(&folder.join("server")).await?;
        let client = plane.client().await?;
        let installation = Installation::install(&plane, Kind::PlainCluster).await?;
        for definition in kinds::copied_definitions() {
            install(&client, &definition).await?;
        }
        let namespaces = Api::<k8s_openapi::api::core::v1::Namespace>::all(client.clone());
        let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
        namespaces.create(&PostParams::default(), &namespace).await?;
        let collectors = Api::<stagegate_api::StatusCollector>::all(client.clone());
        collectors
            .create(&PostParams::default(), &serde_json::from_value(objects::collector())?)
            .await?;
        let sides = [
            Side::new(
                &client,
                (Who::Stagegate, USER.to_owned()),
                stagegate(&installation, folder),
            ),
            floor(&plane, &client, folder).await?,
        ];
        let api: Api<k8s_openapi::api::apps::v1::Deployment> = Api::namespaced(client.clone(), NAMESPACE);
        let writes = (0..policies).map(|number| {
            let api = api.clone();
            async move {
                let deployment = serde_json::from_value(objects::deployment(number))?;
                let created = api.create(&PostParams::default(), &deployment).await?.metadata;
                anyhow::Ok(Stored {
                    uid: created.uid.unwrap_or_default(),
                    resource_version: created.resource_version.unwrap_or_default(),
                })
            }
        });
        let deployments = stream::iter(writes).buffered(CONCURRENCY).try_collect().await?;
        for side in &sides {
            side.create_policies(policies).await?;
        }
        Ok(Trial {
            plane,
            client,
            policies,
            deployments,
            sides,
            figures: Default::default(),
            next: 0,
        })
    }

    /// From the start of each controller until all first stages are open and the next ones prepared.
    async fn place(&mut self) -> anyhow::Result<()> {
        let policies = self.policies;
        for (side, figures) in self.sides.iter_mut().zip(&mut self.figures) {
            let from = mark(&self.plane)?;
            let begun = side.start()?;
            let all =
                |followed: &crate::follow::Followed| followed.has(STAGES.len() * policies, policies).then_some(());
            let placed = side.followed.wait(PLACED_MAX, all).await;
            figures.placed = begun.elapsed();
            placed.with_context(|| format!("{:?} has not placed all within {PLACED_MAX:?}", side.who))?;
            side.quiet().await?;
            figures.placing_cpu = side.usage()?.cpu;
            figures.placing_writes = writes(&side.answered(&self.plane.audit_log(), from)?, policies);
        }
        Ok(())
    }

    /// KubeStellar's part, until every policy holds at its first stage.
    async fn deliver(&mut self) -> anyhow::Result<()> {
        let numbers: Vec<usize> = (0..self.policies).collect();
        for side in &mut self.sides {
            side.deliver(&numbers, 0, &self.deployments).await?;
        }
        tokio::time::sleep(TRUST).await;
        for side in &mut self.sides {
            side.quiet().await?;
        }
        let api: Api<StagedBindingPolicy> = Api::all(self.client.clone());
        let all = api.list(&ListParams::default()).await?;
        let holds = |policy: &&StagedBindingPolicy| {
            policy.status.as_ref().and_then(|status| status.phase) == Some(Phase::Holding)
        };
        let holding = all.iter().filter(holds).count();
        let other = all.iter().find(|policy| !holds(policy));
        ensure!(
            holding == self.policies,
            "{holding} of {} hold; another one: {:?}",
            self.policies,
            other.map(|other| &other.status)
        );
        Ok(())
    }

    async fn idle(&mut self) -> anyhow::Result<()> {
        let from = mark(&self.plane)?;
        let before = self.usages()?;
        tokio::time::sleep(IDLE).await;
        for (at, usage) in self.usages()?.into_iter().enumerate() {
            let figures = &mut self.figures[at];
            figures.idle_cpu = usage.cpu - before[at].cpu;
            figures.resident_mib = usage.resident_mib;
            figures.idle_requests = self.sides[at].answered(&self.plane.audit_log(), from)?.len();
        }
        Ok(())
    }

    /// Evidence that changes and leaves the condition false; of one controller and the other in turn. First what the condition
    /// asks for changes and the replicas that status tells of stay; then these change too, and status has something new to tell.
    async fn change(&mut self, is_told: bool) -> anyhow::Result<()> {
        let from = mark(&self.plane)?;
        let before = self.usages()?;
        for change in 0..CHANGES {
            for side in &self.sides {
                // A value that was not there before, and never the passing one.
                let asked = PASSING + 1 + u32::try_from(change)?;
                let available = if is_told { asked } else { 0 };
                side.report(change % self.policies, Answer { asked, available }).await?;
            }
        }
        for side in &mut self.sides {
            side.quiet().await?;
        }
        for (at, usage) in self.usages()?.into_iter().enumerate() {
            let figures = &mut self.figures[at].changes[usize::from(is_told)];
            figures.cpu = (usage.cpu - before[at].cpu) / u32::try_from(CHANGES)?;
            figures.requests = per(&self.sides[at].answered(&self.plane.audit_log(), from)?, CHANGES);
        }
        Ok(())
    }

    /// One policy at a time, of one controller and the other in turn.
    async fn flip(&mut self) -> anyhow::Result<()> {
        let flips = FLIPS_MAX.min(self.policies.saturating_sub(BURST + LAST));
        let from = mark(&self.plane)?;
        let before = self.usages()?;
        let numbers = self.take(flips);
        for &number in &numbers {
            for (side, figures) in self.sides.iter().zip(&mut self.figures) {
                match flip(side, number).await? {
                    Some(flip) => figures.flips.push(flip),
                    None => figures.missed += 1,
                }
                tokio::time::sleep(FLIP_PAUSE).await;
            }
            // As soon after its placement as KubeStellar would.
            for side in &mut self.sides {
                side.deliver(&[number], 1, &self.deployments).await?;
            }
        }
        tokio::time::sleep(TRUST).await;
        for side in &mut self.sides {
            side.quiet().await?;
        }
        for (at, usage) in self.usages()?.into_iter().enumerate() {
            let figures = &mut self.figures[at];
            let answered = self.sides[at].answered(&self.plane.audit_log(), from)?;
            figures.flip_cpu = (usage.cpu - before[at].cpu) / u32::try_from(flips.max(1))?;
            figures.flip_writes = writes(&answered, flips);
            figures.flip_requests = per(&answered, flips);
        }
        Ok(())
    }

    /// Many at once: from the first write to the last stage that opens.
    async fn burst(&mut self) -> anyhow::Result<()> {
        // Twice where there are enough, and the order changes.
        let rounds = ((self.policies - self.next).saturating_sub(LAST) / BURST).min(4);
        for round in 0..rounds {
            let numbers = self.take(BURST);
            for at in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
                let side = &self.sides[at];
                let begun = Instant::now();
                let reports = numbers.iter().map(|&number| side.report(number, Answer::PASSING));
                stream::iter(reports)
                    .buffer_unordered(BURST)
                    .try_collect::<Vec<_>>()
                    .await?;
                let last = |followed: &crate::follow::Followed| {
                    let opened = numbers.iter().map(|&number| followed.opened_at(&placement(number, 1)));
                    opened.collect::<Option<Vec<Instant>>>()?.into_iter().max()
                };
                let last = side.followed.wait(OPENED_MAX, last).await;
                let last = last.with_context(|| format!("{:?} has not opened all of a burst", side.who))?;
                self.figures[at].bursts.push(last - begun);
                self.sides[at].quiet().await?;
            }
        }
        for (at, usage) in self.usages()?.into_iter().enumerate() {
            self.figures[at].end_mib = usage.resident_mib;
            self.figures[at].peak_mib = usage.peak_mib;
        }
        Ok(())
    }

    /// Stagegate's alone: the floor remembers nothing.
    async fn restart(&mut self) -> anyhow::Result<()> {
        let numbers = self.take(LAST);
        let (side, figures) = (&mut self.sides[0], &mut self.figures[0]);
        figures.stopped_in = side.stop()?;
        let from = mark(&self.plane)?;
        side.start()?;
        tokio::time::sleep(TRUST).await;
        side.quiet().await?;
        let answered = side.answered(&self.plane.audit_log(), from)?;
        figures.restart_writes = writes(&answered, 1).values().sum();
        for number in numbers {
            figures.restart_worked += usize::from(flip(side, number).await?.is_some());
        }
        side.quiet().await?;
        let usage = side.usage()?;
        figures.restart_cpu = usage.cpu;
        figures.restart_mib = usage.resident_mib;
        let answered = side.answered(&self.plane.audit_log(), from)?;
        figures.restart_failing = answered.iter().filter(is_failing).count();
        self.sides[0].stop()?;
        Ok(())
    }

    fn take(&mut self, count: usize) -> Vec<usize> {
        let first = self.next;
        self.next += count;
        (first..self.next).collect()
    }

    fn usages(&mut self) -> anyhow::Result<[stagegate_cluster_tests::usage::Usage; 2]> {
        let [stagegate, floor] = &mut self.sides;
        Ok([stagegate.usage()?, floor.usage()?])
    }
}

/// `None`: the next stage did not open.
async fn flip(side: &Side, number: usize) -> anyhow::Result<Option<Flip>> {
    let reported = side.report(number, Answer::PASSING).await?;
    let next = placement(number, 1);
    let opened = side.followed.wait(OPENED_MAX, |followed| {
        let seen_at = followed.evidence_at(&reported.combined, &reported.version)?;
        Some((seen_at, followed.opened_at(&next)?))
    });
    Ok(opened.await.map(|(seen_at, opened_at)| Flip {
        from_write: opened_at.saturating_duration_since(reported.sent_at),
        from_event: opened_at.saturating_duration_since(seen_at),
    }))
}

/// By the rights of the shipped manifests, without `--leader-elect`: a lease would be requests of its own.
fn stagegate(installation: &Installation, folder: &Path) -> Started {
    Started {
        program: host::program(),
        arguments: vec![
            "run".to_owned(),
            "--controllers=staging".to_owned(),
            format!("--kubeconfig={}", installation.kubeconfig().display()),
        ],
        environment: installation.environment().to_vec(),
        log: folder.join("stagegate.log"),
    }
}

async fn floor(plane: &ControlPlane, client: &Client, folder: &Path) -> anyhow::Result<Side> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
    let account = serde_json::from_value(json!({"metadata": {"name": "floor"}}))?;
    accounts.create(&PostParams::default(), &account).await?;
    let user = format!("system:serviceaccount:{NAMESPACE}:floor");
    let binding = json!({
        "metadata": {"name": "floor"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "floor", "namespace": NAMESPACE}],
    });
    let bindings: Api<k8s_openapi::api::rbac::v1::ClusterRoleBinding> = Api::all(client.clone());
    bindings
        .create(&PostParams::default(), &serde_json::from_value(binding)?)
        .await?;
    let request = TokenRequest {
        spec: TokenRequestSpec::default(),
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request("floor", &PostParams::default(), &request)
        .await?;
    let token = answer.status.context("a TokenRequest without an answer")?.token;
    let kubeconfig: PathBuf = plane.kubeconfig_for("floor", &token)?;
    let started = Started {
        program: std::env::current_exe()?,
        arguments: vec!["floor".to_owned(), kubeconfig.display().to_string()],
        environment: Vec::new(),
        log: folder.join("floor.log"),
    };
    Ok(Side::new(client, (Who::Floor, user), started))
}

async fn install(
    client: &Client,
    definition: &k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
) -> anyhow::Result<()> {
    let api = Api::all(client.clone());
    let name = api
        .create(&PostParams::default(), definition)
        .await?
        .metadata
        .name
        .unwrap_or_default();
    let wait = kube::runtime::wait::await_condition(api, &name, kube::runtime::conditions::is_crd_established());
    let waited = tokio::time::timeout(Duration::from_secs(30), wait).await;
    waited.with_context(|| format!("{name} is not established"))??;
    // A server that is asked the moment after may still say that it knows no such kind.
    tokio::time::sleep(Duration::from_millis(500)).await;
    Ok(())
}

/// How long the audit log is.
fn mark(plane: &ControlPlane) -> anyhow::Result<u64> {
    let log = plane.audit_log();
    let about = std::fs::metadata(&log).with_context(|| format!("reading {}", log.display()))?;
    Ok(about.len())
}

/// Writes that were carried out for each of so many, Events and lease apart.
fn writes(answered: &[Answered], of: usize) -> BTreeMap<String, f64> {
    let is_write = |answered: &&Answered| {
        ["create", "update", "patch", "delete"].contains(&answered.right.verb.as_str())
            && !["events", "leases"].contains(&answered.right.resource.as_str())
            && answered.code < 300
    };
    let written: Vec<Answered> = answered.iter().filter(is_write).cloned().collect();
    per(&written, of)
}

/// That something is not there, as the Binding of a closed placement here, is an answer to whoever reads it.
fn is_failing(answered: &&Answered) -> bool {
    answered.code >= 400 && !(answered.code == 404 && answered.right.verb == "get")
}

fn per(answered: &[Answered], of: usize) -> BTreeMap<String, f64> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for answered in answered {
        let right = &answered.right;
        let subresource = if right.subresource.is_empty() {
            String::new()
        } else {
            format!("/{}", right.subresource)
        };
        *counts
            .entry(format!("{} {}{subresource}", right.verb, right.resource))
            .or_default() += 1;
    }
    let of = u32::try_from(of.max(1)).unwrap_or(u32::MAX);
    counts
        .into_iter()
        .map(|(what, count)| (what, f64::from(count) / f64::from(of)))
        .collect()
}
