//! How far the rollout of an object's current version has come at a given time, by its rule. Must not know what a status looks like.

use jiff::{SignedDuration, Timestamp};
use stagegate_api::Progressing;

/// The time for each replica of a slow rollout whose rule sets none.
const SLOW_STEP_MS: i64 = 10_000;
const PERIOD_MS: i64 = 10_000;
const PERIOD_MIN_MS: i64 = 100;

/// The rule that a rollout follows.
pub(crate) struct Script {
    pub(crate) progressing: Progressing,
    /// The time until the object is ready or, in a slow rollout, until the next replica is.
    pub(crate) after: SignedDuration,
    /// The length of each turn of `Flapping`.
    pub(crate) period: Option<SignedDuration>,
}

/// Where a rollout begins.
pub(crate) struct Start {
    pub(crate) at: Timestamp,
    /// Replicas of this version that are ready already.
    pub(crate) ready: i64,
    pub(crate) wanted: i64,
    /// How long it may go without progress; `None` where no controller looks at that.
    pub(crate) deadline: Option<SignedDuration>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Course {
    pub(crate) wanted: i64,
    /// Replicas of the current version that are ready.
    pub(crate) ready: i64,
    /// Everything was started, though it may have become unhealthy since.
    pub(crate) is_rolled_out: bool,
    /// The cluster has given up, or the deadline has passed.
    pub(crate) has_failed: bool,
    /// Its processes end as soon as they have started.
    pub(crate) crashes: bool,
    pub(crate) since: Timestamp,
    /// When it will change by itself.
    pub(crate) changes_at: Option<Timestamp>,
}

impl Course {
    pub(crate) fn is_well(&self) -> bool {
        self.is_rolled_out && self.ready >= self.wanted
    }
}

pub(crate) fn course(start: &Start, script: &Script, now: Timestamp) -> Course {
    let has_begun_well = start.ready >= start.wanted;
    let complete = |since| Course {
        wanted: start.wanted,
        ready: start.wanted,
        is_rolled_out: true,
        has_failed: false,
        crashes: false,
        since,
        changes_at: None,
    };
    let unready = |ready, since, changes_at| Course {
        ready,
        is_rolled_out: false,
        changes_at,
        ..complete(since)
    };
    let ready_at = if has_begun_well {
        start.at
    } else {
        later(start.at, script.after)
    };
    let course = match script.progressing {
        _ if has_begun_well && script.progressing != Progressing::Flapping => complete(start.at),
        Progressing::Slow => {
            let step_ms = Some(millis(script.after)).filter(|ms| *ms > 0).unwrap_or(SLOW_STEP_MS);
            let steps = turns(start.at, step_ms, now).min(start.wanted - start.ready);
            let at = |steps: i64| later_ms(start.at, step_ms.saturating_mul(steps));
            match start.ready + steps {
                ready if ready >= start.wanted => complete(at(steps)),
                ready => unready(ready, at(steps), Some(at(steps + 1))),
            }
        }
        Progressing::Stuck => Course {
            crashes: true,
            ..unready(start.ready, start.at, None)
        },
        Progressing::Failed => Course {
            crashes: true,
            has_failed: true,
            ..unready(start.ready, start.at, None)
        },
        Progressing::Complete | Progressing::Flapping if now < ready_at => {
            unready(start.ready, start.at, Some(ready_at))
        }
        Progressing::Flapping if start.wanted > 0 => {
            let period_ms = script.period.map_or(PERIOD_MS, millis).max(PERIOD_MIN_MS);
            let turn = turns(ready_at, period_ms, now);
            let at = |turn: i64| later_ms(ready_at, period_ms.saturating_mul(turn));
            let is_down = turn % 2 == 1;
            Course {
                ready: if is_down { 0 } else { start.wanted },
                crashes: is_down,
                changes_at: Some(at(turn + 1)),
                ..complete(at(turn))
            }
        }
        Progressing::Complete | Progressing::Flapping => complete(ready_at),
    };
    under_deadline(course, start.deadline, now)
}

/// Any progress restarts the time.
fn under_deadline(course: Course, deadline: Option<SignedDuration>, now: Timestamp) -> Course {
    let Some(deadline) = deadline.filter(|_| !course.is_rolled_out && !course.has_failed) else {
        return course;
    };
    let fails_at = later(course.since, deadline);
    if now < fails_at {
        let next = course
            .changes_at
            .map_or(fails_at, |changes_at| changes_at.min(fails_at));
        return Course {
            changes_at: Some(next),
            ..course
        };
    }
    Course {
        has_failed: true,
        since: fails_at,
        ..course
    }
}

pub(crate) fn later(time: Timestamp, duration: SignedDuration) -> Timestamp {
    time.checked_add(duration).unwrap_or(Timestamp::MAX)
}

fn later_ms(time: Timestamp, ms: i64) -> Timestamp {
    later(time, SignedDuration::from_millis(ms))
}

fn millis(duration: SignedDuration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// How many whole steps have passed.
fn turns(from: Timestamp, step_ms: i64, now: Timestamp) -> i64 {
    millis(now.duration_since(from)).max(0) / step_ms.max(1)
}
