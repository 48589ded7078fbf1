//! One reconcile of one policy: facts from the watches or read anew, questions and answers, then the writes. It works like the
//! shell's, but in steps, between which the rest of the world goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use stagegate_api::{BindingPolicy, CombinedStatus, CombinedStatusView, StagedBindingPolicy, evidence};
use stagegate_decide::checks;
use stagegate_decide::names::{Digest, ObjectKey, PlacementName, ResourceVersion, StageName};
use stagegate_decide::staging::{
    BindingFacts, CombinedRef, Compilation, ConfigAnswer, ConfigKey, Decoded, Evidence, EvidenceCollectorFacts, Facts,
    GateCall, GateVerdict, ModuleFacts, ObjectFacts, Plan, PolicyFacts, Question, Read, Root, Settings, SourceEntry,
    Variable, Verdict, VerdictKey, has_our_spec, observe, open_placements, placements_to_judge, placements_to_read,
};

use super::seen::{Seen, placement_of};
use crate::gates;
use crate::server::{Content, Resource, Server, version_of};

/// Views of CombinedStatuses by resourceVersion: each is made once.
#[derive(Clone, Debug, Default)]
pub struct Views(BTreeMap<String, Arc<CombinedStatusView>>);

impl Views {
    fn of(&mut self, combined: &stagegate_api::CombinedStatus) -> Arc<CombinedStatusView> {
        let version = version_of(&combined.metadata).to_owned();
        self.0
            .entry(version)
            .or_insert_with(|| Arc::new(CombinedStatusView::of(combined)))
            .clone()
    }
}

/// What stays known of a policy between two reconciles.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    objects: BTreeMap<ObjectKey, ObjectFacts>,
    /// What the objects were when they were read. For the oracle alone.
    contents: BTreeMap<ObjectKey, (Resource, Content)>,
    compiled: BTreeMap<Digest, Compilation>,
    verdicts: BTreeMap<VerdictKey, Verdict>,
    modules: BTreeMap<SourceEntry, ModuleFacts>,
    configs: BTreeMap<ConfigKey, ConfigAnswer>,
    gate_verdicts: BTreeMap<VerdictKey, GateVerdict>,
    pub late: u32,
}

/// What is to be done next.
#[derive(Clone, Debug)]
pub enum Step {
    Look,
    ReadPlacements,
    ReadCombined,
    ReadRest,
    ReadVersions,
    ReadObjects(Vec<(ObjectKey, ResourceVersion)>),
    AskGate(Box<GateCall>),
    Write(Box<Plan>, usize),
}

/// What became of questions.
#[derive(Clone, Debug, Default)]
pub struct Answered {
    /// Objects that have to be read.
    pub wanted: Vec<(ObjectKey, ResourceVersion)>,
    /// A gate that has to be asked.
    pub call: Option<Box<GateCall>>,
    /// Whether anything was answered.
    pub is_any: bool,
}

#[derive(Clone, Debug)]
pub struct Talk {
    pub facts: Facts,
    pub step: Step,
    pub rounds: u32,
    pub conflicts: u32,
    /// A write was refused, or the watch is behind what was read, so all that writes rest on is read from the server, too.
    pub was_refused: bool,
    /// What the objects were when they were read last. For the oracle alone.
    pub contents: BTreeMap<ObjectKey, (Resource, Content)>,
    began_at: Option<Timestamp>,
    baseline: ResourceVersion,
    /// The names of the BindingPolicies that the last reading asks the server for.
    names: BTreeSet<String>,
    /// The open ones, of which it reads Bindings.
    open: BTreeSet<String>,
    /// The ones to judge, of which it reads CombinedStatuses.
    judged: BTreeSet<String>,
    are_versions_first: bool,
    /// The reading is of BindingPolicies and Bindings alone.
    is_of_placements: bool,
    /// The policy's `metadata.generation` when the reading began.
    generation: Option<i64>,
}

impl Talk {
    /// From the watches. `None`: there is no such policy.
    pub fn begin(name: &str, seen: &Seen, (memory, views): (&Memory, &mut Views), now: Timestamp) -> Option<Self> {
        let policy = seen.policies.objects.get(name)?;
        let names = seen.placements_of(name);
        let placements = names.iter().filter_map(|name| seen_placement(seen, name)).collect();
        let bindings = names.iter().filter_map(|name| seen_binding(seen, name)).collect();
        let combined = seen_combined(seen, views, |name| names.contains(name)).collect();
        let mut facts = Facts {
            now,
            read: Read::Cached,
            settings: Settings::default(),
            watching_since: seen.watching_since(),
            kubestellar_seen_at: seen.kubestellar_seen_at,
            lease_transitions: 0,
            policy: policy_facts(policy),
            evidence_collector: None,
            collectors: BTreeMap::new(),
            collectors_changed: BTreeMap::new(),
            placements,
            bindings,
            objects: memory.objects.clone(),
            combined,
            compiled: memory.compiled.clone(),
            verdicts: memory.verdicts.clone(),
            gate_namespaces: Default::default(),
            sources: gates::sources(),
            modules: memory.modules.clone(),
            configs: memory.configs.clone(),
            gate_verdicts: memory.gate_verdicts.clone(),
            hold: None,
            contested_at: None,
            late_plans: memory.late,
        };
        collectors(&mut facts, seen, |name| seen.collectors.objects.get(name).cloned());
        Some(Self {
            facts,
            step: Step::Look,
            rounds: 0,
            conflicts: 0,
            was_refused: false,
            contents: memory.contents.clone(),
            began_at: None,
            baseline: ResourceVersion::default(),
            names: BTreeSet::new(),
            open: BTreeSet::new(),
            judged: BTreeSet::new(),
            are_versions_first: false,
            is_of_placements: false,
            generation: None,
        })
    }

    pub fn policy(&self) -> &str {
        self.facts.policy.object.metadata.name.as_deref().unwrap_or_default()
    }

    /// The names under which placements are or may be, as the facts and the watches have it.
    fn placement_names(&self, seen: &Seen) -> BTreeSet<String> {
        let policy = self.policy();
        let stages = self.facts.policy.object.spec.stages.iter();
        let mut names: BTreeSet<String> = stages
            .map(|stage| {
                PlacementName::of(policy, StageName::of(&stage.name))
                    .as_str()
                    .to_owned()
            })
            .collect();
        names.extend(seen.placements_of(policy));
        names.extend(self.facts.placements.keys().map(PlacementName::to_string));
        names
    }

    /// Begins a part of a reading: what is asked for follows from what is known, and nothing that was asked for before is left out.
    fn begin_reading(&mut self, server: &Server, seen: &Seen, now: Timestamp) {
        self.began_at = Some(now);
        self.names.extend(placements_to_read(&self.facts));
        if self.was_refused {
            self.names.extend(self.placement_names(seen));
        }
        self.open.extend(open_placements(&self.facts));
        self.judged.extend(placements_to_judge(&self.facts));
        // What is asked for at once is served in any order.
        self.are_versions_first = server.counter.version.is_multiple_of(2);
        self.step = if self.are_versions_first {
            Step::ReadVersions
        } else {
            Step::ReadRest
        };
    }

    /// The next reading begins with what is known then.
    pub fn forget_reading(&mut self) {
        self.generation = self.facts.policy.object.metadata.generation;
        self.names.clear();
        self.open.clear();
        self.judged.clear();
    }

    /// A reading of BindingPolicies and Bindings alone.
    pub fn read_placements(&mut self, server: &Server, seen: &Seen, now: Timestamp) {
        self.is_of_placements = true;
        self.begin_reading(server, seen, now);
    }

    /// The first part of a reading. Later evidence must be newer than the resourceVersion that this list has.
    pub fn read_combined(&mut self, server: &Server, (seen, views): (&Seen, &mut Views), now: Timestamp) {
        self.is_of_placements = false;
        self.begin_reading(server, seen, now);
        self.baseline = server.counter.version.to_string().into();
        let known = |key: &String| seen.combined.objects.contains_key(key);
        let combined = server.combined.all();
        // One that the watch has not reported is missing until it has.
        let combined = combined.filter(|(key, combined)| known(key) && self.judged.contains(placement_of(combined)));
        self.facts.combined = combined
            .map(|(key, combined)| (key.clone(), Decoded::Object(views.of(combined))))
            .collect();
    }

    pub fn read_rest(
        &mut self,
        server: &Server,
        (seen, memory, views): (&Seen, &mut Memory, &mut Views),
        now: Timestamp,
    ) {
        let wanted = self.asked_before();
        self.facts.bindings = self
            .open
            .iter()
            .filter_map(|name| {
                let object = server.bindings.get(name).cloned();
                let previous = seen.observed.get(name);
                if object.is_none() && previous.is_none() {
                    return None;
                }
                let observed = observe(previous, object.as_deref(), now);
                let object = object.map(Decoded::Object);
                Some((name.clone().into(), BindingFacts { object, observed }))
            })
            .collect();
        if !self.is_of_placements {
            self.facts.objects.clear();
            self.read_objects(server, memory, wanted);
        }
        if self.are_versions_first {
            self.finish_reading((server, seen, views), now);
        } else {
            self.step = Step::ReadVersions;
        }
    }

    /// What writes are conditional on; the policy comes from the watch unless a write was refused. `false`: the policy is gone.
    pub fn read_versions(&mut self, server: &Server, (seen, views): (&Seen, &mut Views), now: Timestamp) -> bool {
        let policy = if self.was_refused {
            server.policies.get(self.policy())
        } else {
            seen.policies.objects.get(self.policy())
        };
        let Some(policy) = policy else {
            return false;
        };
        self.facts.policy = policy_facts(policy);
        let names = self.placement_names(seen);
        let version = |placement: &Arc<BindingPolicy>| placement.metadata.resource_version.clone();
        let is_other = |name: &String| {
            let (read, known) = (server.placements.get(name), seen.placements.objects.get(name));
            read.map(version) != known.map(version)
        };
        // What the watch has of the others may be older still.
        self.was_refused |= self.began_at.is_some() && self.names.iter().any(is_other);
        // Without a reading, this follows a refused write: all BindingPolicies are read.
        let is_read = |name: &String| self.began_at.is_none() || self.names.contains(name);
        let placement = |name: &String| -> Option<(PlacementName, Decoded<BindingPolicy>)> {
            if !is_read(name) {
                return seen_placement(seen, name);
            }
            Some((
                name.clone().into(),
                Decoded::Object(server.placements.get(name)?.clone()),
            ))
        };
        let placements = names.iter().filter_map(placement).collect();
        self.facts.placements = placements;
        if self.began_at.is_some() && self.are_versions_first {
            self.step = Step::ReadRest;
        } else {
            self.finish_reading((server, seen, views), now);
        }
        true
    }

    fn finish_reading(&mut self, (server, seen, views): (&Server, &Seen, &mut Views), now: Timestamp) {
        self.facts.now = now;
        self.step = Step::Look;
        if self.began_at.is_some() {
            let names = self.placement_names(seen);
            let (unread, unjudged) = (&names - &self.open, &names - &self.judged);
            let bindings = unread.iter().filter_map(|name| seen_binding(seen, name));
            self.facts.bindings.extend(bindings);
            let is_unread = !(placements_to_read(&self.facts).is_subset(&self.names)
                && open_placements(&self.facts).is_subset(&self.open)
                && placements_to_judge(&self.facts).is_subset(&self.judged)
                && (!self.was_refused || self.placement_names(seen).is_subset(&self.names)));
            if self.is_of_placements {
                self.facts.read = Read::Placements;
                if self.facts.policy.object.metadata.generation != self.generation {
                    self.step = Step::ReadCombined;
                } else if is_unread {
                    self.step = Step::ReadPlacements;
                }
                return;
            }
            self.facts
                .combined
                .extend(seen_combined(seen, views, |name| unjudged.contains(name)));
            collectors(&mut self.facts, seen, |name| looked_at(name, server, seen));
            self.facts.read = Read::Anew {
                baseline: self.baseline.clone(),
                began_at: self.began_at,
            };
            if is_unread {
                self.step = Step::ReadCombined;
            }
        }
    }

    pub fn read_objects(&mut self, server: &Server, memory: &mut Memory, wanted: Vec<(ObjectKey, ResourceVersion)>) {
        for (key, asked_for) in wanted {
            let path = format!("{}/{}", key.namespace.as_deref().unwrap_or_default(), key.name);
            let live = server.workloads.get(&path).filter(|live| live.key() == key);
            if let Some(live) = live {
                memory.contents.insert(key.clone(), (live.resource, live.content));
                self.contents.insert(key.clone(), (live.resource, live.content));
            }
            let answer = ObjectFacts {
                asked_for,
                asked_at: Some(self.facts.now),
                found: live.map(|live| live.found()),
                refused: None,
            };
            memory.objects.insert(key.clone(), answer.clone());
            self.facts.objects.insert(key, answer);
        }
    }

    /// Of the Bindings that were read before, those that were asked about.
    fn asked_before(&self) -> Vec<(ObjectKey, ResourceVersion)> {
        let wanted: BTreeMap<ObjectKey, ResourceVersion> = bound(&self.facts)
            .filter(|(key, _)| self.facts.objects.contains_key(key))
            .collect();
        wanted.into_iter().collect()
    }

    /// Answers what takes no time.
    pub fn answer(&mut self, server: &Server, memory: &mut Memory, questions: Vec<Question>) -> Answered {
        let mut answered = Answered::default();
        for question in questions {
            match question {
                Question::OfChecks(checks::Question::Compile { digest, root, .. }) => {
                    let named = match root {
                        Root::Clause => Variable::DownsyncClause,
                        Root::CombinedStatus => Variable::CombinedStatus,
                        Root::Pools => Variable::Pools,
                    };
                    let compiles = Compilation::Compiles(BTreeSet::from([named]));
                    memory.compiled.insert(digest.clone(), compiles.clone());
                    self.facts.compiled.insert(digest, compiles);
                    answered.is_any = true;
                }
                Question::Object {
                    key, resource_version, ..
                } => answered.wanted.push((key, resource_version)),
                Question::OfChecks(checks::Question::Check { key, text, evidence }) => {
                    let Some(verdict) = verdict(server, &text, &evidence, &key) else {
                        continue;
                    };
                    memory.verdicts.insert(key.clone(), verdict.clone());
                    self.facts.verdicts.insert(key, verdict);
                    answered.is_any = true;
                }
                Question::OfChecks(checks::Question::Module { source, version }) => {
                    let module = gates::module(&source, &version);
                    memory.modules.insert(source.clone(), module.clone());
                    self.facts.modules.insert(source, module);
                    answered.is_any = true;
                }
                Question::OfChecks(checks::Question::Config { key, config, .. }) => {
                    let fits = gates::config(&key, &config);
                    memory.configs.insert(key.clone(), fits.clone());
                    self.facts.configs.insert(key, fits);
                    answered.is_any = true;
                }
                Question::OfChecks(checks::Question::Gate(call)) => answered.call = Some(call),
                // Its policies' updates are immediate.
                Question::Hold { .. } => {}
                // The conversation reads.
                Question::FreshRead | Question::FreshPlacements => {}
            }
        }
        answered
    }

    /// A gate has answered.
    pub fn told(&mut self, memory: &mut Memory, (key, verdict): (VerdictKey, GateVerdict)) {
        memory.gate_verdicts.insert(key.clone(), verdict.clone());
        self.facts.gate_verdicts.insert(key, verdict);
    }
}

impl Memory {
    pub fn prune(&mut self, facts: &Facts) {
        let named: BTreeSet<ObjectKey> = bound(facts).map(|(key, _)| key).collect();
        self.objects
            .retain(|key, answer| named.contains(key) && answer.found.is_some());
        while self.verdicts.len() > 64 {
            self.verdicts.pop_first();
        }
        while self.gate_verdicts.len() > 64 {
            self.gate_verdicts.pop_first();
        }
    }
}

/// As the watch has reported it.
fn seen_placement(seen: &Seen, name: &str) -> Option<(PlacementName, Decoded<BindingPolicy>)> {
    let object = seen.placements.objects.get(name)?.clone();
    Some((name.to_owned().into(), Decoded::Object(object)))
}

/// As the watch has reported it.
fn seen_binding(seen: &Seen, name: &str) -> Option<(PlacementName, BindingFacts)> {
    let observed = seen.observed.get(name)?.clone();
    let object = seen.bindings.objects.get(name).cloned().map(Decoded::Object);
    Some((name.to_owned().into(), BindingFacts { object, observed }))
}

/// The CombinedStatuses of these placements, as the watch has reported them.
fn seen_combined(
    seen: &Seen,
    views: &mut Views,
    is_wanted: impl Fn(&str) -> bool,
) -> impl Iterator<Item = (String, Decoded<CombinedStatusView>)> {
    let combined = seen.combined.objects.iter();
    let wanted = combined.filter(move |(_, combined)| is_wanted(placement_of(combined)));
    wanted.map(|(key, combined)| (key.clone(), Decoded::Object(views.of(combined))))
}

fn policy_facts(policy: &Arc<StagedBindingPolicy>) -> PolicyFacts {
    PolicyFacts {
        object: policy.clone(),
        invalid: None,
    }
}

fn bound(facts: &Facts) -> impl Iterator<Item = (ObjectKey, ResourceVersion)> {
    let bindings = facts
        .bindings
        .values()
        .filter_map(|binding| binding.object.as_ref()?.object());
    bindings
        .flat_map(|binding| binding.spec.workload.objects())
        .map(|object| {
            let key = ObjectKey {
                group: object.group.clone(),
                resource: object.resource.clone(),
                namespace: object.namespace.clone(),
                name: object.name.clone(),
            };
            (key, object.resource_version.clone().into())
        })
}

/// As another policy's reading of the same process may have found it up to a second ago, unless the watch has brought a newer one.
fn looked_at(name: &str, server: &Server, seen: &Seen) -> Option<Arc<stagegate_api::StatusCollector>> {
    let age = jiff::SignedDuration::from_millis(i64::try_from(server.counter.version % 1_000).unwrap_or_default());
    let looked = server.counter.now.checked_sub(age).unwrap_or(server.counter.now);
    let mut entries = server.collectors.log().iter().rev().filter(|entry| entry.key == name);
    let known = entries.find(|entry| entry.at <= looked || entry.version <= seen.collectors.seen);
    known?.after.clone()
}

/// The StatusCollectors that clauses and Bindings name, and ours.
fn collectors(facts: &mut Facts, seen: &Seen, live: impl Fn(&str) -> Option<Arc<stagegate_api::StatusCollector>>) {
    let placed = facts.placements.values().filter_map(Decoded::object);
    let clauses = facts
        .policy
        .object
        .spec
        .downsync
        .iter()
        .chain(placed.flat_map(|placement| &placement.spec.downsync));
    let mut names: BTreeSet<String> = clauses.flat_map(|clause| clause.status_collectors.clone()).collect();
    let bindings = facts
        .bindings
        .values()
        .filter_map(|binding| binding.object.as_ref()?.object());
    let objects = bindings.flat_map(|binding| binding.spec.workload.objects());
    names.extend(objects.flat_map(|object| object.status_collectors.clone()));
    let ours = evidence::collector_name();
    facts.evidence_collector = live(&ours).map(|object| EvidenceCollectorFacts {
        ours_since: seen.evidence_ours_since.filter(|_| has_our_spec(&object)),
        object,
    });
    facts.collectors_changed = names
        .iter()
        .filter_map(|name| Some((name.clone(), *seen.collectors_changed.get(name)?)))
        .collect();
    names.remove(&ours);
    facts.collectors = names
        .into_iter()
        .filter_map(|name| Some((name.clone(), live(&name)?)))
        .collect();
}

/// The results of this world's expressions: a filter keeps the kind that it names, a condition requires a replica in each row. One
/// that needs what is not there cannot be evaluated.
fn verdict(server: &Server, text: &str, evidence: &Evidence, key: &VerdictKey) -> Option<Verdict> {
    let is_true = match evidence {
        Evidence::Clause(_) if text == crate::users::BROKEN_FILTER => None,
        Evidence::Clause(clause) if text == crate::users::FILTER_FOR_ONE => (clause["name"] == "web").then_some(true),
        Evidence::Clause(clause) => Some(text.contains(clause["resource"].as_str().unwrap_or_default())),
        Evidence::Condition(seen) => {
            let CombinedRef { namespace, name, .. } = seen.combined.as_ref()?;
            let combined = server.combined.get(&format!("{namespace}/{name}"))?;
            if CombinedStatusView::of(combined).digest != key.evidence.as_str() {
                return None;
            }
            has_replicas(combined, text)
        }
        // Staging asks about no pools.
        Evidence::Pools(_) => return None,
    };
    Some(match is_true {
        Some(true) => Verdict::True,
        Some(false) => Verdict::False { because: None },
        None => Verdict::Unknown {
            message: "no such key".to_owned(),
        },
    })
}

/// This world's condition. `None`: it has no value.
pub fn has_replicas(combined: &CombinedStatus, condition: &str) -> Option<bool> {
    let results = combined.results.iter().filter(|result| result.name == super::COLLECTOR);
    let available = |row: &stagegate_api::Row| -> Option<i64> { row.columns.get(1)?.float.as_deref()?.parse().ok() };
    let rows = results.flat_map(|result| &result.rows);
    let numbers: Vec<i64> = if condition == crate::users::LENIENT {
        rows.filter_map(available).collect()
    } else {
        rows.map(available).collect::<Option<_>>()?
    };
    (!numbers.is_empty()).then(|| numbers.into_iter().all(|number| number >= 1))
}
