//! Staging: moves StagedBindingPolicies. The rules are [`stagegate_decide::staging`]'s; here is what it watches, how its
//! questions are answered and its writes carried out.
//!
//! A reconcile is a conversation: facts from the watches → questions and answers until a plan comes out → its writes in
//! order. A refused version (KubeStellar writes each new BindingPolicy three times) is not retried but decided on again.

mod announce;
mod answer;
mod apply;
mod gates;
mod gather;
mod index;
mod phases;
mod read;
mod status_backoff;
mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use stagegate_api::{Binding, StatusCollector, evidence};
use stagegate_decide::names::PlacementName;
use stagegate_decide::staging::{
    BindingFacts, Decision, Decoded, Facts, GateNamespaces, Plan, Question, Read, Settings, Source, Write, decide,
    newest_lease, observe,
};
use stagegate_runtime::controller::{self, Controller, Next};
use stagegate_runtime::events::Notice;
use stagegate_runtime::progress;
use stagegate_runtime::queue::Queue;
use stagegate_runtime::request::RequestError;
use stagegate_runtime::store::ObjectId;
use stagegate_runtime::{Runtime, Tasks};
use stagegate_sandbox::Sandbox;
use tokio::time::Instant;
use tracing::debug;

use self::announce::reference;
use self::answer::{Means, answer};
use self::gates::sources::Sources;
use self::gates::{GateSession, Gates};
use self::gather::{Memory, Stores};
use self::index::Index;
use self::read::{Reader, Wanted};
use self::written::WrittenVersions;
use super::evaluator::Evaluator;
use super::kinds::{Guarded, Kinds};
use super::objects::object_key;
use crate::metrics::RolloutMetrics;

/// Rounds of question and answer before other policies get their turn.
const ROUNDS_MAX: usize = 32;
/// Refused versions in one reconcile before it is put off.
const CONFLICTS_MAX: usize = 8;
/// When a question found no answer: its object is on the move, and its watch event comes sooner than this.
const UNANSWERED: Duration = Duration::from_secs(1);

/// When what did not come to a lasting answer is tried again: an evaluation that ran out of time, a refused reading.
const RETRY: Duration = Duration::from_secs(30);

/// What this controller is told and given beside what it watches.
#[derive(Clone, Debug)]
pub struct StagingOptions {
    /// As in [`Settings`].
    pub settle_ms: i64,
    /// Namespaces whose ConfigMaps may be run as gates.
    pub gate_namespaces: GateNamespaces,
    pub sandbox: Arc<Sandbox>,
    pub evaluator: Arc<Evaluator>,
    pub metrics: Arc<RolloutMetrics>,
}

/// Registers what staging watches and starts it.
pub fn spawn(runtime: &Runtime, options: StagingOptions, kinds: &Kinds, tasks: &mut Tasks) {
    let stores = Stores {
        policies: kinds.policies.wanted_singly(),
        placements: kinds.placements.wanted_singly(),
        bindings: kinds.bindings.wanted_singly(),
        collectors: kinds.collectors.wanted(),
        combined: kinds.combined.wanted_singly(),
        sources: Sources::new(options.gate_namespaces.clone()),
    };
    let queue = Arc::new(Queue::new(Duration::ZERO));
    let index = Arc::new(Mutex::new(Index::default()));
    let clock = runtime.clock.clone();
    let sources = stores.sources.clone();
    // Before the policy is queued.
    stores.policies.listen(move |change| sources.policy(change));
    stores
        .policies
        .listen(touching(&index, &queue, |index, change| index.policy(change)));
    let now = clock.clone();
    stores.placements.listen(touching(&index, &queue, move |index, change| {
        index.placement(change, now.now())
    }));
    let now = clock.clone();
    stores.combined.listen(touching(&index, &queue, move |index, change| {
        index.combined(change, now.now())
    }));
    let now = clock.clone();
    stores.bindings.listen(touching(&index, &queue, move |index, change| {
        index.binding(change, now.now())
    }));
    let now = clock.clone();
    stores.collectors.listen(touching(&index, &queue, move |index, change| {
        index.collector(change, now.now())
    }));
    stores.policies.listen(phases::counted(options.metrics.clone()));
    stores.sources.spawn(runtime, &queue, tasks);
    let staging = Staging {
        runtime: runtime.clone(),
        gates: Gates::new(runtime, &options),
        options,
        stores,
        index,
        memories: Mutex::default(),
    };
    let runtime = runtime.clone();
    tasks.spawn(async move {
        controller::run(staging, queue, runtime).await;
        "the staging controller"
    });
}

/// A listener that keeps the index and queues the policies it names.
fn touching<T>(
    index: &Arc<Mutex<Index>>,
    queue: &Arc<Queue<String>>,
    touched: impl Fn(&mut Index, &stagegate_runtime::store::Change<'_, T>) -> Vec<String> + Send + Sync + 'static,
) -> impl Fn(&stagegate_runtime::store::Change<'_, T>) + Send + Sync + 'static {
    let (index, queue) = (index.clone(), queue.clone());
    move |change| {
        let keys = touched(&mut index.lock().unwrap_or_else(PoisonError::into_inner), change);
        for key in keys {
            queue.add(key);
        }
    }
}

struct Staging {
    runtime: Runtime,
    options: StagingOptions,
    gates: Gates,
    stores: Stores,
    index: Arc<Mutex<Index>>,
    memories: Mutex<BTreeMap<String, Memory>>,
}

impl Controller for Staging {
    type Key = String;

    const NAME: &'static str = "staging";

    async fn complete(&self) {
        self.stores.policies.complete().await;
        self.stores.placements.complete().await;
        self.stores.bindings.complete().await;
        self.stores.collectors.complete().await;
        self.stores.combined.complete().await;
    }

    fn all(&self) -> Vec<String> {
        self.stores.policies.ids().into_iter().map(|id| id.name).collect()
    }

    fn forget(&self) {
        self.memories().clear();
    }

    async fn reconcile(&self, policy: &String) -> Result<Next, RequestError> {
        let mut memory = self.memories().remove(policy).unwrap_or_default();
        if let Some(wait) = memory.written.wait(policy, &self.stores) {
            self.memories().insert(policy.clone(), memory);
            return Ok(Next { wake_in: Some(wait) });
        }
        let begun = Instant::now();
        let Some(mut facts) = self.facts(policy, &memory) else {
            return Ok(Next::default());
        };
        self.recover_status(policy, &mut facts).await?;
        let about = reference(&facts.policy.object);
        let result = self.run_session(policy, Reading { facts, begun }, &mut memory).await;
        if result.is_err() {
            // Waiting for the watches would look like success to those who count failures in a row.
            memory.written = WrittenVersions::default();
        }
        self.memories().insert(policy.clone(), memory);
        result.map_err(|failure| {
            let (reason, error) = match failure {
                Failure::Read(error) => ("ReadFailed", error),
                Failure::Write(error) => ("WriteFailed", error),
            };
            if !error.is_outdated() && !error.is_withheld() {
                let note = format!("{}; trying again later", error.chain());
                self.runtime.events.send(Notice {
                    about,
                    warning: true,
                    is_milestone: false,
                    reason: reason.to_owned(),
                    note,
                });
            }
            error
        })
    }
}

/// Facts, and how old the oldest of them may be.
struct Reading {
    facts: Facts,
    /// When the first of it was asked for, by a clock that nobody sets.
    begun: Instant,
}

/// How far a plan was carried out.
enum Carried {
    Whole,
    /// What it rests on is not known to hold any more: the rest was not written.
    TooLate,
}

/// What a reconcile failed at: people look for the cause in different places.
enum Failure {
    Read(RequestError),
    Write(RequestError),
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        Self::Read(error)
    }
}

impl Staging {
    /// Questions and answers, then the writes.
    async fn run_session(&self, policy: &str, mut reading: Reading, memory: &mut Memory) -> Result<Next, Failure> {
        let mut conflicts = 0;
        let mut talk = GateSession::default();
        let (client, evaluator) = (&self.runtime.client, &self.options.evaluator);
        let means = Means {
            client,
            evaluator,
            gates: &self.gates,
        };
        for _round in 0..ROUNDS_MAX {
            match decide(&reading.facts) {
                Decision::Ask(questions) if questions.contains(&Question::ReadAnew) => {
                    if !self.read_anew(policy, &mut reading, memory).await? {
                        return Ok(Next::default());
                    }
                }
                Decision::Ask(questions) => {
                    if answer(means, questions, (&mut reading.facts, memory), &mut talk).await? {
                        continue;
                    }
                    if !talk.is_worth_reading_anew() {
                        debug!(policy, "a question has no answer now");
                        return Ok(Next {
                            wake_in: Some(UNANSWERED),
                        });
                    }
                    if !self.read_anew(policy, &mut reading, memory).await? {
                        return Ok(Next::default());
                    }
                }
                Decision::Act(mut plan) => {
                    let left_for = memory.status_backoff.leave(&mut plan, &reading.facts);
                    match self.carry_out(policy, &plan, (&reading, &mut memory.written)).await {
                        Ok(Carried::TooLate) => {
                            debug!(policy, not_after = ?plan.not_after, "decided too long ago; deciding again");
                            let next = self.put_off_late(&reading.facts, memory);
                            reading.facts.late_plans = memory.late;
                            self.tell_of_late_plans(policy, &reading.facts).await;
                            return Ok(next);
                        }
                        Ok(Carried::Whole) => {
                            self.announce(&reading.facts, announce::of_writes(&plan));
                            memory.status_backoff.note_plan(&plan, &reading.facts);
                            memory.prune(&reading.facts);
                            memory.late = 0;
                            return Ok(Next {
                                wake_in: [
                                    plan.wake_at.map(|at| until(at, self.runtime.clock.now())),
                                    std::mem::take(&mut memory.is_to_retry).then_some(RETRY),
                                    left_for,
                                ]
                                .into_iter()
                                .flatten()
                                .min(),
                            });
                        }
                        Err(error) if error.is_outdated() && conflicts < CONFLICTS_MAX => {
                            conflicts += 1;
                            self.runtime.metrics.conflict();
                            debug!(policy, error = error.chain(), "a version has moved on; deciding again");
                            if !self.refresh(policy, &mut reading, memory).await? {
                                return Ok(Next::default());
                            }
                        }
                        Err(error) => return Err(Failure::Write(error)),
                    }
                }
            }
        }
        debug!(policy, rounds = ROUNDS_MAX, "still asking; other policies first");
        Ok(Next {
            wake_in: Some(UNANSWERED),
        })
    }

    fn facts(&self, policy: &str, memory: &Memory) -> Option<Facts> {
        let settings = Settings {
            settle_ms: self.options.settle_ms,
        };
        let now = self.runtime.clock.now();
        let mut facts = gather::facts(policy, &self.stores, &self.index, (memory, now, settings))?;
        let at_work = self.runtime.leader_state.at_work_since().map(|since| ago(since, now));
        facts.watching_since = facts.watching_since.map(|since| since.max(at_work.unwrap_or(since)));
        facts.lease_transitions = self.runtime.leader_state.fence(newest_lease(&facts));
        Some(facts)
    }

    /// A policy whose spec cannot be read has a status all the same, and writing one must not lose what it says.
    async fn recover_status(&self, policy: &str, facts: &mut Facts) -> Result<(), RequestError> {
        if facts.policy.undecodable.is_some() {
            let status = read::status(&self.runtime.client, policy).await?;
            Arc::make_mut(&mut facts.policy.object).status = status;
        }
        Ok(())
    }

    /// The writes in order. Each is asked whether it is still in time: one may have taken as long as the next was good for.
    async fn carry_out(
        &self,
        policy: &str,
        plan: &Plan,
        (reading, written): (&Reading, &mut WrittenVersions),
    ) -> Result<Carried, RequestError> {
        // The plan counts from the end of the reading. Its oldest part is older, and a clock that was set back meanwhile
        // makes nothing younger.
        let is_late = |end: Timestamp| {
            let worth = Duration::try_from(end.duration_since(reading.facts.now)).unwrap_or_default();
            self.runtime.clock.now() >= end || reading.begun.elapsed() >= worth
        };
        for write in &plan.writes {
            if plan.not_after.is_some_and(is_late) {
                return Ok(Carried::TooLate);
            }
            let version = apply::write(&self.runtime.client, policy, write).await?;
            written.note(write, version.as_deref());
            self.runtime.metrics.write();
            if matches!(write, Write::Status { .. }) {
                self.announce(&reading.facts, announce::of_status(plan));
            }
            if matches!(write, Write::Open(_)) {
                self.options.metrics.stage_opened(progress::since_cause());
            }
        }
        Ok(Carried::Whole)
    }

    /// After a refused write: the versions that writes are conditional on, read again. `false`: the policy is gone.
    async fn refresh(&self, policy: &str, reading: &mut Reading, memory: &mut Memory) -> Result<bool, RequestError> {
        if matches!(reading.facts.read, Read::Anew { .. }) {
            return self.read_anew(policy, reading, memory).await;
        }
        self.read_versions(policy, &mut reading.facts).await
    }

    /// Policy and placements: last of a reading, because they are what writes are conditional on.
    async fn read_versions(&self, policy: &str, facts: &mut Facts) -> Result<bool, RequestError> {
        let client = &self.runtime.client;
        let policies = Reader::new(client, &self.stores.policies);
        let placements = Reader::new(client, &self.stores.placements);
        let names = self.names(policy, facts);
        let (read, placed) = tokio::try_join!(policies.one(policy), placements.each(&names))?;
        let Some(read) = read else {
            return Ok(false);
        };
        facts.policy = gather::policy_facts(&read);
        self.recover_status(policy, facts).await?;
        let named = self.names(policy, facts);
        facts.placements = if named.is_subset(&names) {
            placed
        } else {
            placements.each(&named).await?
        };
        facts.now = self.runtime.clock.now();
        Ok(true)
    }

    /// Everything that a placement rests on. The CombinedStatuses come first: their collection's version is the
    /// baseline that later evidence must be newer than. All that it takes is named by what is known already, so what follows
    /// is read at once. `false`: the policy is gone.
    async fn read_anew(&self, policy: &str, reading: &mut Reading, memory: &mut Memory) -> Result<bool, RequestError> {
        let client = &self.runtime.client;
        let Reading { facts, begun } = reading;
        loop {
            *begun = Instant::now();
            let began_at = Some(self.runtime.clock.now());
            let names = self.names(policy, facts);
            let known = self.combined_of(&names);
            let (combined, baseline) =
                read::combined(&Reader::new(client, &self.stores.combined), &names, known).await?;
            facts.combined = combined;
            let config_maps = self.stores.sources.named_by(&facts.policy.object);
            let collectors = collector_names(facts);
            let of_bindings = Reader::new(client, &self.stores.bindings);
            let of_collectors = Reader::new(client, &self.stores.collectors);
            let (bindings, read, objects, sources) = tokio::try_join!(
                of_bindings.each(&names),
                of_collectors.each_guarded(&collectors),
                // Of a Binding that has changed meanwhile the decision asks again: the answer says for which version it is.
                read::objects(client, asked_before(facts)),
                read::sources(client, &config_maps),
            )?;
            facts.bindings = self.observed(&names, bindings, self.runtime.clock.now());
            self.take_collectors(facts, (collectors, read)).await?;
            facts.objects.clear();
            for (key, answer) in objects {
                memory.is_to_retry |= answer.refused.is_some();
                memory.note_object(key.clone(), answer.clone());
                facts.objects.insert(key, answer);
            }
            facts.sources = sources;
            memory.is_to_retry |= facts
                .sources
                .values()
                .any(|source| matches!(source, Source::Unread { .. }));
            facts.read = Read::Anew { baseline, began_at };
            if !self.read_versions(policy, facts).await? {
                return Ok(false);
            }
            // An edit that came meanwhile may name stages and ConfigMaps of which nothing was read yet.
            let named = self.stores.sources.named_by(&facts.policy.object);
            if self.names(policy, facts).is_subset(&names) && named.is_subset(&config_maps) {
                return Ok(true);
            }
        }
    }

    /// Under which names placements of the policy are or may be, as the facts and the watches have it.
    fn names(&self, policy: &str, facts: &Facts) -> BTreeSet<String> {
        let stages = facts.policy.object.spec.stages.iter();
        let mut names: BTreeSet<String> = stages
            .map(|stage| PlacementName::of(policy, &stage.name).as_str().to_owned())
            .collect();
        names.extend(self.index().placements_of(policy));
        names.extend(facts.placements.keys().cloned());
        names
    }

    /// What the watch has told of.
    fn combined_of(&self, placements: &BTreeSet<String>) -> BTreeSet<ObjectId> {
        let index = self.index();
        let ids = placements.iter().flat_map(|name| index.combined_of(name));
        ids.cloned().collect()
    }

    /// What was read, together with what the watch has seen of it so far.
    fn observed(
        &self,
        names: &BTreeSet<String>,
        mut read: BTreeMap<String, Decoded<Binding>>,
        now: Timestamp,
    ) -> BTreeMap<String, BindingFacts> {
        let index = self.index();
        let facts = names.iter().filter_map(|name| {
            let object = read.remove(name);
            let previous = index.observed(name);
            if object.is_none() && previous.is_none() {
                return None;
            }
            let binding = object.as_ref().and_then(|decoded| decoded.object());
            let observed = observe(previous, binding, now);
            Some((name.clone(), BindingFacts { object, observed }))
        });
        facts.collect()
    }

    /// Those of these names, and of others if a Binding that was just read names them.
    async fn take_collectors(
        &self,
        facts: &mut Facts,
        (mut names, mut read): (BTreeSet<String>, BTreeMap<String, Guarded<StatusCollector>>),
    ) -> Result<(), RequestError> {
        let ours = evidence::collector_name();
        let named = collector_names(facts);
        if !named.is_subset(&names) {
            let collectors = Reader::new(&self.runtime.client, &self.stores.collectors);
            (names, read) = (named.clone(), collectors.each_guarded(&named).await?);
        }
        let index = self.index();
        let ours_since = index.evidence_ours_since();
        facts.collectors_changed = names
            .iter()
            .filter_map(|name| Some((name.clone(), index.collector_changed(name)?)))
            .collect();
        drop(index);
        facts.evidence_collector = read
            .get(&ours)
            .map(|collector| gather::evidence_facts(collector, ours_since));
        read.remove(&ours);
        facts.collectors = read
            .into_iter()
            .filter_map(|(name, collector)| Some((name, collector.0.ok()?)))
            .collect();
        Ok(())
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn memories(&self) -> MutexGuard<'_, BTreeMap<String, Memory>> {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the facts name, and ours.
fn collector_names(facts: &Facts) -> BTreeSet<String> {
    let mut names = gather::collectors_named(&facts.policy.object, &facts.placements, &facts.bindings);
    names.insert(evidence::collector_name());
    names
}

/// The objects of the Bindings that were read before; the decision asks for others.
fn asked_before(facts: &Facts) -> Vec<Wanted> {
    let bindings = facts
        .bindings
        .values()
        .filter_map(|binding| binding.object.as_ref()?.object());
    let objects = bindings.flat_map(|binding| binding.spec.workload.objects());
    let wanted: BTreeMap<_, _> = objects
        .map(|object| (object_key(object), object))
        .filter(|(key, _)| facts.objects.contains_key(key))
        .collect();
    let wanted = wanted.into_iter().map(|(key, object)| Wanted {
        key,
        version: object.version.clone(),
        resource_version: object.resource_version.clone(),
    });
    wanted.collect()
}

/// The time at which the shared clock would have shown `instant`.
fn ago(instant: Instant, now: Timestamp) -> Timestamp {
    let elapsed = SignedDuration::try_from(instant.elapsed()).unwrap_or(SignedDuration::MAX);
    now.checked_sub(elapsed).unwrap_or(Timestamp::MIN)
}

/// Never in the past, and never before the instant itself.
fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default() + Duration::from_millis(1)
}
