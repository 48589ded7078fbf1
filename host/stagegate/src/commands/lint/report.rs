//! How findings are printed: for people with the source around them or one a line, for programs as one JSON object. Must not find any.

use std::io::{self, IsTerminal as _, Write as _};

use serde_json::{Value, json};
use stagegate_decide::counted::counted;
use stagegate_evaluate::gate::escaped;

use super::finding::{Finding, Severity};
use crate::args::Format;
use crate::manifests::Manifest;

/// Most documents that are named as skipped.
const SKIPPED_MAX: usize = 10;

pub struct Report<'a> {
    pub findings: &'a [Finding],
    /// How many objects were checked.
    pub checked: usize,
    /// Documents of other kinds.
    pub skipped: &'a [Manifest],
}

impl Report<'_> {
    pub fn errors(&self) -> usize {
        let errors = self.findings.iter();
        errors.filter(|finding| finding.severity == Severity::Error).count()
    }

    pub fn print(&self, format: Format) -> io::Result<()> {
        let mut out = io::stdout();
        let fancy = out.is_terminal();
        match format {
            // Names of files and texts of components may hold what controls a terminal.
            Format::Json => writeln!(out, "{}", escaped(&self.json().to_string()))?,
            Format::Text => {
                for finding in self.findings {
                    match fancy {
                        true => writeln!(out, "{}", finding.fancy())?,
                        false => writeln!(out, "{finding}")?,
                    }
                }
            }
        }
        writeln!(io::stderr(), "{}", self.summary())
    }

    /// `{"findings": [{"file", "line", "column", "severity", "rule", "message", "advice"}], "checked", "errors", "warnings",
    /// "skipped": [{"kind", "name"}]}`; `advice` is empty where the message says what to do.
    fn json(&self) -> Value {
        let finding = |finding: &Finding| {
            json!({
                "file": finding.file.path.display().to_string(),
                "line": finding.place.line,
                "column": finding.place.column,
                "severity": finding.severity.as_str(),
                "rule": finding.rule,
                "message": finding.message,
                "advice": finding.advice,
            })
        };
        let skipped = |manifest: &Manifest| json!({"kind": manifest.kind(), "name": manifest.name()});
        json!({
            "findings": self.findings.iter().map(finding).collect::<Vec<_>>(),
            "checked": self.checked,
            "errors": self.errors(),
            "warnings": self.findings.len() - self.errors(),
            "skipped": self.skipped.iter().map(skipped).collect::<Vec<_>>(),
        })
    }

    fn summary(&self) -> String {
        let errors = self.errors();
        let counts = format!(
            "{} checked, {}, {}",
            counted(self.checked, "object"),
            counted(errors, "error"),
            counted(self.findings.len() - errors, "warning")
        );
        let named = self.skipped.iter().take(SKIPPED_MAX);
        let named: Vec<String> = named
            .map(|manifest| format!("{:.63} {:.253}", manifest.kind(), manifest.name()))
            .collect();
        let rest = self.skipped.len() - named.len();
        match (named.is_empty(), rest) {
            (true, _) => counts,
            (false, 0) => format!("{counts}; only read, not checked: {}", named.join(", ")),
            (false, rest) => format!("{counts}; only read, not checked: {} and {rest} more", named.join(", ")),
        }
    }
}
