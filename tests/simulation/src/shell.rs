//! How the host's processes handle their events: watches, leases, reconciles and writes, with lost and refused requests.

use stagegate_decide::names::Uid;
use stagegate_decide::staging::{Decision, Facts, GateCall, Plan, Question, Read, Write, decide};

use crate::controller::seen::Watched;
use crate::controller::talk::{Step, Talk};
use crate::controller::write;
use crate::difference::difference;
use crate::gate_rules;
use crate::queue::Millis;
use crate::server::Refused;
use crate::world::{Event, World};

const ROUNDS_MAX: u32 = 32;
const CONFLICTS_MAX: u32 = 8;
const UNANSWERED_MS: Millis = 1_000;
/// The first wait after a request that failed.
const RETRY_MS: Millis = 1_000;
/// How long a lease lasts that is not renewed.
const LEASE_MS: Millis = 15_000;

/// What comes after a step.
enum Next {
    /// Go on with `Talk::step` after the delay of one request.
    Request,
    /// The reconcile is over; the next one is at this time by the process's clock, if at all.
    Done(Option<jiff::Timestamp>),
    /// The reconcile is over; the next one is after this delay.
    Again(Millis),
}

impl World {
    pub fn start_process(&mut self, process: usize) {
        if self.processes[process].is_up {
            return;
        }
        self.say(|| format!("process {process} starts"));
        self.processes[process].is_up = true;
        let (life, upto) = (self.processes[process].life, self.server.counter.version);
        for kind in Watched::ALL {
            let delay = self.chance.between(5, 300);
            // What is written meanwhile is in the list.
            self.queue.after(
                delay,
                Event::Deliver {
                    process,
                    life,
                    kind,
                    upto: upto.max(1),
                    is_list: true,
                },
            );
        }
        self.queue.after(0, Event::Elect);
    }

    /// Gives a lease that is free to the first process that is up.
    pub fn elect(&mut self) {
        let now = self.queue.now();
        if self
            .processes
            .iter()
            .any(|process| process.is_up && process.is_leader && process.paused_until <= now)
        {
            return;
        }
        let Some(next) = self
            .processes
            .iter()
            .position(|process| process.is_up && process.paused_until <= now)
        else {
            return;
        };
        for process in &mut self.processes {
            process.is_leader = false;
        }
        self.transitions += 1;
        let transitions = self.transitions;
        let process = &mut self.processes[next];
        process.is_leader = true;
        process.transitions = transitions;
        process.leads_since = now;
        process.memories.clear();
        self.say(|| format!("process {next} leads, as leader number {transitions}"));
        let policies: Vec<String> = self.processes[next].seen.policies.objects.keys().cloned().collect();
        for policy in policies {
            self.touch(next, policy);
        }
    }

    /// After the end of a leader.
    pub fn elect_later(&mut self) {
        self.queue.after(LEASE_MS, Event::Elect);
    }

    pub fn deliver(&mut self, (process, life): (usize, u64), (kind, upto, is_list): (Watched, u64, bool)) {
        let now = self.queue.now();
        let of = &mut self.processes[process];
        if of.life != life || !of.is_up {
            return;
        }
        let late = of.paused_until.max(of.late.get(&kind).copied().unwrap_or_default());
        if late > now {
            self.queue.at(
                late,
                Event::Deliver {
                    process,
                    life,
                    kind,
                    upto,
                    is_list,
                },
            );
            return;
        }
        if !is_list && !of.seen.listed.contains_key(&kind) {
            // Nothing comes before the list.
            self.queue.after(
                50,
                Event::Deliver {
                    process,
                    life,
                    kind,
                    upto,
                    is_list,
                },
            );
            return;
        }
        let upto = if is_list { self.server.counter.version } else { upto };
        let time = of.now(now);
        let touched = of.seen.take(&self.server, (kind, upto, is_list), time);
        let is_complete = of.seen.watching_since().is_some();
        let touched = if is_list && is_complete {
            of.seen.policies.objects.keys().cloned().collect()
        } else {
            touched
        };
        for policy in touched {
            self.touch(process, policy);
        }
    }

    /// The policy is looked at, now or after the reconcile that is under way.
    fn touch(&mut self, process: usize, policy: String) {
        let of = &mut self.processes[process];
        if of.talks.contains_key(&policy) {
            of.touched.insert(policy);
            return;
        }
        let life = of.life;
        self.queue.after(0, Event::Reconcile { process, life, policy });
    }

    pub fn reconcile(&mut self, process: usize, life: u64, policy: String) {
        let now = self.queue.now();
        let of = &mut self.processes[process];
        if of.life != life || !of.is_up || !of.is_leader || of.talks.contains_key(&policy) {
            return;
        }
        if of.paused_until > now {
            self.queue
                .at(of.paused_until, Event::Reconcile { process, life, policy });
            return;
        }
        if of.seen.watching_since().is_none() {
            return;
        }
        if of.is_behind(&policy, now) {
            self.queue.after(50, Event::Reconcile { process, life, policy });
            return;
        }
        if let Some(mut talk) = of.begin(&policy, &mut self.views, now) {
            if self.script.setting.has_no_room {
                talk.facts.settings.names_bytes_max = 0;
            }
            of.talks.insert(policy.clone(), talk);
            self.talk(process, life, policy);
        }
    }

    pub fn talk(&mut self, process: usize, life: u64, policy: String) {
        let now = self.queue.now();
        let of = &mut self.processes[process];
        if of.life != life || !of.is_up {
            return;
        }
        let Some(mut talk) = of.talks.remove(&policy) else {
            return;
        };
        // A request that was sent before the pause arrives all the same, and nothing after it.
        let is_sent = of.in_flight.contains(&policy);
        if is_sent && of.arrives_at > now {
            let at = of.arrives_at;
            of.talks.insert(policy.clone(), talk);
            self.queue.at(at, Event::Talk { process, life, policy });
            return;
        }
        of.in_flight.remove(&policy);
        if of.paused_until > now && !is_sent {
            self.queue.at(
                of.paused_until,
                Event::Talk {
                    process,
                    life,
                    policy: policy.clone(),
                },
            );
            of.talks.insert(policy, talk);
            return;
        }
        if !of.is_leader && !is_sent {
            return;
        }
        match self.run_step(process, &mut talk) {
            Next::Request => {
                self.processes[process].talks.insert(policy.clone(), talk);
                let slowest = if self.script.setting.slow_requests { 900 } else { 15 };
                let delay = self.chance.between(1, slowest);
                self.queue.after(delay, Event::Talk { process, life, policy });
            }
            Next::Done(wake_at) => self.finish(
                process,
                policy,
                wake_at.map(|at| millis_until(at, self.processes[process].now(now))),
            ),
            Next::Again(after) => self.finish(process, policy, Some(after)),
        }
    }

    fn finish(&mut self, process: usize, policy: String, wake_in: Option<Millis>) {
        let of = &mut self.processes[process];
        let life = of.life;
        if of.touched.remove(&policy) {
            self.queue.after(
                0,
                Event::Reconcile {
                    process,
                    life,
                    policy: policy.clone(),
                },
            );
        }
        let now = self.queue.now();
        let of = &mut self.processes[process];
        let at = wake_in.map(|wake_in| now + wake_in.max(1));
        let is_planned = |at: &Millis| of.waking.get(&policy).is_some_and(|known| *known > now && known <= at);
        if let Some(at) = at.filter(|at| !is_planned(at)) {
            of.waking.insert(policy.clone(), at);
            self.queue.at(at, Event::Reconcile { process, life, policy });
        }
    }

    fn run_step(&mut self, process: usize, talk: &mut Talk) -> Next {
        let now = self.queue.now();
        let of = &mut self.processes[process];
        let time = of.now(now);
        let policy = talk.policy().to_owned();
        let memory = of.memories.entry(policy.clone()).or_default();
        match talk.step.clone() {
            Step::Look => self.look(process, talk),
            Step::ReadPlacements => {
                talk.read_placements(&self.server, &of.seen, time);
                Next::Request
            }
            Step::ReadCombined => {
                talk.read_combined(&self.server, (&of.seen, &mut self.views), time);
                Next::Request
            }
            Step::ReadRest if now < self.reads_from => Next::Again(UNANSWERED_MS),
            Step::ReadRest => {
                talk.read_rest(&self.server, (&of.seen, memory, &mut self.views), time);
                self.read_on(process, talk)
            }
            Step::ReadVersions => {
                if !talk.read_versions(&self.server, (&of.seen, &mut self.views), time) {
                    return Next::Done(None);
                }
                self.read_on(process, talk)
            }
            Step::ReadObjects(wanted) => {
                talk.read_objects(&self.server, memory, wanted);
                self.look(process, talk)
            }
            Step::AskGate(call) => self.ask_gate(process, talk, &call),
            Step::Write(plan, position) => self.carry_out(process, talk, (plan, position)),
        }
    }

    fn read_on(&mut self, process: usize, talk: &mut Talk) -> Next {
        let seen_at = self.processes[process].seen.kubestellar_seen_at;
        talk.facts.kubestellar_seen_at = seen_at.max(talk.facts.kubestellar_seen_at);
        if matches!(talk.step, Step::Look) {
            self.look(process, talk)
        } else {
            Next::Request
        }
    }

    fn look(&mut self, process: usize, talk: &mut Talk) -> Next {
        let policy = talk.policy().to_owned();
        loop {
            talk.rounds += 1;
            if talk.rounds > ROUNDS_MAX {
                return Next::Again(UNANSWERED_MS);
            }
            self.counts.decisions += 1;
            match decide(&talk.facts) {
                Decision::Ask(questions) if questions.contains(&Question::FreshRead) => {
                    talk.step = Step::ReadCombined;
                    talk.forget_reading();
                    return Next::Request;
                }
                Decision::Ask(questions) => {
                    let is_of_placements = questions.contains(&Question::FreshPlacements);
                    let memory = self.processes[process].memories.entry(policy.clone()).or_default();
                    let answered = talk.answer(&self.server, memory, questions);
                    if !answered.wanted.is_empty() && self.queue.now() < self.reads_from {
                        return Next::Again(UNANSWERED_MS);
                    }
                    if !answered.wanted.is_empty() {
                        talk.step = Step::ReadObjects(answered.wanted);
                        return Next::Request;
                    }
                    if let Some(call) = answered.call {
                        talk.step = Step::AskGate(call);
                        return Next::Request;
                    }
                    if !answered.is_any && is_of_placements {
                        talk.forget_reading();
                        talk.step = Step::ReadPlacements;
                        return Next::Request;
                    }
                    if !answered.is_any {
                        return Next::Again(UNANSWERED_MS);
                    }
                }
                Decision::Act(plan) => {
                    self.oracle.looked(&talk.facts, &plan);
                    let parts = (&self.kubestellar, &self.fleet, &self.server);
                    self.oracle.said(talk, &plan, parts);
                    self.oracle.said_of_gates(&talk.facts, &plan, &self.gates);
                    self.oracle.said_of_soak(&talk.facts, &plan);
                    if plan.writes.is_empty() {
                        return self.whole(process, talk, &plan);
                    }
                    if plan.writes.iter().any(|write| matches!(write, Write::Open(_))) {
                        self.note_decision();
                    }
                    talk.step = Step::Write(Box::new(plan), 0);
                    return Next::Request;
                }
            }
        }
    }

    /// A call of a gate takes a moment, too.
    fn ask_gate(&mut self, process: usize, talk: &mut Talk, call: &GateCall) -> Next {
        self.oracle.asks_gate(&talk.facts, call);
        let placement = gate_rules::placement(&talk.facts, call.request.stage.as_str());
        let Some(verdict) = self.gates.ask(&self.server, call, Uid::of(&placement)) else {
            return Next::Again(UNANSWERED_MS);
        };
        self.say(|| format!("a gate of stage {} says {:?}", call.request.stage, verdict.answer));
        let memory = self.processes[process]
            .memories
            .entry(talk.policy().to_owned())
            .or_default();
        talk.told(memory, (call.key.clone(), verdict));
        self.look(process, talk)
    }

    fn whole(&mut self, process: usize, talk: &Talk, plan: &Plan) -> Next {
        self.oracle.finished(&talk.facts, plan);
        self.oracle.alarm.finished(talk, &self.kubestellar);
        self.oracle.joins.finished(talk, plan, &self.kubestellar);
        let memory = self.processes[process]
            .memories
            .entry(talk.policy().to_owned())
            .or_default();
        memory.prune(&talk.facts);
        memory.late = 0;
        Next::Done(plan.wake_at)
    }

    fn carry_out(&mut self, process: usize, talk: &mut Talk, (plan, position): (Box<Plan>, usize)) -> Next {
        let now = self.queue.now();
        let policy = talk.policy().to_owned();
        let Some(next) = plan.writes.get(position) else {
            return self.whole(process, talk, &plan);
        };
        if plan
            .not_after
            .is_some_and(|end| self.processes[process].now(now) >= end)
        {
            let memory = self.processes[process].memories.entry(policy).or_default();
            memory.late += 1;
            return Next::Again(RETRY_MS);
        }
        if std::mem::take(&mut self.refuse_write) {
            return Next::Again(RETRY_MS);
        }
        let parts = (&self.kubestellar, &self.fleet, &self.server);
        let violation = self.oracle.judge((talk, &plan, next), parts);
        let violation = violation.or_else(|| self.oracle.judge_gates(&talk.facts, &plan, (next, &self.gates)));
        let violation = violation.or_else(|| self.oracle.judge_placements((talk, next), parts));
        let before = self.server.counter.version;
        match write(&mut self.server, &policy, next) {
            Ok(version) => {
                self.counts.writes += 1;
                self.say(|| format!("process {process} writes {}", describe(next, &talk.facts)));
                let versions = (before, self.server.counter.version);
                self.oracle.written((next, &talk.facts), violation, (versions, now));
                self.oracle.placed(&talk.facts, next);
                if matches!(next, Write::Open(_)) {
                    self.note_open();
                }
                if let Some(version) = version {
                    self.processes[process].note_written(&policy, (next, version), now);
                }
                if std::mem::take(&mut self.lose_answer) {
                    return Next::Again(RETRY_MS);
                }
                // Writes of one plan follow each other; the next one is a request of its own.
                talk.step = Step::Write(plan, position + 1);
                Next::Request
            }
            Err(Refused::Conflict | Refused::Exists | Refused::NotFound) if talk.conflicts < CONFLICTS_MAX => {
                self.counts.conflicts += 1;
                talk.conflicts += 1;
                talk.was_refused = true;
                talk.forget_reading();
                talk.step = match talk.facts.read {
                    Read::Anew { .. } => Step::ReadCombined,
                    Read::Placements => Step::ReadPlacements,
                    Read::Cached => Step::ReadVersions,
                };
                Next::Request
            }
            Err(_) => Next::Again(RETRY_MS),
        }
    }
}

fn millis_until(at: jiff::Timestamp, now: jiff::Timestamp) -> Millis {
    i64::try_from(at.duration_since(now).as_millis())
        .unwrap_or(Millis::MAX / 4)
        .clamp(0, Millis::MAX / 4)
        + 1
}

fn describe(write: &Write, facts: &Facts) -> String {
    match write {
        Write::CreateEvidenceCollector(_) => "the evidence collector".to_owned(),
        Write::RestoreEvidenceCollector { .. } => "the evidence collector again".to_owned(),
        Write::CreateClosed(placement) => format!("{} closed", placement.metadata.name.as_deref().unwrap_or_default()),
        Write::Open(placement) => format!("{} open", placement.name),
        Write::Update(placement) => format!("{} in place", placement.name),
        Write::Adopt(placement) => format!("{} as its own", placement.name),
        Write::Fence(placement) => format!("the fencing token of {}", placement.name),
        Write::Release(hold) => format!("other versions for {}", hold.name),
        Write::Hold(hold) => format!("the versions of {}", hold.name),
        Write::Unhold { name, .. } => format!("no versions for {name}"),
        Write::Remove { name, .. } => format!("the end of {name}"),
        Write::Status { status, .. } => {
            let stages = status
                .stages
                .iter()
                .map(|stage| format!("{} {:?}", stage.name, stage.state));
            let stages: Vec<String> = stages.collect();
            format!(
                "status {:?} {} [{}] {}",
                status.phase,
                status.reason.as_deref().unwrap_or_default(),
                stages.join(", "),
                difference(facts.policy.object.status.as_ref(), status)
            )
        }
    }
}
