//! What is wrong with a StagedBindingPolicy beyond its schema: expressions, kinds that no stage can judge, collectors
//! that nobody runs, clauses that take too much.

use serde_json::Value;
use stagegate_decide::staging::Root;
use stagegate_evaluate::{Answer, Budget};

use super::clauses::{self, Kind};
use super::expression;
use super::finding::{Finding, Severity};
use crate::controllers::variables::{self, Shown};
use crate::manifests::Manifest;

pub fn findings(manifest: &Manifest) -> Vec<Finding> {
    let clauses = items(manifest, "/spec/downsync");
    let mut findings: Vec<Finding> = clauses.iter().flat_map(|clause| broad(manifest, clause)).collect();
    for stage in items(manifest, "/spec/stages") {
        findings.extend(of_stage(&Stage {
            manifest,
            pointer: &stage.pointer,
            clauses: &clauses,
        }));
    }
    findings
}

/// A list's member with its JSON pointer.
struct Item<'a> {
    pointer: String,
    value: &'a Value,
}

struct Stage<'a> {
    manifest: &'a Manifest,
    pointer: &'a str,
    clauses: &'a [Item<'a>],
}

impl Stage<'_> {
    /// Pointer and text of a member that is there and not empty.
    fn text(&self, member: &str) -> Option<(String, &str)> {
        let pointer = format!("{}/{member}", self.pointer);
        let text = self.manifest.text_at(&pointer);
        (!text.is_empty()).then_some((pointer, text))
    }
}

fn items<'a>(manifest: &'a Manifest, pointer: &str) -> Vec<Item<'a>> {
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
    let kept = |clause: &Item<'_>, kind: Kind| {
        clauses::can_match(clause.value, kind) && keeps(filter, &clauses::sample(clause.value, kind))
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

fn keeps(filter: &str, clause: &Value) -> bool {
    let Ok(compiled) = variables::compile(filter, Root::Clause) else {
        return false;
    };
    let shown = Shown {
        clause: Some(clause),
        ..Shown::default()
    };
    let Ok(bound) = variables::values(&variables::named(&compiled, Root::Clause), shown) else {
        return false;
    };
    matches!(compiled.eval(&bound, Budget::default()), Ok(Answer::Bool(true)))
}

fn of_condition(stage: &Stage<'_>, pointer: &str, text: &str) -> Vec<Finding> {
    let manifest = stage.manifest;
    let place = || manifest.place(pointer);
    let mut findings = Vec::new();
    let named: Vec<&str> = stage
        .clauses
        .iter()
        .flat_map(|clause| clauses::list(clause.value, "statusCollectors"))
        .filter_map(Value::as_str)
        .collect();
    let missing: Vec<String> = expression::collectors_read(text)
        .into_iter()
        .filter(|name| !named.contains(&name.as_str()))
        .collect();
    for name in &missing {
        let message = format!("the condition reads the results of {name:?}, which no clause names");
        let advice = format!("add {name:?} to the statusCollectors of the clause whose objects it judges");
        findings.push(Finding::error(manifest, place(), "unnamed-collector", message).advise(advice));
    }
    if missing.is_empty() && expression::reads_results(text) {
        findings.extend(clauses_without_collectors(stage, !named.is_empty()));
    }
    if expression::compares_float_with_a_number(text) {
        let message = "compares `float` with a number, but a cell's number travels as text";
        let advice = "write `col.float == '1'`, or `double(col.float) >= 1.0`";
        findings.push(Finding::warning(manifest, place(), "float-is-text", message).advise(advice));
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
        findings.push(Finding::error(manifest, place(), "nothing-to-judge", message).advise(advice));
    }
    findings
}

/// Clauses whose objects have no results. Silent about a stage with a filter, which may leave those objects out.
fn clauses_without_collectors(stage: &Stage<'_>, others_have: bool) -> Vec<Finding> {
    let manifest = stage.manifest;
    let without = |clause: &&Item<'_>| {
        clauses::list(clause.value, "statusCollectors").is_empty()
            && !clauses::names_only_kinds_without_status(clause.value)
    };
    if others_have && stage.text("filter").is_some() {
        return Vec::new();
    }
    let finding = |clause: &Item<'_>| {
        let place = manifest.place(&clause.pointer);
        let message = "a condition reads results, but this clause names no statusCollectors, so its objects have none";
        let advice = "name a StatusCollector, or exclude the clause's objects by the stage's filter";
        Finding::error(manifest, place, "clause-without-collectors", message).advise(advice)
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
