//! One leader among several processes: who holds the Lease, and that nobody else writes. Must not know what is written.
//!
//! Not a crate of others: what there is lets two candidates win, or judges the expiry of a lease by another machine's
//! clock. Here a Lease is taken by compare-and-swap only, and it has expired when this process has seen nothing of it
//! change for its whole duration, by a clock that nobody sets. Whoever holds it stops writing a third of the duration
//! before anybody else may begin.
//!
//! Leases do not order writes: a request that has left may arrive late. That is what the fencing tokens of closed placements and
//! the preconditions of every write are for; the count of changes of hands, which they carry, comes from here.

mod election;
mod elector;
mod moment;
mod record;
mod state;
mod write_guard;

use std::sync::Arc;

use kube::Client;
use stagegate_clock::SharedClock;
use tokio::task::JoinSet;

use self::elector::Elector;

pub use self::election::{Election, Timing};
pub use self::state::{LeaderState, LeaderUnknown, Leadership};
pub use self::write_guard::{WriteGuard, guard_writes};
pub use super::write_blocked::WriteBlocked;

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
