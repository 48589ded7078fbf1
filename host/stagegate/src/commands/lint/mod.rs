//! `stagegate lint`: what is wrong with policies and collectors, as far as files alone can tell. Talks to no cluster.
//!
//! The schema and its rules are not written again here: an API server in this process judges the objects
//! ([`schema`]). The other modules say what a schema cannot.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;

use anyhow::anyhow;
use stagegate_decide::counted::counted;

use self::finding::{Finding, Severity};
use super::{Failure, Outcome, Result};
use crate::args::LintArgs;
use crate::manifests::{self, Manifest, ReadError};

mod clauses;
mod collector;
mod expression;
mod finding;
mod policy;
mod schema;
mod tokens;

/// Prints what it finds: with the source around it on a terminal, elsewhere as `file:line:column: severity: message`.
///
/// # Errors
/// Files that cannot be read, or that hold nothing to check.
pub fn check(args: &LintArgs) -> Result {
    let mut findings = Vec::new();
    let mut objects = Vec::new();
    for path in manifests::files(&args.files).map_err(|error| Failure::Input(error.into()))? {
        match manifests::read(&[path]) {
            Ok(manifests) => objects.extend(manifests.into_iter().filter(|manifest| kind_of(manifest).is_some())),
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
    let checked = objects.len() + findings.len();
    if checked == 0 {
        return Err(Failure::Input(nothing_to_check(&args.files)));
    }
    findings.extend(of_objects(&objects)?);
    findings.sort_by(|a, b| (&a.file.path, a.place.bytes.start).cmp(&(&b.file.path, b.place.bytes.start)));
    print(&findings, checked)?;
    let failed = findings.iter().any(|finding| finding.severity == Severity::Error);
    Ok(if failed { Outcome::Negative } else { Outcome::Success })
}

/// Which of the kinds that lint knows.
#[derive(Clone, Copy)]
enum Kind {
    Policy,
    Collector,
}

fn kind_of(manifest: &Manifest) -> Option<Kind> {
    match manifest.kind() {
        "StagedBindingPolicy" => Some(Kind::Policy),
        "StatusCollector" => Some(Kind::Collector),
        _ => None,
    }
}

fn of_objects(manifests: &[Manifest]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for manifest in manifests {
        findings.extend(match kind_of(manifest) {
            Some(Kind::Policy) => policy::findings(manifest),
            Some(Kind::Collector) => collector::findings(manifest),
            None => Vec::new(),
        });
    }
    // An error of ours says more than the schema about the same place.
    let errors = findings
        .iter()
        .filter(|finding: &&Finding| finding.severity == Severity::Error);
    let said: Vec<_> = errors.map(|finding| finding.place.bytes.clone()).collect();
    let schema = schema::findings(manifests)?;
    findings.extend(
        schema
            .into_iter()
            .filter(|finding| !said.contains(&finding.place.bytes)),
    );
    Ok(findings)
}

fn print(findings: &[Finding], checked: usize) -> io::Result<()> {
    let mut out = io::stdout();
    let fancy = out.is_terminal();
    for finding in findings {
        match fancy {
            true => writeln!(out, "{}", finding.fancy())?,
            false => writeln!(out, "{finding}")?,
        }
    }
    let errors = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .count();
    let warnings = findings.len() - errors;
    writeln!(
        io::stderr(),
        "{} checked, {}, {}",
        counted(checked, "object"),
        counted(errors, "error"),
        counted(warnings, "warning")
    )
}

fn nothing_to_check(files: &[PathBuf]) -> anyhow::Error {
    let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    anyhow!("no StagedBindingPolicy and no StatusCollector in {}", names.join(", "))
}
