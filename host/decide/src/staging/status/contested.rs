//! That something else writes the policy's status, too: a condition that status has only while this is so, with the same words whoever
//! writes it. Must not find out who writes.

use jiff::{SignedDuration, Timestamp};

use super::Facts;
use crate::time::after;

/// The type of the condition.
pub const CONTESTED: &str = "Contested";

/// How long a policy is contested after the last write of another, and for how long whoever finds the condition leaves it: the process
/// that wrote it may know what others do not.
pub const CONTESTED_FOR: SignedDuration = SignedDuration::from_mins(10);

/// What the condition, an Event and the log say.
pub const SECOND_CONTROLLER: &str = "besides this controller, something else writes the policy's status; let a single `stagegate run` \
                                     decide about the policies of this cluster, or start each with --leader-elect and the same \
                                     --lease-namespace and --lease-name";

/// Until when the policy is contested, as far as is known now; `None`: it is not.
pub fn contested_until(facts: &Facts) -> Option<Timestamp> {
    let status = facts.policy.object.status.as_ref();
    let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
    let found = conditions
        .find(|condition| condition.type_ == CONTESTED && condition.status == "True")
        .map(|condition| condition.last_transition_time.0)
        // A time further ahead comes from a wrong clock.
        .filter(|at| *at < after(facts.now, CONTESTED_FOR));
    [facts.contested_at, found]
        .into_iter()
        .flatten()
        .map(|at| after(at, CONTESTED_FOR))
        .max()
        .filter(|until| *until > facts.now)
}
