//! One policy at a glance, once: its stages with their checks, what is missing first and since when, and what a person can do. Must not
//! know where it is shown.

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use kube::ResourceExt as _;
use serde::Serialize;
use stagegate_api::{
    CheckStatus, Outcome, Phase, StageState, StageStatus, StagedBindingPolicy, StagedBindingPolicyStatus,
};
use stagegate_decide::staging::Reason;

use super::frame::{self, BOLD, DIM, Line};
use super::text::{explained, span};
use super::times;
use super::verdicts::PolicySummary;

/// The one object of `status -o json`.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "status", rename_all = "camelCase")]
pub struct Overview<'a> {
    #[serde(skip)]
    policy: &'a StagedBindingPolicy,
    /// What the exit code says.
    state: RolloutState,
    #[serde(flatten)]
    summary: PolicySummary<'a>,
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
    /// Which check of the active stage has the reason; `None`: it is that of the policy.
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
    /// A status about an older generation than the policy's decides nothing.
    fn of(policy: &StagedBindingPolicy) -> Self {
        let Some(status) = policy.status.as_ref().filter(|_| !is_outdated(policy)) else {
            return Self::Undecided;
        };
        let is_ready = times::is_ready(status);
        match status.phase {
            Some(Phase::Completed) if is_ready => Self::Completed,
            Some(Phase::Holding | Phase::Failed | Phase::Stalled) => Self::Held,
            Some(Phase::Completed | Phase::Progressing | Phase::Paused) | None => Self::Undecided,
        }
    }
}

impl<'a> Overview<'a> {
    /// Of what the policy's status says.
    pub fn of(policy: &'a StagedBindingPolicy) -> Self {
        let name = policy.metadata.name.as_deref().unwrap_or_default();
        Self {
            policy,
            state: RolloutState::of(policy),
            summary: PolicySummary::of(name, policy),
            advice: advice(policy),
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
        if let Some(status) = &self.policy.status {
            let width = frame::stage_width(self.policy);
            for (name, record) in frame::stages(self.policy, status) {
                lines.extend(self.stage((name, width), record, now));
            }
        } else {
            let names = self.policy.spec.stages.iter().map(|stage| stage.name.as_str());
            let width = frame::stage_width(self.policy);
            lines.extend(names.map(|name| frame::stage_head(name, width, StageState::Pending)));
        }
        lines.push(Line::default());
        lines.extend(self.advice_lines());
        lines
    }

    fn head(&self, now: Timestamp) -> Line {
        let head = Line::default().and(BOLD, self.summary.name);
        let head = match self.summary.phase {
            Some(phase) => head.after(frame::of_phase(phase), phase.as_str()),
            None => head.after(DIM, "no status yet"),
        };
        let head = match self.summary.since {
            Some(since) => head.and(DIM, &format!(" since {} ({})", since.0, ago(since.0, now))),
            None => head,
        };
        let took = span(times::duration(self.policy, now));
        match self.summary.phase {
            Some(Phase::Completed) => head.and(DIM, &format!("; the rollout took {took}")),
            Some(_) => head.and(DIM, &format!(", rollout began {took} ago")),
            None => head,
        }
    }

    /// What is missing first, or why the phase is what it is.
    fn reason(&self, now: Timestamp) -> Option<Line> {
        let reason = self.summary.reason?;
        let has_own_word = self.summary.phase.is_none_or(|phase| phase.as_str() != reason);
        let line = Line::default().and(Style::new(), "  ");
        let line = if has_own_word { line.and(BOLD, reason) } else { line };
        let since = self
            .check_with(reason)
            .and_then(|check| check.evaluated_at.as_ref())
            .map(|since| format!(", unchanged for {}", ago(since.0, now)));
        let line = line.and(DIM, &since.unwrap_or_default());
        let colon = if has_own_word { ": " } else { "" };
        Some(match self.summary.message.as_str() {
            "" => line,
            message => line.and(Style::new(), &format!("{colon}{message}")),
        })
    }

    fn stage(&self, (name, width): (&str, usize), record: Option<&StageStatus>, now: Timestamp) -> Vec<Line> {
        let state = record.map_or(StageState::Pending, |record| record.state);
        let head = frame::stage_head(name, width, state);
        let Some(record) = record else { return vec![head] };
        let times = frame::times(record, now);
        let head = head.and(DIM, times.trim_start());
        let head = head.after(DIM, &frame::held(self.policy, record, now));
        let mut lines = vec![head.after(Style::new(), &frame::clusters(&record.destinations))];
        if matches!(state, StageState::Active | StageState::Failed) {
            let width = frame::check_width(&record.checks);
            lines.extend(record.checks.iter().map(|check| self.check(check, width, now)));
        } else if !record.checks.is_empty() && state == StageState::Passed {
            lines.push(self.passed(record));
        }
        lines.extend(frame::unproven(self.policy, record));
        lines.extend(frame::beside_checks(record));
        lines
    }

    /// The checks of a stage that has passed. They are those of that time; for the last stage, the line also says why it is not ready now.
    fn passed(&self, record: &StageStatus) -> Line {
        let names: Vec<&str> = record.checks.iter().map(|check| check.name.as_str()).collect();
        let names = names.join(", ");
        let status = self.policy.status.as_ref();
        // Where a stage was appended since, the policy's reason is about that one.
        let is_last = |status: &StagedBindingPolicyStatus| {
            record.completed_at.is_some() && status.active_stage.as_ref() == Some(&record.name)
        };
        let unready = status.filter(|status| is_last(status) && !times::is_ready(status));
        match unready.and_then(|status| status.reason.as_deref()) {
            Some(reason) => Line::default()
                .and(DIM, &format!("      passed at completion: {names}; not ready now: "))
                .and(AnsiColor::Yellow.on_default(), reason),
            None => Line::default().and(DIM, &format!("      passed: {names}")),
        }
    }

    /// The message of the policy's own reason is said once, above.
    fn check(&self, check: &CheckStatus, width: usize, now: Timestamp) -> Line {
        let line = frame::check_head(check, width);
        let since = check
            .evaluated_at
            .as_ref()
            .filter(|_| check.outcome != Outcome::Pass)
            .map(|since| format!("unchanged for {}", ago(since.0, now)));
        let is_said = Some(check.reason.as_str()) == self.summary.reason && check.message == self.summary.message;
        let message = if is_said { "" } else { check.message.as_str() };
        line.after(DIM, &explained(message, &check.evidence))
            .after(DIM, &since.unwrap_or_default())
    }

    fn check_with(&self, reason: &str) -> Option<&CheckStatus> {
        active_stage(self.policy)?
            .checks
            .iter()
            .find(|check| check.reason == reason)
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

fn active_stage(policy: &StagedBindingPolicy) -> Option<&StageStatus> {
    let status = policy.status.as_ref()?;
    let is_active = |stage: &&StageStatus| Some(&stage.name) == status.active_stage.as_ref();
    status.stages.iter().find(is_active)
}

/// Whether the policy was edited since the controller last looked at it, or was never looked at.
fn is_outdated(policy: &StagedBindingPolicy) -> bool {
    let observed = policy.status.as_ref().and_then(|status| status.observed_generation);
    observed != policy.metadata.generation
}

/// About the policy's own reason first, then about each other reason of the active stage's checks.
fn advice(policy: &StagedBindingPolicy) -> Vec<Advice<'_>> {
    let mut advice: Vec<Advice<'_>> = unseen(policy).into_iter().collect();
    let Some(status) = &policy.status else { return advice };
    let own = status.reason.as_deref().map(|reason| (reason, None));
    let checks = active_stage(policy)
        .map(|stage| stage.checks.as_slice())
        .unwrap_or_default();
    let others = checks
        .iter()
        .filter(|check| check.outcome != Outcome::Pass)
        .map(|check| (check.reason.as_str(), Some(check.name.as_str())));
    for (reason, check) in own.into_iter().chain(others) {
        let is_known = advice.iter().any(|known| known.reason == Some(reason));
        if let Some(text) = advice_of(reason).filter(|_| !is_known) {
            advice.push(Advice {
                reason: Some(reason),
                check,
                text: text.to_owned(),
            });
        }
    }
    advice
}

fn advice_of(reason: &str) -> Option<&'static str> {
    match Reason::named(reason) {
        Some(reason) => reason.advice(),
        None => Some("This stagegate does not know the reason: use the version that the controller runs."),
    }
}

/// That the controller has not looked at the policy as it is now.
fn unseen(policy: &StagedBindingPolicy) -> Option<Advice<'_>> {
    if !is_outdated(policy) {
        return None;
    }
    let text = match (&policy.status, policy.metadata.generation) {
        (None, _) => format!(
            "No controller has looked at {} yet: check whether `stagegate run` runs.",
            policy.name_any()
        ),
        (Some(status), generation) => format!(
            "This status is about generation {}; the policy has generation {}. Wait for the controller; if the status stays old, check whether \
             `stagegate run` runs.",
            status.observed_generation.unwrap_or_default(),
            generation.unwrap_or_default()
        ),
    };
    Some(Advice {
        reason: None,
        check: None,
        text,
    })
}
