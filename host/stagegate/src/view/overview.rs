//! One rollout at a glance, once: its stages with their checks, what is missing first and since when, and what a person can do. Must not
//! know where it is shown.

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use serde::Serialize;
use stagegate_api::{CheckStatus, Outcome, Phase, StageState};
use stagegate_decide::{pools, staging};

use super::frame::{self, BOLD, DIM, Line};
use super::rollout::{Rollout, RolloutStage};
use super::text::{explained, span};
use super::times;
use crate::target::Kind;

/// The one object of `status -o json`.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "status", rename_all = "camelCase")]
pub struct Overview<'a> {
    /// What the exit code says.
    state: RolloutState,
    #[serde(flatten)]
    rollout: &'a Rollout,
    /// What a person can do, the most important first; empty: nothing.
    advice: Vec<Advice<'a>>,
}

/// What a person can do about one reason.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Advice<'a> {
    /// The word that status has.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// Which check of the active stage has the reason; `None`: it is that of the rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<&'a str>,
    text: String,
}

/// Whether a rollout has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RolloutState {
    /// Completed, and the last stage is ready now.
    Completed,
    /// A check holds the stage, or the rollout has failed or is stalled.
    Held,
    /// It goes on, or status does not tell yet.
    Undecided,
}

impl RolloutState {
    /// A status about an older generation decides nothing.
    fn of(rollout: &Rollout) -> Self {
        if !rollout.versions.has_status || rollout.is_outdated() {
            return Self::Undecided;
        }
        match rollout.phase {
            Some(Phase::Completed) if rollout.is_ready => Self::Completed,
            Some(Phase::Holding | Phase::Failed | Phase::Stalled) => Self::Held,
            Some(Phase::Completed | Phase::Progressing | Phase::Paused) | None => Self::Undecided,
        }
    }
}

impl<'a> Overview<'a> {
    /// Of what status says.
    pub fn of(rollout: &'a Rollout) -> Self {
        Self {
            state: RolloutState::of(rollout),
            rollout,
            advice: advice(rollout),
        }
    }

    pub fn state(&self) -> RolloutState {
        self.state
    }

    /// For people.
    pub fn lines(&self, now: Timestamp) -> Vec<Line> {
        let mut lines = vec![self.head(now)];
        lines.extend(self.reason(now));
        lines.push(Line::default());
        let width = frame::stage_width(self.rollout);
        let stages: Vec<&RolloutStage> = self.rollout.all_stages().collect();
        if !stages.is_empty() {
            lines.extend(stages.iter().flat_map(|stage| self.stage(stage, width, now)));
            lines.push(Line::default());
        }
        lines.extend(self.advice_lines());
        lines
    }

    fn head(&self, now: Timestamp) -> Line {
        let head = Line::default().and(BOLD, &self.rollout.name);
        let head = match self.rollout.phase {
            Some(phase) => head.after(frame::of_phase(phase), phase.as_str()),
            None => head.after(DIM, "no status yet"),
        };
        let head = match &self.rollout.since {
            Some(since) => head.and(DIM, &format!(" since {} ({})", since.0, ago(since.0, now))),
            None => head,
        };
        let took = span(self.rollout.duration(now));
        match self.rollout.phase.filter(|_| self.rollout.began.is_some()) {
            Some(Phase::Completed) => head.and(DIM, &format!("; the rollout took {took}")),
            Some(_) => head.and(DIM, &format!(", rollout began {took} ago")),
            None => head,
        }
    }

    /// What is missing first, or why the phase is what it is.
    fn reason(&self, now: Timestamp) -> Option<Line> {
        let reason = self.rollout.reason.as_deref()?;
        let has_own_word = self.rollout.phase.is_none_or(|phase| phase.as_str() != reason);
        let line = Line::default().and(Style::new(), "  ");
        let line = if has_own_word { line.and(BOLD, reason) } else { line };
        let since = self
            .check_with(reason)
            .and_then(|check| check.evaluated_at.as_ref())
            .map(|since| format!(", unchanged for {}", ago(since.0, now)));
        let line = line.and(DIM, &since.unwrap_or_default());
        let colon = if has_own_word { ": " } else { "" };
        Some(match self.rollout.message.as_str() {
            "" => line,
            message => line.and(Style::new(), &format!("{colon}{message}")),
        })
    }

    fn stage(&self, stage: &RolloutStage, width: usize, now: Timestamp) -> Vec<Line> {
        let head = frame::stage_head(stage, width);
        let times = frame::times(stage, now);
        let head = head.and(DIM, times.trim_start());
        let head = head.after(DIM, &frame::held(stage, now));
        let mut lines = vec![head.after(Style::new(), &frame::of_place(&stage.place))];
        if stage.is_judged() {
            let width = frame::check_width(&stage.checks);
            lines.extend(stage.checks.iter().map(|check| self.check(check, width, now)));
        } else if !stage.checks.is_empty() && stage.state == StageState::Passed {
            lines.push(self.passed(stage));
        }
        lines.extend(frame::unproven(stage));
        lines.extend(frame::beside_checks(stage));
        lines
    }

    /// The checks of a stage that has passed. They are those of that time; for the last stage, the line also says why it is not ready now.
    fn passed(&self, stage: &RolloutStage) -> Line {
        let names: Vec<&str> = stage.checks.iter().map(|check| check.name.as_str()).collect();
        let names = names.join(", ");
        // Where a stage was appended since, the reason is about that one.
        let is_last = stage.is_completed && self.rollout.active_stage.as_ref() == Some(&stage.name);
        let reason = self.rollout.reason.as_deref();
        match reason.filter(|_| is_last && !self.rollout.is_ready) {
            Some(reason) => Line::default()
                .and(DIM, &format!("      passed at completion: {names}; not ready now: "))
                .and(AnsiColor::Yellow.on_default(), reason),
            None => Line::default().and(DIM, &format!("      passed: {names}")),
        }
    }

    /// The message of the rollout's own reason is said once, above.
    fn check(&self, check: &CheckStatus, width: usize, now: Timestamp) -> Line {
        let line = frame::check_head(check, width);
        let since = check
            .evaluated_at
            .as_ref()
            .filter(|_| check.outcome != Outcome::Pass)
            .map(|since| format!("unchanged for {}", ago(since.0, now)));
        let message = if self.rollout.tells(check) {
            ""
        } else {
            check.message.as_str()
        };
        line.after(DIM, &explained(message, &check.evidence))
            .after(DIM, &since.unwrap_or_default())
    }

    fn check_with(&self, reason: &str) -> Option<&CheckStatus> {
        let active = self.rollout.active()?;
        active.checks.iter().find(|check| check.reason == reason)
    }

    fn advice_lines(&self) -> Vec<Line> {
        if self.advice.is_empty() {
            return vec![Line::default().and(Style::new(), "Nothing to do.")];
        }
        let mut lines = vec![Line::default().and(Style::new(), "What to do:")];
        lines.extend(self.advice.iter().map(|advice| {
            let line = Line::default().and(Style::new(), "  ");
            let line = match advice.reason {
                Some(reason) => line.and(AnsiColor::Yellow.on_default(), reason).and(Style::new(), ": "),
                None => line,
            };
            line.and(Style::new(), &advice.text)
        }));
        lines
    }
}

fn ago(since: Timestamp, now: Timestamp) -> String {
    span(times::between(since, now))
}

/// About the rollout's own reason first, then about a second controller and each other reason of the active stage's checks.
fn advice(rollout: &Rollout) -> Vec<Advice<'_>> {
    let mut advice: Vec<Advice<'_>> = unseen(rollout).into_iter().collect();
    let own = rollout.reason.as_deref().map(|reason| (reason, None));
    let second = rollout
        .is_contested
        .then_some((staging::Reason::SecondController.as_str(), None));
    let checks = rollout
        .active()
        .map(|stage| stage.checks.as_slice())
        .unwrap_or_default();
    let others = checks
        .iter()
        .filter(|check| check.outcome != Outcome::Pass)
        .map(|check| (check.reason.as_str(), Some(check.name.as_str())));
    for (reason, check) in own.into_iter().chain(second).chain(others) {
        let is_known = advice.iter().any(|known| known.reason == Some(reason));
        if let Some(text) = advice_of(rollout.kind, reason).filter(|_| !is_known) {
            advice.push(Advice {
                reason: Some(reason),
                check,
                text: text.to_owned(),
            });
        }
    }
    advice
}

fn advice_of(kind: Kind, reason: &str) -> Option<&'static str> {
    let advice = match kind {
        Kind::StagedBindingPolicy => staging::Reason::named(reason).map(staging::Reason::advice),
        Kind::YurtAppDaemon => pools::Reason::named(reason).map(pools::Reason::advice),
    };
    advice.unwrap_or(Some(
        "This stagegate does not know the reason: use the version that the controller runs.",
    ))
}

/// That the controller has not looked at the object as it is now.
fn unseen(rollout: &Rollout) -> Option<Advice<'_>> {
    if !rollout.is_outdated() {
        return None;
    }
    let controller = rollout.kind.controller();
    let object = match rollout.kind {
        Kind::StagedBindingPolicy => "policy",
        Kind::YurtAppDaemon => "YurtAppDaemon",
    };
    let text = match rollout.versions.has_status {
        false => format!(
            "No controller has looked at {} yet: check whether `{controller}` runs.",
            rollout.name
        ),
        true => format!(
            "This status is about generation {}; the {object} has generation {}. Wait for the controller; if the status stays old, check whether \
             `{controller}` runs.",
            rollout.versions.observed.unwrap_or_default(),
            rollout.versions.generation.unwrap_or_default()
        ),
    };
    Some(Advice {
        reason: None,
        check: None,
        text,
    })
}
