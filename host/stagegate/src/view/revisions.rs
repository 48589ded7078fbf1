//! Which revision each stage of a policy has, since when, in which objects it differs from the active stage, and what it waits for. Must
//! not know where it is shown.

use std::collections::{BTreeMap, BTreeSet};

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Serialize, Serializer};
use stagegate_api::{ObjectStatus, StageState, StageStatus, StagedBindingPolicy, StagedBindingPolicyStatus, Updates};
use stagegate_decide::names::ObjectKey;

use super::frame::{self, BOLD, DIM, Line};
use super::text::span;
use super::{policy, times};

const COLUMNS: usize = 5;
const HEADER: [&str; COLUMNS] = ["STAGE", "REVISION", "SINCE", "DIFFERS", "WAITS FOR"];
/// Enough to tell the revisions of a policy apart.
const REVISION_CHARS: usize = 12;
/// Most objects that are named for a stage.
const LISTED: usize = 10;
/// Where there is nothing to show.
const NOTHING: &str = "-";

/// The one object of `revisions -o json`.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "revisions", rename_all = "camelCase")]
pub struct Revisions<'a> {
    policy: &'a str,
    updates: Updates,
    stages: Vec<StageRevision<'a>>,
    /// The stage that the others are compared with.
    #[serde(skip)]
    compared_with: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StageRevision<'a> {
    stage: &'a str,
    /// `None`: its turn has not come.
    revision: Option<&'a str>,
    state: StageState,
    #[serde(skip_serializing_if = "Option::is_none")]
    held_since: Option<&'a Time>,
    /// The same; where it is not known, when the stage has passed, else when it was placed.
    #[serde(skip)]
    since: Option<&'a Time>,
    /// `None`: the stage holds nothing that could be compared.
    differs: Option<Vec<Difference>>,
    /// Objects of which clusters may have got a newer version than the admitted one.
    unproven: &'a [String],
    waits_for: &'a str,
}

/// An object of which a stage has not what the active one has. In JSON it is the object's name.
#[derive(Debug)]
struct Difference {
    object: ObjectKey,
    how: How,
}

#[derive(Clone, Copy, Debug)]
enum How {
    /// Another version, or another object of the same name.
    Differs,
    /// What one of the two stages has is not known.
    MayDiffer,
    /// Only the active stage has it.
    IsMissing,
    /// The active stage does not have it.
    IsSurplus,
}

impl Serialize for Difference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.object)
    }
}

impl<'a> Revisions<'a> {
    /// Of what the policy's spec and status say.
    pub fn of(policy: &'a StagedBindingPolicy) -> Self {
        let first = policy.spec.stages.first().map(|stage| stage.name.as_str());
        let status = policy.status.as_ref();
        let active = status.and_then(|status| status.active_stage.as_deref());
        let compared_with = active.or(first).unwrap_or_default();
        let reference = status.map(|status| held(record_of(status, compared_with)));
        // Before the first status, the first stage is the one that something is missing for.
        let (awaiting, reason) = match status {
            Some(status) => (active, status.reason.as_deref()),
            None => (first, Some("the controller")),
        };
        let stages = match status {
            Some(status) => policy::stages(policy, status),
            None => {
                let names = policy.spec.stages.iter().map(|stage| stage.name.as_str());
                names.map(|name| (name, None)).collect()
            }
        };
        let stage = |(name, record): (&'a str, Option<&'a StageStatus>)| {
            let held_record = record.filter(|record| policy::is_held(policy, record));
            let state = record.map_or(StageState::Pending, |record| record.state);
            let held_since = held_record.and_then(|record| record.held_since.as_ref());
            let reason = reason.filter(|_| awaiting == Some(name));
            StageRevision {
                stage: name,
                revision: record
                    .filter(|_| state != StageState::Pending)
                    .and_then(|record| record.revision.as_deref()),
                state,
                held_since,
                since: held_since.or_else(|| record?.passed_at.as_ref().or(record?.placed_at.as_ref())),
                differs: reference
                    .as_ref()
                    .and_then(|reference| differences(&held(record), reference)),
                unproven: held_record.map(|record| record.unproven.as_slice()).unwrap_or_default(),
                waits_for: waits_for(state, reason),
            }
        };
        Self {
            policy: policy.metadata.name.as_deref().unwrap_or_default(),
            updates: policy.spec.updates,
            stages: stages.into_iter().map(stage).collect(),
            compared_with,
        }
    }

    /// For people.
    pub fn lines(&self, now: Timestamp) -> Vec<Line> {
        let mut lines = Vec::new();
        if self.updates == Updates::Immediate {
            let text = "Updates are immediate: every placed stage gets an edit at once.";
            lines.extend([Line::default().and(Style::new(), text), Line::default()]);
        }
        lines.extend(self.table(now));
        let objects: Vec<Line> = self.stages.iter().flat_map(|stage| self.objects(stage)).collect();
        if !objects.is_empty() {
            lines.push(Line::default());
            lines.extend(objects);
        }
        lines
    }

    fn table(&self, now: Timestamp) -> Vec<Line> {
        let rows: Vec<[String; COLUMNS]> = self.stages.iter().map(|stage| stage.cells(now)).collect();
        let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
            let cells = rows.iter().map(|row| row[column].as_str()).chain([HEADER[column]]);
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
        });
        let line = |cells: [&str; COLUMNS], styles: [Style; COLUMNS]| {
            let mut line = Line::default();
            for ((cell, width), style) in cells.into_iter().zip(widths).zip(styles) {
                line = line.and(style, &format!("{cell:width$}  "));
            }
            line
        };
        let mut lines = vec![line(HEADER, [BOLD; COLUMNS])];
        for (stage, row) in self.stages.iter().zip(&rows) {
            let cells = std::array::from_fn(|column| row[column].as_str());
            lines.push(line(cells, stage.styles()));
        }
        lines
    }

    /// Which objects of the stage differ, and which are unproven.
    fn objects(&self, stage: &StageRevision<'_>) -> Vec<Line> {
        let about = |text: &str| Line::default().and(Style::new(), &format!("  {}  {text}", stage.stage));
        let differs = stage.differs.as_deref().unwrap_or_default();
        let mut lines: Vec<Line> = differs
            .iter()
            .take(LISTED)
            .map(|difference| about(&self.told(difference)))
            .collect();
        if let Some(more) = differs.len().checked_sub(LISTED).filter(|more| *more > 0) {
            lines.push(about(&format!("and {more} more")));
        }
        let unproven = stage.unproven.iter();
        lines.extend(unproven.map(|name| {
            let text = format!("  {}  {name} may be newer than admitted", stage.stage);
            Line::default().and(AnsiColor::Yellow.on_default(), &text)
        }));
        lines
    }

    fn told(&self, difference: &Difference) -> String {
        let (object, active) = (&difference.object, self.compared_with);
        match difference.how {
            How::Differs => format!("{object} differs"),
            How::MayDiffer => format!("{object} may differ"),
            How::IsMissing => format!("{object} is only in {active}"),
            How::IsSurplus => format!("{object} is not in {active}"),
        }
    }
}

impl StageRevision<'_> {
    fn cells(&self, now: Timestamp) -> [String; COLUMNS] {
        let revision = self.revision.unwrap_or(NOTHING);
        let since = self.since.map(|since| span(times::between(since.0, now)));
        let differs = self.differs.as_ref().map(|differs| differs.len().to_string());
        [
            self.stage.to_owned(),
            revision.chars().take(REVISION_CHARS).collect(),
            since.unwrap_or_else(|| NOTHING.to_owned()),
            differs.unwrap_or_else(|| NOTHING.to_owned()),
            self.waits_for.to_owned(),
        ]
    }

    fn styles(&self) -> [Style; COLUMNS] {
        let (_, of_state) = frame::of_state(self.state);
        let of_differs = match self.differs.as_deref() {
            None | Some([]) => DIM,
            Some(_) => AnsiColor::Yellow.on_default(),
        };
        [of_state, Style::new(), DIM, of_differs, Style::new()]
    }
}

fn waits_for(state: StageState, reason: Option<&str>) -> &str {
    match state {
        StageState::Passed => "nothing",
        StageState::Failed => "a person",
        StageState::Pending | StageState::Active | StageState::Outdated => reason.unwrap_or("its turn"),
    }
}

fn record_of<'a>(status: &'a StagedBindingPolicyStatus, stage: &str) -> Option<&'a StageStatus> {
    status.stages.iter().find(|record| record.name == stage)
}

/// The objects that the stage holds. An entry without a version was made before a Binding of the stage has named the object, or is
/// what is left of a placement that is gone.
fn held(record: Option<&StageStatus>) -> BTreeMap<ObjectKey, &ObjectStatus> {
    let objects = record.map(|record| record.objects.as_slice()).unwrap_or_default();
    let bound = objects.iter().filter(|object| object.resource_version.is_some());
    bound.map(|object| (key_of(object), object)).collect()
}

fn key_of(object: &ObjectStatus) -> ObjectKey {
    ObjectKey {
        group: object.group.clone(),
        resource: object.resource.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
    }
}

/// `None` where one of the stages holds nothing.
fn differences(
    stage: &BTreeMap<ObjectKey, &ObjectStatus>,
    reference: &BTreeMap<ObjectKey, &ObjectStatus>,
) -> Option<Vec<Difference>> {
    if stage.is_empty() || reference.is_empty() {
        return None;
    }
    let keys: BTreeSet<&ObjectKey> = stage.keys().chain(reference.keys()).collect();
    let differing = keys.into_iter().filter_map(|key| {
        let how = match (stage.get(key), reference.get(key)) {
            (Some(here), Some(there)) => difference(here, there)?,
            (Some(_), None) => How::IsSurplus,
            (None, _) => How::IsMissing,
        };
        let object = key.clone();
        Some(Difference { object, how })
    });
    Some(differing.collect())
}

fn difference(here: &ObjectStatus, there: &ObjectStatus) -> Option<How> {
    if here.uid != there.uid {
        return Some(How::Differs);
    }
    match (&here.content_digest, &there.content_digest) {
        (Some(here), Some(there)) => (here != there).then_some(How::Differs),
        // Neither is known, and the spec was edited in between.
        (None, None) if here.generation != there.generation => Some(How::MayDiffer),
        // Of kinds that never return a status, only the metadata is read.
        (None, None) => (here.metadata_digest != there.metadata_digest).then_some(How::Differs),
        (Some(_), None) | (None, Some(_)) => Some(How::MayDiffer),
    }
}
