//! The world: all parts, one event queue, one thread. The same script gives the same run.

use std::collections::BTreeMap;

use crate::clusters::{Fleet, Member};
use crate::controller::Process;
use crate::controller::seen::Watched;
use crate::controller::talk::Views;
use crate::coverage::{Moment, Reached};
use crate::gates::Gates;
use crate::kubestellar::{KubeStellar, Task};
use crate::oracle::{Oracle, Violation};
use crate::queue::{Millis, Queue, timestamp};
use crate::script::{Script, When};
use crate::seeded::Seeded;
use crate::server::Server;

/// More than any run needs that comes to an end.
const EVENTS_MAX: u64 = 200_000;
/// The policy that every world has.
pub const POLICY: &str = "shop";

#[derive(Clone, Debug)]
pub enum Event {
    /// A watch delivers the versions up to `upto` to a process, unless the process has restarted since.
    Deliver {
        process: usize,
        life: u64,
        kind: Watched,
        upto: u64,
        is_list: bool,
    },
    Start(usize),
    /// If the lease is free, a process takes it.
    Elect,
    Reconcile {
        process: usize,
        life: u64,
        policy: String,
    },
    Talk {
        process: usize,
        life: u64,
        policy: String,
    },
    KubeStellar(u64, Task),
    HandOver(String),
    Apply(String),
    Change(String, String),
    Report(String, String),
    /// KubeStellar learns what the cluster has reported.
    Listed(String),
    Act(usize),
    CollectGarbage,
    /// A finalizer is taken off the policy.
    Release,
    /// All clusters and all users are well again.
    Settle,
    /// A person follows what status says. The text is the reason in status.
    Help(String),
}

/// How many entries of each log the parts have been told of.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    policies: usize,
    placements: usize,
    bindings: usize,
    collectors: usize,
    combined: usize,
    workloads: usize,
    clusters: usize,
}

/// How much was done.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub decisions: u64,
    pub events: u64,
    pub writes: u64,
    pub opens: usize,
    pub decided_opens: usize,
    pub conflicts: u64,
}

pub struct World {
    pub server: Server,
    pub queue: Queue<Event>,
    pub kubestellar: KubeStellar,
    pub fleet: Fleet,
    pub gates: Gates,
    pub processes: Vec<Process>,
    pub views: Views,
    pub script: Script,
    pub chance: Seeded,
    pub oracle: Oracle,
    pub counts: Counts,
    /// Lines of what happened, if they are wanted.
    pub trace: Option<Vec<String>>,
    pub transitions: u64,
    pub contents: u64,
    pub lose_answer: bool,
    pub refuse_write: bool,
    /// No workload object can be read before.
    pub reads_from: Millis,
    /// Nothing comes from outside any more.
    pub is_settled: bool,
    /// When the last action of the script was carried out.
    pub acted_at: Millis,
    /// Status has said nothing that a person could do.
    pub is_helpless: bool,
    /// Neither transport nor garbage collector work.
    pub(crate) is_bare: bool,
    told: Told,
    waiting: BTreeMap<usize, Vec<(usize, Millis)>>,
    deciding: BTreeMap<usize, Vec<(usize, Millis)>>,
}

impl World {
    #[must_use]
    pub fn new(script: Script, is_traced: bool) -> Self {
        let processes = 1 + usize::from(script.setting.two_processes);
        let mut world = Self::empty(script, is_traced);
        world.processes = vec![Process::default(); processes];
        world.server.drops_create_only = world.script.setting.drops_create_only;
        world.found();
        world.plan_actions();
        for process in 0..processes {
            let delay = world.chance.between(0, 500);
            world.queue.after(delay, Event::Start(process));
        }
        world.queue.after(0, Event::Elect);
        world
    }

    /// Before there is anything in it.
    pub(crate) fn empty(script: Script, is_traced: bool) -> Self {
        Self {
            server: Server::new(timestamp(0)),
            queue: Queue::default(),
            kubestellar: KubeStellar::default(),
            fleet: Fleet::default(),
            gates: Gates::default(),
            processes: Vec::new(),
            views: Views::default(),
            chance: Seeded::new(script.seed, 2),
            oracle: Oracle::of(script.setting.second_policy),
            counts: Counts::default(),
            trace: is_traced.then(Vec::new),
            transitions: 0,
            contents: 0,
            lose_answer: false,
            refuse_write: false,
            reads_from: 0,
            is_settled: false,
            acted_at: 0,
            is_helpless: false,
            is_bare: false,
            told: Told::default(),
            waiting: BTreeMap::new(),
            deciding: BTreeMap::new(),
            script,
        }
    }

    pub fn say(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            let now = self.queue.now();
            trace.push(format!("{:>4}.{:03} {}", now / 1_000, now % 1_000, line()));
        }
    }

    /// Plans the script's actions, but those that wait for others.
    fn plan_actions(&mut self) {
        for position in 0..self.script.actions.len() {
            match self.script.actions[position].0 {
                When::At(at) => self.queue.at(at, Event::Act(position)),
                // Scheduled by `act_on_script` when the action before it comes.
                When::AfterPrevious(_) if position > 0 => {}
                When::AfterPrevious(after) => self.queue.after(after, Event::Act(position)),
                When::AfterOpen(nth, after) => self.waiting.entry(nth).or_default().push((position, after)),
                When::AfterDecision(nth, after) => self.deciding.entry(nth).or_default().push((position, after)),
            }
        }
    }

    /// A placement was opened.
    pub fn note_open(&mut self) {
        let due = self.waiting.remove(&self.counts.opens).unwrap_or_default();
        self.counts.opens += 1;
        for (position, after) in due {
            self.queue.after(after, Event::Act(position));
        }
    }

    /// A process has decided to open a placement.
    pub fn note_decision(&mut self) {
        let due = self.deciding.remove(&self.counts.decided_opens).unwrap_or_default();
        self.counts.decided_opens += 1;
        for (position, after) in due {
            self.queue.after(after, Event::Act(position));
        }
    }

    /// Runs until that time, or until a rule is broken.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn run_until(&mut self, end: Millis) -> Result<(), Violation> {
        while let Some(event) = self.queue.next_until(end) {
            self.counts.events += 1;
            self.server.counter.now = timestamp(self.queue.now());
            self.step(event);
            self.notify();
            if self.counts.events > EVENTS_MAX {
                return Err(Violation {
                    rule: "quiet",
                    text: format!("more than {EVENTS_MAX} events"),
                    facts: None,
                });
            }
            if let Some(violation) = self.oracle.violation.take() {
                return Err(violation);
            }
        }
        Ok(())
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Deliver {
                process,
                life,
                kind,
                upto,
                is_list,
            } => self.deliver((process, life), (kind, upto, is_list)),
            Event::Start(process) => self.start_process(process),
            Event::Elect => self.elect(),
            Event::Reconcile { process, life, policy } => self.reconcile(process, life, policy),
            Event::Talk { process, life, policy } => self.talk(process, life, policy),
            Event::KubeStellar(process, task) => self.kubestellar_works(process, task),
            Event::HandOver(binding) => {
                if self.script.setting.transport_tells {
                    self.server.tell_taken(&binding);
                }
                for cluster in self.fleet.hand_over(&self.server, &binding) {
                    let delay = self.chance.between(50, 1_500);
                    self.at_cluster(&cluster, delay, Event::Apply(cluster.clone()));
                }
            }
            Event::Apply(cluster) => self.apply(&cluster),
            Event::Change(cluster, key) => self.status_changes(cluster, key),
            Event::Report(cluster, key) => self.report(&cluster, &key),
            Event::Listed(cluster) => self.list_reports(&cluster),
            Event::Act(position) => self.act_on_script(position),
            Event::CollectGarbage => self.server.collect_garbage(),
            Event::Release => self.release_policy(),
            Event::Settle => self.settle_down(),
            Event::Help(reason) => self.is_helpless |= !self.help(&reason),
        }
    }

    fn act_on_script(&mut self, position: usize) {
        let Some((_, action)) = self.script.actions.get(position).cloned().filter(|_| !self.is_settled) else {
            return;
        };
        self.say(|| format!("act {position}: {action:?}"));
        let status = self
            .server
            .policies
            .get(POLICY)
            .and_then(|policy| policy.status.as_ref());
        let moment = Moment::of(status);
        self.oracle.coverage.note(Reached::Pair(action.kind(), moment));
        self.acted_at = self.queue.now();
        self.act(action);
        if let Some((When::AfterPrevious(after), _)) = self.script.actions.get(position + 1) {
            self.queue.after(*after, Event::Act(position + 1));
        }
    }

    /// An event at a cluster, which may be out of reach.
    pub fn at_cluster(&mut self, cluster: &str, delay: Millis, event: Event) {
        let reachable_at = self
            .fleet
            .members
            .get(cluster)
            .map_or(0, |member| member.unreachable_until);
        self.queue
            .at((self.queue.now() + delay).max(reachable_at + delay), event);
    }

    fn apply(&mut self, cluster: &str) {
        let now = self.queue.now();
        let slow = self.script.setting.slow_rollouts;
        let chance = &mut self.chance;
        let Some(member) = self.fleet.members.get_mut(cluster) else {
            return;
        };
        let applies_from = member.unreachable_until.max(member.applies_from);
        if applies_from > now {
            self.queue.at(applies_from, Event::Apply(cluster.to_owned()));
            return;
        }
        let touched = member.apply(now, || chance.between(0, if slow { 4_000 } else { 500 }));
        for key in touched {
            self.say(|| format!("{cluster} has {key} anew"));
            self.queue.after(0, Event::Change(cluster.to_owned(), key));
        }
    }

    fn status_changes(&mut self, cluster: String, key: String) {
        let now = self.queue.now();
        let slowest = if self.script.setting.slow_reports {
            15_000
        } else {
            1_000
        };
        let delay = self.chance.between(50, slowest);
        let next = self
            .fleet
            .members
            .get(&cluster)
            .and_then(|member| member.running.get(&key)?.changes_at(now));
        if let Some(next) = next {
            self.queue.at(next, Event::Change(cluster.clone(), key.clone()));
        }
        self.at_cluster(&cluster.clone(), delay, Event::Report(cluster, key));
    }

    fn report(&mut self, cluster: &str, key: &str) {
        let now = self.queue.now();
        let seconds = timestamp(now).as_second();
        let Some(member) = self.fleet.members.get_mut(cluster) else {
            return;
        };
        if member.unreachable_until > now {
            let delay = member.unreachable_until - now;
            self.queue
                .after(delay, Event::Report(cluster.to_owned(), key.to_owned()));
            return;
        }
        if !member.report(key, (now, seconds)) {
            return;
        }
        let told = member.reports.get(key).cloned();
        self.say(|| format!("{cluster} reports {key}: {told:?}"));
        self.kubestellar_sees(Task::SeeReport(cluster.to_owned(), key.to_owned()));
    }

    fn list_reports(&mut self, cluster: &str) {
        let Some(member) = self.fleet.members.get_mut(cluster) else {
            return;
        };
        member.is_unlisted = false;
        let keys: Vec<String> = member.reports.keys().cloned().collect();
        for key in keys {
            self.kubestellar_sees(Task::SeeReport(cluster.to_owned(), key));
        }
    }

    fn kubestellar_works(&mut self, process: u64, task: Task) {
        if process != self.kubestellar.process {
            return;
        }
        let now = self.queue.now();
        let planned = self
            .kubestellar
            .work(&mut self.server, (&self.fleet, &mut self.chance), (task, now));
        self.plan_kubestellar(planned);
    }

    pub fn plan_kubestellar(&mut self, planned: Vec<(Millis, Task)>) {
        for (at, task) in planned {
            let at = at.max(self.kubestellar.down_until);
            self.queue.at(at, Event::KubeStellar(self.kubestellar.process, task));
        }
    }

    pub(crate) fn kubestellar_sees(&mut self, task: Task) {
        // While it is down it sees no events: when it starts, it lists what there is.
        if self.kubestellar.down_until > self.queue.now() {
            return;
        }
        let setting = &self.script.setting;
        let slowest = match &task {
            Task::SeePlacement(_) if setting.slow_queue => 12_000,
            Task::SeeObject(_) if setting.objects_late_ms > 0 => setting.objects_late_ms,
            _ => 60,
        };
        let delay = self.chance.between(1, slowest);
        self.plan_kubestellar(vec![(self.queue.now() + delay, task)]);
    }

    /// CombinedStatuses, of which a user may have deleted one; gives whether the garbage collector has something to do.
    fn kubestellar_sees_combined(&mut self, from: usize) -> bool {
        let entries = self.server.combined.log()[from..].iter();
        let entries: Vec<_> = entries.map(|entry| (entry.key.clone(), entry.after.clone())).collect();
        let mut has_orphans = false;
        for (key, after) in entries {
            has_orphans |= after.is_some_and(|after| self.server.is_orphan_combined(&after));
            self.kubestellar_sees(Task::SeeCombined(key));
        }
        has_orphans
    }

    /// Everybody who watches learns of what was written.
    pub(crate) fn notify(&mut self) {
        let told = self.told;
        self.told = Told {
            policies: self.server.policies.log().len(),
            placements: self.server.placements.log().len(),
            bindings: self.server.bindings.log().len(),
            collectors: self.server.collectors.log().len(),
            combined: self.server.combined.log().len(),
            workloads: self.server.workloads.log().len(),
            clusters: self.server.clusters.log().len(),
        };
        let now = self.told;
        for (kind, is_news) in [
            (Watched::Policies, told.policies < now.policies),
            (Watched::Placements, told.placements < now.placements),
            (Watched::Bindings, told.bindings < now.bindings),
            (Watched::Collectors, told.collectors < now.collectors),
            (Watched::Combined, told.combined < now.combined),
        ] {
            if is_news {
                self.tell_processes(kind);
            }
        }
        let is_gone = |after: bool| !after;
        let mut has_orphans = self.server.policies.log()[told.policies..]
            .iter()
            .any(|entry| is_gone(entry.after.is_some()));
        let placements: Vec<(String, bool)> = self.server.placements.log()[told.placements..]
            .iter()
            .map(|entry| (entry.key.clone(), entry.after.is_some()))
            .collect();
        for (name, is_there) in placements {
            has_orphans |= !is_there || self.server.has_orphans();
            self.kubestellar_sees(Task::SeePlacement(name));
        }
        let bindings: Vec<String> = self.server.bindings.log()[told.bindings..]
            .iter()
            .map(|entry| entry.key.clone())
            .collect();
        for name in bindings {
            let slowest = if self.script.setting.slow_transport {
                20_000
            } else {
                500
            };
            let delay = self.chance.between(20, slowest);
            if !self.is_bare {
                self.queue.after(delay, Event::HandOver(name.clone()));
            }
            self.kubestellar_sees(Task::SeeBinding(name));
        }
        let collectors = self.server.collectors.log()[told.collectors..].iter();
        let collectors: Vec<String> = collectors.map(|entry| entry.key.clone()).collect();
        for name in collectors {
            self.kubestellar_sees(Task::SeeCollector(name));
        }
        let workloads: Vec<(String, bool)> = self.server.workloads.log()[told.workloads..]
            .iter()
            .map(|entry| (entry.key.clone(), entry.after.is_some()))
            .collect();
        for (key, is_there) in workloads {
            has_orphans |= !is_there;
            self.kubestellar_sees(Task::SeeObject(key));
        }
        if told.clusters < now.clusters {
            self.kubestellar_sees(Task::SeeInventory);
        }
        has_orphans |= self.kubestellar_sees_combined(told.combined);
        if has_orphans && !self.is_bare {
            let slowest = if self.script.setting.slow_garbage {
                60_000
            } else {
                2_000
            };
            let delay = self.chance.between(5, slowest);
            self.queue.after(delay, Event::CollectGarbage);
        }
    }

    fn tell_processes(&mut self, kind: Watched) {
        let upto = self.server.counter.version;
        let slowest = if self.script.setting.late_watches { 1_500 } else { 12 };
        for process in 0..self.processes.len() {
            if !self.processes[process].is_up {
                continue;
            }
            let delay = self.chance.between(1, slowest);
            let late = self.processes[process].late.get(&kind).copied().unwrap_or_default();
            let life = self.processes[process].life;
            let at = (self.queue.now() + delay).max(late);
            self.queue.at(
                at,
                Event::Deliver {
                    process,
                    life,
                    kind,
                    upto,
                    is_list: false,
                },
            );
        }
    }

    /// The clusters of this world, by name.
    pub fn member(&mut self, position: usize) -> Option<(String, &mut Member)> {
        let count = self.fleet.members.len().max(1);
        self.fleet
            .members
            .iter_mut()
            .nth(position % count)
            .map(|(name, member)| (name.clone(), member))
    }
}
