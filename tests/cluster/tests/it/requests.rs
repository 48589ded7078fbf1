//! The same requests, answered by a real API server and by the playground's. Must not know what any request is about.
//!
//! `requests/<subject>.yaml` lists requests; `requests/<subject>.answers.json` holds what a real server said to them. The real server must
//! still say so, and the playground must say so too, but for differences that the subject lists, each with its reason.

mod answer;
mod conversation;
mod differences;
mod subject;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use futures::future::try_join_all;
use kube::Client;
use libtest_mimic::Trial;
use stagegate_api::crd;
use stagegate_cluster_tests::control_plane::ControlPlane;
use stagegate_cluster_tests::definitions::install;

use crate::scenario;
use crate::world::{self, Backend, World};
use answer::Answer;
use subject::{Listed, Subject};

/// Set: what the real server answers is stored, and compared with nothing.
const UPDATE: &str = "UPDATE_ANSWERS";

/// A policy that the playground has in force, as it is shipped.
const HELD_BINDINGS: &str = "deploy/kustomize/staged-updates/policy.yaml";

/// A server that answers everything differently is told by its first answers.
const FAULTS_SHOWN: usize = 400;

pub fn trials() -> Vec<Trial> {
    let mut trials = vec![
        Trial::test("requests::the_real_server_answers_as_stored", || {
            crate::within("requests/kubernetes", real_server)
        }),
        Trial::test("requests::the_playground_answers_as_stored", || {
            crate::within("requests/playground", playground)
        }),
    ];
    trials.extend(differences::trials());
    trials
}

async fn real_server(folder: &Path) -> anyhow::Result<()> {
    let plane = ControlPlane::start(&folder.join("server")).await?;
    let admin = plane.client().await?;
    for definition in crd::all_for_playground() {
        install(&admin, &definition).await?;
    }
    // What the playground has from the start.
    for object in world::objects_of(&world::repository(HELD_BINDINGS))? {
        scenario::apply(&admin, &object).await?;
    }
    let client = conversation::connect(&plane.kubeconfig()).await?;
    let subjects = subjects()?;
    let answers = ask_all(&client, &subjects).await?;
    if std::env::var_os(UPDATE).is_some() {
        return subjects
            .iter()
            .zip(&answers)
            .try_for_each(|(subject, answers)| store(subject, answers));
    }
    judge(&subjects, &answers, |_| &[])
}

async fn playground(folder: &Path) -> anyhow::Result<()> {
    if std::env::var_os(UPDATE).is_some() {
        return Ok(());
    }
    let _world = World::start(Backend::Playground, folder).await?;
    let client = conversation::connect(&folder.join("kubeconfig")).await?;
    let subjects = subjects()?;
    let answers = ask_all(&client, &subjects).await?;
    judge(&subjects, &answers, |subject| &subject.differences)
}

/// Subjects are asked at once, each in a namespace of its own: watches spend their time waiting.
async fn ask_all(client: &Client, subjects: &[Subject]) -> anyhow::Result<Vec<Vec<Answer>>> {
    try_join_all(subjects.iter().map(async |subject| {
        let answers = conversation::ask(client, subject).await;
        answers.with_context(|| subject.name.clone())
    }))
    .await
}

fn judge(subjects: &[Subject], answers: &[Vec<Answer>], listed: impl Fn(&Subject) -> &[Listed]) -> anyhow::Result<()> {
    let mut faults = Vec::new();
    let mut asked = 0;
    for (subject, answers) in subjects.iter().zip(answers) {
        let stored = stored(subject)?;
        asked += answers.len();
        let of_subject = differences::faults(&stored, answers, listed(subject));
        faults.extend(of_subject.into_iter().map(|fault| format!("{}: {fault}", subject.name)));
    }
    eprintln!("{asked} requests about {} subjects", subjects.len());
    let mut shown = String::new();
    for fault in faults.iter().take(FAULTS_SHOWN) {
        writeln!(shown, "{fault}")?;
    }
    ensure!(faults.is_empty(), "{} differences\n{shown}", faults.len());
    Ok(())
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("requests")
}

fn subjects() -> anyhow::Result<Vec<Subject>> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder())?
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    files.iter().map(|path| Subject::read(path)).collect()
}

fn answers_file(subject: &Subject) -> PathBuf {
    folder().join(format!("{}.answers.json", subject.name))
}

fn stored(subject: &Subject) -> anyhow::Result<Vec<Answer>> {
    let path = answers_file(subject);
    let text = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    let stored: Vec<Answer> = serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display()))?;
    let names = stored.iter().map(|answer| &answer.request);
    ensure!(
        names.eq(subject.requests.iter().map(|request| &request.name)),
        "{} holds answers to other requests: `make answers` asks anew",
        path.display()
    );
    Ok(stored)
}

fn store(subject: &Subject, answers: &[Answer]) -> anyhow::Result<()> {
    let path = answers_file(subject);
    let text = serde_json::to_string_pretty(answers)? + "\n";
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}
