//! One thing that is wrong with a file, and how it is printed.

use std::fmt;
use std::sync::Arc;

use miette::{GraphicalReportHandler, LabeledSpan, MietteDiagnostic, NamedSource, Report};

use crate::manifests::{File, Manifest, TextSpan};

#[derive(Clone, Debug)]
pub struct Finding {
    pub file: Arc<File>,
    pub place: TextSpan,
    pub severity: Severity,
    /// The rule's name: stable, for those who filter.
    pub rule: &'static str,
    pub message: String,
    /// How to put it right; empty where the message says so.
    pub advice: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// It cannot work: exit code 1.
    Error,
    /// It can hurt, or works by chance.
    Warning,
}

impl Finding {
    pub fn error(manifest: &Manifest, place: TextSpan, rule: &'static str, message: impl Into<String>) -> Self {
        let file = Arc::clone(&manifest.file);
        Self {
            file,
            place,
            severity: Severity::Error,
            rule,
            message: message.into(),
            advice: String::new(),
        }
    }

    pub fn warning(manifest: &Manifest, place: TextSpan, rule: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(manifest, place, rule, message)
        }
    }

    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }

    /// With the source around it, for a terminal.
    pub fn fancy(&self) -> String {
        let severity = match self.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
        };
        let mut diagnostic = MietteDiagnostic::new(&self.message)
            .with_code(self.rule)
            .with_severity(severity)
            .with_label(LabeledSpan::underline(self.place.bytes.clone()));
        if !self.advice.is_empty() {
            diagnostic = diagnostic.with_help(&self.advice);
        }
        let name = self.file.path.display().to_string();
        let report = Report::new(diagnostic).with_source_code(NamedSource::new(name, self.file.text.clone()));
        let mut text = String::new();
        match GraphicalReportHandler::new().render_report(&mut text, report.as_ref()) {
            Ok(()) => text,
            Err(fmt::Error) => self.to_string(),
        }
    }
}

impl Severity {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

impl fmt::Display for Finding {
    /// `file:line:column: severity: message; advice [rule]`, on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = self.severity.as_str();
        let TextSpan { line, column, .. } = self.place;
        write!(
            f,
            "{}:{line}:{column}: {severity}: {}",
            self.file.path.display(),
            one_line(&self.message)
        )?;
        if !self.advice.is_empty() {
            write!(f, "; {}", one_line(&self.advice))?;
        }
        write!(f, " [{}]", self.rule)
    }
}

fn one_line(text: &str) -> String {
    text.chars()
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect()
}
