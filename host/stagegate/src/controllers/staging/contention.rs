//! Whether something else writes a policy's status, too, by which two controllers that decide about the same policies notice each
//! other. Must not say what comes of it.
//!
//! Nothing is placed twice by two of them, for each write is conditional on the version that was decided on. But each may be set up
//! otherwise, and whoever reads the status has to know.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};
use stagegate_api::{StagedBindingPolicy, StagedBindingPolicyStatus};
use stagegate_decide::names::Digest;
use stagegate_decide::staging::{CONTESTED, CONTESTED_FOR, Write};
use stagegate_runtime::request::RequestError;
use stagegate_runtime::watch::{order, order_of};

/// So many changes by others, none long after the one before: a single one may be that of a process that has just ended, or of a person.
const CHANGES: u32 = 2;
/// Longer apart, two changes do not belong together.
const GAP_MAX: SignedDuration = SignedDuration::from_mins(3);
/// Statuses of ours that are known again: a write may be carried out although its answer is lost.
const TRIED_MAX: usize = 4;

/// What is known of the writers of one policy's status.
#[derive(Debug, Default)]
pub struct Contention {
    seen: Option<Seen>,
    /// What this process has tried to write, the newest last.
    tried: VecDeque<Digest>,
    /// The newest version that a write of ours has made.
    written: Option<u64>,
    /// By others, in a row.
    changes: u32,
    changed_at: Option<Timestamp>,
    contested_at: Option<Timestamp>,
}

/// The newest version of the policy that was looked at.
#[derive(Debug)]
struct Seen {
    uid: Option<String>,
    version: u64,
    status: Digest,
    /// It has the condition.
    is_marked: bool,
}

impl Contention {
    /// Takes note of the policy as it is now. `true`: it is contested, and was not before.
    pub fn look(&mut self, policy: &StagedBindingPolicy, now: Timestamp) -> bool {
        let Some(version) = order_of(policy) else { return false };
        let uid = &policy.metadata.uid;
        if self.seen.as_ref().is_some_and(|seen| seen.uid != *uid) {
            *self = Self::default();
        }
        // The watch may be behind what was read.
        if self.seen.as_ref().is_some_and(|seen| seen.version >= version) {
            return false;
        }
        let seen = Seen {
            uid: uid.clone(),
            version,
            status: digest(policy.status.as_ref()),
            is_marked: is_marked(policy.status.as_ref()),
        };
        let before = self.seen.replace(seen);
        let (Some(before), Some(seen)) = (before, &self.seen) else {
            return false;
        };
        // Whoever sets the condition has seen two writers, and this process is one of them.
        let is_told = seen.is_marked && !before.is_marked;
        let is_known = before.status == seen.status || self.tried.contains(&seen.status);
        if self.written == Some(version) || (is_known && !is_told) {
            return false;
        }
        let is_in_row = self.changed_at.is_some_and(|at| now.duration_since(at) < GAP_MAX);
        self.changes = if is_in_row { self.changes.saturating_add(1) } else { 1 };
        self.changed_at = Some(now);
        let was_contested = self
            .contested_at
            .is_some_and(|at| now.duration_since(at) < CONTESTED_FOR);
        if !was_contested && !is_told && self.changes < CHANGES {
            return false;
        }
        self.contested_at = Some(now);
        !was_contested
    }

    /// When another has last changed the status, if that was not a single time.
    pub fn contested_at(&self) -> Option<Timestamp> {
        self.contested_at
    }

    /// The write is about to be sent.
    pub fn begins(&mut self, write: &Write) {
        if let Write::Status { status, .. } = write {
            self.tried.push_back(digest(Some(status)));
            if self.tried.len() > TRIED_MAX {
                self.tried.pop_front();
            }
        }
    }

    /// What came of the write.
    pub fn ended(&mut self, write: &Write, result: &Result<Option<String>, RequestError>) {
        if !matches!(write, Write::Status { .. }) {
            return;
        }
        match result {
            Ok(version) => self.written = version.as_deref().and_then(order),
            // Two that decide alike write the same: what is there then is not ours.
            Err(error) if error.is_outdated() => drop(self.tried.pop_back()),
            Err(_may_have_been_carried_out) => {}
        }
    }
}

/// Of all that two controllers may disagree about: the condition says only that they do.
fn digest(status: Option<&StagedBindingPolicyStatus>) -> Digest {
    let mut status = status.cloned();
    if let Some(status) = &mut status {
        status.conditions.retain(|condition| condition.type_ != CONTESTED);
    }
    Digest::of(&status)
}

fn is_marked(status: Option<&StagedBindingPolicyStatus>) -> bool {
    let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.type_ == CONTESTED && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use serde_json::{Value, json};
    use stagegate_api::StagedBindingPolicy;
    use stagegate_decide::precondition::Precondition;
    use stagegate_decide::staging::Write;
    use stagegate_runtime::request::RequestError;

    use super::Contention;

    /// The policy at this version, with this status and, perhaps, the condition.
    fn policy(version: u64, reason: &str, is_marked: bool) -> StagedBindingPolicy {
        let condition = json!({"type": "Contested", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let conditions = if is_marked {
            vec![condition]
        } else {
            Vec::<Value>::new()
        };
        let policy = json!({
            "metadata": {"name": "web", "uid": "u", "resourceVersion": version.to_string()},
            "spec": {"downsync": [], "stages": []},
            "status": {"reason": reason, "conditions": conditions},
        });
        serde_json::from_value(policy).unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
    }

    fn look(contention: &mut Contention, (version, reason): (u64, &str), second: i64) -> bool {
        contention.look(&policy(version, reason, false), at(second))
    }

    /// Sends a write of this status.
    fn write(contention: &mut Contention, reason: &str, result: Result<u64, u16>) {
        let write = Write::Status {
            precondition: Precondition {
                uid: "u".into(),
                resource_version: "1".into(),
            },
            status: Box::new(policy(0, reason, false).status.unwrap()),
        };
        contention.begins(&write);
        let refused = |code| RequestError::Refused {
            what: "patch".to_owned(),
            code,
            reason: String::new(),
            message: String::new(),
            fields: Vec::new(),
        };
        contention.ended(
            &write,
            &result.map(|version| Some(version.to_string())).map_err(refused),
        );
    }

    #[test]
    fn the_second_change_by_another_within_three_minutes_is_one_too_many_and_each_further_one_renews_that() {
        let mut contention = Contention::default();
        assert!(!look(&mut contention, (1, "a"), 0), "what was there before");
        assert!(!look(&mut contention, (2, "b"), 1));
        assert!(!look(&mut contention, (2, "b"), 2), "the same version");
        assert!(!look(&mut contention, (3, "c"), 190), "long after the first");
        assert_eq!(contention.contested_at(), None);
        assert!(look(&mut contention, (4, "d"), 200));
        assert!(!look(&mut contention, (5, "e"), 700), "it is contested already");
        assert_eq!(contention.contested_at(), Some(at(700)));
        assert!(!look(&mut contention, (6, "f"), 1_400), "that was long ago");
        assert!(look(&mut contention, (7, "g"), 1_401));
    }

    #[test]
    fn what_this_process_has_written_is_no_change_by_another_and_an_edit_of_the_spec_is_none() {
        let mut contention = Contention::default();
        look(&mut contention, (1, "a"), 0);
        // Of those whose answers were lost, one was carried out.
        write(&mut contention, "b", Err(500));
        write(&mut contention, "c", Err(504));
        look(&mut contention, (2, "b"), 1);
        // The API server stores another one than was sent.
        write(&mut contention, "d", Ok(3));
        look(&mut contention, (3, "stored"), 2);
        look(&mut contention, (4, "stored"), 3);
        // A watch that is behind.
        look(&mut contention, (2, "elsewhere"), 4);
        assert!(!look(&mut contention, (5, "by another"), 5), "the first one");
        assert!(look(&mut contention, (6, "by another, too"), 6));
    }

    #[test]
    fn what_another_has_written_first_in_the_same_words_is_its_own() {
        let mut contention = Contention::default();
        look(&mut contention, (1, "a"), 0);
        write(&mut contention, "b", Err(409));
        assert!(!look(&mut contention, (2, "b"), 1));
        write(&mut contention, "c", Err(409));
        assert!(look(&mut contention, (3, "c"), 2));
    }

    #[test]
    fn the_condition_of_another_tells_at_once_and_its_end_tells_nothing() {
        let mut contention = Contention::default();
        contention.look(&policy(1, "a", true), at(0));
        assert_eq!(contention.contested_at(), None, "of an earlier process");
        assert!(!contention.look(&policy(2, "a", false), at(1)));
        assert!(contention.look(&policy(3, "a", true), at(2)));
    }

    #[test]
    fn a_policy_that_was_made_again_has_no_past() {
        let mut contention = Contention::default();
        look(&mut contention, (1, "a"), 0);
        look(&mut contention, (2, "b"), 1);
        let mut again = policy(3, "c", false);
        again.metadata.uid = Some("other".to_owned());
        assert!(!contention.look(&again, at(2)));
    }
}
