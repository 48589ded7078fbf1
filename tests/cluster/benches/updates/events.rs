//! What an event costs that decides nothing, and what a policy takes of memory, with staged updates and without. Must not move a policy.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;
use stagegate_api::{Phase, StagedBindingPolicy, Updates};
use stagegate_cluster_tests::audit;
use stagegate_cluster_tests::bench::figures::{count, counts, ms};
use stagegate_cluster_tests::bench::kinds::Kinds;
use stagegate_cluster_tests::bench::measured::{Measured, Started};
use stagegate_cluster_tests::bench::objects::{self, Answer, PASSING};
use stagegate_cluster_tests::bench::requests::{Counts, mark, per};
use stagegate_cluster_tests::bench::{self, writes};
use stagegate_cluster_tests::control_plane::ControlPlane;
use stagegate_cluster_tests::installation::{Installation, Kind, USER};

use crate::player::Player;
use crate::table::{self, Row};

const SIZES_DEFAULT: &str = "100,1000,10000";
/// Policies that events are about, as many of any number: a status that differs in words alone is written every ten seconds, so what an
/// event costs depends on how many there are of one policy.
const TOUCHED: usize = 100;
/// Rows that change, in turn for these policies.
const ROWS: usize = 500;
/// A second more than Stagegate delays a status that would change in words alone.
const ROWS_WITHIN: Duration = Duration::from_secs(11);
/// A list is renewed half a minute after the last one, at the earliest.
const STATUSES_WITHIN: Duration = Duration::from_secs(45);
const IDLE: Duration = Duration::from_secs(30);
const HOLDING_MAX: Duration = Duration::from_secs(1_800);
/// At most, of the largest and the smallest size: times of one machine differ by that much.
const FLAT: f64 = 1.5;
/// From so many policies on, the memory that a process has anyway is no part of what one takes.
const MEMORY_FROM: usize = 1_000;

/// What was measured of one controller.
#[derive(Default)]
struct Costs {
    resident_mib: f64,
    /// Within a second, without any event.
    idle: Duration,
    rows: Cost,
    statuses: Cost,
}

/// Of each event.
#[derive(Clone, Default)]
struct Cost {
    /// Beside what it would have used without the events.
    cpu_ms: f64,
    requests: Counts,
}

/// # Errors
/// Whatever does not come up or does not get done.
pub async fn measure(folder: &Path) -> anyhow::Result<()> {
    objects::check_evidence()?;
    let mut all = Vec::new();
    for policies in bench::sizes(SIZES_DEFAULT, TOUCHED)? {
        let folder = folder.join(policies.to_string());
        let immediate = costs(policies, Updates::Immediate, &folder.join("immediate")).await?;
        let staged = costs(policies, Updates::Staged, &folder.join("staged")).await?;
        print(policies, &staged, &immediate);
        all.push((policies, staged));
    }
    if let [(fewest, first), .., (most, last)] = all.as_slice() {
        let ratio = |of: fn(&Costs) -> f64| of(last) / of(first);
        let rows = [
            Row::new("CPU per row that changes", ratio(|costs| costs.rows.cpu_ms)).goal(FLAT),
            Row::new("CPU per edit of a status", ratio(|costs| costs.statuses.cpu_ms)).goal(FLAT),
        ];
        table::print(&format!("{most} policies compared with {fewest}, ratio"), "", &rows);
    }
    Ok(())
}

async fn costs(policies: usize, updates: Updates, folder: &Path) -> anyhow::Result<Costs> {
    std::fs::create_dir_all(folder)?;
    let mut trial = Trial::prepare(policies, updates, folder).await?;
    let mut costs = Costs::default();
    trial.idle(&mut costs).await?;
    let idle = costs.idle;
    let from = trial.from()?;
    for change in 0..ROWS {
        // A value that was not there before, and never the passing one.
        let asked = PASSING + 1 + u32::try_from(change)?;
        let answer = Answer { asked, available: 0 };
        trial.player.report(change % TOUCHED, answer).await?;
    }
    tokio::time::sleep(ROWS_WITHIN).await;
    costs.rows = trial.cost(from, (ROWS, idle)).await?;
    let from = trial.from()?;
    // Once each: a second edit of one Deployment within half a minute would cost less.
    for number in 0..TOUCHED {
        trial.player.touch(number, 1).await?;
    }
    tokio::time::sleep(STATUSES_WITHIN).await;
    costs.statuses = trial.cost(from, (TOUCHED, idle)).await?;
    Ok(costs)
}

struct Trial {
    // It ends before its server does.
    controller: Measured,
    player: Player,
    plane: ControlPlane,
}

/// Where a measurement begins.
struct From {
    at: Instant,
    cpu: Duration,
    log: u64,
}

impl Trial {
    /// Returns when all policies hold at their first stage.
    async fn prepare(policies: usize, updates: Updates, folder: &Path) -> anyhow::Result<Trial> {
        let plane = ControlPlane::start(&folder.join("server")).await?;
        let client = plane.client().await?;
        let installation = Installation::install(&plane, Kind::PlainCluster).await?;
        let deployments = writes::workload(&client, policies).await?;
        let kinds = Kinds::all();
        let of_number = |number| {
            let mut policy = objects::policy(number, &kinds.policies.api_version);
            policy["spec"]["updates"] = json!(updates);
            policy["spec"]["previousStages"] = json!("Keep");
            policy
        };
        writes::create_all(&kinds.policies(&client), (0..policies).map(of_number)).await?;
        let mut trial = Trial {
            controller: Measured::new(Started::stagegate(&installation, folder)),
            player: Player::start(&client, deployments),
            plane,
        };
        trial.controller.start()?;
        trial.holding(&Api::all(client)).await?;
        trial.controller.quiet().await?;
        Ok(trial)
    }

    async fn holding(&mut self, api: &Api<StagedBindingPolicy>) -> anyhow::Result<()> {
        let begun = Instant::now();
        let holds = |policy: &&StagedBindingPolicy| {
            policy.status.as_ref().and_then(|status| status.phase) == Some(Phase::Holding)
        };
        loop {
            self.controller.usage()?;
            let looked = Instant::now();
            let all = api.list(&ListParams::default()).await?;
            let Some(other) = all.iter().find(|policy| !holds(policy)) else {
                return Ok(());
            };
            ensure!(
                begun.elapsed() < HOLDING_MAX,
                "{} of {} hold; another one: {:?}",
                all.iter().filter(holds).count(),
                all.items.len(),
                other.status
            );
            // Looking must not be what the server is busy with.
            tokio::time::sleep(Duration::from_secs(2).max(10 * looked.elapsed())).await;
        }
    }

    async fn idle(&mut self, costs: &mut Costs) -> anyhow::Result<()> {
        let before = self.controller.usage()?;
        tokio::time::sleep(IDLE).await;
        let usage = self.controller.usage()?;
        costs.resident_mib = usage.resident_mib;
        costs.idle = (usage.cpu - before.cpu) / u32::try_from(IDLE.as_secs())?;
        Ok(())
    }

    fn from(&mut self) -> anyhow::Result<From> {
        Ok(From {
            at: Instant::now(),
            cpu: self.controller.usage()?.cpu,
            log: mark(&self.plane)?,
        })
    }

    /// Of each of so many events, when all that they bring about is done.
    async fn cost(&mut self, from: From, (events, idle): (usize, Duration)) -> anyhow::Result<Cost> {
        self.controller.quiet().await?;
        let cpu = self.controller.usage()?.cpu - from.cpu;
        let without = idle.mul_f64(from.at.elapsed().as_secs_f64());
        let mut answered = audit::answered(&self.plane.audit_log(), from.log)?;
        answered.retain(|answered| answered.user == USER);
        Ok(Cost {
            cpu_ms: ms(cpu.saturating_sub(without)) / count(events),
            requests: per(&answered, events),
        })
    }
}

fn print(policies: usize, staged: &Costs, immediate: &Costs) {
    let cpu = |what: &str, of: fn(&Costs) -> f64| Row::new(what, of(staged)).beside(of(immediate));
    let more_kb = (staged.resident_mib - immediate.resident_mib) * 1024.0 / count(policies);
    let rows = [
        cpu("CPU per row that changes and decides nothing, ms", |costs| {
            costs.rows.cpu_ms
        }),
        cpu("… requests", |costs| costs.rows.requests.values().sum()),
        cpu("CPU per edit of a Deployment's status, ms", |costs| {
            costs.statuses.cpu_ms
        }),
        cpu("… requests", |costs| costs.statuses.requests.values().sum()),
        cpu("CPU without events, ms each second", |costs| ms(costs.idle)),
        cpu("resident, MiB", |costs| costs.resident_mib),
        Row::new("resident per policy more than immediate, kB", more_kb).goal((policies >= MEMORY_FROM).then_some(6.0)),
    ];
    let title = format!("{policies} policies that wait at their first stage");
    table::print(&title, "immediate", &rows);
    for (what, costs) in [("staged", staged), ("immediate", immediate)] {
        println!("{what}, requests per row: {}", counts(&costs.rows.requests));
        println!(
            "{what}, requests per edit of a status: {}",
            counts(&costs.statuses.requests)
        );
    }
}
