//! For how long a policy's status is left as it is: while another process writes it, too, and after a write that a change of words
//! alone follows. Must not say what status says.
//!
//! Two processes that know different things, one of them just started, would else answer each other's writes as fast as
//! the API server takes them, for as long as they differ. And a rollout over many clusters would write each new count.

use std::time::Duration;

use stagegate_decide::names::Digest;
use stagegate_decide::staging::{Facts, Plan, Write, is_news, is_rewording};
use tokio::time::Instant;

/// After the first write that replaces another process's status; doubled by each further one in a row.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Between two writes that differ in words alone.
const REWORDING_PAUSE: Duration = Duration::from_secs(10);
/// Longer apart, two of them do not belong together.
const ROW_GAP_MAX: Duration = Duration::from_secs(180);

#[derive(Debug, Default)]
pub struct StatusBackoff {
    last: Option<LastStatus>,
    /// Writes of ours in a row that have replaced another process's status.
    replaced: u32,
}

#[derive(Debug)]
struct LastStatus {
    status: Digest,
    at: Instant,
}

impl StatusBackoff {
    /// Takes the status write out of a plan that moves nothing while another process writes other things there, or so soon after the
    /// last one that only words have changed, and gives for how long. What would be lost by waiting is written all the same.
    pub fn leave(&self, plan: &mut Plan, facts: &Facts) -> Option<Duration> {
        let found = facts.policy.object.status.as_ref();
        let is_to_be_written = |write: &Write| match write {
            Write::Status { status, .. } => found.is_none_or(|found| is_news(found, status)),
            other => other.places() || matches!(other, Write::Remove { .. }),
        };
        let is_status = |write: &Write| matches!(write, Write::Status { .. });
        if !plan.writes.iter().any(is_status) || plan.writes.iter().any(is_to_be_written) {
            return None;
        }
        let is_reworded = |write: &Write| match write {
            Write::Status { status, .. } => found.is_some_and(|found| is_rewording(found, status)),
            _ => false,
        };
        let now = Instant::now();
        let mut pause = self.pause(&Digest::of(&found), now);
        if plan.events.is_empty() && plan.writes.iter().all(is_reworded) {
            pause = pause.max(self.rewording_pause(now));
        }
        if pause.is_zero() {
            return None;
        }
        plan.writes.retain(|write| !is_status(write));
        // They tell of what status would have said.
        plan.events.clear();
        Some(pause)
    }

    /// The plan was carried out.
    pub fn note_plan(&mut self, plan: &Plan, facts: &Facts) {
        // Of two, the last one stands.
        let written = plan.writes.iter().rev().find_map(|write| match write {
            Write::Status { status, .. } => Some(Digest::of(&Some(status))),
            _ => None,
        });
        if let Some(written) = written {
            self.note(&Digest::of(&facts.policy.object.status), written, Instant::now());
        }
    }

    /// How long status is left as it is found; zero: it may be written.
    fn pause(&self, found: &Digest, now: Instant) -> Duration {
        match &self.last {
            Some(last) if self.replaced > 0 && last.status != *found => {
                let doublings = (self.replaced - 1).min(16);
                let pause = (PAUSE_FIRST * 2u32.pow(doublings)).min(PAUSE_MAX);
                pause.saturating_sub(now.duration_since(last.at))
            }
            _ => Duration::ZERO,
        }
    }

    /// How long status is left as this process has written it, if only words would change.
    fn rewording_pause(&self, now: Instant) -> Duration {
        let since = self.last.as_ref().map(|last| now.duration_since(last.at));
        since.map_or(Duration::ZERO, |since| REWORDING_PAUSE.saturating_sub(since))
    }

    /// `status` was written in place of what was found.
    fn note(&mut self, found: &Digest, status: Digest, now: Instant) {
        let is_contested = self
            .last
            .as_ref()
            .is_some_and(|last| last.status != *found && now.duration_since(last.at) < ROW_GAP_MAX);
        self.replaced = if is_contested {
            self.replaced.saturating_add(1)
        } else {
            0
        };
        self.last = Some(LastStatus { status, at: now });
    }
}

#[cfg(test)]
mod tests {
    use super::{Digest, Duration, Instant, StatusBackoff};

    fn digest(text: &str) -> Digest {
        Digest::of(&text)
    }

    #[test]
    fn our_own_status_is_replaced_at_once_however_often_it_changes() {
        let (mut backoff, now) = (StatusBackoff::default(), Instant::now());
        for nth in 0..9 {
            let found = digest(&format!("ours {nth}"));
            assert_eq!(backoff.pause(&found, now), Duration::ZERO);
            backoff.note(&found, digest(&format!("ours {}", nth + 1)), now);
        }
    }

    #[test]
    fn status_of_another_process_is_replaced_once_at_once_and_then_ever_more_rarely() {
        let (mut backoff, mut now) = (StatusBackoff::default(), Instant::now());
        backoff.note(&digest("none"), digest("ours"), now);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let pause = backoff.pause(&digest("theirs"), now);
            pauses.push(pause.as_secs());
            now += pause;
            assert_eq!(backoff.pause(&digest("theirs"), now), Duration::ZERO);
            backoff.note(&digest("theirs"), digest("ours"), now);
        }
        assert_eq!(pauses, [0, 1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(
            backoff.pause(&digest("ours"), now),
            Duration::ZERO,
            "they have left it as it is"
        );
        now += Duration::from_secs(300);
        backoff.note(&digest("theirs"), digest("ours"), now);
        assert_eq!(
            backoff.pause(&digest("theirs"), now),
            Duration::ZERO,
            "that was long ago"
        );
    }
}
