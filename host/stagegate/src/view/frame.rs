//! The live screen's content: policies, their stages, and for the active one every check and what is still missing.
//! Lines are pieces of styled text, so that colours and widths are the screen's business.

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use stagegate_api::{
    CheckStatus, ObjectStatus, Outcome, PendingUpdate, Phase, StageState, StageStatus, StagedBindingPolicy,
    StagedBindingPolicyStatus, Updates,
};

use super::change;
use super::shown::{Moment, Policies};
use super::text::{explained, seconds, span};
use super::times;

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
pub fn lines(policies: &Policies, moment: Moment) -> Vec<Line> {
    if policies.is_empty() {
        let text = format!("no StagedBindingPolicy yet  {}", seconds(moment.elapsed));
        return vec![Line::default().and(DIM, &text)];
    }
    policies.values().flat_map(|policy| of_policy(policy, moment)).collect()
}

fn of_policy(policy: &StagedBindingPolicy, moment: Moment) -> Vec<Line> {
    let nothing = StagedBindingPolicyStatus::default();
    let status = policy.status.as_ref().unwrap_or(&nothing);
    let mut head = Line::default().and(BOLD, &policy.name_any()).and(Style::new(), "  ");
    head = match status.phase {
        Some(phase) => head.and(of_phase(phase), &format!("{phase:?}")),
        None => head.and(DIM, "waiting for the controller"),
    };
    let reason = status.reason.as_deref().unwrap_or_default();
    if !reason.is_empty() && status.phase.is_none_or(|phase| format!("{phase:?}") != reason) {
        head = head.and(Style::new(), &format!("  {reason}"));
    }
    head = head.and(DIM, &format!("  {}", moment.of_rollout(policy).text()));
    let mut lines = vec![head];
    let explanation = change::explanation(policy, reason);
    let told_by_a_check = status
        .stages
        .iter()
        .flat_map(|stage| &stage.checks)
        .any(|check| check.message == explanation);
    if !explanation.is_empty() && !told_by_a_check {
        lines.push(Line::default().and(DIM, "  ").and(Style::new(), &explanation));
    }
    let width = stage_width(policy);
    for (name, record) in stages(policy, status) {
        lines.extend(of_stage(policy, (name, width), record, moment.now));
    }
    lines
}

/// The length of the longest name of a stage in the spec.
pub(super) fn stage_width(policy: &StagedBindingPolicy) -> usize {
    let lengths = policy.spec.stages.iter().map(|stage| stage.name.len());
    lengths.max().unwrap_or_default()
}

/// The spec's stages in order, each with its record; then records of stages that are no longer in the spec.
pub(super) fn stages<'a>(
    policy: &'a StagedBindingPolicy,
    status: &'a StagedBindingPolicyStatus,
) -> Vec<(&'a str, Option<&'a StageStatus>)> {
    let record = |name: &str| status.stages.iter().find(|record| record.name == name);
    let in_spec = policy
        .spec
        .stages
        .iter()
        .map(|stage| (stage.name.as_str(), record(&stage.name)));
    let left = status
        .stages
        .iter()
        .filter(|record| !policy.spec.stages.iter().any(|stage| stage.name == record.name));
    in_spec
        .chain(left.map(|record| (record.name.as_str(), Some(record))))
        .collect()
}

fn of_stage(
    policy: &StagedBindingPolicy,
    (name, width): (&str, usize),
    record: Option<&StageStatus>,
    now: Timestamp,
) -> Vec<Line> {
    let state = record.map_or(StageState::Pending, |record| record.state);
    let head = stage_head(name, width, state).and(
        Style::new(),
        &record.map(|record| clusters(&record.destinations)).unwrap_or_default(),
    );
    let Some(record) = record else { return vec![head] };
    let head = head.and(DIM, &times(record, now));
    let mut lines = vec![head.after(DIM, &held(policy, record, now))];
    if matches!(state, StageState::Active | StageState::Failed) {
        let width = check_width(&record.checks);
        let message = |check: &CheckStatus| explained(&check.message, &check.evidence);
        let of_check = |check| check_head(check, width).after(DIM, &message(check));
        lines.extend(record.checks.iter().map(of_check));
    }
    lines.extend(unproven(policy, record));
    lines.extend(beside_checks(record));
    lines
}

/// A stage's name and state.
pub(super) fn stage_head(name: &str, width: usize, state: StageState) -> Line {
    let (symbol, style) = of_state(state);
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

/// Whether what status says of holding the stage is about now: of a placement that is gone it stays on record, and after a change to
/// immediate updates, too.
pub(super) fn is_held(policy: &StagedBindingPolicy, record: &StageStatus) -> bool {
    policy.spec.updates == Updates::Staged && record.binding_policy.is_some()
}

/// How long the stage has been held at the versions that it has; empty where it is not.
pub(super) fn held(policy: &StagedBindingPolicy, record: &StageStatus, now: Timestamp) -> String {
    let since = record.held_since.as_ref().filter(|_| is_held(policy, record));
    since
        .map(|since| format!("held for {}", whole_seconds(since, now)))
        .unwrap_or_default()
}

/// Objects of which clusters of a held stage may have got a newer version than the admitted one.
pub(super) fn unproven(policy: &StagedBindingPolicy, record: &StageStatus) -> Option<Line> {
    if record.unproven.is_empty() || !is_held(policy, record) {
        return None;
    }
    let text = format!("      may be newer than admitted: {}", record.unproven.join(", "));
    Some(Line::default().and(AnsiColor::Yellow.on_default(), &text))
}

/// What else there is to know about a stage: updates that are not acknowledged and objects that are not evaluated while it is
/// judged, and its message.
pub(super) fn beside_checks(record: &StageStatus) -> Vec<Line> {
    let mut lines = Vec::new();
    if matches!(record.state, StageState::Active | StageState::Failed) {
        lines.extend(
            record
                .objects
                .iter()
                .flat_map(|object| pending_lines(object, &record.destinations)),
        );
        if !record.not_evaluated.is_empty() {
            lines.push(Line::default().and(
                DIM,
                &format!("      not evaluated: {}", record.not_evaluated.join(", ")),
            ));
        }
    }
    if let Some(message) = &record.message {
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

/// The clusters of the stage that have not acknowledged an update, and what each last reported. One that has left the stage does not
/// hold it up.
fn pending_lines(object: &ObjectStatus, destinations: &[String]) -> Vec<Line> {
    let namespace = object
        .namespace
        .as_ref()
        .map(|namespace| format!("{namespace}/"))
        .unwrap_or_default();
    let about = |clusters: &str, rest: String| {
        let text = format!(
            "      {clusters}: {} {namespace}{} {rest}",
            object.resource, object.name
        );
        Line::default().and(AnsiColor::Magenta.on_default(), &text)
    };
    let last = |update: &PendingUpdate| match update.observed_generation.as_str() {
        _ if update.reported_at.is_empty() => "edited, no report yet".to_owned(),
        "" => format!("edited, last report {}", update.reported_at),
        generation => format!("edited, last report {} of generation {generation}", update.reported_at),
    };
    let is_left = |cluster: &String| !destinations.is_empty() && !destinations.contains(cluster);
    let owing = |update: &PendingUpdate| -> Vec<String> {
        let names = update.clusters.iter().filter(|cluster| !is_left(cluster));
        names.cloned().collect()
    };
    (object.pending_updates.iter())
        .map(|update| (owing(update), update))
        .filter_map(|(owing, update)| match (owing.as_slice(), update.clusters.as_slice()) {
            // An entry without cluster names stands for many clusters.
            ([], []) => Some(about("some clusters", last(update))),
            ([], _) => None,
            (owing, _) => Some(about(&clusters(owing), last(update))),
        })
        .collect()
}

pub(super) fn clusters(names: &[String]) -> String {
    const SHOWN: usize = 8;
    match names.len().checked_sub(SHOWN) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..SHOWN].join(", ")),
    }
}

pub(super) fn times(record: &StageStatus, now: Timestamp) -> String {
    match (&record.placed_at, &record.passed_at) {
        (Some(placed), Some(passed)) => format!("  passed in {}", whole_seconds(placed, passed.0)),
        (None, Some(passed)) => format!("  passed {} ago", whole_seconds(passed, now)),
        (Some(placed), None) => format!("  placed {} ago", whole_seconds(placed, now)),
        (None, None) => String::new(),
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
