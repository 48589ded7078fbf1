//! Worlds that are drawn from a seed: pools, stages, workloads in any state, and a status that may lie. Must not expect anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use stagegate_api::workloads::{
    APPLIED_DIGEST, PoolStage, REF_NODE_POOL, REVISION_HASH, REVISION_NUMBER, WorkloadView, YurtAppDaemonStatus,
};
use stagegate_api::{Outcome, StageState};
use stagegate_decide::checks::{ConfigAnswer, GateAnswer, Module, Source, Verdict};
use stagegate_decide::names::Digest;
use stagegate_decide::pools::{Child, Revision};

use super::answers::{Told, settle};
use super::world::{BASE, DAEMON_UID, POOLS, World, change_by_hand, seconds, start};
use crate::seeded::Seeded;

/// What there is in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Has {
    Nothing,
    Old,
    OldByHand,
    OldUnready,
    OldLeaving,
    /// The new revision, which its controller has not seen.
    NewUnseen,
    NewUnready,
    New,
    NewByHand,
    /// Another controller made it from the new revision.
    NewOfOthers,
    /// The same, with another image.
    NewOfOthersByHand,
    /// It has our name, and nothing says what was applied.
    NewWithoutAnnotations,
    NewLeaving,
    /// It is of the new revision when that had another number.
    NewOfBefore,
    /// It is of the new revision as far as its metadata say.
    Unreadable,
    Orphan,
    /// An old one that is there longer, and a new one.
    Twins,
    /// Something else has its name.
    Taken,
}

impl Has {
    const ALL: [Self; 18] = [
        Self::Nothing,
        Self::Old,
        Self::OldByHand,
        Self::OldUnready,
        Self::OldLeaving,
        Self::NewUnseen,
        Self::NewUnready,
        Self::New,
        Self::NewByHand,
        Self::NewOfOthers,
        Self::NewOfOthersByHand,
        Self::NewWithoutAnnotations,
        Self::NewLeaving,
        Self::NewOfBefore,
        Self::Unreadable,
        Self::Orphan,
        Self::Twins,
        Self::Taken,
    ];

    pub fn is_new(self) -> bool {
        matches!(
            self,
            Self::NewUnseen
                | Self::NewUnready
                | Self::New
                | Self::NewByHand
                | Self::NewOfOthers
                | Self::NewOfOthersByHand
                | Self::NewWithoutAnnotations
                | Self::NewLeaving
                | Self::Unreadable
        )
    }
}

pub struct Drawn {
    pub world: World,
    pub told: Told,
    pub has: BTreeMap<&'static str, Has>,
    /// Pools that have changed since their workload was made, or that cannot be read.
    pub changed: BTreeSet<&'static str>,
    /// The template is an older one, which is to become the newest: no workload is of it yet.
    pub is_taken_back: bool,
}

/// The revision of the template as it is now.
pub fn target() -> String {
    BASE.new.status().update_revision.unwrap()
}

pub fn stages(world: &World) -> &[PoolStage] {
    let strategy = world.facts.daemon.spec.update_strategy.as_ref();
    strategy.map_or(&[], |strategy| &strategy.stages)
}

pub fn one_in(seeded: &mut Seeded, count: usize) -> bool {
    seeded.below(count) == 0
}

fn any<T: Clone>(seeded: &mut Seeded, of: &[T]) -> T {
    of[seeded.below(of.len())].clone()
}

pub fn gate(name: &str) -> Value {
    let entry = json!({"namespace": "stagegate-gates", "name": name, "key": "gate.wasm"});
    json!({"name": name, "module": {"configMap": entry}})
}

/// Up to three stages by the label `s`. The second is sometimes one of all pools.
pub fn strategy(seeded: &mut Seeded, is_checked: bool) -> Value {
    let stages = (0..seeded.below(4)).map(|at| {
        let selector = if at == 1 && one_in(seeded, 4) {
            json!({})
        } else {
            json!({"matchLabels": {"s": at.to_string()}})
        };
        let mut stage = json!({"name": format!("s{at}"), "nodepoolSelector": selector});
        let concurrent = [
            Value::Null,
            json!(1),
            json!(2),
            json!("1%"),
            json!("50%"),
            json!("100%"),
        ];
        stage["maxConcurrent"] = any(seeded, &concurrent);
        if is_checked && one_in(seeded, 2) {
            stage["condition"] = json!(format!("pools.size() > {at}"));
        }
        if is_checked && one_in(seeded, 2) {
            let count = 1 + seeded.below(2);
            stage["gates"] = (0..count).map(|gate_at| gate(&format!("s{at}-g{gate_at}"))).collect();
        }
        if is_checked && one_in(seeded, 3) {
            stage["soak"] = json!("30s");
        }
        stage
    });
    let stages: Vec<Value> = stages.collect();
    json!({"stages": stages, "paused": is_checked && one_in(seeded, 10)})
}

/// The workload of a pool in one of the two worlds of [`BASE`].
pub fn workload(of: &World, pool: &str) -> WorkloadView {
    let mut all = of.facts.children.values().filter_map(|child| match child {
        Child::Known(view) => Some(view),
        Child::Invalid { .. } => None,
    });
    let is_its = |view: &&Arc<WorkloadView>| view.metadata.annotations.as_ref().unwrap()[REF_NODE_POOL] == pool;
    (**all.find(is_its).unwrap()).clone()
}

/// Puts it there.
pub fn put(world: &mut World, pool: &str, has: Has) {
    let (old, new) = (workload(&BASE.old, pool), workload(&BASE.new, pool));
    let unready = |view: &mut WorkloadView| view.status.available_replicas = Some(1);
    let leaving = |view: &mut WorkloadView| view.metadata.deletion_timestamp = Some(Time(start()));
    let (mut view, change): (WorkloadView, &dyn Fn(&mut WorkloadView)) = match has {
        Has::Nothing => return,
        Has::Old => (old, &|_| {}),
        Has::OldByHand => (old, &change_by_hand),
        Has::OldUnready => (old, &unready),
        Has::OldLeaving => (old, &leaving),
        Has::NewUnseen => (new, &|view| view.metadata.generation = Some(77)),
        Has::NewUnready => (new, &unready),
        Has::New => (new, &|_| {}),
        Has::NewByHand => (new, &change_by_hand),
        Has::NewOfOthers => (new, &of_others),
        Has::NewOfOthersByHand => (new, &|view| {
            of_others(view);
            change_by_hand(view);
        }),
        Has::NewWithoutAnnotations => (new, &without_annotations),
        Has::NewLeaving => (new, &leaving),
        Has::NewOfBefore => (new, &|view| {
            let annotations = view.metadata.annotations.as_mut().unwrap();
            annotations.insert(REVISION_NUMBER.to_owned(), "1".to_owned());
        }),
        Has::Unreadable => {
            let (name, metadata) = (new.metadata.name.clone().unwrap(), Box::new(new.metadata));
            world.children().insert(name, Child::Invalid { metadata });
            return;
        }
        Has::Orphan => (old, &|view| view.metadata.owner_references = None),
        Has::Taken => (old, &|view| {
            view.metadata.owner_references.as_mut().unwrap()[0].uid = "another".to_owned();
        }),
        Has::Twins => {
            let mut twin = new;
            twin.metadata.name = twin.metadata.name.map(|name| format!("{name}-twin"));
            twin.metadata.uid = twin.metadata.uid.map(|uid| format!("{uid}-twin"));
            twin.metadata.creation_timestamp = Some(Time(start()));
            insert(world, twin);
            (old, &|_| {})
        }
    };
    change(&mut view);
    insert(world, view);
}

/// Those that are applied here.
fn without_annotations(view: &mut WorkloadView) {
    let annotations = view.metadata.annotations.as_mut().unwrap();
    annotations.retain(|key, _| key != APPLIED_DIGEST && key != REVISION_NUMBER);
}

/// As another controller made it.
fn of_others(view: &mut WorkloadView) {
    without_annotations(view);
    view.metadata.name = view.metadata.name.take().map(|name| format!("{name}-of-others"));
}

fn insert(world: &mut World, view: WorkloadView) {
    let name = view.metadata.name.clone().unwrap();
    world.children().insert(name, Child::Known(Arc::new(view)));
}

/// A world that has the second template, with these stages and without a pool.
pub fn bare(strategy: Value) -> World {
    let mut world = BASE.new.clone();
    world.facts.now = start();
    world.children().clear();
    world.pools().clear();
    world.daemon().status.clone_from(&BASE.old.facts.daemon.status);
    world.set_strategy(strategy);
    world
}

/// Adds a pool of [`POOLS`].
pub fn add_pool(world: &mut World, pool: &str, labels: Value) {
    let mut base = BASE.new.clone();
    let mut found = base.pools()[pool].clone();
    found.labels = serde_json::from_value(labels).unwrap();
    world.pools().insert(pool.to_owned(), found);
}

impl Drawn {
    /// Anything may be so.
    pub fn of(seeded: &mut Seeded) -> Self {
        let mut drawn = Self {
            world: bare(strategy(seeded, true)),
            told: Told::default(),
            has: BTreeMap::new(),
            changed: BTreeSet::new(),
            is_taken_back: false,
        };
        drawn.draw_pools(seeded);
        drawn.draw_revisions(seeded);
        drawn.draw_status(seeded);
        drawn.draw_answers(seeded);
        drawn
    }

    fn draw_pools(&mut self, seeded: &mut Seeded) {
        // Most stages are to have something that passes.
        let is_mostly_new = one_in(seeded, 2);
        let count = seeded.below(POOLS.len() + 1);
        for pool in &POOLS[..count] {
            let has = match seeded.below(6) {
                0..3 if is_mostly_new => Has::New,
                3 if is_mostly_new => Has::NewUnready,
                4 if is_mostly_new => Has::Old,
                _ => any(seeded, &Has::ALL),
            };
            put(&mut self.world, pool, has);
            self.has.insert(pool, has);
            if one_in(seeded, 12) {
                // It is gone.
                let since = start() - seconds(any(seeded, &[5, 45]));
                self.world.facts.gone_since.insert((*pool).to_owned(), since);
                continue;
            }
            let tier = if one_in(seeded, 12) { "core" } else { "edge" };
            let stage = seeded.below(4).to_string();
            add_pool(&mut self.world, pool, json!({"tier": tier, "s": stage}));
            if one_in(seeded, 12) {
                self.changed.insert(pool);
                let is_invalid = one_in(seeded, 2);
                let found = self.world.pools().get_mut(*pool).unwrap();
                let taint = json!({"key": "late", "effect": "NoExecute"});
                found.taints.push(serde_json::from_value(taint).unwrap());
                found.is_invalid = is_invalid;
            }
        }
    }

    fn draw_revisions(&mut self, seeded: &mut Seeded) {
        let revisions = &mut self.world.facts.revisions;
        match seeded.below(10) {
            0 => drop(revisions.remove(0)),
            1 => drop(revisions.remove(1)),
            2 => {
                self.is_taken_back = true;
                let third = Revision {
                    name: "web-third".to_owned(),
                    uid: "uid-third".to_owned().into(),
                    owner: Some(DAEMON_UID.to_owned().into()),
                    number: 3,
                    data: json!({"spec": {"workloadTemplate": {"deploymentTemplate": {"spec": {}}}}}),
                    ..revisions[0].clone()
                };
                revisions.push(third);
            }
            _ => {}
        }
        self.world.is_without_revisions = one_in(seeded, 4);
    }

    /// None, one of an older revision, or one of this revision; the last two may say anything of their stages.
    fn draw_status(&mut self, seeded: &mut Seeded) {
        let old = BASE.old.status().current_revision;
        let generation = self.world.facts.daemon.metadata.generation;
        let mut status = match seeded.below(3) {
            0 => YurtAppDaemonStatus::default(),
            1 => BASE.old.status(),
            _ => {
                // What was recorded a while ago, when everything passed.
                let mut before = self.world.clone();
                before.facts.now = start() - seconds(100);
                if let Some((plan, _)) = settle(&before, before.seen(), &Told::default()) {
                    before.carry_out(&plan);
                }
                let status = before.status();
                YurtAppDaemonStatus {
                    update_revision: Some(target()),
                    // A revision is the newest before status is about the generation that has its template.
                    observed_generation: generation.filter(|_| !self.is_taken_back && !one_in(seeded, 3)),
                    ..status
                }
            }
        };
        status.current_revision = any(seeded, &[String::new(), old.clone(), old, "web-lost".to_owned()]);
        let long_ago = Some(Time(start() - seconds(300)));
        let times = [None, long_ago, Some(Time(start())), Some(Time(Timestamp::MAX))];
        let states = [
            StageState::Pending,
            StageState::Active,
            StageState::Passed,
            StageState::Failed,
        ];
        for stage in &mut status.stages {
            if one_in(seeded, 3) {
                stage.state = any(seeded, &states);
            }
            if one_in(seeded, 2) {
                stage.passing_since = any(seeded, &times);
            }
            for check in &mut stage.checks {
                if one_in(seeded, 6) {
                    check.outcome = any(seeded, &[Outcome::Pass, Outcome::Hold, Outcome::Fail, Outcome::Unknown]);
                }
            }
        }
        self.world.daemon().status = Some(status);
    }

    fn draw_answers(&mut self, seeded: &mut Seeded) {
        // Everything passes.
        if one_in(seeded, 3) {
            return;
        }
        let no = || "no".to_owned();
        let later = Timestamp::MAX;
        let stages = stages(&self.world).to_vec();
        let passes = || GateAnswer::Pass { valid_for_ms: None };
        let gates = [
            Some(passes()),
            Some(passes()),
            Some(GateAnswer::Pass {
                valid_for_ms: Some(9_000),
            }),
            Some(GateAnswer::Pass { valid_for_ms: Some(0) }),
            Some(GateAnswer::Hold {
                reason: no(),
                retry_after_ms: None,
            }),
            Some(GateAnswer::Fail { reason: no() }),
            Some(GateAnswer::Unknown { message: no() }),
            None,
        ];
        let conditions = [
            Some(Verdict::True),
            Some(Verdict::False { because: None }),
            Some(Verdict::Unknown { message: no() }),
            None,
        ];
        let modules = [
            Some(Module::KeyMissing),
            Some(Module::Refused { message: no() }),
            Some(Module::Failed {
                message: no(),
                retry_at: later,
            }),
            Some(Module::Loaded {
                digest: Digest::of("another"),
            }),
            None,
        ];
        let configs = [
            Some(ConfigAnswer::Refused { message: no() }),
            Some(ConfigAnswer::Failed {
                message: no(),
                retry_at: later,
            }),
            None,
        ];
        let sources = [Some(Source::Absent), Some(Source::Unread { message: no() }), None];
        for condition in stages.iter().filter_map(|stage| stage.condition.clone()) {
            if one_in(seeded, 2) {
                self.told.conditions.insert(condition.clone(), any(seeded, &conditions));
            }
            if one_in(seeded, 30) {
                self.told.refused.insert(condition);
            }
        }
        for gate in stages.iter().flat_map(|stage| &stage.gates) {
            let name = gate.module.config_map.name.clone();
            if one_in(seeded, 2) {
                self.told.gates.insert(name.clone(), any(seeded, &gates));
            }
            if one_in(seeded, 10) {
                self.told.modules.insert(name.clone(), any(seeded, &modules));
            }
            if one_in(seeded, 20) {
                self.told.configs.insert(name.clone(), any(seeded, &configs));
            }
            if one_in(seeded, 10) {
                let map = format!("stagegate-gates/{name}");
                match any(seeded, &sources) {
                    Some(source) => drop(self.world.facts.sources.insert(map, source)),
                    None => drop(self.world.facts.sources.remove(&map)),
                }
            }
        }
    }

    /// Whether the pool has the new revision. Read beside [`Has`]: what it was drawn with.
    pub fn has_revision(&self, pool: &str) -> bool {
        let has = self.has.get(pool).copied().unwrap_or(Has::Nothing);
        let has_number = !matches!(
            has,
            Has::NewOfOthers | Has::NewOfOthersByHand | Has::NewWithoutAnnotations
        );
        has.is_new() && !(self.is_taken_back && has_number)
    }

    /// Whether it runs the new revision, so that checks may be asked about it.
    pub fn is_settled(&self, pool: &str) -> bool {
        let has = self.has.get(pool).copied().unwrap_or(Has::Nothing);
        let is_invalid = || {
            self.world
                .clone()
                .pools()
                .get(pool)
                .is_none_or(|found| found.is_invalid)
        };
        match has {
            Has::New => self.has_revision(pool) && !self.changed.contains(pool),
            Has::NewOfOthers => !is_invalid(),
            _ => false,
        }
    }

    /// The gate passes if it is asked.
    pub fn passes(&self, gate: &stagegate_api::Gate) -> bool {
        let name = &gate.module.config_map.name;
        let source = self.world.facts.sources.get(&format!("stagegate-gates/{name}"));
        matches!(source, Some(Source::Present { .. })) && self.told.passes(name)
    }
}

/// Whether a workload is made from the new revision as it is now.
pub fn is_of_target(view: &WorkloadView) -> bool {
    let label = view
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(REVISION_HASH));
    label.is_some_and(|label| *label == target())
}
