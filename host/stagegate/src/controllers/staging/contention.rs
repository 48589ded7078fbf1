//! Whether something other than this process writes a policy's status, by which two controllers that decide about the same policies
//! notice each other. Must not say what comes of it.
//!
//! Nothing is placed twice by two of them, for each write is conditional on the version that was decided on. But they may have other
//! settings, and whoever reads the status has to know.

use jiff::{SignedDuration, Timestamp};
use stagegate_api::{StagedBindingPolicy, StagedBindingPolicyStatus};
use stagegate_decide::names::Digest;
use stagegate_decide::staging::{CONTESTED, CONTESTED_FOR, Write};
use stagegate_runtime::request::RequestError;
use stagegate_runtime::watch::{order, order_of};

/// So many changes by others, each within [`GAP_MAX`] of the one before, make a policy contested: a single one may be that of a process
/// that has just ended, or of a person.
const CHANGES: u32 = 2;
const GAP_MAX: SignedDuration = SignedDuration::from_mins(3);
/// What has not been seen for so long is reported again: each of two controllers may put the condition back once.
const KNOWN_FOR: SignedDuration = SignedDuration::from_mins(20);
const _: () = assert!(KNOWN_FOR.as_secs() >= 2 * CONTESTED_FOR.as_secs());

/// What is known of the writers of one policy's status.
#[derive(Debug, Default)]
pub struct Contention {
    seen: Option<Seen>,
    /// No answer has told whether the last write was carried out.
    may_be_written: bool,
    /// By others, in a row.
    changes: u32,
    changed_at: Option<Timestamp>,
    contested_at: Option<Timestamp>,
    /// When this process last found out, or was told by the condition.
    known_at: Option<Timestamp>,
}

/// The newest version of the policy that was looked at or written.
#[derive(Debug)]
struct Seen {
    uid: Option<String>,
    version: u64,
    status: Digest,
    /// It has the condition.
    is_marked: bool,
    /// It was written and not looked at: the API server may have stored another status than it was sent.
    is_written: bool,
}

impl Contention {
    /// Takes note of the policy as it is now. `true`: something else writes its status, which was not known before. `is_late`: the watch
    /// may still tell of what was written before this process was at work.
    pub fn look(&mut self, policy: &StagedBindingPolicy, now: Timestamp, is_late: bool) -> bool {
        let Some(version) = order_of(policy) else { return false };
        let seen = Seen {
            uid: policy.metadata.uid.clone(),
            version,
            status: digest(policy.status.as_ref()),
            is_marked: is_marked(policy.status.as_ref()),
            is_written: false,
        };
        if self.seen.as_ref().is_some_and(|before| before.uid != seen.uid) {
            *self = Self::default();
        }
        let before = match self.seen.take() {
            // The watch may be behind what was read or written.
            Some(before) if before.version > version || (before.version == version && !before.is_written) => {
                self.seen = Some(before);
                return false;
            }
            before => before,
        };
        let change = before
            .filter(|before| before.version < version && !is_late)
            .map(|before| {
                let is_told = seen.is_marked && !before.is_marked;
                (before.status != seen.status, is_told)
            });
        self.seen = Some(seen);
        match change {
            Some((true, _)) if std::mem::take(&mut self.may_be_written) => false,
            Some((is_changed, is_told)) => (is_changed && self.count(now)) | (is_told && self.is_news(now)),
            None => false,
        }
    }

    /// Counts a change by another. `true`: the policy is contested, which was not known before.
    fn count(&mut self, now: Timestamp) -> bool {
        let is_in_row = self.changed_at.is_some_and(|at| now.duration_since(at) < GAP_MAX);
        self.changes = if is_in_row { self.changes.saturating_add(1) } else { 1 };
        self.changed_at = Some(now);
        let is_contested = self
            .contested_at
            .is_some_and(|at| now.duration_since(at) < CONTESTED_FOR);
        if !is_contested && self.changes < CHANGES {
            return false;
        }
        self.contested_at = Some(now);
        self.is_news(now)
    }

    /// Whoever sets the condition has seen two writers. It is reported, and does not make the policy contested for longer: else each of
    /// two that have nothing to write would be told by the other for ever.
    fn is_news(&mut self, now: Timestamp) -> bool {
        let was_known = self.known_at.is_some_and(|at| now.duration_since(at) < KNOWN_FOR);
        self.known_at = Some(now);
        !was_known
    }

    /// When another has last changed the status; `None` until that has happened twice in a row.
    pub fn contested_at(&self) -> Option<Timestamp> {
        self.contested_at
    }

    /// What came of the write.
    pub fn ended(&mut self, write: &Write, result: &Result<Option<String>, RequestError>) {
        let Write::Status { status, .. } = write else { return };
        match result {
            Ok(version) => {
                self.may_be_written = false;
                if let (Some(seen), Some(version)) = (&mut self.seen, version.as_deref().and_then(order)) {
                    seen.version = version;
                    seen.status = digest(Some(status));
                    seen.is_marked = is_marked(Some(status));
                    seen.is_written = true;
                }
            }
            Err(error) if error.is_outdated() => {}
            Err(_unknown) => self.may_be_written = true,
        }
    }
}

/// Without the condition, so that it is no change to set it or to take it away.
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
    use stagegate_api::{BindingPolicy, StagedBindingPolicy};
    use stagegate_decide::precondition::Precondition;
    use stagegate_decide::staging::Write;
    use stagegate_runtime::request::RequestError;

    use super::Contention;

    /// The policy at this version, with this status and, perhaps, the condition.
    fn policy(version: u64, reason: &str, contested: Option<&str>) -> StagedBindingPolicy {
        let condition = |status: &str| json!({"type": "Contested", "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let conditions: Vec<Value> = contested.map(condition).into_iter().collect();
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
        contention.look(&policy(version, reason, None), at(second), false)
    }

    fn marked(contention: &mut Contention, (version, reason): (u64, &str), second: i64) -> bool {
        contention.look(&policy(version, reason, Some("True")), at(second), false)
    }

    fn refused(code: u16) -> RequestError {
        RequestError::Refused {
            what: "patch".to_owned(),
            code,
            reason: String::new(),
            message: String::new(),
            fields: Vec::new(),
        }
    }

    /// Sends a write of this status.
    fn write(contention: &mut Contention, reason: &str, result: Result<u64, u16>) {
        let write = Write::Status {
            precondition: Precondition {
                uid: "u".into(),
                resource_version: "1".into(),
            },
            status: Box::new(policy(0, reason, None).status.unwrap()),
        };
        contention.ended(
            &write,
            &result.map(|version| Some(version.to_string())).map_err(refused),
        );
    }

    #[test]
    fn two_changes_by_another_within_three_minutes_make_a_policy_contested_and_later_ones_extend_it() {
        for (gap, is_contested) in [(179, true), (180, false)] {
            let mut contention = Contention::default();
            assert!(!look(&mut contention, (1, "a"), 0), "what was there before");
            assert!(!look(&mut contention, (2, "b"), 1));
            assert!(!look(&mut contention, (2, "b"), 2), "the same version");
            assert_eq!(look(&mut contention, (3, "c"), 1 + gap), is_contested, "after {gap} s");
            assert_eq!(contention.contested_at().is_some(), is_contested);
        }
        let mut contention = Contention::default();
        for (version, second) in [(1, 0), (2, 1), (3, 2), (4, 601)] {
            look(&mut contention, (version, &version.to_string()), second);
        }
        assert_eq!(contention.contested_at(), Some(at(601)), "a single one extends it");
        assert!(!look(&mut contention, (5, "e"), 1_201), "that was ten minutes ago");
        assert_eq!(contention.contested_at(), Some(at(601)));
        assert!(!look(&mut contention, (6, "f"), 1_202), "it is known");
        assert_eq!(contention.contested_at(), Some(at(1_202)));
        look(&mut contention, (7, "g"), 2_402);
        assert!(
            look(&mut contention, (8, "h"), 2_403),
            "nothing was known of it for twenty minutes"
        );
    }

    #[test]
    fn what_this_process_has_written_is_no_change_by_another_and_neither_is_an_edit_of_the_spec() {
        let mut contention = Contention::default();
        look(&mut contention, (1, "a"), 0);
        // Of two writes without an answer, one was carried out.
        write(&mut contention, "b", Err(500));
        write(&mut contention, "c", Err(504));
        assert!(!look(&mut contention, (2, "b"), 1));
        // The API server stores another status than it was sent.
        write(&mut contention, "d", Ok(3));
        look(&mut contention, (3, "stored"), 2);
        look(&mut contention, (4, "stored"), 3);
        // The watch tells of a write before its answer is there.
        look(&mut contention, (5, "e"), 4);
        let mut contention = Contention::default();
        look(&mut contention, (1, "a"), 0);
        write(&mut contention, "b", Ok(2));
        write(&mut contention, "c", Ok(4));
        look(&mut contention, (3, "by another, and late"), 1);
        look(&mut contention, (5, "c"), 2);
        assert!(!look(&mut contention, (6, "by another"), 3), "the first one");
        assert!(look(&mut contention, (7, "by another, too"), 4));
    }

    #[test]
    fn another_that_puts_back_what_was_there_is_seen() {
        let mut contention = Contention::default();
        look(&mut contention, (1, "theirs"), 0);
        write(&mut contention, "ours", Ok(2));
        assert!(!look(&mut contention, (3, "theirs"), 1));
        write(&mut contention, "ours", Ok(4));
        assert!(look(&mut contention, (5, "theirs"), 2));
    }

    #[test]
    fn another_that_has_written_the_same_status_first_is_seen() {
        let mut contention = Contention::default();
        look(&mut contention, (1, "a"), 0);
        write(&mut contention, "b", Err(409));
        assert!(!look(&mut contention, (2, "b"), 1));
        write(&mut contention, "c", Err(409));
        assert!(look(&mut contention, (3, "c"), 2));
    }

    #[test]
    fn writes_of_other_objects_say_nothing_of_the_status() {
        let mut contention = Contention::default();
        look(&mut contention, (1, "a"), 0);
        let other = Write::CreateClosed(BindingPolicy::new("web.stage.dev", Default::default()));
        contention.ended(&other, &Ok(Some("9".to_owned())));
        contention.ended(&other, &Err(refused(500)));
        assert!(!look(&mut contention, (2, "b"), 1));
        assert!(look(&mut contention, (3, "c"), 2));
    }

    #[test]
    fn a_condition_set_by_another_is_reported_at_once_and_only_another_status_makes_the_policy_contested() {
        let mut contention = Contention::default();
        marked(&mut contention, (1, "a"), 0);
        assert_eq!(contention.contested_at(), None, "an earlier process has set it");
        assert!(!look(&mut contention, (2, "a"), 1));
        assert!(marked(&mut contention, (3, "a"), 2));
        // Both take it away and put it back.
        for (version, second) in [(4, 602), (6, 1_202)] {
            look(&mut contention, (version, "a"), second);
            assert!(!marked(&mut contention, (version + 1, "a"), second + 1));
        }
        assert_eq!(contention.contested_at(), None, "nobody has written another status");
        assert!(!look(&mut contention, (8, "b"), 1_300), "the first one");
        let is_false = policy(9, "b", Some("False"));
        assert!(!contention.look(&is_false, at(9_000), false));
    }

    #[test]
    fn what_the_watch_is_late_to_tell_a_new_leader_is_of_the_one_before() {
        let mut contention = Contention::default();
        for (version, reason) in [(1, "a"), (2, "b"), (3, "c")] {
            assert!(!contention.look(&policy(version, reason, None), at(1), true));
        }
        assert!(!look(&mut contention, (4, "d"), 20), "the first one");
        assert!(look(&mut contention, (5, "e"), 21));
    }

    #[test]
    fn a_recreated_policy_starts_without_history() {
        let mut contention = Contention::default();
        look(&mut contention, (1, "a"), 0);
        look(&mut contention, (2, "b"), 1);
        let mut again = policy(3, "c", None);
        again.metadata.uid = Some("other".to_owned());
        assert!(!contention.look(&again, at(2), false));
    }
}
