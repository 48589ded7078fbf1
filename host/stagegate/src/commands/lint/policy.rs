//! What is wrong with a StagedBindingPolicy beyond its schema: expressions, kinds that no stage can judge, collectors
//! that nobody runs, clauses that take too much.

use serde_json::Value;
use stagegate_decide::staging::{Root, Variable};
use stagegate_evaluate::{Answer, Budget, Compiled, Member, Place, Reading, meant, mistyped, reading};

use super::beside::Beside;
use super::clauses::{self, Kind};
use super::expression::{self, CollectorRead};
use super::finding::{Finding, Severity};
use super::reach;
use crate::controllers::variables::{self, Shown};
use crate::manifests::{Manifest, TextSpan};

/// Where a policy has its stages.
pub const STAGES: &str = "/spec/stages";

pub fn findings(manifest: &Manifest, beside: &Beside) -> Vec<Finding> {
    let clauses = items(manifest, "/spec/downsync");
    let mut findings: Vec<Finding> = clauses.iter().flat_map(|clause| broad(manifest, clause)).collect();
    for clause in &clauses {
        findings.extend(absent_collectors(manifest, clause, &clauses, beside));
    }
    for stage in items(manifest, STAGES) {
        findings.extend(of_stage(&Stage {
            manifest,
            pointer: &stage.pointer,
            clauses: &clauses,
            beside,
        }));
    }
    findings
}

/// A list's member with its JSON pointer.
pub struct Item<'a> {
    pub pointer: String,
    pub value: &'a Value,
}

struct Stage<'a> {
    manifest: &'a Manifest,
    pointer: &'a str,
    clauses: &'a [Item<'a>],
    beside: &'a Beside,
}

impl Stage<'_> {
    /// Pointer and text of a member that is there and not empty.
    fn text(&self, member: &str) -> Option<(String, &str)> {
        let pointer = format!("{}/{member}", self.pointer);
        let text = self.manifest.text_at(&pointer);
        (!text.is_empty()).then_some((pointer, text))
    }
}

pub fn items<'a>(manifest: &'a Manifest, pointer: &str) -> Vec<Item<'a>> {
    let list = manifest
        .value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let item = |(index, value)| Item {
        pointer: format!("{pointer}/{index}"),
        value,
    };
    list.iter().enumerate().map(item).collect()
}

fn of_stage(stage: &Stage<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some((pointer, text)) = stage.text("filter") {
        findings.extend(
            reading(text).and_then(|reading| expression::constant(stage.manifest, &pointer, (Root::Clause, &reading))),
        );
        match expression::check(stage.manifest, &pointer, Root::Clause) {
            Some(finding) => findings.push(finding),
            None if stage.text("condition").is_some() || stage.text("soak").is_some() => {
                findings.extend(keeps_kinds_without_status(stage, &pointer, text));
            }
            None => {}
        }
    }
    if let Some((pointer, text)) = stage.text("condition") {
        findings.extend(expression::check(stage.manifest, &pointer, Root::CombinedStatus));
        findings.extend(of_condition(stage, &pointer, text));
    }
    findings
}

fn keeps_kinds_without_status(stage: &Stage<'_>, pointer: &str, filter: &str) -> Option<Finding> {
    let filter = variables::compile(filter, Root::Clause).ok();
    let kept = |clause: &Item<'_>, kind: Kind| {
        clauses::can_match(clause.value, kind) && keeps(filter.as_ref(), &clauses::sample(clause.value, kind))
    };
    let kept_by = |certain: bool| {
        let clauses = stage.clauses.iter();
        clauses
            .flat_map(|clause| clauses::WITHOUT_STATUS.map(|kind| (clause, kind)))
            .find(|(clause, kind)| (!certain || clauses::names(clause.value, *kind)) && kept(clause, *kind))
    };
    let (severity, (_, kind)) = match kept_by(true) {
        Some(found) => (Severity::Error, found),
        None => (Severity::Warning, kept_by(false)?),
    };
    let may = if severity == Severity::Error {
        "keeps"
    } else {
        "may keep"
    };
    let message = format!(
        "the filter {may} {}, for which no cluster ever returns a status: the stage would wait for ever \
        (NoStatusForKind)",
        kind.resource
    );
    let advice = format!(
        "exclude them, for example with `downsyncClause.resource != \"{}\"`",
        kind.resource
    );
    let place = stage.manifest.place(pointer);
    let finding = Finding::error(stage.manifest, place, "no-status-for-kind", message).advise(advice);
    Some(Finding { severity, ..finding })
}

/// Whether a filter keeps such an object; one that does not compile keeps none.
fn keeps(filter: Option<&Compiled>, clause: &Value) -> bool {
    let Some(compiled) = filter else {
        return false;
    };
    let shown = Shown {
        clause: Some(clause),
        ..Shown::default()
    };
    let Ok(bound) = variables::values(&variables::named(compiled, Root::Clause), shown) else {
        return false;
    };
    matches!(compiled.eval(&bound, Budget::default()), Ok(Answer::Bool(true)))
}

fn of_condition(stage: &Stage<'_>, pointer: &str, text: &str) -> Vec<Finding> {
    let manifest = stage.manifest;
    let mut findings = Vec::new();
    if let Some(reading) = reading(text) {
        findings.extend(of_reading(stage, pointer, &reading));
    }
    let nothing_judged = stage.text("filter").is_none()
        && !stage.clauses.is_empty()
        && stage
            .clauses
            .iter()
            .all(|clause| clauses::names_only_kinds_without_status(clause.value));
    if nothing_judged {
        let message = "every clause names only kinds for which no cluster returns a status: nothing can be evaluated";
        let advice = "remove the condition and give the stage a soak, or downsync what it is about";
        let place = manifest.place(pointer);
        findings.push(Finding::error(manifest, place, "nothing-to-judge", message).advise(advice));
    }
    findings
}

fn of_reading(stage: &Stage<'_>, pointer: &str, reading: &Reading) -> Vec<Finding> {
    let manifest = stage.manifest;
    let within = |place: Place| manifest.place_within(pointer, place.line as usize, place.column as usize);
    let mut findings: Vec<Finding> = expression::constant(manifest, pointer, (Root::CombinedStatus, reading))
        .into_iter()
        .collect();
    let named: Vec<&str> = stage
        .clauses
        .iter()
        .flat_map(|clause| clauses::list(clause.value, "statusCollectors"))
        .filter_map(Value::as_str)
        .collect();
    let mut is_any_missing = false;
    for read in expression::collectors_read(reading) {
        if !named.contains(&read.name.as_str()) && !is_misspelt_in_a_clause(&read.name, &named, stage.beside) {
            is_any_missing |= !read.is_tested;
            findings.extend(unnamed_collector(stage, &read, (&named, within(read.place))));
        }
    }
    if !is_any_missing && expression::reads_results(reading) {
        findings.extend(clauses_without_collectors(stage, reading, !named.is_empty()));
    }
    if let Some(place) = expression::float_compared_with_a_number(reading) {
        let message = "compares `float` with a number, but a cell's number travels as text";
        let advice = "write `col.float == '1'`, or `double(col.float) >= 1.0`";
        findings.push(Finding::warning(manifest, within(place), "float-is-text", message).advise(advice));
    }
    findings.extend(replica_counts_of_kinds_without_replicas(stage, reading, &within));
    findings
}

/// Whether a clause probably means this StatusCollector by a name that none among the files has: then the mistake is in the clause.
fn is_misspelt_in_a_clause(name: &str, named: &[&str], beside: &Beside) -> bool {
    let mut absent = named.iter().filter(|named| !beside.collectors.contains(**named));
    beside.collectors.contains(name) && absent.any(|named| mistyped(named, [name]).is_some())
}

/// A StatusCollector that a condition reads and no clause names. That one of its results may be missing is what a test, or a comparison
/// of the results' names, may be there for.
fn unnamed_collector(stage: &Stage<'_>, read: &CollectorRead, (named, place): (&[&str], TextSpan)) -> Option<Finding> {
    let name = &read.name;
    let collectors = &stage.beside.collectors;
    let find = |known: &mut dyn Iterator<Item = &'_ str>| -> Option<String> {
        let near = if read.is_compared {
            mistyped(name, known)
        } else {
            meant(name, known)
        };
        near.map(str::to_owned)
    };
    // First those that are among the files, where these hold any.
    let near = find(&mut collectors.iter().map(String::as_str).filter(|known| known != name));
    let near = near.or_else(|| find(&mut named.iter().copied()));
    let message = format!("the condition reads the results of {name:?}, which no clause names");
    let add = format!("add {name:?} to the statusCollectors of the clause whose objects it judges");
    let (severity, advice) = match (near, read.is_tested) {
        (Some(near), true) => (Severity::Warning, format!("did you mean {near:?}?")),
        (None, true) => return None,
        (Some(near), false) => (Severity::Error, format!("did you mean {near:?}? if not, {add}")),
        (None, false) if read.is_compared => (Severity::Warning, add),
        (None, false) => (Severity::Error, add),
    };
    let finding = Finding::error(stage.manifest, place, "unnamed-collector", message).advise(advice);
    Some(Finding { severity, ..finding })
}

/// A condition that reads a count of replicas although the stage evaluates kinds that have none: all of them are named. Silent where it looks at the kind or
/// tests the member first.
fn replica_counts_of_kinds_without_replicas(
    stage: &Stage<'_>,
    reading: &Reading,
    within: &dyn Fn(Place) -> TextSpan,
) -> Option<Finding> {
    const COUNTS: [&str; 4] = ["available", "ready", "replicas", "updated"];
    if reading.variables.contains(Variable::Object.name()) {
        return None;
    }
    let of_clusters = |member: &&Member| member.is_of_elements && member.of == Variable::Clusters.name();
    let members = || reading.members.iter().filter(of_clusters);
    let read = members().find(|member| {
        COUNTS.contains(&member.name.as_str()) && !members().any(|other| other.is_tested && other.name == member.name)
    })?;
    let without = WithoutReplicas::of(stage);
    let kinds = [without.named.as_slice(), without.there.as_slice()].concat();
    let test = match kinds.as_slice() {
        [] => return None,
        [kind] => format!("object.resource == {kind:?}"),
        several => format!("object.resource in {several:?}"),
    };
    let (name, absent) = (&read.name, without.told());
    let message = format!("`{name}` is absent for {absent}: reading it for them is an error");
    let kinds = listed(&kinds);
    let advice = format!("exclude {kinds} with the stage's filter, or begin the condition with `{test} || …`");
    Some(Finding::warning(stage.manifest, within(read.place), "absent-member", message).advise(advice))
}

/// The resources without replicas that the stage's filter keeps.
struct WithoutReplicas {
    /// That a clause names.
    named: Vec<&'static str>,
    /// That are among the files and matched, and that no clause names.
    there: Vec<&'static str>,
}

impl WithoutReplicas {
    fn of(stage: &Stage<'_>) -> Self {
        let filter = stage.text("filter");
        let filter = filter.map(|(_, text)| variables::compile(text, Root::Clause).ok());
        let is_kept = |clause: &Value| filter.as_ref().is_none_or(|filter| keeps(filter.as_ref(), clause));
        let is_named = |kind: &Kind| {
            let mut naming = stage
                .clauses
                .iter()
                .filter(|clause| clauses::names(clause.value, *kind));
            naming.any(|clause| is_kept(&clauses::sample(clause.value, *kind)))
        };
        let (named, others): (Vec<Kind>, Vec<Kind>) = clauses::WITHOUT_REPLICAS.into_iter().partition(is_named);
        let there = others.into_iter().filter(|kind| is_there(stage, *kind, &is_kept));
        Self {
            named: named.iter().map(|kind| kind.resource).collect(),
            there: there.map(|kind| kind.resource).collect(),
        }
    }

    /// `jobs and pods, which spec.downsync names`
    fn told(&self) -> String {
        let named = (!self.named.is_empty()).then(|| format!("{}, which spec.downsync names", listed(&self.named)));
        let there = (!self.there.is_empty()).then(|| format!("{}, which are among the files", listed(&self.there)));
        let parts: Vec<String> = named.into_iter().chain(there).collect();
        parts.join(", and for ")
    }
}

/// Whether an object of the kind is among the files that a clause matches and the filter keeps.
fn is_there(stage: &Stage<'_>, kind: Kind, is_kept: &dyn Fn(&Value) -> bool) -> bool {
    let objects = stage.beside.workload.iter().map(|object| (object, &object.candidate));
    let mut of_kind = objects.filter(|(_, object)| (&*object.group, &*object.resource) == (kind.group, kind.resource));
    of_kind.any(|(object, candidate)| {
        let mut matching = stage
            .clauses
            .iter()
            .filter(|clause| reach::matches(clause.value, object, stage.beside));
        matching.any(|clause| {
            let mut sample = clauses::sample(clause.value, kind);
            sample["name"] = candidate.name.as_str().into();
            if let Some(namespace) = &candidate.namespace {
                sample["namespace"] = namespace.as_str().into();
            }
            is_kept(&sample)
        })
    })
}

/// `a`, `a and b`, `a, b and c`
fn listed(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// StatusCollectors that a clause names and that are not among the files, where the files hold any. A name that is nearly that of one
/// which no clause names is a typing error; any other one may be in the cluster already.
fn absent_collectors(manifest: &Manifest, clause: &Item<'_>, clauses: &[Item<'_>], beside: &Beside) -> Vec<Finding> {
    if beside.collectors.is_empty() {
        return Vec::new();
    }
    let is_named = |name: &str| {
        let mut named = clauses
            .iter()
            .flat_map(|clause| clauses::list(clause.value, "statusCollectors"));
        named.any(|named| named == name)
    };
    let names = clauses::list(clause.value, "statusCollectors").into_iter().enumerate();
    let absent = names
        .filter_map(|(index, name)| Some((index, name.as_str()?)))
        .filter(|(_, name)| !beside.collectors.contains(*name));
    absent
        .map(|(index, name)| {
            let place = manifest.place(&format!("{}/statusCollectors/{index}", clause.pointer));
            let message = format!("there is no StatusCollector {name:?} among the files");
            let unnamed = beside.collectors.iter().map(String::as_str);
            match mistyped(name, unnamed.filter(|known| !is_named(known))) {
                Some(near) => Finding::error(manifest, place, "absent-collector", message)
                    .advise(format!("did you mean {near:?}?")),
                None => Finding::warning(manifest, place, "absent-collector", message)
                    .advise("give its manifest as well, or make sure that the cluster has it"),
            }
        })
        .collect()
}

/// Clauses whose objects have no results. Silent about a stage with a filter or a condition that looks at the kind, which may leave
/// those objects out.
fn clauses_without_collectors(stage: &Stage<'_>, reading: &Reading, others_have: bool) -> Vec<Finding> {
    let manifest = stage.manifest;
    let without = |clause: &&Item<'_>| {
        clauses::list(clause.value, "statusCollectors").is_empty()
            && !clauses::names_only_kinds_without_status(clause.value)
    };
    let looks_at_kind = reading.variables.contains(Variable::Object.name());
    if others_have && (stage.text("filter").is_some() || looks_at_kind) {
        return Vec::new();
    }
    let finding = |clause: &Item<'_>| {
        let place = manifest.place(&clause.pointer);
        let message = "a condition reads results, but this clause names no statusCollectors, so its objects have none";
        let advice = "name a StatusCollector, or exclude the clause's objects with the stage's filter";
        let finding = Finding::error(manifest, place, "clause-without-collectors", message).advise(advice);
        let severity = if looks_at_kind {
            Severity::Warning
        } else {
            Severity::Error
        };
        Finding { severity, ..finding }
    };
    stage.clauses.iter().filter(without).map(finding).collect()
}

fn broad(manifest: &Manifest, clause: &Item<'_>) -> Vec<Finding> {
    let place = || manifest.place(&clause.pointer);
    let mut findings = Vec::new();
    if clauses::takes_any(clause.value, clauses::POLICIES) {
        let message = "this clause takes along every StagedBindingPolicy of the cluster, this one too";
        let advice = "name resources, an apiGroup or a label";
        findings.push(Finding::warning(manifest, place(), "broad-clause", message).advise(advice));
    }
    if clauses::takes_any(clause.value, clauses::SECRETS) {
        let message = "this clause takes along Secrets without naming them";
        let advice = "name resources, or a label that only the workload has";
        findings.push(Finding::warning(manifest, place(), "secrets", message).advise(advice));
    }
    findings
}
