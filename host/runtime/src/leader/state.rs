//! What the election has come to: whether this process leads, until when it may write, and whether it knows who leads. Must
//! not look at the Lease: the elector does, and writes here what it found.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::moment::Term;

/// Whether this process may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// Somebody else may be at work: it watches, and decides nothing.
    Standby,
    /// `transitions`: how often the lease has changed hands.
    Leader { transitions: u64 },
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
    pub(super) leadership: watch::Sender<Leadership>,
    /// The time in which writes may be sent; renewed with the lease.
    term: watch::Sender<Option<Term>>,
    /// When the term began, if it is one.
    since: Mutex<Option<Instant>>,
    /// The newest count of changes of hands that was met in a fencing token.
    pub(super) met: watch::Sender<u64>,
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

    pub(super) fn new(is_elected: bool) -> Self {
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

    /// Changes of leadership. Two that follow each other closely may arrive as one, so whoever receives a change has a new
    /// term before it, whatever it says.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }

    /// Whether a write may be sent at this very moment.
    pub fn may_write(&self) -> bool {
        !self.is_elected || !self.left().is_zero()
    }

    /// How long they still may, if the lease is not renewed.
    pub(super) fn left(&self) -> Duration {
        self.term.borrow().map_or(Duration::ZERO, Term::left)
    }

    /// Returns when writes may no longer be sent.
    pub(super) async fn lost(&self) {
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
    pub(super) fn looked(&self, failure: Option<String>) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        *trouble = match (failure, &*trouble) {
            (None, _) => LeaderUnknown::None,
            (Some(cause), LeaderUnknown::Undecided(_)) => LeaderUnknown::Undecided(cause),
            (Some(cause), LeaderUnknown::Since(since, _)) => LeaderUnknown::Since(*since, cause),
            (Some(cause), LeaderUnknown::None) => LeaderUnknown::Since(Instant::now(), cause),
        };
    }

    pub(super) fn lead(&self, transitions: u64, term: Term) {
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
    pub(super) fn step_down(&self) -> bool {
        self.term.send_replace(None);
        self.leadership.send_if_modified(|leadership| {
            let led = *leadership != Leadership::Standby;
            *leadership = Leadership::Standby;
            led
        })
    }
}
