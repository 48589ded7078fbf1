//! What comes from outside: the objects that the world starts with, and what users and faults do to it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::ResourceExt as _;
use stagegate_api::status_collector::NamedExpression;
use stagegate_api::{
    BindingPolicy, BindingPolicySpec, DownsyncClause, PreviousStages, Stage, StageHealth, StagedBindingPolicy,
    StagedBindingPolicySpec, StatusCollector, StatusCollectorSpec, UnacknowledgedUpdates, annotation, evidence,
};
use stagegate_decide::names::{PlacementName, StageName};

use crate::clusters::Member;
use crate::controller::COLLECTOR;
use crate::controller::seen::Watched;
use crate::controller::talk::Step;
use crate::kubestellar::{AVAILABLE, DESIRED, Start};
use crate::proofs;
use crate::queue::Millis;
use crate::script::Action;
use crate::server::{Cluster, Content, Resource, Workload, uid_of};
use crate::world::{Event, POLICY, World};

pub(crate) const STAGES: [&str; 4] = ["dev", "test", "prod", "late"];
pub(crate) const OBJECTS: [&str; 2] = ["web", "more"];
/// How many StatusCollectors a clause may name, and how long their names may be.
const COLLECTORS_MAX: usize = 63;
const NAME_CHARS_MAX: usize = 253;
/// The name of a Role. This one clears a terminal.
const HOSTILE: &str = "more\u{1b}[2J";
const SECOND: &str = "other";
/// The maximum length of most names in Kubernetes.
const NAME_CHARS: usize = 253;
pub(crate) const CONDITION: &str = "combinedStatus.results.all(r, r.rows.all(w, w.columns[1].float >= 1.0))";
pub(crate) const LENIENT: &str =
    "combinedStatus.results.all(r, r.rows.all(w, !has(w.columns[1].float) || w.columns[1].float >= 1.0))";
/// There is no StatusCollector of this name.
pub(crate) const MISSPELT: &str = "availabel";
/// It cannot be evaluated for any object but the first.
pub(crate) const FILTER_FOR_ONE: &str = "downsyncClause.name == 'web' || downsyncClause.metadata.labels.tier == 'web'";
/// It cannot be evaluated for any object.
pub(crate) const BROKEN_FILTER: &str = "downsyncClause.metadata.labels.tier == 'web'";
pub(crate) const FILTER: &str = "downsyncClause.resource in ['deployments', 'statefulsets']";

impl World {
    /// Inventory, workload, collector and policy.
    pub fn found(&mut self) {
        let setting = self.script.setting.clone();
        let mut before: Option<String> = None;
        for (position, count) in setting.clusters.iter().enumerate() {
            let stage = STAGES[position];
            if let Some(shared) = before.take().filter(|_| setting.shares[position]) {
                self.label_cluster(&shared, ("also", stage));
            }
            for number in 1..=*count {
                let mut name = format!("{stage}-{number}");
                if setting.has_long_names {
                    name = format!("{name:x<NAME_CHARS$}");
                }
                let metadata = ObjectMeta {
                    name: Some(name.clone()),
                    labels: Some(BTreeMap::from([("stage".to_owned(), stage.to_owned())])),
                    ..ObjectMeta::default()
                };
                let _made = self.server.clusters.create(
                    &mut self.server.counter,
                    Cluster {
                        metadata,
                        is_moved: false,
                    },
                );
                self.fleet.members.insert(name.clone(), Member::default());
                before.get_or_insert(name);
            }
        }
        for position in 0..setting.objects.len() {
            self.make_workload(position);
        }
        for number in 0..setting.crowd {
            self.make_bystander(number);
        }
        self.make_collector();
        self.make_policy(POLICY);
        if setting.second_policy {
            self.make_policy(SECOND);
        }
    }

    pub(crate) fn label_cluster(&mut self, name: &str, (key, value): (&str, &str)) {
        let _labelled = self
            .server
            .clusters
            .update(&mut self.server.counter, (name, None), |cluster| {
                let labels = cluster.metadata.labels.get_or_insert_default();
                labels.insert(key.to_owned(), value.to_owned());
                cluster.is_moved |= key == "stage";
            });
    }

    pub(crate) fn content(&mut self, replicas: i64) -> Content {
        self.contents += 1;
        let slowest = if self.script.setting.slow_rollouts { 8_000 } else { 400 };
        Content {
            id: self.contents,
            replicas,
            crashes: false,
            is_blocked: false,
            step_ms: self.chance.between(10, slowest),
            made_at: self.queue.now(),
            deadline_ms: if self.script.setting.short_deadlines {
                30_000
            } else {
                600_000
            },
            replaced: None,
            is_untimed: false,
        }
    }

    pub(crate) fn make_workload(&mut self, position: usize) {
        let Some(resource) = self.script.setting.objects.get(position).copied() else {
            return;
        };
        let content = self.content(2);
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        let metadata = ObjectMeta {
            name: Some(
                if resource == Resource::Role {
                    HOSTILE
                } else {
                    OBJECTS[position]
                }
                .to_owned(),
            ),
            namespace: Some("default".to_owned()),
            labels: Some(labels),
            ..ObjectMeta::default()
        };
        let edited_at = Some(self.server.counter.time().0);
        let workload = Workload {
            metadata,
            resource,
            content,
            edited_at,
        };
        let _made = self.server.workloads.create(&mut self.server.counter, workload);
    }

    pub(crate) fn make_collector(&mut self) {
        let asked = if self.script.setting.asks_desired {
            DESIRED
        } else {
            AVAILABLE
        };
        let select = [("cluster", "inventory.name"), ("available", asked)];
        let select = select.map(|(name, def)| NamedExpression {
            name: name.to_owned(),
            def: def.to_owned(),
        });
        let collector = StatusCollector::new(
            COLLECTOR,
            StatusCollectorSpec {
                select: select.into(),
                limit: 20,
                ..StatusCollectorSpec::default()
            },
        );

        let _made = self.server.collectors.create(&mut self.server.counter, collector);
    }

    pub(crate) fn make_policy(&mut self, name: &str) {
        let setting = &self.script.setting;
        let mut collectors = if setting.has_condition {
            vec![COLLECTOR.to_owned()]
        } else if setting.crowd > 0 {
            (0..COLLECTORS_MAX)
                .map(|number| format!("{number:0>NAME_CHARS_MAX$}"))
                .collect()
        } else {
            Vec::new()
        };
        if setting.is_misspelt {
            collectors.push(MISSPELT.to_owned());
        }
        let stages = (0..setting.clusters.len()).map(|position| self.stage(STAGES[position]));
        let spec = StagedBindingPolicySpec {
            downsync: vec![DownsyncClause {
                object_selectors: Some(vec![selector(("app", "web"))]),
                status_collectors: collectors,
                ..DownsyncClause::default()
            }],
            previous_stages: if setting.keeps_previous {
                PreviousStages::Keep
            } else {
                PreviousStages::Remove
            },
            updates: stagegate_api::Updates::Immediate,
            paused: false,
            stages: stages.collect(),
        };
        let _made = self
            .server
            .policies
            .create(&mut self.server.counter, StagedBindingPolicy::new(name, spec));
    }

    pub(crate) fn stage(&self, name: &str) -> Stage {
        let setting = &self.script.setting;
        let only_waits = setting.waits_only && name == STAGES[0];
        let condition = if setting.is_lenient { LENIENT } else { CONDITION };
        let filter = if setting.fails_for_one { FILTER_FOR_ONE } else { FILTER };
        Stage {
            name: name.to_owned(),
            cluster_selectors: vec![selector(("stage", name)), selector(("also", name))],
            condition: (setting.has_condition && !only_waits).then(|| condition.to_owned()),
            filter: (setting.has_filter || setting.fails_for_one).then(|| filter.to_owned()),
            soak: setting.soak.map(str::to_owned),
            health: if setting.ignores_health || only_waits {
                StageHealth::Ignored
            } else {
                StageHealth::Required
            },
            unacknowledged_updates: if setting.accepts_unseen && name == STAGES[0] {
                UnacknowledgedUpdates::Ignore
            } else {
                UnacknowledgedUpdates::default()
            },
            gates: self.gates_of(name),
        }
    }

    pub(crate) fn placement_name(&self, position: usize) -> String {
        let count = self.script.setting.clusters.len();
        PlacementName::of(POLICY, StageName::of(STAGES[position % count]))
            .as_str()
            .to_owned()
    }

    /// One action of the script.
    pub fn act(&mut self, action: Action) {
        let now = self.queue.now();
        match action {
            Action::EditWorkload(position, edit) => self.edit_workload(position, edit),
            Action::DeleteWorkload(position) => {
                let _done = self.delete_workload(position);
            }
            Action::RecreateWorkload(position) => {
                let _done = self.delete_workload(position);
                self.make_workload(position % self.script.setting.objects.len());
            }
            Action::EditPolicy(edit) => self.edit_policy(edit),
            Action::DeletePolicy => {
                let _done = self.server.policies.delete(&mut self.server.counter, (POLICY, None));
            }
            Action::DeletePolicySlowly(for_ms) => self.delete_policy_slowly(for_ms),
            Action::OrphanPolicy => self.orphan_policy(),
            Action::RecreatePolicy => {
                let _done = self.server.policies.delete(&mut self.server.counter, (POLICY, None));
                self.make_policy(POLICY);
            }
            Action::Relabel(position) => {
                if let Some((name, _)) = self.member(position) {
                    self.relabel(&name);
                }
            }
            Action::DropCollector => {
                let _done = self
                    .server
                    .collectors
                    .delete(&mut self.server.counter, (COLLECTOR, None));
            }
            Action::EditCollector => self.edit_collector(COLLECTOR, 21),
            Action::BreakEvidence => self.edit_collector(&evidence::collector_name(), 22),
            Action::DropEvidence => {
                let name = evidence::collector_name();
                let _done = self.server.collectors.delete(&mut self.server.counter, (&name, None));
            }
            Action::ClosePlacement(position) => self.edit_placement(position, Vec::new()),
            Action::EditPlacement(position) => self.edit_placement(position, vec![selector(("stage", "dev"))]),
            Action::StripPlacement(position) => self.strip_placement(position, false),
            Action::ReplacePlacement(position) => self.strip_placement(position, true),
            Action::DeletePlacement(position) => {
                let name = self.placement_name(position);
                let _done = self.server.placements.delete(&mut self.server.counter, (&name, None));
            }
            Action::ForeignPlacement(position) => {
                let spec = BindingPolicySpec::default();
                let foreign = BindingPolicy::new(&self.placement_name(position), spec);
                let _done = self.server.placements.create(&mut self.server.counter, foreign);
            }
            Action::RestartKubeStellar {
                down_ms,
                inventory_ms,
                objects_ms,
            } => {
                let start = Start {
                    down_ms,
                    inventory_ms,
                    objects_ms,
                };
                self.start_kubestellar(start, down_ms);
            }
            Action::Unreachable(position, for_ms) => {
                if let Some((_, member)) = self.member(position) {
                    member.be_unreachable(now, for_ms);
                }
            }
            Action::Reachable(position) => self.reach(position),
            Action::Undelivered(position, for_ms) => {
                if let Some((_, member)) = self.member(position) {
                    member.apply_nothing(now, for_ms);
                }
            }
            Action::Sicken(position, object) => self.sicken(position, object, true),
            Action::Recover(position, object) => self.sicken(position, object, false),
            Action::Autoscale(position, object) => self.autoscale(position, object),
            other => self.tamper(other),
        }
    }

    fn start_kubestellar(&mut self, start: Start, down_ms: Millis) {
        let planned = self.kubestellar.restart((start, self.queue.now()));
        self.plan_kubestellar(planned);
        if self.script.setting.late_reports {
            self.list_reports_late(down_ms);
        }
    }

    /// As where KubeStellar's list of reports is long.
    fn list_reports_late(&mut self, down_ms: Millis) {
        for (name, member) in &mut self.fleet.members {
            member.is_unlisted = true;
            let delay = down_ms + self.chance.between(3_000, 16_000);
            self.queue.after(delay, Event::Listed(name.clone()));
        }
    }

    /// The cluster can be reached again: it gets what is there for it, and tells what it runs.
    fn reach(&mut self, position: usize) {
        let now = self.queue.now();
        let delay = self.chance.between(50, 1_500);
        let Some((name, member)) = self.member(position) else {
            return;
        };
        member.apply_nothing(now, delay);
        member.unreachable_until = now;
        let keys: Vec<String> = member.running.keys().cloned().collect();
        self.queue.after(delay, Event::Apply(name.clone()));
        for key in keys {
            self.queue.after(0, Event::Change(name.clone(), key));
        }
    }

    /// Faults of our own processes and of the way to the API server.
    pub(crate) fn fail(&mut self, action: Action) {
        let now = self.queue.now();
        let count = self.processes.len();
        match action {
            Action::Kill(process, for_ms) => {
                let process = process % count;
                let was_leader = self.processes[process].is_leader;
                self.processes[process].kill();
                self.queue.after(for_ms, Event::Start(process));
                if was_leader {
                    self.elect_later();
                }
            }
            Action::PauseProcess(process, for_ms) => {
                self.oracle.watches_are_late = true;
                let process = &mut self.processes[process % count];
                process.paused_until = now + for_ms;
                // A request may hang in the network for longer than a lease lasts.
                process.arrives_at = if for_ms % 2 == 0 { now } else { now + for_ms * 3 / 4 };
                let writing = process
                    .talks
                    .iter()
                    .filter(|(_, talk)| matches!(talk.step, Step::Write(..)));
                process.in_flight = writing.map(|(policy, _)| policy.clone()).collect();
                if process.is_leader {
                    self.elect_later();
                }
            }
            Action::Skew(process, by) => self.processes[process % count].skew_ms = by,
            Action::LateWatch(process, kind, for_ms) => {
                self.oracle.watches_are_late = true;
                let kind = Watched::ALL[kind % Watched::ALL.len()];
                self.processes[process % count].late.insert(kind, now + for_ms);
            }
            Action::Relist(process) => {
                let process = process % count;
                let (life, upto) = (self.processes[process].life, self.server.counter.version);
                for kind in Watched::ALL {
                    let delay = self.chance.between(5, 2_000);
                    self.queue.after(
                        delay,
                        Event::Deliver {
                            process,
                            life,
                            kind,
                            upto,
                            is_list: true,
                        },
                    );
                }
            }
            Action::LoseAnswer => self.lose_answer = true,
            Action::RefuseReads(for_ms) => self.reads_from = now + for_ms,
            _ => self.refuse_write = true,
        }
    }

    fn delete_workload(&mut self, position: usize) -> Result<(), crate::server::Refused> {
        let name = OBJECTS[position % self.script.setting.objects.len()];
        self.server
            .workloads
            .delete(&mut self.server.counter, (&format!("default/{name}"), None))
    }

    /// Gives a cluster to another stage, or back to its own.
    fn relabel(&mut self, name: &str) {
        let stages = self.script.setting.clusters.len();
        let home = name.split('-').next().unwrap_or_default().to_owned();
        let others = STAGES.iter().take(stages).filter(|stage| **stage != home);
        let others: Vec<&str> = others.copied().collect();
        let other = self.chance.pick(&others).copied().unwrap_or(STAGES[0]);
        let is_home = self
            .server
            .clusters
            .get(name)
            .is_some_and(|cluster| cluster.labels().get("stage") == Some(&home));
        let to = if is_home { other.to_owned() } else { home };
        self.label_cluster(name, ("stage", &to));
    }

    fn edit_collector(&mut self, name: &str, limit: i64) {
        let _edited = self
            .server
            .collectors
            .update(&mut self.server.counter, (name, None), |collector| {
                collector.spec.limit = limit;
            });
    }

    fn edit_placement(&mut self, position: usize, selectors: Vec<LabelSelector>) {
        let name = self.placement_name(position);
        let _edited = self
            .server
            .placements
            .update(&mut self.server.counter, (&name, None), |object| {
                object.spec.cluster_selectors = selectors;
            });
    }

    fn strip_placement(&mut self, position: usize, of_collector: bool) {
        let name = self.placement_name(position);
        let Some(live) = self.server.placements.get(&name) else {
            return;
        };
        // An attempt that is on no record would be forgotten, and one without an attempt would be as the Go stager makes it.
        let status = self
            .server
            .policies
            .get(POLICY)
            .and_then(|policy| policy.status.as_ref());
        let mut stages = status.iter().flat_map(|status| &status.stages);
        let uid = uid_of(&live.metadata);
        let attempt = live.annotations().get(annotation::ATTEMPT);
        let attempt = attempt.and_then(|attempt| attempt.parse().ok());
        let is_recorded = attempt.is_some()
            && stages.any(|stage| {
                let is_its = stage
                    .binding_policy
                    .as_ref()
                    .is_some_and(|placement| placement.uid == uid);
                is_its && stage.attempt == attempt
            });
        if !is_recorded && (of_collector || proofs::is_attempted(live)) {
            return;
        }
        let _stripped = self
            .server
            .placements
            .update(&mut self.server.counter, (&name, None), |object| {
                object.metadata.annotations = None;
                for clause in object.spec.downsync.iter_mut().filter(|_| of_collector) {
                    clause
                        .status_collectors
                        .retain(|name| *name != evidence::collector_name());
                }
            });
    }

    /// As `kubectl delete --cascade=orphan` does.
    fn orphan_policy(&mut self) {
        let names: Vec<String> = self.server.placements.all().map(|(name, _)| name.clone()).collect();
        for name in names.iter().filter(|name| name.starts_with(POLICY)) {
            let _freed = self
                .server
                .placements
                .update(&mut self.server.counter, (name, None), |object| {
                    object.metadata.owner_references = None;
                });
        }
        let _done = self.server.policies.delete(&mut self.server.counter, (POLICY, None));
    }

    pub(crate) fn sicken(&mut self, cluster: usize, object: usize, is_sick: bool) {
        let now = self.queue.now();
        let key = format!("default/{}", OBJECTS[object % OBJECTS.len()]);
        let Some((cluster, member)) = self.member(cluster) else {
            return;
        };
        if let Some(running) = member.running.get_mut(&key) {
            running.before = running.status(now).unwrap_or_default();
            running.is_sick = is_sick;
            running.begun_at = now;
            running.observed_after = 0;
            self.queue.after(0, Event::Change(cluster, key));
        }
    }

    fn autoscale(&mut self, cluster: usize, object: usize) {
        let now = self.queue.now();
        let key = format!("default/{}", OBJECTS[object % OBJECTS.len()]);
        let observed_after = self.chance.between(0, 500);
        let Some((cluster, member)) = self.member(cluster) else {
            return;
        };
        let Some(running) = member
            .running
            .get_mut(&key)
            .filter(|running| running.resource.counts_replicas())
        else {
            return;
        };
        let wanted = running.wanted() + 1;
        running.roll(now, observed_after, |running| running.scaled = Some(wanted));
        self.oracle.scaled.insert((cluster.clone(), key.clone()));
        self.queue.after(0, Event::Change(cluster, key));
    }
}

pub(crate) fn selector((key, value): (&str, &str)) -> LabelSelector {
    LabelSelector {
        match_labels: Some(BTreeMap::from([(key.to_owned(), value.to_owned())])),
        match_expressions: None,
    }
}
