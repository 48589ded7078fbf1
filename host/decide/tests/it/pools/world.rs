//! A YurtAppDaemon with its pools, its workloads and its revisions, as facts. Must not carry anything out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use stagegate_api::workloads::{ConditionView, WorkloadStatusView, WorkloadView, YurtAppDaemon, YurtAppDaemonStatus};
use stagegate_decide::checks::{GateNamespaces, Source};
use stagegate_decide::pools::{Child, Facts, Memo, NodePools, Pool, Read, gone_pools, has_pools};

use super::answers::{Told, settle};

/// All pools that a world may have. The first two have a taint.
pub const POOLS: [&str; 8] = ["p-0", "p-1", "p-2", "p-3", "p-4", "p-5", "p-6", "p-7"];
/// In many places of the template, and nowhere else.
pub const MARKER: &str = "telltale";
pub const DAEMON_UID: &str = "web-uid";

/// What there is, as the watches see it.
#[derive(Clone)]
pub struct World {
    pub facts: Facts,
    /// The process has read no revisions yet.
    pub is_without_revisions: bool,
    /// That was given last.
    pub version: u64,
}

/// All pools at the first template, and the same when all have the second one.
pub struct Base {
    pub old: World,
    pub new: World,
}

/// Made once: what a pool is labelled with does not show in its workload.
pub static BASE: LazyLock<Base> = LazyLock::new(|| {
    let mut old = World::empty();
    old.complete();
    let mut new = old.clone();
    new.set_template(2);
    new.complete();
    Base { old, new }
});

pub fn start() -> Timestamp {
    "2026-01-01T00:10:00Z".parse().unwrap()
}

pub fn seconds(count: i64) -> SignedDuration {
    SignedDuration::from_secs(count)
}

pub fn template(number: usize) -> Value {
    let container = json!({
        "name": "main",
        "image": format!("{MARKER}/web:{number}"),
        "env": [{"name": "KEY", "value": MARKER}],
    });
    json!({"deploymentTemplate": {
        "metadata": {"labels": {"app": "web"}, "annotations": {"note": MARKER}},
        "spec": {
            "replicas": 2,
            "template": {
                "metadata": {"labels": {"app": "web"}, "annotations": {"note": MARKER}},
                "spec": {"containers": [container]},
            },
        },
    }})
}

fn taint(key: &str) -> Value {
    json!({"key": key, "effect": "NoSchedule"})
}

impl World {
    /// With all pools, and without a workload.
    fn empty() -> Self {
        let daemon: YurtAppDaemon = serde_json::from_value(json!({
            "apiVersion": "apps.openyurt.io/v1alpha1",
            "kind": "YurtAppDaemon",
            "metadata": {"name": "web", "namespace": "shop", "uid": DAEMON_UID, "resourceVersion": "1", "generation": 1},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "nodepoolSelector": {"matchLabels": {"tier": "edge"}},
                "workloadTemplate": template(1),
            },
        }))
        .unwrap();
        let pools = POOLS.iter().enumerate().map(|(at, pool)| {
            let taints = if at < 2 { vec![taint("edge")] } else { Vec::new() };
            let pool_facts = json!({"labels": {"tier": "edge"}, "taints": taints});
            ((*pool).to_owned(), serde_json::from_value(pool_facts).unwrap())
        });
        let facts = Facts {
            now: start() - seconds(500),
            read: Read::Cached,
            daemon: Arc::new(daemon),
            pools: NodePools::Known(Arc::new(pools.collect())),
            no_pools_since: None,
            gone_since: BTreeMap::new(),
            children: Arc::default(),
            revisions: Vec::new(),
            refused: BTreeMap::new(),
            refused_revision: None,
            applied: BTreeMap::new(),
            watching_since: Some(start() - seconds(400)),
            retry_after: seconds(30),
            compiled: BTreeMap::new(),
            verdicts: BTreeMap::new(),
            gate_namespaces: GateNamespaces::default(),
            sources: BTreeMap::new(),
            modules: BTreeMap::new(),
            configs: BTreeMap::new(),
            gate_verdicts: BTreeMap::new(),
        };
        Self {
            facts,
            is_without_revisions: false,
            version: 100,
        }
    }

    /// Carries plans out until every pool has the template.
    fn complete(&mut self) {
        for _ in 0..4 {
            let (plan, _) = settle(self, self.seen(), &Told::default()).unwrap();
            self.carry_out(&plan);
            let names: Vec<String> = self.facts.children.keys().cloned().collect();
            names.iter().for_each(|name| self.change(name, roll_out));
        }
        let status = self.facts.daemon.status.clone().unwrap();
        assert_eq!(Some(&status.current_revision), status.update_revision.as_ref());
    }

    pub fn daemon(&mut self) -> &mut YurtAppDaemon {
        Arc::make_mut(&mut self.facts.daemon)
    }

    pub fn status(&self) -> YurtAppDaemonStatus {
        self.facts.daemon.status.clone().unwrap_or_default()
    }

    /// As an API server would take an edit of the spec.
    pub fn edited(&mut self) {
        self.version += 1;
        let version = self.version.to_string();
        let metadata = &mut self.daemon().metadata;
        metadata.generation = metadata.generation.map(|generation| generation + 1);
        metadata.resource_version = Some(version);
    }

    pub fn set_template(&mut self, number: usize) {
        self.daemon().spec.workload_template = serde_json::from_value(template(number)).unwrap();
        self.edited();
    }

    /// With a ConfigMap for each gate.
    pub fn set_strategy(&mut self, strategy: Value) {
        let strategy = serde_json::from_value(strategy).unwrap();
        self.daemon().spec.update_strategy = Some(strategy);
        let stages = self.facts.daemon.spec.update_strategy.iter();
        let gates = stages
            .flat_map(|strategy| &strategy.stages)
            .flat_map(|stage| &stage.gates);
        let present = |gate: &stagegate_api::Gate| {
            let entry = &gate.module.config_map;
            let version = "gate-uid/1".to_owned();
            (
                format!("{}/{}", entry.namespace, entry.name),
                Source::Present { version },
            )
        };
        self.facts.sources = gates.map(present).collect();
        self.edited();
    }

    pub fn pools(&mut self) -> &mut BTreeMap<String, Pool> {
        match &mut self.facts.pools {
            NodePools::Known(pools) => Arc::make_mut(pools),
            _ => panic!("this world has no pools that are known"),
        }
    }

    pub fn children(&mut self) -> &mut BTreeMap<String, Child> {
        Arc::make_mut(&mut self.facts.children)
    }

    /// Changes the workload of this name as anybody may.
    pub fn change(&mut self, name: &str, change: impl FnOnce(&mut WorkloadView)) {
        self.version += 1;
        let version = self.version.to_string();
        if let Some(Child::Known(view)) = self.children().get_mut(name) {
            let view = Arc::make_mut(view);
            change(view);
            view.metadata.resource_version = Some(version);
        }
    }

    /// The facts of the watches.
    pub fn seen(&self) -> Facts {
        let mut facts = self.with_absence();
        if self.is_without_revisions {
            facts.revisions.clear();
        }
        facts
    }

    /// Those of a reading.
    pub fn read(&self) -> Facts {
        Facts {
            read: Read::Anew {
                began_at: self.facts.now,
            },
            ..self.with_absence()
        }
    }

    /// What this process has seen go, as long as it has not come back.
    fn with_absence(&self) -> Facts {
        let mut facts = self.facts.clone();
        let (is_without, gone) = match &facts.pools {
            NodePools::Known(pools) => (
                !has_pools(&facts.daemon, pools),
                gone_pools(&facts, pools, &Memo::default()),
            ),
            _ => (false, BTreeSet::new()),
        };
        facts.no_pools_since = is_without.then(|| facts.no_pools_since.unwrap_or(facts.now));
        let since = |pool: String| {
            let since = facts.gone_since.get(&pool).copied();
            (pool, since.unwrap_or(facts.now))
        };
        facts.gone_since = gone.into_iter().map(since).collect();
        facts
    }
}

/// All its replicas run, and its controller has counted them.
pub fn roll_out(view: &mut WorkloadView) {
    let replicas = view.spec.replicas.or(Some(1));
    view.status = WorkloadStatusView {
        observed_generation: view.metadata.generation,
        replicas,
        updated_replicas: replicas,
        ready_replicas: replicas,
        available_replicas: replicas,
        conditions: vec![ConditionView {
            r#type: "Available".to_owned(),
            status: "True".to_owned(),
            reason: None,
        }],
    };
}

/// Somebody else has set another image.
pub fn change_by_hand(view: &mut WorkloadView) {
    view.spec.template.spec.containers[0].image = Some("mine:9".to_owned());
    view.metadata.generation = view.metadata.generation.map(|generation| generation + 1);
    roll_out(view);
}
