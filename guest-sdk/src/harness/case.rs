//! A case: a request in a terse form, and the verdict that it should get.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use super::fixture::{Cluster, Earlier, Watched, destinations, evidence, object};
use crate::bindings::stagegate::gate::types as wit;
use crate::gate::evaluate;
use crate::{Error, Gate, Outcome, Request};

/// A file of cases holds one. For example:
///
/// ```
/// # let text = r#"
/// why: a cluster that is short is named
/// now: 2026-11-20T09:00:00Z
/// config: {collector: health, atLeast: 2}
/// clusters: [dev-1, {name: dev-2, labels: {env: dev}}]      # without: one, `dev-1`
/// objects:                                                  # without: one, the Deployment `shop/web`
/// - object: shop/web                                        # or a name alone, where the kind has no namespaces
///   kind: deployments.apps                                  # resource and group; this is what it is without
///   evidence:                                               # a cluster that is not named has reported
///     dev-1: {ready: 2, available: 2, total: 3, updated: 1, health: progressing}   # or failed; else healthy
///     dev-2: never                                          # or withoutStatus
///   collectors:
///     health: {columns: [cluster, available], rows: [[dev-1, 2], [dev-2, 1]]}
/// earlier: [{name: condition, outcome: pass}]
/// expect:
///   outcome: hold                                           # pass, hold, fail, or unknown for an error
///   reason: "1 of 2 clusters have at least 2: dev-2 has 1"
///   evidence: {clusters: 2, share: 0.5}                     # not compared when left out
///   retryAfter: 5m                                          # of a pass: `validFor`; left out, there must be none
/// # "#;
/// # let case: stagegate_guest::harness::Case = text.parse().unwrap();
/// # assert_eq!(case.clusters.len(), 2);
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Case {
    /// The file without its extension.
    #[serde(skip)]
    pub name: String,
    /// One sentence.
    pub why: String,
    /// The time that the gate is given, RFC 3339.
    pub now: Timestamp,
    /// Any JSON; `{}` where absent.
    #[serde(default = "no_config")]
    pub config: Value,
    /// 1 where absent.
    #[serde(default = "one")]
    pub attempt: u64,
    /// The clusters of the stage; one called `c1` where absent.
    #[serde(default = "Cluster::only")]
    pub clusters: Vec<Cluster>,
    /// The objects of the stage; one Deployment where absent.
    #[serde(default = "Watched::only")]
    pub objects: Vec<Watched>,
    /// The checks before this gate, in order.
    #[serde(default)]
    pub earlier: Vec<Earlier>,
    /// The verdict that the gate must give.
    pub expect: Expectation,
}

/// The verdict that a case should get.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expectation {
    /// Pass, hold, fail or an error.
    pub outcome: Outcome,
    /// Why it held, failed or could not be judged; none of a pass.
    pub reason: Option<String>,
    /// For how long a pass must be valid; not compared where absent.
    pub valid_for: Option<SignedDuration>,
    /// After how long a hold must be asked again; not compared where absent.
    pub retry_after: Option<SignedDuration>,
    /// Names and values of the evidence, all of them; not compared where absent.
    pub evidence: Option<BTreeMap<String, Value>>,
}

/// Only `true` and `false` are booleans: a cluster may be called `y`.
fn parsed(text: &str) -> Result<Case, serde_saphyr::Error> {
    serde_saphyr::from_str_with_options(text, serde_saphyr::options! { strict_booleans: true })
}

impl std::str::FromStr for Case {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Ok(parsed(text)?)
    }
}

fn no_config() -> Value {
    Value::Object(serde_json::Map::new())
}

fn one() -> u64 {
    1
}

impl Case {
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let failed = |error: &dyn Display| Error::new(format_args!("reading {}: {error}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
        let mut case: Self = parsed(&text).map_err(|error| failed(&error))?;
        case.name = path
            .file_stem()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        case.request().map_err(|error| failed(&error))?;
        Ok(case)
    }

    /// The request that the gate gets. Its serialisation is the text of the interface's JSON twin.
    ///
    /// # Errors
    /// A time before 1970, a row that is not as long as its header, or evidence of a cluster that is none of the
    /// case's.
    pub fn request(&self) -> Result<Request, Error> {
        let now_ms = u64::try_from(self.now.as_millisecond())?;
        for watched in &self.objects {
            if let Some(cluster) = watched
                .evidence
                .keys()
                .find(|name| self.clusters.iter().all(|c| c.name() != *name))
            {
                return Err(Error::new(format_args!(
                    "{} has evidence of {cluster}, which is no cluster",
                    watched.object
                )));
            }
        }
        Ok(Request {
            policy: "shop".to_owned(),
            stage: "dev".to_owned(),
            attempt: self.attempt,
            now_ms,
            config: self.config.to_string(),
            objects: self
                .objects
                .iter()
                .enumerate()
                .map(|(at, watched)| object(at, watched, evidence(watched, &self.clusters, now_ms)))
                .collect::<Result<_, _>>()?,
            destinations: destinations(&self.clusters),
            earlier: (self.earlier.iter().cloned())
                .map(|Earlier { name, outcome, reason }| wit::EarlierVerdict { name, outcome, reason })
                .collect(),
        })
    }

    /// Judges it natively.
    pub(super) fn judge<G: Gate>(&self) -> Result<(), Error> {
        let got = Got::of(evaluate::<G>(&self.request()?));
        let expected = &self.expect;
        let mut wrong = Vec::new();
        let mut compare = |what: &str, got: &dyn Display, expected: &dyn Display| {
            let (got, expected) = (got.to_string(), expected.to_string());
            if got != expected {
                wrong.push(format!("{what} is `{got}`, expected `{expected}`"));
            }
        };
        compare("outcome", &got.outcome, &expected.outcome);
        compare("reason", &got.reason, &expected.reason.as_deref().unwrap_or_default());
        compare(
            "validFor",
            &time(got.valid_for_ms),
            &time(expected.valid_for.map(|time| time.as_millis())),
        );
        compare(
            "retryAfter",
            &time(got.retry_after_ms),
            &time(expected.retry_after.map(|time| time.as_millis())),
        );
        if let Some(evidence) = &expected.evidence {
            let expected = evidence.iter().map(|(name, value)| match value {
                Value::String(value) => (name.clone(), value.clone()),
                value => (name.clone(), value.to_string()),
            });
            compare(
                "evidence",
                &pieces(got.evidence.into_iter().collect()),
                &pieces(expected.collect()),
            );
        }
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(Error::new(format_args!("{}\n  {}", self.why, wrong.join("\n  "))))
        }
    }
}

/// A verdict or an error, member by member.
pub(super) struct Got {
    pub(super) outcome: Outcome,
    pub(super) reason: String,
    valid_for_ms: Option<i128>,
    retry_after_ms: Option<i128>,
    evidence: Vec<(String, String)>,
}

impl Got {
    pub(super) fn of(judged: Result<wit::Verdict, Error>) -> Self {
        let mut got = Self {
            outcome: Outcome::Unknown,
            reason: String::new(),
            valid_for_ms: None,
            retry_after_ms: None,
            evidence: Vec::new(),
        };
        match judged {
            Err(error) => got.reason = error.to_string(),
            Ok(wit::Verdict { decision, evidence }) => {
                got.evidence = evidence.into_iter().map(|piece| (piece.name, piece.value)).collect();
                match decision {
                    wit::Decision::Pass(pass) => {
                        got.outcome = Outcome::Pass;
                        got.valid_for_ms = pass.valid_for_ms.map(i128::from);
                    }
                    wit::Decision::Hold(hold) => {
                        got.outcome = Outcome::Hold;
                        got.reason = hold.reason;
                        got.retry_after_ms = hold.retry_after_ms.map(i128::from);
                    }
                    wit::Decision::Fail(fail) => {
                        got.outcome = Outcome::Fail;
                        got.reason = fail.reason;
                    }
                }
            }
        }
        got
    }
}

fn time(ms: Option<i128>) -> String {
    let time = ms
        .and_then(|ms| i64::try_from(ms).ok())
        .map(SignedDuration::from_millis);
    time.map_or_else(|| "none".to_owned(), |time| format!("{time:#}"))
}

fn pieces(pieces: BTreeMap<String, String>) -> String {
    let pieces: Vec<_> = pieces
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    pieces.join(", ")
}
