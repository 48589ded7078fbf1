//! One leader among several processes: who holds the Lease, and that nobody else writes. Must not know what is written.
//!
//! Not a crate of others: what there is lets two candidates win, or judges the expiry of a lease by another machine's
//! clock. Here a Lease is taken by compare-and-swap only, and it has expired when this process has seen nothing of it
//! change for its whole duration, by a clock that nobody sets. Whoever holds it stops writing a third of the duration
//! before anybody else may begin.
//!
//! Leases do not order writes: a request that has left may arrive late. That is what the fencing tokens of closed placements and
//! the preconditions of every write are for; the count of changes of hands, which they carry, comes from here.

mod elector;
mod moment;
mod record;
mod write_guard;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use stagegate_clock::SharedClock;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::elector::Elector;
use self::moment::Term;

pub use self::write_guard::{WriteGuard, guard_writes};
pub use super::write_blocked::WriteBlocked;

/// Whether this process may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// Somebody else may be at work: it watches, and decides nothing.
    Standby,
    /// `transitions`: how often the lease has changed hands.
    Leader { transitions: u64 },
}

/// Which Lease, and how fast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Election {
    pub namespace: String,
    pub name: String,
    /// Of this process and of no other, ever.
    pub identity: String,
    pub timing: Timing,
}

impl Election {
    /// An identity that says for people on which machine it is.
    pub fn identity() -> String {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_other| std::env::var("HOSTNAME"));
        let host = host.unwrap_or_else(|_unset| "stagegate".to_owned());
        format!("{}_{}", host.trim(), uuid::Uuid::new_v4())
    }
}

impl fmt::Display for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// All times of an election, in client-go's proportions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    lease: Duration,
}

impl Timing {
    pub const LEASE_MIN: Duration = Duration::from_secs(1);
    pub const LEASE_MAX: Duration = Duration::from_secs(10 * 60);

    /// What is out of bounds becomes the bound.
    pub fn of_lease(lease: Duration) -> Self {
        Self {
            lease: lease.clamp(Self::LEASE_MIN, Self::LEASE_MAX),
        }
    }

    /// So long nobody else takes a Lease after its last change.
    pub fn lease(self) -> Duration {
        self.lease
    }

    /// A leader that could not renew for so long writes nothing any more.
    pub fn renew_deadline(self) -> Duration {
        self.lease * 2 / 3
    }

    /// Between two looks at the Lease, and between two renewals.
    pub fn retry(self) -> Duration {
        self.lease * 2 / 15
    }

    /// Longest wait for one answer: a connection that is dead must not cost the lease.
    fn answer(self) -> Duration {
        self.renew_deadline() / 3
    }
}

/// Why a process does not know who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaderUnknown {
    /// It knows, or there is no election.
    None,
    /// It has never known.
    Undecided(String),
    /// It has not known since then.
    Since(Instant, String),
}

/// What the election has come to, for everybody who needs it. Shared by the elector, which alone writes it, and by
/// what asks before it writes.
#[derive(Debug)]
pub struct LeaderState {
    leadership: watch::Sender<Leadership>,
    /// The time in which writes may be sent; renewed with the lease.
    term: watch::Sender<Option<Term>>,
    /// When the term began, if it is one.
    since: Mutex<Option<Instant>>,
    /// The newest count of changes of hands that was met in a fencing token.
    met: watch::Sender<u64>,
    /// What no look at the Lease has told since when, and why.
    trouble: Mutex<LeaderUnknown>,
    is_elected: bool,
}

impl LeaderState {
    /// Of a process that asks nobody.
    pub fn unelected() -> Arc<Self> {
        let leader_state = Self::new(false);
        leader_state
            .leadership
            .send_replace(Leadership::Leader { transitions: 0 });
        Arc::new(leader_state)
    }

    fn new(is_elected: bool) -> Self {
        Self {
            leadership: watch::Sender::new(Leadership::Standby),
            term: watch::Sender::new(None),
            since: Mutex::default(),
            met: watch::Sender::new(0),
            trouble: Mutex::new(if is_elected {
                LeaderUnknown::Undecided("not looked at yet".to_owned())
            } else {
                LeaderUnknown::None
            }),
            is_elected,
        }
    }

    /// Told when it changes. Two changes that follow each other closely may be told as one, so whoever is told has a new
    /// term before it, whatever it says.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }

    /// Whether a write may be sent at this very moment.
    pub fn may_write(&self) -> bool {
        !self.is_elected || !self.left().is_zero()
    }

    /// How long they still may, if the lease is not renewed.
    fn left(&self) -> Duration {
        self.term.borrow().map_or(Duration::ZERO, Term::left)
    }

    /// Returns when writes may no longer be sent.
    async fn lost(&self) {
        let mut term = self.term.subscribe();
        while self.may_write() {
            let term_now = *term.borrow_and_update();
            let ended = async {
                match term_now {
                    Some(term) => tokio::time::sleep(term.left()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                // The sender is `self`'s.
                _ = term.changed() => {}
                () = ended => return,
            }
        }
    }

    /// The count of changes of hands to decide by, where fencing tokens say that it has been `met` already.
    ///
    /// A fencing token that is ahead of the lease was made by a newer leader, and then this process writes nothing; or the Lease
    /// was deleted since and counts anew, and then its holder lets it catch up. Without an election nobody is behind.
    pub fn fence(&self, met: u64) -> u64 {
        let transitions = match *self.leadership.borrow() {
            _ if !self.is_elected => return met,
            Leadership::Leader { transitions } => transitions,
            Leadership::Standby => 0,
        };
        self.met.send_if_modified(|known| {
            let is_ahead = met > transitions && met > *known;
            if is_ahead {
                *known = met;
            }
            is_ahead
        });
        transitions
    }

    /// Since when this process has been at work without a break; `None`: ever since it watches. A time in which it stood by
    /// was watched, but nobody may have judged what was seen.
    pub fn at_work_since(&self) -> Option<Instant> {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this process knows who leads.
    pub fn trouble(&self) -> LeaderUnknown {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the last look came to.
    fn looked(&self, failure: Option<String>) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        *trouble = match (failure, &*trouble) {
            (None, _) => LeaderUnknown::None,
            (Some(cause), LeaderUnknown::Undecided(_)) => LeaderUnknown::Undecided(cause),
            (Some(cause), LeaderUnknown::Since(since, _)) => LeaderUnknown::Since(*since, cause),
            (Some(cause), LeaderUnknown::None) => LeaderUnknown::Since(Instant::now(), cause),
        };
    }

    fn lead(&self, transitions: u64, term: Term) {
        if *self.leadership.borrow() == Leadership::Standby {
            *self.since.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        self.term.send_replace(Some(term));
        self.leadership.send_if_modified(|leadership| {
            let leader = Leadership::Leader { transitions };
            let is_new = *leadership != leader;
            *leadership = leader;
            is_new
        });
    }

    /// `true`: it led until now.
    fn step_down(&self) -> bool {
        self.term.send_replace(None);
        self.leadership.send_if_modified(|leadership| {
            let led = *leadership != Leadership::Standby;
            *leadership = Leadership::Standby;
            led
        })
    }
}

/// The election at work. Dropping it breaks it off, as a kill would: the lease then has to expire.
pub struct RunningElection {
    tasks: JoinSet<()>,
    elector: Elector,
}

impl RunningElection {
    /// Takes part from now on.
    pub fn start(client: &Client, clock: SharedClock, election: Election) -> (Self, Arc<LeaderState>) {
        let leader_state = Arc::new(LeaderState::new(true));
        let elector = Elector::new(client, clock, election, leader_state.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(elector.clone().run());
        (Self { tasks, elector }, leader_state)
    }

    /// Returns when the election has broken off, which it must not.
    pub async fn failed(&mut self) {
        // There is one task as long as there is anything to wait for.
        let _broken = self.tasks.join_next().await;
    }

    /// Writes nothing more, and lets another process lead at once. Everything that writes has to have ended.
    pub async fn release(mut self) {
        self.tasks.shutdown().await;
        self.elector.release().await;
    }
}
