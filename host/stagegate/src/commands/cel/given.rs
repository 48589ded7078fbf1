//! What the expressions of `stagegate cel` see of a manifest, and whether the controller would evaluate anything over it. Must not
//! evaluate.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use serde_json::Value;
use stagegate_api::combined_status_view::{self, CombinedStatusView, RowErrorView};
use stagegate_api::{CombinedStatus, EvidenceRow, EvidenceView, Reported, evidence, label};
use stagegate_decide::checks::{ClusterReport, JudgedObject, PoolReport, Reason, Root};
use stagegate_decide::names::ObjectKey;
use stagegate_decide::staging::is_without_status;
use stagegate_evaluate::{self as cel, CompileError, Compiled, compile};

use super::pools;
use crate::args::{self, CelArgs};
use crate::commands::{Failure, Result};
use crate::controllers::combine::evaluate as collector;
use crate::controllers::variables::{self, Shown};
use crate::manifests;

/// One object of the file.
pub struct Item {
    /// Of an item of a List.
    pub name: Option<String>,
    pub given: Given,
}

/// What an expression sees.
pub enum Given {
    Check(Box<Check>),
    /// What runs in pools, and what the user should know of it.
    Pools(Vec<PoolReport>, Option<String>),
    /// The variables of a StatusCollector's expression that have a value.
    Collector(Vec<(&'static str, cel::Value)>),
}

/// What a filter or condition sees.
pub struct Check {
    root: Root,
    value: Value,
    clusters: Option<Vec<ClusterReport>>,
    object: Option<JudgedObject>,
    unproven: Option<Unproven>,
    note: Option<String>,
}

/// Why nothing is evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unproven {
    pub kind: &'static str,
    pub message: String,
}

/// The objects of the file: one, or the items of a List.
///
/// # Errors
/// A file that cannot be read or holds something else.
pub fn items(args: &CelArgs) -> Result<Vec<Item>> {
    let path = &args.with;
    let manifests = manifests::read(std::slice::from_ref(path)).map_err(|error| Failure::Input(error.into()))?;
    let [manifest] = manifests.as_slice() else {
        let error = anyhow!("{} holds {} objects; one is needed", shown(path), manifests.len());
        return Err(Failure::Input(error));
    };
    let shown = shown(path);
    let listed = manifest.value.get("items").and_then(Value::as_array);
    let is_split = args.root != args::Root::Pools && manifest.kind().ends_with("List");
    let Some(listed) = listed.filter(|_| is_split) else {
        let source = Source {
            shown,
            kind: kind_of(&manifest.value),
        };
        let given = given(args.root, &manifest.value, &source)?;
        return Ok(vec![Item { name: None, given }]);
    };
    if listed.is_empty() {
        return Err(Failure::Input(anyhow!("the List in {shown} has no items")));
    }
    // The API server leaves out the kind of the items of a list of one kind.
    let of_list = manifest.kind().strip_suffix("List").filter(|kind| !kind.is_empty());
    let item = |(index, value): (usize, &Value)| {
        let source = Source {
            shown: format!("items[{index}] of {shown}"),
            kind: kind_of(value).or(of_list),
        };
        let given = given(args.root, value, &source)?;
        let name = Some(name_of(value).unwrap_or_else(|| format!("items[{index}]")));
        Ok(Item { name, given })
    };
    listed.iter().enumerate().map(item).collect()
}

/// Where an object comes from, for messages, and what it is.
struct Source<'a> {
    shown: String,
    kind: Option<&'a str>,
}

fn shown(path: &Path) -> String {
    if path == Path::new("-") {
        return "standard input".to_owned();
    }
    path.display().to_string()
}

fn kind_of(value: &Value) -> Option<&str> {
    value.get("kind").and_then(Value::as_str)
}

fn name_of(value: &Value) -> Option<String> {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    let name = text("/metadata/name").or_else(|| text("/name"))?;
    let namespace = text("/metadata/namespace").or_else(|| text("/namespace"));
    let name = namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
    Some(name.chars().filter(|c| !c.is_control()).collect())
}

fn given(root: args::Root, value: &Value, source: &Source<'_>) -> Result<Given> {
    let root = match root {
        args::Root::CombinedStatus | args::Root::Obj => Root::CombinedStatus,
        args::Root::DownsyncClause => Root::Clause,
        args::Root::Pools => return pools::given(value, &source.shown),
        args::Root::Returned => return of_collector(value, source),
    };
    if root == Root::Clause || source.kind != Some("CombinedStatus") {
        let note = not_taken(value, source).filter(|_| root == Root::CombinedStatus);
        return Ok(Given::Check(Box::new(Check {
            root,
            value: value.clone(),
            clusters: None,
            object: None,
            unproven: None,
            note,
        })));
    }
    // As the controller does it: without kind, apiVersion and the results of its own collector.
    let combined: CombinedStatus = serde_json::from_value(value.clone())
        .with_context(|| format!("reading {} as a CombinedStatus", source.shown))
        .map_err(Failure::Input)?;
    let view = CombinedStatusView::of(&combined);
    let key = key_of(&view);
    let found = ours(&view);
    let note = (key.is_none() || found.is_none()).then(|| {
        format!(
            "the CombinedStatus lacks its labels or the results of the StatusCollector {}…, so cel cannot tell whether all \
             clusters have reported",
            evidence::NAME_PREFIX
        )
    });
    Ok(Given::Check(Box::new(Check {
        root,
        value: combined_status_view::visible_results(&combined),
        clusters: key.as_ref().zip(found).and_then(|(key, found)| clusters_of(key, found)),
        unproven: key.as_ref().and_then(|key| unproven(key, found, &view)),
        note,
        object: key.map(|key| JudgedObject {
            group: key.group,
            version: None,
            resource: key.resource,
            namespace: key.namespace.unwrap_or_default(),
            name: key.name,
            generation: None,
        }),
    })))
}

/// Something that looks like a CombinedStatus and is none: whether its clusters have reported is not checked.
fn not_taken(value: &Value, source: &Source<'_>) -> Option<String> {
    let labels = value.pointer("/metadata/labels").and_then(Value::as_object);
    let mut labels = labels.into_iter().flatten();
    let is_labelled = labels.any(|(key, _)| key.starts_with("status.kubestellar.io/"));
    (value.get("results").is_some() || is_labelled).then(|| {
        let kind = source
            .kind
            .map_or_else(|| "has no kind".to_owned(), |kind| format!("has the kind {kind:?}"));
        format!(
            "the object {kind}, so it was not taken as a CombinedStatus, and cel cannot tell whether all clusters have reported: if \
             it is one, write `kind: CombinedStatus`"
        )
    })
}

fn of_collector(value: &Value, source: &Source<'_>) -> Result<Given> {
    let map = value
        .as_object()
        .ok_or_else(|| format!("a map is needed, with members of {}", collector::VARIABLES.join(", ")));
    let given = map.and_then(collector::given);
    let given = given.map_err(|message| anyhow!("reading {}: {message}", source.shown));
    given.map(Given::Collector).map_err(Failure::Input)
}

impl Given {
    /// What the user should know of the object.
    pub fn note(&self) -> Option<&str> {
        match self {
            Self::Check(check) => check.note.as_deref(),
            Self::Pools(_, note) => note.as_deref(),
            Self::Collector(_) => None,
        }
    }

    /// Of the variables; those of a StatusCollector's expression have no words of their own.
    pub fn root(&self) -> Root {
        match self {
            Self::Check(check) => check.root,
            Self::Pools(..) => Root::Pools,
            Self::Collector(_) => Root::CombinedStatus,
        }
    }

    pub fn compile(&self, text: &str) -> std::result::Result<Compiled, CompileError> {
        match self {
            Self::Check(_) | Self::Pools(..) => variables::compile(text, self.root()),
            Self::Collector(_) => compile(text, collector::VARIABLES),
        }
    }

    /// The values of the variables that the expression names.
    pub fn bind(&self, compiled: &Compiled) -> std::result::Result<Vec<(&'static str, cel::Value)>, Unproven> {
        let without_value = |message: String| Unproven {
            kind: "NoValue",
            message,
        };
        match self {
            Self::Check(check) => check.bind(compiled).map_err(|unproven| match unproven {
                Ok(unproven) => unproven,
                Err(message) => without_value(message),
            }),
            Self::Pools(pools, _) => {
                let shown = Shown {
                    pools: Some(pools),
                    ..Shown::default()
                };
                variables::values(&variables::named(compiled, Root::Pools), shown).map_err(without_value)
            }
            Self::Collector(values) => {
                let is_given = |name: &str| values.iter().any(|(given, _)| *given == name);
                match compiled.variables().find(|name| !is_given(name)) {
                    Some(name) => Err(without_value(format!(
                        "`{name}` has no value: add the member {name:?} to the file of --with"
                    ))),
                    None => Ok(values.clone()),
                }
            }
        }
    }
}

impl Check {
    fn bind(
        &self,
        compiled: &Compiled,
    ) -> std::result::Result<Vec<(&'static str, cel::Value)>, std::result::Result<Unproven, String>> {
        if let Some(unproven) = &self.unproven {
            return Err(Ok(unproven.clone()));
        }
        let shown = match self.root {
            Root::Clause => Shown {
                clause: Some(&self.value),
                ..Shown::default()
            },
            Root::CombinedStatus | Root::Pools => Shown {
                combined: Some(&self.value),
                clusters: self.clusters.as_deref(),
                object: self.object.as_ref(),
                ..Shown::default()
            },
        };
        variables::values(&variables::named(compiled, self.root), shown).map_err(Err)
    }
}

/// The object that a CombinedStatus is about, as its labels name it.
fn key_of(view: &CombinedStatusView) -> Option<ObjectKey> {
    let label = |key: &str| Some(view.label(key).to_owned()).filter(|text| !text.is_empty());
    Some(ObjectKey {
        group: label(label::API_GROUP).unwrap_or_default(),
        resource: label(label::RESOURCE)?,
        namespace: label(label::NAMESPACE),
        name: label(label::NAME)?,
    })
}

/// Of our own collector; one of another version of the program counts if it is alone.
fn ours(view: &CombinedStatusView) -> Option<&EvidenceView> {
    let ours = evidence::collector_name();
    match view.evidence.as_slice() {
        [found] => Some(found),
        several => several.iter().find(|found| found.collector == ours),
    }
}

fn clusters_of(key: &ObjectKey, found: &EvidenceView) -> Option<Vec<ClusterReport>> {
    let rows = found.malformed.is_none().then_some(&found.rows)?;
    Some(rows.iter().map(|row| ClusterReport::of(key, row)).collect())
}

/// Why the controller would not evaluate a condition over it, as far as the CombinedStatus alone tells.
fn unproven(key: &ObjectKey, found: Option<&EvidenceView>, view: &CombinedStatusView) -> Option<Unproven> {
    let refuse = |reason: Reason, why: String| Unproven {
        kind: reason.as_str(),
        message: format!("the controller would not evaluate this CombinedStatus: {why}"),
    };
    let malformed = |text: &str| {
        let why = format!("the evidence about {key} cannot be read: {text}");
        Some(refuse(Reason::EvidenceMalformed, why))
    };
    let mut names = BTreeSet::new();
    let evidence = view.evidence.iter().map(|found| &found.collector);
    let mut all = evidence.chain(view.collectors.iter().map(|found| &found.name));
    if let Some(twice) = all.find(|name| !names.insert(*name)) {
        return malformed(&format!("StatusCollector {twice} has several results"));
    }
    if let Some(found) = found {
        if let Some(text) = &found.malformed {
            return malformed(text);
        }
        if found.rows.is_empty() {
            let why = format!("the evidence about {key} has no row for any cluster");
            return Some(refuse(Reason::DestinationsDiffer, why));
        }
        let mut clusters = BTreeSet::new();
        if let Some(twice) = found.rows.iter().find(|row| !clusters.insert(&row.cluster)) {
            return malformed(&format!("it has several rows for cluster {}", twice.cluster));
        }
        if let Some(why) = found.rows.iter().find_map(|row| unreported(key, row)) {
            return Some(refuse(Reason::NotReported, why));
        }
    }
    view.collectors.iter().find_map(|collector| {
        let name = &collector.name;
        let told = |error: &RowErrorView| {
            let place = if error.column.is_empty() {
                "its filter"
            } else {
                error.column.as_str()
            };
            format!("StatusCollector {name} failed ({place}: {})", error.error)
        };
        let row_error = collector.row_error.as_ref().or(collector.error_cell.as_ref());
        let aggregation_error = collector.aggregation_error.as_ref();
        row_error
            .map(|error| refuse(Reason::RowError, told(error)))
            .or_else(|| aggregation_error.map(|error| refuse(Reason::AggregationError, told(error))))
    })
}

/// "There, without a status" is an answer only for kinds whose objects carry none.
fn unreported(key: &ObjectKey, row: &EvidenceRow) -> Option<String> {
    match row.at {
        Reported::At { .. } => None,
        Reported::WithoutStatus if is_without_status(&key.group, &key.resource) => None,
        Reported::WithoutStatus => Some(format!("cluster {} has {key}, but no status of it yet", row.cluster)),
        Reported::Never => Some(format!("cluster {} has reported nothing about {key}", row.cluster)),
    }
}
