//! The program's `binding` and `combine` against KubeStellar's: each file of `translations/` is worked through on two API servers at once, one with
//! KubeStellar's controller-manager and one with the program in its place, and at each mark both must show the same. Must not wait for one
//! side by what the other does.
//!
//! All files share the two servers, each with names of its own, and run at once: KubeStellar answers after seconds, whatever it is asked.

mod fixture;
mod random;
mod side;
mod snapshot;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde_json::Value;

use self::fixture::{Fixture, Mark, Names, Step};
use self::side::{KubeStellarSide, OurSide};
use crate::world::repository;

/// Only files whose name holds this text; for whoever works on one.
const ONLY: &str = "STAGEGATE_TRANSLATIONS";
/// KubeStellar's slowest answer to an edit takes 7 s: 2 to the Binding, 5 more to the CombinedStatus. Whatever is equal before that
/// may be equal because nobody has answered.
const ANSWERED_AFTER: Duration = Duration::from_secs(8);
/// Beyond that it is only slow.
const EQUAL_MAX: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(500);

/// Both sides, running.
pub struct Pair {
    theirs: KubeStellarSide,
    ours: OurSide,
}

/// # Errors
/// All that is not equal, and what does not start.
pub async fn agree(folder: &Path) -> anyhow::Result<()> {
    let fixtures = fixtures()?;
    let seed = random::seed()?;
    let (of_theirs, of_ours) = (folder.join("kubestellar"), folder.join("stagegate"));
    let (theirs, ours) = futures::try_join!(KubeStellarSide::start(&of_theirs), OurSide::start(&of_ours))?;
    let mut pair = Pair { theirs, ours };
    let mut running: FuturesUnordered<_> = fixtures
        .iter()
        .map(|fixture| {
            let pair = &pair;
            async move {
                let outcome = pair.work_through(fixture).await;
                outcome.with_context(|| format!("{}: {}", fixture.name, fixture.about))
            }
        })
        .collect();
    let mut failures = Vec::new();
    let worlds = async {
        match only() {
            None => random::agree(&pair, seed).await,
            Some(_) => Ok(()),
        }
    };
    let files = async {
        while let Some(outcome) = running.next().await {
            failures.extend(outcome.err().map(|error| format!("{error:#}")));
        }
    };
    let (outcome, ()) = futures::join!(worlds, files);
    drop(running);
    failures.extend(outcome.err().map(|error| format!("{error:#}")));
    // A side that has ended explains every other failure.
    failures.extend(pair.check().err().map(|error| format!("{error:#}")));
    ensure!(failures.is_empty(), "{}", failures.join("\n\n"));
    Ok(())
}

fn only() -> Option<String> {
    std::env::var(ONLY).ok()
}

fn fixtures() -> anyhow::Result<Vec<Fixture>> {
    let folder = repository("tests/cluster/translations");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let only = only().unwrap_or_default();
    let mut fixtures = Vec::new();
    for path in paths {
        let fixture = Fixture::read(&path)?;
        if fixture.name.contains(&only) {
            fixtures.push(fixture);
        }
    }
    ensure!(
        !fixtures.is_empty(),
        "no file of {} is called so: {only}",
        folder.display()
    );
    Ok(fixtures)
}

impl Pair {
    fn clients(&self) -> [kube::Client; 2] {
        [self.theirs.client(), self.ours.client()]
    }

    fn check(&mut self) -> anyhow::Result<()> {
        self.theirs.check()?;
        self.ours.check()
    }

    async fn work_through(&self, fixture: &Fixture) -> anyhow::Result<()> {
        for client in self.clients() {
            fixture.begin(&client).await?;
        }
        for (at, step) in fixture.steps.iter().enumerate() {
            let done = match step {
                Step::Mark(mark) => self.reach(&fixture.names, mark).await,
                step => self.edit(step).await,
            };
            done.with_context(|| format!("step {}", at + 1))?;
        }
        Ok(())
    }

    async fn edit(&self, step: &Step) -> anyhow::Result<()> {
        for client in self.clients() {
            step.work(&client).await?;
        }
        Ok(())
    }

    /// Until both sides show what the mark says, and nothing differs but what it names.
    async fn reach(&self, names: &Names, mark: &Mark) -> anyhow::Result<()> {
        let begun = Instant::now();
        tokio::time::sleep(ANSWERED_AFTER).await;
        loop {
            let (theirs, ours) = self.snapshots(names).await?;
            let faults = mark.faults(theirs, ours);
            if faults.is_empty() {
                return Ok(());
            }
            let waited = begun.elapsed();
            ensure!(
                waited < EQUAL_MAX,
                "mark {:?}, after {waited:?}:\n{}",
                mark.name,
                faults.join("\n")
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn snapshots(&self, names: &Names) -> anyhow::Result<(Value, Value)> {
        let [theirs, ours] = self.clients();
        futures::try_join!(snapshot::of(&theirs, names), snapshot::of(&ours, names))
    }
}
