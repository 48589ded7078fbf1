//! Which Lease an election is about, and all times of one. Must not know who leads.

use std::fmt;
use std::time::Duration;

use crate::machine::machine;

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
        format!("{}_{}", machine(), uuid::Uuid::new_v4())
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
    pub(super) fn answer(self) -> Duration {
        self.renew_deadline() / 3
    }
}
