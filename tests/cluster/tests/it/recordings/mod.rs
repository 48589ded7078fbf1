//! What KubeStellar writes, recorded: each file of `recordings/` lists inputs, and beside it is stored what the real one wrote then, every version
//! with its time. The simulation's KubeStellar is held to that (`tests/simulation/tests/it/recordings.rs`). Must not judge what is written.
//!
//! All files but those that restart KubeStellar are recorded at once on one server, each with names of its own: `$own` is the file's.

mod follow;
mod format;
mod work;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures::future::try_join_all;
use kube::Client;
use libtest_mimic::Trial;
use serde::Deserialize;
use stagegate_api::evidence;
use stagegate_cluster_tests::control_plane::ControlPlane;
use stagegate_cluster_tests::controller::Pace;
use stagegate_cluster_tests::definitions::{definitions, install};
use stagegate_cluster_tests::kubestellar::KubeStellar;
use tokio::sync::Mutex;

use follow::Followed;
use format::{Done, Input, Labels, Millis, Recording, Roles};

/// Set: all is recorded anew.
const UPDATE: &str = "UPDATE_RECORDINGS";
/// Inputs of before have been answered by then.
const SETTLED: Duration = Duration::from_secs(1);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Sequence {
    #[serde(skip)]
    name: String,
    about: String,
    clusters: BTreeMap<String, Labels>,
    steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Step {
    Pause { pause: f64 },
    Input(Input),
}

pub fn trial() -> Trial {
    Trial::test("recordings::were_made_of_these_inputs", || {
        crate::within("recordings", async |folder| {
            if std::env::var_os(UPDATE).is_some() {
                record_all(folder).await
            } else {
                are_of_these_inputs()
            }
        })
    })
}

/// Without any server: what a file says now is what was done when it was recorded.
fn are_of_these_inputs() -> anyhow::Result<()> {
    for sequence in sequences()? {
        let path = recorded(&sequence.name);
        let text = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let recording: Recording =
            serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display()))?;
        let is_restart = |input: &Input| matches!(input, Input::Restart { .. });
        let stored = recording.inputs.iter().map(|done| &done.input);
        let listed = sequence.steps.iter().filter_map(|step| match step {
            Step::Input(input) => Some(input),
            Step::Pause { .. } => None,
        });
        let is_same = stored.len() == listed.clone().count()
            && stored
                .zip(listed)
                .all(|(a, b)| a == b || is_restart(a) && is_restart(b));
        ensure!(
            is_same && recording.clusters == sequence.clusters,
            "{} was made of other inputs: `make answers` records anew",
            path.display()
        );
    }
    Ok(())
}

async fn record_all(folder: &Path) -> anyhow::Result<()> {
    let plane = ControlPlane::start(folder).await?;
    let client = plane.client().await?;
    for definition in definitions(true) {
        install(&client, &definition).await?;
    }
    let server = Server {
        kubestellar: Mutex::new(KubeStellar::start(&plane, Pace::Raised).await?),
        followed: Followed::from_now(&client),
        client,
    };
    let (alone, together): (Vec<_>, Vec<_>) = sequences()?.into_iter().partition(Sequence::restarts);
    let recordings = try_join_all(together.iter().map(|sequence| server.record(sequence))).await?;
    together
        .iter()
        .zip(&recordings)
        .try_for_each(|(sequence, recording)| store(sequence, recording))?;
    for sequence in &alone {
        store(sequence, &server.record(sequence).await?)?;
    }
    server.kubestellar.lock().await.check()
}

struct Server {
    client: Client,
    kubestellar: Mutex<KubeStellar>,
    followed: Followed,
}

impl Server {
    async fn record(&self, sequence: &Sequence) -> anyhow::Result<Recording> {
        let recorded = self.work_through(sequence).await;
        recorded.with_context(|| sequence.name.clone())
    }

    async fn work_through(&self, sequence: &Sequence) -> anyhow::Result<Recording> {
        let mut roles = Roles::default();
        work::begin(&self.client, &sequence.name, &sequence.clusters).await?;
        tokio::time::sleep(SETTLED).await;
        let begun = Instant::now();
        let since = || Millis::try_from(begun.elapsed().as_millis()).unwrap_or(Millis::MAX);
        let mut inputs = Vec::new();
        for step in &sequence.steps {
            match step {
                Step::Pause { pause } => tokio::time::sleep(Duration::from_secs_f64(*pause)).await,
                Step::Input(Input::Restart { .. }) => {
                    let at = since();
                    let mut kubestellar = self.kubestellar.lock().await;
                    kubestellar.kill()?;
                    let at_work = kubestellar.start_again().await?;
                    let down_ms = Millis::try_from(at_work.duration_since(begun).as_millis())? - at;
                    let input = Input::Restart { down_ms };
                    inputs.push(Done { at, input });
                }
                Step::Input(input) => {
                    work::carry_out(&self.client, (&sequence.name, input), &mut roles).await?;
                    let input = input.clone();
                    inputs.push(Done { at: since(), input });
                }
            }
        }
        let placed = inputs.iter().filter_map(|done| match &done.input {
            Input::Place { name, .. } => Some(name.as_str()),
            _ => None,
        });
        Ok(Recording {
            about: sequence.about.clone(),
            clusters: sequence.clusters.clone(),
            written: self.followed.written(&placed.collect(), (begun, &roles))?,
            end: since(),
            inputs,
        })
    }
}

impl Sequence {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path)?;
        let text = text
            .replace("$own", &name)
            .replace("$evidence", &evidence::collector_name());
        let read: Result<Self, _> = serde_saphyr::from_str(&text);
        let sequence = read.with_context(|| format!("reading {}", path.display()))?;
        Ok(Self { name, ..sequence })
    }

    fn restarts(&self) -> bool {
        let is_restart = |step: &Step| matches!(step, Step::Input(Input::Restart { .. }));
        self.steps.iter().any(is_restart)
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings")
}

fn recorded(name: &str) -> PathBuf {
    folder().join(format!("{name}.recorded.json"))
}

fn sequences() -> anyhow::Result<Vec<Sequence>> {
    let entries = std::fs::read_dir(folder())?.flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = entries.collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort();
    ensure!(!paths.is_empty(), "there is nothing to record");
    paths.iter().map(|path| Sequence::read(path)).collect()
}

fn store(sequence: &Sequence, recording: &Recording) -> anyhow::Result<()> {
    let path = recorded(&sequence.name);
    let text = serde_json::to_string_pretty(recording)? + "\n";
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}
