//! One piece of what a stage rests on is tampered with while everything else is well: the stage does not pass on it, and
//! the Progressing condition names the piece; put back, the rollout completes. Where a tampering rightly does not
//! matter, the table says why, and the same is tried while a cluster is sick. Must not look into the host.

mod answers;
mod collectors;
mod gates;
mod pieces;
mod placements;
mod reports;
mod workload;

use std::time::Duration;

use serde_json::{Value, json};
use stagegate_api::{Phase, StagedBindingPolicyStatus};
use tokio::time::Instant;

use self::pieces::{Piece, Scene};
use super::Matrix;
use crate::guests;
use crate::harness::seeded::budget;
use crate::harness::{Pace, World, deployment_of, gate, gated, shop, workload as deployment};

/// How long the stage must pass without a break.
const SOAK_S: u64 = 20;
/// How long a tampering is watched: the soak, and a minute beyond it.
const WATCHED_S: u64 = SOAK_S + 60;
/// How long a move may take when nothing is in its interceptor.
const MOVE_S: u64 = 120;

/// One row for each tampering with one piece.
struct Table {
    name: &'static str,
    piece: Piece,
    parts: Parts,
    rows: &'static [Row],
}

/// Whether the parts that stand in KubeStellar's place go on meanwhile.
#[derive(Clone, Copy, PartialEq)]
enum Parts {
    /// They would put it right at once.
    Stopped,
    /// The host sees the piece only through them.
    Running,
}

type Row = (&'static str, Tampering, Then);

/// In texts `$dev`, `$test` and `$other` stand for the uids of the placements of dev and test and of another object.
#[derive(Clone, Copy)]
enum Tampering {
    Deleted,
    /// Deleted, while somebody's finalizer keeps it.
    BeingDeleted,
    Edited(fn(&mut Value)),
    /// Edited through the status subresource.
    StatusEdited(fn(&mut Value)),
    /// Deleted, and what the edit leaves is created.
    MadeAnew(fn(&mut Value)),
    /// What the edit leaves is created besides.
    Doubled(fn(&mut Value)),
    /// It says again what it said when it was first seen, before the clusters were ready.
    AsAtFirst,
}

#[derive(Clone, Copy)]
enum Then {
    /// The stage waits, and the condition has these words.
    Waits(&'static [&'static str]),
    /// The host puts it back, and the soak begins anew.
    IsPutBack,
    /// It does not matter, for this reason.
    GoesOn(&'static str),
}

/// How the clusters fare when the piece is tampered with.
#[derive(Clone, Copy, PartialEq)]
enum Clusters {
    Well,
    OneSick,
}

/// Runs every row on healthy clusters, and those that must not matter, or with a longer budget all, while one is sick.
async fn run(table: &'static Table) {
    let mut matrix = Matrix::new(table.name);
    for row in table.rows {
        let (name, _, then) = row;
        let name = match then {
            Then::GoesOn(reason) => format!("{name} (which must not matter: {reason})"),
            Then::Waits(_) | Then::IsPutBack => (*name).to_owned(),
        };
        matrix.run(&name, tampered(table, *row, Clusters::Well)).await;
        if matches!(then, Then::GoesOn(_)) || budget() > 1 {
            let name = format!("{name}, while a cluster is sick");
            matrix.run(&name, tampered(table, *row, Clusters::OneSick)).await;
        }
    }
    matrix.end();
}

async fn tampered(table: &Table, (_, tampering, then): Row, clusters: Clusters) {
    let (mut world, scene) = begin(table.piece, clusters).await;
    if table.parts == Parts::Stopped {
        world.stop_parts().await;
    }
    // What is edited just after a cluster has reported may be taken for what it reported. And a soak that went on after
    // something was put back would be over too soon.
    world
        .pass(if matches!(then, Then::IsPutBack) {
            SOAK_S * 3 / 4
        } else {
            SOAK_S / 4
        })
        .await;
    scene.tamper(&world, tampering).await;
    match (then, clusters) {
        // No stage opens the next one while Bindings and CombinedStatuses are not written, though every check passes.
        (Then::GoesOn(_), Clusters::Well) if table.parts == Parts::Stopped => {
            let is_silent = |status: &StagedBindingPolicyStatus| status.reason.as_deref() == Some("KubeStellarSilent");
            world.until("web", MOVE_S, is_silent).await;
            stays_at_dev(&world, SOAK_S).await;
        }
        (Then::GoesOn(_), Clusters::Well) => world.until_stage("web", "test", MOVE_S).await,
        (Then::IsPutBack, Clusters::Well) => {
            stays_at_dev(&world, SOAK_S * 3 / 4).await;
            scene.is_put_back(&world).await;
        }
        (Then::Waits(words), Clusters::Well) => {
            stays_at_dev(&world, WATCHED_S).await;
            says(&world.status("web").await, words);
        }
        (_, Clusters::OneSick) => {
            stays_at_dev(&world, WATCHED_S).await;
            says(&world.status("web").await, &[]);
        }
    }
    if needs_putting_back((table.piece, then), clusters) {
        scene.put_back(&world, tampering).await;
    }
    world.restart_parts().await;
    world.edit_cluster("dev-2", json!({"rules": null})).await;
    world.until_phase("web", Phase::Completed, MOVE_S * 2).await;
    let truth = world.clusters.truth();
    for cluster in ["prod-1", "prod-2"] {
        assert!(world.is_in(cluster, &deployment_of("web")), "{cluster} has it");
        assert_eq!(truth.removals(cluster, &deployment_of("web")), [], "{cluster} keeps it");
    }
}

/// What the host has put back, and what did not matter and stays behind with its stage, is left as it is. A question that
/// is another one would be asked in all stages.
fn needs_putting_back((piece, then): (Piece, Then), clusters: Clusters) -> bool {
    match (then, clusters) {
        (Then::IsPutBack, _) => false,
        (Then::GoesOn(_), Clusters::Well) => matches!(piece, Piece::Collector(_)),
        _ => true,
    }
}

/// `web` at dev with all there can be: a condition, a gate, collectors of either form, a soak. All is well and it soaks,
/// or one cluster has too little and the stage holds.
async fn begin(piece: Piece, clusters: Clusters) -> (World, Scene) {
    let world = match piece.is_loose() {
        Some(plural) => World::start_loose(plural).await,
        None => World::start(Pace::Fast).await,
    };
    world.apply(&shop()).await;
    world.apply(EACH).await;
    world.apply_gates_namespace().await;
    let component = guests::wasm("gate_min_available");
    world.put_gate("min-available", &component).await;
    world.apply(&deployment("web")).await;
    let policy = gated("web", &gate("min-available", &json!({"atLeast": 2})))
        .replace("[worst, total]", "[each, total, worst]")
        .replacen("    condition:", &format!("    soak: {SOAK_S}s\n    condition:"), 1);
    world.apply(&policy).await;
    let first = Scene::first(&world, piece).await;
    world
        .until("web", 30, |status| status.reason.as_deref() == Some("Soaking"))
        .await;
    if clusters == Clusters::OneSick {
        let sick = json!({"rules": [{"kind": "Deployment", "status": {"availableReplicas": 1}}]});
        world.edit_cluster("dev-2", sick).await;
        world.until_phase("web", Phase::Holding, 30).await;
    }
    let scene = Scene::of(&world, piece, first).await;
    (world, scene)
}

/// A row for each cluster.
const EACH: &str = "\
apiVersion: control.kubestellar.io/v1alpha1
kind: StatusCollector
metadata: {name: each}
spec:
  select: [{name: cluster, def: inventory.name}, {name: available, def: returned.status.availableReplicas}]
  limit: 20";

/// No stage after dev is opened or reaches a cluster.
async fn stays_at_dev(world: &World, seconds: u64) {
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        let status = world.status("web").await;
        let open = world.open("web").await;
        let is_there = status.active_stage.as_deref() == Some("dev") && status.phase != Some(Phase::Completed);
        assert!(
            is_there && open.iter().all(|stage| stage == "dev"),
            "it went on: at {:?}, open {open:?}: {}",
            status.active_stage,
            progressing(&status)
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(!world.is_in("test-1", &deployment_of("web")), "test-1 has the workload");
}

/// The Progressing condition explains the waiting with these words.
fn says(status: &StagedBindingPolicyStatus, words: &[&str]) {
    let told = progressing(status);
    assert!(!told.starts_with("Soaking"), "it soaks: {told}");
    for word in words {
        assert!(told.contains(word), "no {word:?} in {told:?}");
    }
}

fn progressing(status: &StagedBindingPolicyStatus) -> String {
    let condition = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Progressing");
    condition.map_or_else(String::new, |condition| {
        format!("{}: {}", condition.reason, condition.message)
    })
}
