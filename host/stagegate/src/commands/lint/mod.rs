//! `stagegate lint`: what is wrong with policies, collectors and YurtAppDaemons, as far as files alone can tell. Talks to no cluster.
//!
//! The schema and its rules are not written again here: an API server in this process judges the objects
//! ([`schema`]). The other modules say what a schema cannot.

use std::path::PathBuf;

use anyhow::anyhow;

use self::beside::Beside;
use self::finding::{Finding, Severity};
use self::gates::Gates;
use self::report::Report;
use super::{Failure, Outcome, Result};
use crate::args::LintArgs;
use crate::manifests::{self, Manifest, ReadError};

mod beside;
mod clauses;
mod collector;
mod daemon;
mod expression;
mod finding;
mod gates;
mod kinds;
mod policy;
mod reach;
mod report;
mod requirements;
mod schema;
mod stages;
mod tokens;
mod updates;

/// Prints what it finds: with the source around it on a terminal, elsewhere as `file:line:column: severity: message`, or as JSON.
///
/// # Errors
/// Files that cannot be read, or that hold nothing to check; a sandbox that cannot load a component.
pub fn check(args: &LintArgs) -> Result {
    let mut findings = Vec::new();
    let mut manifests = Vec::new();
    let wasm = gates::components(&args.files)?;
    let is_manifest = |path: &&PathBuf| !wasm.contains(path);
    let files: Vec<PathBuf> = args.files.iter().filter(is_manifest).cloned().collect();
    for path in manifests::files(&files).map_err(|error| Failure::Input(error.into()))? {
        match manifests::read(&[path]) {
            Ok(read) => manifests.extend(read),
            Err(ReadError::Syntax { file, place, message }) => findings.push(Finding {
                file,
                place,
                severity: Severity::Error,
                rule: "yaml",
                message,
                advice: String::new(),
            }),
            Err(error) => return Err(Failure::Input(error.into())),
        }
    }
    let (objects, skipped): (Vec<Manifest>, Vec<Manifest>) =
        manifests.into_iter().partition(|manifest| kind_of(manifest).is_some());
    let checked = objects.len() + findings.len();
    if checked == 0 {
        return Err(Failure::Input(nothing_to_check(&args.files)));
    }
    findings.extend(of_objects(&objects, &skipped, &wasm)?);
    findings.sort_by(|a, b| (&a.file.path, a.place.bytes.start).cmp(&(&b.file.path, b.place.bytes.start)));
    let report = Report {
        findings: &findings,
        checked,
        skipped: &skipped,
    };
    report.print(args.output)?;
    let failed = report.errors() > 0 || (args.strict && !findings.is_empty());
    Ok(if failed { Outcome::Negative } else { Outcome::Success })
}

/// Which of the kinds that lint knows.
#[derive(Clone, Copy)]
enum Kind {
    Policy,
    Collector,
    Daemon,
}

fn kind_of(manifest: &Manifest) -> Option<Kind> {
    match manifest.kind() {
        "StagedBindingPolicy" => Some(Kind::Policy),
        "StatusCollector" => Some(Kind::Collector),
        "YurtAppDaemon" => Some(Kind::Daemon),
        _ => None,
    }
}

fn of_objects(objects: &[Manifest], skipped: &[Manifest], wasm: &[PathBuf]) -> Result<Vec<Finding>> {
    let (schema, kinds) = schema::findings(objects)?;
    let all: Vec<Manifest> = objects.iter().chain(skipped).cloned().collect();
    let kinds = kinds.and_defined(&all);
    let beside = Beside::of(&all, wasm, &kinds);
    let gates = Gates::default();
    let mut findings = Vec::new();
    for manifest in objects {
        match kind_of(manifest) {
            Some(Kind::Policy) => {
                findings.extend(policy::findings(manifest, &beside));
                findings.extend(stages::findings(manifest));
                findings.extend(updates::findings(manifest));
                findings.extend(reach::findings(manifest, &beside, &kinds));
                findings.extend(gates.findings(manifest, policy::STAGES, &beside)?);
            }
            Some(Kind::Collector) => findings.extend(collector::findings(manifest)),
            Some(Kind::Daemon) => {
                findings.extend(daemon::findings(manifest));
                findings.extend(gates.findings(manifest, daemon::STAGES, &beside)?);
            }
            None => {}
        }
    }
    // An error of ours says more than the schema about the same place.
    let errors = findings
        .iter()
        .filter(|finding: &&Finding| finding.severity == Severity::Error);
    let said: Vec<_> = errors.map(|finding| finding.place.bytes.clone()).collect();
    findings.extend(
        schema
            .into_iter()
            .filter(|finding| !said.contains(&finding.place.bytes)),
    );
    Ok(findings)
}

fn nothing_to_check(files: &[PathBuf]) -> anyhow::Error {
    let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    anyhow!(
        "no StagedBindingPolicy, no StatusCollector and no YurtAppDaemon in {}",
        names.join(", ")
    )
}
