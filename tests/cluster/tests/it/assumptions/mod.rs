//! What the design takes for granted about KubeStellar and its transport, asked of the real ones; a trial for each assumption. They run before
//! all else that runs beside KubeStellar: whoever moves to a newer release learns here what no longer holds. Must not run the program.
//!
//! All share one server, on which each has a namespace, clusters and a Binding of its own name.

mod case;
mod kubestellar;
mod transport;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use libtest_mimic::{Arguments, Failed, Trial};
use stagegate_cluster_tests::control_plane::ControlPlane;
use stagegate_cluster_tests::controller::{Controller, Pace};
use stagegate_cluster_tests::definitions::{definitions, install};
use stagegate_cluster_tests::kubestellar::KubeStellar;
use stagegate_cluster_tests::transport as real_transport;
use tokio::sync::Mutex;

use case::Case;

/// Runs them; where one does not hold, nothing else is run, since that would fail for reasons that are harder to read.
pub fn come_first(arguments: &Arguments) {
    let shared = Arc::default();
    let trial = |name: &'static str, test: fn(Case) -> Outcome| {
        let shared = Arc::clone(&shared);
        Trial::test(format!("assumptions::{name}"), move || run(&shared, name, test))
    };
    let trials = vec![
        trial("one_missing_object_stops_the_transport_for_its_binding", |case| {
            Box::pin(transport::one_missing_object_stops_all(case))
        }),
        trial(
            "a_manifest_work_is_rewritten_only_for_another_generation_of_its_binding_or_other_objects",
            |case| Box::pin(transport::nothing_else_rewrites(case)),
        ),
        trial(
            "contents_are_read_live_and_the_generation_is_observed_after_that",
            |case| Box::pin(transport::contents_are_read_live(case)),
        ),
        trial(
            "annotations_of_others_on_a_binding_survive_what_kubestellar_writes",
            |case| Box::pin(kubestellar::annotations_survive(case)),
        ),
        trial("an_admission_policy_holds_a_binding_at_the_listed_versions", |case| {
            Box::pin(kubestellar::admission_holds(case))
        }),
    ];
    drop(shared);
    let conclusion = libtest_mimic::run(arguments, trials);
    conclusion.exit_if_failed();
    // Where none was chosen, another run of this program may be at them.
    if conclusion.num_passed > 0 {
        drop(std::fs::remove_dir_all(folder()));
    }
}

type Outcome = std::pin::Pin<Box<dyn Future<Output = anyhow::Result<()>>>>;

/// Ends with the last trial that holds it.
type Shared = Arc<Mutex<Option<Server>>>;

struct Server {
    kubestellar: KubeStellar,
    transport: Controller,
    plane: ControlPlane,
}

impl Server {
    async fn start() -> anyhow::Result<Server> {
        drop(std::fs::remove_dir_all(folder()));
        let plane = ControlPlane::start(&folder()).await?;
        let client = plane.client().await?;
        for definition in definitions(true).into_iter().chain([real_transport::definition()?]) {
            install(&client, &definition).await?;
        }
        let kubestellar = KubeStellar::start(&plane, Pace::Raised).await?;
        let transport = real_transport::start(&plane, Pace::Raised).await?;
        Ok(Server {
            kubestellar,
            transport,
            plane,
        })
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("assumptions")
}

fn run(shared: &Shared, name: &str, test: fn(Case) -> Outcome) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let (kubeconfig, audit_log) = {
            // Whoever comes first starts it, and the others wait.
            let mut server = shared.lock().await;
            let running = match server.take() {
                Some(running) => running,
                None => Server::start().await?,
            };
            let plane = &server.insert(running).plane;
            (plane.kubeconfig(), plane.audit_log())
        };
        let case = Case::begin(name, (&kubeconfig, audit_log)).await?;
        let held = test(case).await.context("it does not hold");
        if let Some(server) = shared.lock().await.as_mut() {
            server.kubestellar.check()?;
            server.transport.check()?;
        }
        held
    });
    outcome.map_err(|error: anyhow::Error| {
        let logs = folder();
        Failed::from(format!("{error:#}\nlogs: {}", logs.display()))
    })
}
