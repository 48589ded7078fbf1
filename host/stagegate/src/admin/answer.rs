//! Checks and numbers as text: the checks as the Kubernetes API server writes its own, so that whoever reads one reads the
//! other. Must not find out anything: it is told.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use stagegate_runtime::health::Check;

use super::About;
use super::process::Process;
use super::pulse::Pulse;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the answers are made of.
#[derive(Debug)]
pub struct Answers {
    pub about: About,
    pub pulse: Pulse,
    pub process: Process,
}

impl Answers {
    /// That this runs at all is the first check.
    fn live(&self) -> Vec<Check> {
        let mut checks = vec![Check::new("ping", None), Check::new("evaluator", self.pulse.failure())];
        checks.extend(self.about.health.live());
        checks
    }

    fn ready(&self) -> Vec<Check> {
        let mut checks = self.live();
        checks.extend(self.about.health.ready());
        checks
    }

    fn metrics(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        self.about.metrics.encode(&mut text)?;
        let mut registry = Registry::with_prefix("stagegate");
        let help = "Warnings that were not logged because they say what was just said";
        registry.register("log_lines_suppressed", help, self.about.suppressed.clone());
        text::encode_registry(&mut text, &registry)?;
        self.process.encode(&mut text)?;
        text::encode_eof(&mut text)?;
        Ok(text)
    }
}

pub fn router(answers: Arc<Answers>) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(answers)
}

async fn livez(State(answers): State<Arc<Answers>>, RawQuery(query): RawQuery) -> Response {
    respond(&answers.live(), "livez", query.as_deref())
}

async fn readyz(State(answers): State<Arc<Answers>>, RawQuery(query): RawQuery) -> Response {
    respond(&answers.ready(), "readyz", query.as_deref())
}

async fn metrics(State(answers): State<Arc<Answers>>) -> Response {
    match answers.metrics() {
        Ok(text) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// `ok`, or a line for each check: when one has failed, or when `?verbose` asks for them.
fn respond(checks: &[Check], name: &str, query: Option<&str>) -> Response {
    let is_verbose = query.is_some_and(|query| {
        let mut pairs = query.split('&');
        pairs.any(|pair| pair == "verbose" || pair.starts_with("verbose="))
    });
    let has_passed = checks.iter().all(|check| check.failure.is_none());
    if has_passed && !is_verbose {
        return "ok".into_response();
    }
    let mut text = String::new();
    for check in checks {
        // Writing to a text cannot fail.
        let _written = match &check.failure {
            None => writeln!(text, "[+]{} ok", check.name),
            Some(failure) => writeln!(text, "[-]{} failed: {failure}", check.name),
        };
    }
    let (status, end) = if has_passed {
        (StatusCode::OK, "passed")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "failed")
    };
    let _written = writeln!(text, "{name} check {end}");
    (status, text).into_response()
}
