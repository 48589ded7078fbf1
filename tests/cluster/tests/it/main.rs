//! End to end: the program as a process, against real servers. Every scenario of `scenarios/` runs on every back end that it names.

mod admission;
mod assumptions;
mod gates;
mod helm;
mod kstatus;
mod leaders;
mod like;
mod node_pools;
mod pool_nodes;
mod pool_promises;
mod recordings;
mod requests;
mod restricted;
mod rights;
mod scenario;
mod story;
mod translations;
mod upgrades;
mod world;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use libtest_mimic::{Arguments, Failed, Trial};

use stagegate_cluster_tests::installation::Kind;

use crate::scenario::{Scenario, TooLate};
use crate::world::{Backend, World};

/// Scenarios wait most of their time, for delays that are KubeStellar's; the servers of each take 0.6 GiB.
const AT_ONCE: usize = 9;
/// How often a scenario is run in which KubeStellar has locked itself out each time.
const ATTEMPTS: usize = 3;

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    assumptions::come_first(&arguments);
    // The longest first, so that none of them is waited for alone at the end.
    let mut trials = vec![
        Trial::test("leaders_are_killed_at_random_moments", || {
            within("leaders", async |folder| leaders::leaders_are_killed(folder).await)
        }),
        Trial::test("binding_and_combine_do_as_kubestellars_do", || {
            within("translations", async |folder| translations::agree(folder).await)
        }),
        Trial::test("manifests_are_taken_where_restricted_is_enforced", || {
            within("restricted", async |folder| {
                restricted::manifests_are_taken(folder).await
            })
        }),
        Trial::test("workloads_go_through_node_pools_stage_by_stage", || {
            within("node-pools", async |folder| {
                node_pools::workloads_go_through_node_pools(folder).await
            })
        }),
        Trial::test("what_is_promised_of_node_pools_holds", || {
            within("pool-promises", async |folder| {
                pool_promises::promises_hold(folder).await
            })
        }),
        Trial::test("helm_installs_upgrades_rolls_back_and_uninstalls", || {
            within("helm", async |folder| {
                helm::installs_and_takes_nothing_away(folder).await
            })
        }),
        Trial::test("whoever_writes_policies_may_place", || {
            within("admission", async |folder| {
                admission::whoever_writes_policies_may_place(folder).await
            })
        }),
    ];
    for path in files() {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let scenario = match Scenario::read(&path) {
            Ok(scenario) => scenario,
            Err(error) => {
                trials.push(Trial::test(name, move || Err(Failed::from(format!("{error:#}")))));
                continue;
            }
        };
        for backend in scenario.on {
            let path = path.clone();
            let name = format!("{}::{name}", backend.name());
            trials.push(Trial::test(name, move || on(backend, &path)));
        }
    }
    trials.extend(upgrades::trials());
    trials.extend(requests::trials());
    trials.push(recordings::trial());
    trials.push(Trial::test(
        "kstatus_says_of_policies_what_their_conditions_mean",
        || Ok(kstatus::agrees().map_err(|error| format!("{error:#}"))?),
    ));
    let conclusion = libtest_mimic::run(&arguments, trials);
    conclusion.exit_if_failed();
    if arguments.list {
        return;
    }
    // What was used is known when all have ended; what was not, only when there was no other choice of trials.
    let whole = conclusion.num_filtered_out == 0;
    let of_rights = [Kind::PlainCluster, Kind::BesideKubeStellar, Kind::NodePools].map(|kind| {
        let name = format!("rights_used_are_rights_granted::{kind:?}");
        Trial::test(name, move || {
            Ok(rights::used_is_granted(kind, whole).map_err(|error| format!("{error:#}"))?)
        })
    });
    arguments.filter = None;
    libtest_mimic::run(&arguments, of_rights.into()).exit();
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    files
}

fn on(backend: Backend, path: &Path) -> Result<(), Failed> {
    let scenario = Scenario::read(path).map_err(|error| format!("{error:#}"))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = format!("{}/{name}", backend.name());
    let mut others = 1..ATTEMPTS;
    loop {
        let mut was_locked = false;
        let outcome = within(&name, async |folder| {
            let mut world = World::start(backend, folder).await?;
            let ran = scenario.run(&mut world).await;
            let is_late = ran.as_ref().is_err_and(anyhow::Error::is::<TooLate>);
            was_locked = is_late && world.judge().is_ok() && world.is_kubestellar_locked()?;
            ran.with_context(|| scenario.about.clone())?;
            note_rights(&world, &scenario.refused(backend)).await
        });
        // That nothing came from a KubeStellar that stood still says nothing about the program. What came and was wrong does.
        if !was_locked || others.next().is_none() {
            return outcome;
        }
        eprintln!("{name}: KubeStellar waited for a lock that it held itself; running the scenario again");
    }
}

/// For the trial of rights, which comes last.
///
/// # Errors
/// When the API server has refused anything but `refused`, or not all of that.
async fn note_rights(world: &World, refused: &BTreeSet<String>) -> anyhow::Result<()> {
    let Some(kind) = world.kind() else {
        return Ok(());
    };
    let used = world.used()?;
    let was_refused: BTreeSet<String> = used.refused.iter().map(ToString::to_string).collect();
    ensure!(
        was_refused == *refused,
        "the API server refused {was_refused:?}, not {refused:?}"
    );
    rights::note(kind, used.rights, &world.added_rules().await?);
    Ok(())
}

/// Runs a trial in a folder of its own, which stays when the trial fails.
fn within(name: &str, trial: impl AsyncFnOnce(&Path) -> anyhow::Result<()>) -> Result<(), Failed> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    drop(std::fs::remove_dir_all(&folder));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(trial(&folder));
    outcome.map_err(|error| Failed::from(format!("{error:#}\nlogs: {}", folder.display())))?;
    drop(std::fs::remove_dir_all(&folder));
    Ok(())
}
