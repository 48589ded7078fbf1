//! Hosts side by side on one server, whose requests are let through one by one, in an order that somebody chooses; some
//! are held back, hosts are killed, the policy is edited meanwhile. Must not judge what comes of it: it keeps a log.
//!
//! The same choices give the same log: a choice is made only when everything has come to rest, every request waits for one,
//! and time is virtual.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use stagegate::start;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::World;
use super::interceptor::{HostId, Interceptor, Waiting};

/// Of virtual time: what has begun has ended by then, as it stands still while anything runs.
const REST: Duration = Duration::from_millis(2);
/// How often the end is looked for while nothing waits.
const LOOK: Duration = Duration::from_millis(500);

/// Says what goes next.
pub trait Chooser {
    /// `ready` is never empty and ordered by host and time.
    fn choose(&mut self, ready: &[Ready]) -> Choice;
}

/// A request that can be let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    pub host: HostId,
    pub is_write: bool,
    /// It was held back before.
    pub was_held: bool,
}

/// About one of those that are ready, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Let(usize),
    Hold(usize, Duration),
}

#[derive(Clone, Debug)]
pub struct Setting {
    pub hosts: usize,
    /// Reads wait for a choice like writes do; else all that wait are let through at once.
    pub reads_wait: bool,
    /// How much later the watches of the last host are.
    pub last_is_late: Duration,
    /// What is edited.
    pub policy: String,
    pub upsets: Vec<(After, Upset)>,
}

/// When something happens.
#[derive(Clone, Copy, Debug)]
pub enum After {
    /// So many writes were let through.
    Writes(usize),
    Time(Duration),
}

#[derive(Clone, Debug)]
pub enum Upset {
    /// A merge patch of the policy, and some time later another one.
    Edit {
        patch: Value,
        then: Option<(Duration, Value)>,
    },
    /// The host ends and is started again some time later; what it has sent is lost with it, or arrives all the same.
    Kill {
        host: HostId,
        loses_requests: bool,
        starts_in: Duration,
    },
    Start(HostId),
}

/// A write that was let through.
#[derive(Clone, Debug)]
pub struct Done {
    pub at: Timestamp,
    pub host: HostId,
    pub what: String,
    pub code: u16,
}

impl Done {
    pub fn is_committed(&self) -> bool {
        self.code < 300
    }
}

struct Parked {
    request: Waiting,
    held_until: Option<Instant>,
}

pub struct Schedule<C> {
    pub world: World,
    pub log: Vec<Done>,
    /// Upsets that have happened are no longer in it.
    pub setting: Setting,
    chooser: C,
    gate: mpsc::UnboundedSender<Waiting>,
    arrivals: mpsc::UnboundedReceiver<Waiting>,
    waiting: Vec<Parked>,
    hosts: Vec<Option<JoinHandle<()>>>,
    begun: Instant,
}

impl<C: Chooser> Schedule<C> {
    /// Starts the hosts in a world that has none.
    pub fn new(world: World, setting: Setting, chooser: C) -> Self {
        let (gate, arrivals) = mpsc::unbounded_channel();
        let hosts = (0..setting.hosts).map(|_| None).collect();
        let mut schedule = Self {
            world,
            log: Vec::new(),
            setting,
            chooser,
            gate,
            arrivals,
            waiting: Vec::new(),
            hosts,
            begun: Instant::now(),
        };
        for host in 0..schedule.setting.hosts {
            schedule.start(host);
        }
        schedule
    }

    /// Lets requests through until `is_over` says so at a time when none waits and no upset is to come; `false`: it did
    /// not within `limit`.
    pub async fn run(&mut self, limit: Duration, is_over: impl AsyncFn(&World) -> bool) -> bool {
        let end = Instant::now() + limit;
        while Instant::now() < end {
            self.upset().await;
            if let Some(wake) = self.nothing_ready() {
                if self.is_calm() && is_over(&self.world).await {
                    return true;
                }
                let arrival = tokio::time::timeout_at(wake.min(end), self.arrivals.recv()).await;
                self.waiting.extend(arrival.ok().flatten().map(Parked::new));
            }
            tokio::time::sleep(REST).await;
            while let Ok(request) = self.arrivals.try_recv() {
                self.waiting.push(Parked::new(request));
            }
            self.waiting.sort_by_key(|parked| parked.request.host);
            if !self.let_reads_through().await {
                self.choose().await;
            }
        }
        false
    }

    /// Hosts that have ended by themselves.
    pub fn fallen(&self) -> Vec<HostId> {
        let has_ended = |host: &HostId| self.hosts[*host].as_ref().is_some_and(JoinHandle::is_finished);
        (0..self.hosts.len()).filter(has_ended).collect()
    }

    /// When to look again, if nothing can be let through now.
    fn nothing_ready(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut wake = now + LOOK;
        for parked in &self.waiting {
            match parked.held_until {
                Some(until) if until > now => wake = wake.min(until),
                _ => return None,
            }
        }
        Some(wake)
    }

    fn is_calm(&self) -> bool {
        let is_timed = |after: &After| matches!(after, After::Time(_));
        self.waiting.is_empty() && !self.setting.upsets.iter().any(|(after, _)| is_timed(after))
    }

    /// Whether there were any, where reads do not wait for a choice.
    async fn let_reads_through(&mut self) -> bool {
        if self.setting.reads_wait {
            return false;
        }
        let (reads, writes): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|parked| !parked.request.is_write());
        self.waiting = writes;
        let router = self.world.server.router();
        let any = !reads.is_empty();
        for read in reads {
            read.request.let_through(&router).await;
        }
        any
    }

    async fn choose(&mut self) {
        let now = Instant::now();
        let is_ready = |parked: &Parked| parked.held_until.is_none_or(|until| until <= now);
        let places: Vec<usize> = (0..self.waiting.len())
            .filter(|place| is_ready(&self.waiting[*place]))
            .collect();
        if places.is_empty() {
            return;
        }
        let ready: Vec<Ready> = places.iter().map(|place| self.waiting[*place].ready()).collect();
        match self.chooser.choose(&ready) {
            Choice::Hold(nth, time) => self.waiting[places[nth]].held_until = Some(now + time),
            Choice::Let(nth) => {
                let chosen = self.waiting.remove(places[nth]).request;
                if chosen.is_write() {
                    self.write(chosen).await;
                } else {
                    chosen.let_through(&self.world.server.router()).await;
                }
            }
        }
    }

    async fn write(&mut self, request: Waiting) {
        let (host, what) = (request.host, request.what());
        let code = request.let_through(&self.world.server.router()).await;
        let at = self.world.clock.now();
        self.log.push(Done { at, host, what, code });
    }

    /// What is due of the upsets, in their order.
    async fn upset(&mut self) {
        let (written, passed) = (self.log.len(), self.begun.elapsed());
        let is_due = |after: &After| match after {
            After::Writes(writes) => written >= *writes,
            After::Time(time) => passed >= *time,
        };
        let (due, left) = std::mem::take(&mut self.setting.upsets)
            .into_iter()
            .partition(|(after, _)| is_due(after));
        self.setting.upsets = left;
        for (_, upset) in due {
            let next = match upset {
                Upset::Edit { patch, then } => {
                    self.world.edit_policy(&self.setting.policy, patch).await;
                    then.map(|(time, patch)| (time, Upset::Edit { patch, then: None }))
                }
                Upset::Kill {
                    host,
                    loses_requests,
                    starts_in,
                } => {
                    self.kill(host, loses_requests).await;
                    Some((starts_in, Upset::Start(host)))
                }
                Upset::Start(host) => {
                    self.start(host);
                    None
                }
            };
            let next = next.map(|(time, upset)| (After::Time(self.begun.elapsed() + time), upset));
            self.setting.upsets.extend(next);
        }
    }

    async fn kill(&mut self, host: HostId, loses_requests: bool) {
        if let Some(task) = self.hosts[host].take() {
            task.abort();
            // It was broken off, which is no news.
            drop(task.await);
        }
        self.waiting
            .retain(|parked| parked.request.host != host || (parked.request.is_write() && !loses_requests));
    }

    fn start(&mut self, host: HostId) {
        let is_last = host + 1 == self.setting.hosts;
        let interceptor = Interceptor {
            router: self.world.server.router(),
            host,
            gate: self.gate.clone(),
            watches_late: if is_last {
                self.setting.last_is_late
            } else {
                Duration::ZERO
            },
        };
        let (clock, options) = (self.world.clock.clone(), self.world.host_options());
        self.hosts[host] = Some(tokio::spawn(async move {
            let mut running = start::start(interceptor.client(), clock, options).await.unwrap();
            panic!("a host has ended: {}", running.failed().await);
        }));
    }
}

impl Parked {
    fn new(request: Waiting) -> Self {
        Self {
            request,
            held_until: None,
        }
    }

    fn ready(&self) -> Ready {
        Ready {
            host: self.request.host,
            is_write: self.request.is_write(),
            was_held: self.held_until.is_some(),
        }
    }
}
