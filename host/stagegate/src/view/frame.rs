//! The live screen's content: rollouts, their stages, and for the active one every check and what is still missing.
//! Lines are pieces of styled text, so that colours and widths are the screen's business.

use std::time::Duration;

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use stagegate_api::{CheckStatus, Outcome, Phase, StageState};
use stagegate_decide::counted::counted;

use super::rollout::{Place, Rollout, RolloutStage, Rollouts};
use super::shown::Moment;
use super::text::{clusters, explained, seconds, span};
use super::times;
use crate::target::Kind;

/// One line of the screen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line(pub Vec<Piece>);

/// Text in one style, without control characters.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    pub style: Style,
    pub text: String,
}

pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const BOLD: Style = Style::new().bold();
/// The length of `condition`, the longest name of a check that is not a gate.
const CHECK_WIDTH: usize = 9;

/// The whole screen.
pub fn lines(rollouts: &Rollouts, moment: Moment) -> Vec<Line> {
    rollouts
        .values()
        .flat_map(|rollout| of_rollout(rollout, moment))
        .collect()
}

/// The screen while there is nothing of the kind.
pub fn nothing_yet(kind: Kind, elapsed: Duration) -> Vec<Line> {
    let text = format!("no {} yet  {}", kind.as_str(), seconds(elapsed));
    vec![Line::default().and(DIM, &text)]
}

fn of_rollout(rollout: &Rollout, moment: Moment) -> Vec<Line> {
    let mut head = Line::default().and(BOLD, &rollout.name).and(Style::new(), "  ");
    head = match rollout.phase {
        Some(phase) => head.and(of_phase(phase), &format!("{phase:?}")),
        None => head.and(DIM, "waiting for the controller"),
    };
    let reason = rollout.reason.as_deref().unwrap_or_default();
    if !reason.is_empty() && rollout.phase.is_none_or(|phase| format!("{phase:?}") != reason) {
        head = head.and(Style::new(), &format!("  {reason}"));
    }
    head = head.and(DIM, &format!("  {}", moment.of_rollout(rollout).text()));
    let mut lines = vec![head];
    let told_by_a_check = rollout
        .all_stages()
        .flat_map(|stage| &stage.checks)
        .any(|check| check.message == rollout.message);
    if !rollout.message.is_empty() && !told_by_a_check {
        lines.push(Line::default().and(DIM, "  ").and(Style::new(), &rollout.message));
    }
    let width = stage_width(rollout);
    lines.extend(
        rollout
            .all_stages()
            .flat_map(|stage| of_stage(stage, width, moment.now)),
    );
    lines
}

/// The length of the longest name of a stage in the spec.
pub(super) fn stage_width(rollout: &Rollout) -> usize {
    let lengths = rollout.stages.iter().map(|stage| stage.name.len());
    lengths.max().unwrap_or_default()
}

fn of_stage(stage: &RolloutStage, width: usize, now: Timestamp) -> Vec<Line> {
    let head = stage_head(stage, width).and(Style::new(), &of_place(&stage.place));
    let head = head.and(DIM, &times(stage, now));
    let mut lines = vec![head.after(DIM, &held(stage, now))];
    if stage.is_judged() {
        let width = check_width(&stage.checks);
        let message = |check: &CheckStatus| explained(&check.message, &check.evidence);
        let of_check = |check| check_head(check, width).after(DIM, &message(check));
        lines.extend(stage.checks.iter().map(of_check));
    }
    lines.extend(unproven(stage));
    lines.extend(beside_checks(stage));
    lines
}

/// The clusters of a stage, or how many of its pools are updated.
pub(super) fn of_place(place: &Place) -> String {
    match place {
        Place::Clusters { clusters: names } => clusters(names),
        Place::Pools { pools, updated } => format!("{updated} of {} updated", counted(*pools, "pool")),
    }
}

/// A stage's name and state.
pub(super) fn stage_head(stage: &RolloutStage, width: usize) -> Line {
    let RolloutStage { name, state, .. } = stage;
    let (symbol, style) = of_state(*state);
    Line::default().and(style, &format!("  {symbol} {name:width$}  {:9}", format!("{state:?}")))
}

/// The symbol of a stage in this state, and its style.
pub(super) fn of_state(state: StageState) -> (&'static str, Style) {
    match state {
        StageState::Pending => ("○", DIM),
        StageState::Active => ("◐", AnsiColor::Cyan.on_default().bold()),
        StageState::Passed => ("●", AnsiColor::Green.on_default()),
        StageState::Outdated => ("◌", DIM),
        StageState::Failed => ("✗", AnsiColor::Red.on_default().bold()),
    }
}

/// How long the stage has been held at the versions that it has; empty where it is not.
pub(super) fn held(stage: &RolloutStage, now: Timestamp) -> String {
    let since = stage.held_since.as_ref();
    since
        .map(|since| format!("held for {}", whole_seconds(since, now)))
        .unwrap_or_default()
}

/// Objects of which clusters of a held stage may have got a newer version than the admitted one.
pub(super) fn unproven(stage: &RolloutStage) -> Option<Line> {
    if stage.unproven.is_empty() {
        return None;
    }
    let text = format!("      may be newer than admitted: {}", stage.unproven.join(", "));
    Some(Line::default().and(AnsiColor::Yellow.on_default(), &text))
}

/// What else there is to know about a stage: updates that are not acknowledged and objects that are not evaluated while it is
/// judged, and its message.
pub(super) fn beside_checks(stage: &RolloutStage) -> Vec<Line> {
    let mut lines = Vec::new();
    if stage.is_judged() {
        let pending = |text| Line::default().and(AnsiColor::Magenta.on_default(), &format!("      {text}"));
        lines.extend(stage.pending.iter().map(pending));
        if !stage.not_evaluated.is_empty() {
            lines.push(Line::default().and(DIM, &format!("      not evaluated: {}", stage.not_evaluated.join(", "))));
        }
    }
    if let Some(message) = &stage.message {
        lines.push(Line::default().and(DIM, &format!("      {message}")));
    }
    lines
}

pub(super) fn check_width(checks: &[CheckStatus]) -> usize {
    let names = checks.iter().map(|check| check.name.len());
    names.max().unwrap_or_default().max(CHECK_WIDTH)
}

/// A check's name, outcome and reason.
pub(super) fn check_head(check: &CheckStatus, width: usize) -> Line {
    let style = match check.outcome {
        Outcome::Pass => AnsiColor::Green.on_default(),
        Outcome::Hold => AnsiColor::Yellow.on_default(),
        Outcome::Unknown => AnsiColor::Magenta.on_default(),
        Outcome::Fail => AnsiColor::Red.on_default(),
    };
    Line::default()
        .and(Style::new(), &format!("      {:width$} ", check.name))
        .and(style, &format!("{:8}", format!("{:?}", check.outcome)))
        .and(Style::new(), &check.reason)
}

pub(super) fn times(stage: &RolloutStage, now: Timestamp) -> String {
    match (&stage.placed_at, &stage.passed_at, &stage.passing_since) {
        (Some(placed), Some(passed), _) => format!("  passed in {}", whole_seconds(placed, passed.0)),
        (None, Some(passed), _) => format!("  passed {} ago", whole_seconds(passed, now)),
        (Some(placed), None, _) => format!("  placed {} ago", whole_seconds(placed, now)),
        (None, None, Some(since)) if stage.is_judged() => format!("  passing for {}", whole_seconds(since, now)),
        (None, None, _) => String::new(),
    }
}

/// Times in a status have no fractions: anything finer would be invented.
fn whole_seconds(from: &Time, to: Timestamp) -> String {
    match times::between(from.0, to) {
        short if short.as_secs() == 0 => "less than 1s".to_owned(),
        span_of_time => span(span_of_time),
    }
}

pub(super) fn of_phase(phase: Phase) -> Style {
    match phase {
        Phase::Progressing => AnsiColor::Cyan.on_default(),
        Phase::Holding => AnsiColor::Yellow.on_default(),
        Phase::Paused => DIM,
        Phase::Completed => AnsiColor::Green.on_default().bold(),
        Phase::Stalled => AnsiColor::Red.on_default(),
        Phase::Failed => AnsiColor::Red.on_default().bold(),
    }
}

impl Line {
    /// Two blanks, then the text; nothing where that is empty.
    pub(super) fn after(self, style: Style, text: &str) -> Self {
        if text.is_empty() {
            self
        } else {
            self.and(style, &format!("  {text}"))
        }
    }

    pub(super) fn and(mut self, style: Style, text: &str) -> Self {
        if !text.is_empty() {
            self.0.push(Piece {
                style,
                text: stagegate_api::printable::printable(text),
            });
        }
        self
    }

    /// Without styles.
    pub fn plain(&self) -> String {
        self.0.iter().map(|piece| piece.text.as_str()).collect()
    }
}
