//! How soon an edit is in the ManifestWorks of the first stage's cluster, and how soon, once that stage has passed, in those of the next.
//! Must not play any part of KubeStellar.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use stagegate_api::{stage_binding_policy_name, versions_binding_policy_name};
use stagegate_cluster_tests::bench::figures::{number, quantile};
use stagegate_cluster_tests::bench::objects::{self, NAMESPACE, STAGES};
use stagegate_cluster_tests::controller::Pace;

use crate::table::{self, Row};
use crate::watched::{Steps, Watched};
use crate::world::{self, World};

const POLICY: &str = "shop";
const EDITS: usize = 5;
/// Between two edits. That holds are enforced is asked again after half a minute, as it is before an edit that comes alone; and edits that follow
/// sooner may slip into a stage (docs/updates.md).
const PAUSE: Duration = Duration::from_secs(35);
const STEP_MAX: Duration = Duration::from_secs(180);
const PLACED_MAX: Duration = Duration::from_secs(300);

/// What is delivered, to how many clusters, and how soon it should be.
#[derive(Clone, Copy)]
pub struct Case {
    pace: Pace,
    deployments: usize,
    /// Clusters of the second stage.
    next_clusters: usize,
    goals: Goals,
}

/// In seconds.
#[derive(Clone, Copy)]
struct Goals {
    /// Beside the settle time.
    first: f64,
    next: f64,
}

pub const ALONE: Case = Case {
    pace: Pace::Raised,
    deployments: 1,
    next_clusters: 1,
    goals: Goals { first: 6.0, next: 3.0 },
};
pub const MANY: Case = Case {
    pace: Pace::Shipped,
    deployments: 10,
    next_clusters: 1,
    goals: Goals { first: 12.0, next: 8.0 },
};
pub const MANY_TO_THREE: Case = Case {
    next_clusters: 3,
    goals: Goals {
        first: 12.0,
        next: 16.0,
    },
    ..MANY
};

/// Seconds from the beginning of one way to the clusters of a stage. What another watch has told of sooner is negative.
struct Way {
    listed: f64,
    written: f64,
    taken: f64,
    carried: f64,
}

/// What came of one edit.
struct Edited {
    /// Seconds from the answer to the edit until KubeStellar had written that there is a newer version.
    noticed: f64,
    to_first: Way,
    /// Seconds from the last ManifestWork until the first stage had passed.
    judged: f64,
    to_next: Way,
}

/// # Errors
/// Whatever does not come up or does not get done.
pub async fn measure(folder: &Path, cases: &[Case]) -> anyhow::Result<()> {
    for (number, case) in cases.iter().enumerate() {
        let mut trial = Trial::prepare(*case, &folder.join(number.to_string())).await?;
        let mut edits = Vec::new();
        for edit in 0..EDITS {
            let edited = trial.edit(&format!("web:{}", edit + 2)).await;
            edits.push(edited.with_context(|| format!("edit {edit} of case {number}"))?);
            tokio::time::sleep(PAUSE).await;
        }
        print(*case, trial.world.settle, &edits);
    }
    Ok(())
}

struct Trial {
    // They end before what they watch.
    watched: Watched,
    world: World,
    deployments: Vec<String>,
    /// The clusters of each stage.
    clusters: [Vec<String>; 2],
}

impl Trial {
    /// Returns when the first version is everywhere.
    async fn prepare(case: Case, folder: &Path) -> anyhow::Result<Trial> {
        let stages = [(STAGES[0], 1), (STAGES[1], case.next_clusters)];
        let shape = world::Shape {
            pace: case.pace,
            stages: &stages,
            deployments: case.deployments,
        };
        let mut world = World::start(folder, &shape).await?;
        let watched = Watched::start(&world.servers.client);
        let all = json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]});
        let policy = world::policy(POLICY, &all, &stages);
        world.place(std::iter::once(policy)).await?;
        world.completed(PLACED_MAX).await?;
        tokio::time::sleep(PAUSE).await;
        Ok(Trial {
            watched,
            world,
            deployments: (0..case.deployments).map(objects::name).collect(),
            clusters: stages.map(|(stage, count)| (1..=count).map(|number| world::cluster(stage, number)).collect()),
        })
    }

    async fn edit(&mut self, image: &str) -> anyhow::Result<Edited> {
        self.world.check()?;
        let api: Api<Deployment> = Api::namespaced(self.world.servers.client.clone(), NAMESPACE);
        let patch = Patch::Strategic(json!({
            "spec": {"template": {"spec": {"containers": [{"name": "web", "image": image}]}}},
        }));
        let params = PatchParams::default();
        let writes = self.deployments.iter().map(|name| api.patch(name, &params, &patch));
        try_join_all(writes).await?;
        let edited_at = Instant::now();
        let first_at = self.carried(0, image).await?;
        let noticed = self.steps(&versions_binding_policy_name(POLICY))?.written;
        let to_first = self.way(0, (edited_at, first_at))?;
        let passed = |watched: &Watched| watched.passed(STAGES[0], edited_at);
        let passed_at = self.watched.wait(STEP_MAX, passed).await;
        let passed_at = passed_at.with_context(|| format!("{image} has not passed the first stage"))?;
        let next_at = self.carried(1, image).await?;
        let to_next = self.way(1, (passed_at, next_at))?;
        let completed = |watched: &Watched| watched.completed(passed_at);
        let completed_at = self.watched.wait(STEP_MAX, completed).await;
        completed_at.with_context(|| format!("{image} is not completed"))?;
        Ok(Edited {
            noticed: seconds(edited_at, noticed),
            to_first,
            judged: seconds(first_at, passed_at),
            to_next,
        })
    }

    /// When all clusters of the stage have their ManifestWorks.
    async fn carried(&self, stage: usize, image: &str) -> anyhow::Result<Instant> {
        let all = |watched: &Watched| watched.carried(&self.clusters[stage], &self.deployments, image);
        let carried_at = self.watched.wait(STEP_MAX, all).await;
        carried_at.with_context(|| format!("not all ManifestWorks of stage {} carry {image}", STAGES[stage]))
    }

    fn steps(&self, binding: &str) -> anyhow::Result<Steps> {
        let steps = self.watched.steps(binding);
        steps.with_context(|| format!("no Binding {binding}"))
    }

    fn way(&self, stage: usize, (from, carried_at): (Instant, Instant)) -> anyhow::Result<Way> {
        let steps = self.steps(&stage_binding_policy_name(POLICY, STAGES[stage]))?;
        Ok(Way {
            listed: seconds(from, steps.listed),
            written: seconds(from, steps.written),
            taken: seconds(from, steps.taken),
            carried: seconds(from, carried_at),
        })
    }
}

fn print(case: Case, settle: Duration, edits: &[Edited]) {
    let settle = settle.as_secs_f64();
    let many = if case.deployments == 1 { "" } else { "last " };
    let clusters = if case.next_clusters == 1 {
        "cluster".to_owned()
    } else {
        format!("{} clusters", case.next_clusters)
    };
    let first = format!("edit → {many}ManifestWork of stage {}, s", STAGES[0]);
    let next = format!(
        "stage {} passed → {many}ManifestWork of the next stage's {clusters}, s",
        STAGES[0]
    );
    let rows = [
        Row::new(first, median(edits, |edit| edit.to_first.carried)).goal(settle + case.goals.first),
        Row::new("… longest", longest(edits, |edit| edit.to_first.carried)),
        Row::new(next, median(edits, |edit| edit.to_next.carried)).goal(case.goals.next),
        Row::new("… longest", longest(edits, |edit| edit.to_next.carried)),
    ];
    let title = format!(
        "{} Deployment(s), client limits of KubeStellar and its transport: {:?}; --settle={settle}s; medians of {EDITS} edits",
        case.deployments, case.pace
    );
    table::print(&title, "", &rows);
    println!(
        "s since the edit: Binding of the versions written {}, {}",
        number(median(edits, |edit| edit.noticed)),
        steps(edits, |edit| &edit.to_first)
    );
    let judged = number(median(edits, |edit| edit.judged));
    println!(
        "s from the last ManifestWork until stage {} has passed: {judged}",
        STAGES[0]
    );
    println!("s since it passed: {}", steps(edits, |edit| &edit.to_next));
}

/// The medians of what comes one after the other on the way.
fn steps(edits: &[Edited], way: fn(&Edited) -> &Way) -> String {
    let text = |step: fn(&Way) -> f64| number(median(edits, |edit| step(way(edit))));
    format!(
        "list renewed {}, Binding written {}, taken by the transport {}, last ManifestWork {}",
        text(|way| way.listed),
        text(|way| way.written),
        text(|way| way.taken),
        text(|way| way.carried)
    )
}

fn seconds(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64() - from.saturating_duration_since(to).as_secs_f64()
}

fn median(edits: &[Edited], of: impl Fn(&Edited) -> f64) -> f64 {
    quantile(edits.iter().map(of), 50)
}

fn longest(edits: &[Edited], of: impl Fn(&Edited) -> f64) -> f64 {
    quantile(edits.iter().map(of), 100)
}
