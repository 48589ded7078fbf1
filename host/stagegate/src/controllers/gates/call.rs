//! One call of a gate: its request made of facts and CombinedStatuses, its verdict made an answer. Must not judge, and
//! must not answer about a CombinedStatus that is not the one the question names. Texts that the guest has chosen are
//! cut to what a status can hold; the decision makes them printable.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use kube::{Api, Client};
use stagegate_api::combined_status_view::digest;
use stagegate_api::staged_status::{MAX_PIECE_NAME_CHARS, MAX_PIECE_VALUE_CHARS, MAX_PIECES};
use stagegate_api::{CombinedStatus, EvidencePiece, Outcome};
use stagegate_decide::checks::{CombinedRef, GateAnswer, GateCall, GateObject, GateRequest, GateVerdict, Shown};
use stagegate_decide::counted::counted;
use stagegate_evaluate::gate::limits::REQUEST_BYTES_MAX;
use stagegate_evaluate::gate::{Evaluation, Failure, Limits, wire};
use stagegate_runtime::progress;
use stagegate_runtime::request::{RequestError, cut, request};
use tracing::{Instrument as _, debug, debug_span};

use super::destinations::milliseconds;
use super::modules::{Modules, Unloaded};
use super::{columns, destinations};
use crate::controllers::evaluator::Lasting;
use crate::controllers::kinds::Guarded;
use crate::metrics::RolloutMetrics;

/// Longest reason that a decision passes on.
const REASON_CHARS_MAX: usize = 700;
/// CombinedStatuses read at once: each may be large.
const READS_MAX: usize = 4;

/// The CombinedStatuses that one reconcile has read for its gates: several ask for the same.
#[derive(Default)]
pub struct SeenEvidence(BTreeMap<CombinedRef, Arc<wire::CombinedStatus>>);

/// Calls gates.
pub struct Calls {
    client: Client,
    modules: Arc<Modules>,
    metrics: Arc<RolloutMetrics>,
}

impl Calls {
    pub fn new(client: Client, modules: Arc<Modules>, metrics: Arc<RolloutMetrics>) -> Self {
        Self {
            client,
            modules,
            metrics,
        }
    }

    /// Asks the gate.
    ///
    /// # Errors
    /// A CombinedStatus that could not be read.
    pub async fn verdict(&self, call: &GateCall, seen: &mut SeenEvidence) -> Result<Called, RequestError> {
        match self.read(&call.request.objects, seen).await? {
            Evidence::Complete => {}
            Evidence::Outdated => return Ok(Called::EvidenceMoved),
            Evidence::TooLarge => {
                let count = counted(call.request.objects.len(), "object");
                let message = format!(
                    "the CombinedStatuses of {count} have more than {REQUEST_BYTES_MAX} bytes; select fewer \
                     columns or fewer objects"
                );
                return Ok(Called::Verdict(unknown(call.now, &message), Lasting::Yes));
            }
        }
        let Some(request) = request_of(call, seen) else {
            return Ok(Called::EvidenceMoved);
        };
        let (request, digest) = (Arc::new(request), call.module.clone());
        let limits = Limits::new(call.timeout_ms, call.memory_mib);
        let begun = Instant::now();
        let span =
            debug_span!("gate", policy = call.request.policy, stage = call.request.stage.as_str(), gate = %call.source);
        let answer = self
            .modules
            .with_loaded((&call.source, &call.module), move |sandbox| {
                sandbox.evaluate(&digest, &request, limits)
            })
            .instrument(span)
            .await;
        progress::step();
        let called = match answer {
            Err(Unloaded::Outdated) => Called::ComponentMoved,
            Err(Unloaded::Failed(message)) => Called::Verdict(unknown(call.now, &message), Lasting::No),
            Ok(Err(failure)) => failed(call, &failure),
            Ok(Ok(evaluation)) => Called::Verdict(answered(call, evaluation), Lasting::Yes),
        };
        if let Called::Verdict(verdict, _) = &called {
            self.metrics.gate_verdict(outcome_of(&verdict.answer), begun.elapsed());
        }
        Ok(called)
    }

    /// Brings what `seen` holds to what these objects need. One that has moved on keeps none of the others from being
    /// read: the next try then reads less, and so comes to an end sooner than the evidence moves.
    async fn read(&self, objects: &[GateObject], seen: &mut SeenEvidence) -> Result<Evidence, RequestError> {
        let wanted: BTreeSet<&CombinedRef> = objects.iter().filter_map(to_read).collect();
        seen.0.retain(|known, _| wanted.contains(known));
        let mut bytes: usize = seen.0.values().map(|combined| columns::size(combined)).sum();
        let missing: Vec<CombinedRef> = wanted
            .into_iter()
            .filter(|wanted| !seen.0.contains_key(wanted))
            .cloned()
            .collect();
        let reads = missing.into_iter().map(|wanted| self.read_one(wanted));
        let mut reads = stream::iter(reads).buffer_unordered(READS_MAX);
        let mut evidence = Evidence::Complete;
        while let Some(read) = reads.try_next().await? {
            let Some((wanted, combined)) = read else {
                evidence = Evidence::Outdated;
                continue;
            };
            bytes = bytes.saturating_add(columns::size(&combined));
            if bytes > REQUEST_BYTES_MAX {
                seen.0.clear();
                return Ok(Evidence::TooLarge);
            }
            seen.0.insert(wanted, Arc::new(combined));
        }
        Ok(evidence)
    }

    async fn read_one(&self, wanted: CombinedRef) -> Result<Option<(CombinedRef, wire::CombinedStatus)>, RequestError> {
        let CombinedRef { namespace, name, .. } = &wanted;
        let api: Api<Guarded<CombinedStatus>> = Api::namespaced(self.client.clone(), namespace);
        let whole = match request(format!("get combinedstatus {namespace}/{name}"), api.get(name)).await {
            Err(error) if error.is_not_found() => return Ok(None),
            answer => answer?,
        };
        // One that cannot be read is another one than that which was: its watch event says so.
        let current = whole.0.ok().filter(|whole| digest(whole) == wanted.digest);
        Ok(current.map(|whole| (wanted, columns::of(&whole))))
    }
}

/// What a call came to.
pub enum Called {
    /// And whether the gate would say so again.
    Verdict(GateVerdict, Lasting),
    /// A CombinedStatus is not the one that was asked about any more.
    EvidenceMoved,
    /// Nor is the component.
    ComponentMoved,
}

enum Evidence {
    Complete,
    Outdated,
    TooLarge,
}

/// The CombinedStatus that has to be read to show a gate the object; `None`: all of it is in the question.
const fn to_read(object: &GateObject) -> Option<&CombinedRef> {
    match &object.shown {
        Shown::CombinedStatus(combined) => Some(combined),
        Shown::Destinations { .. } => None,
    }
}

/// `None` when a CombinedStatus is missing from `seen`.
fn request_of(call: &GateCall, seen: &SeenEvidence) -> Option<wire::Request> {
    let asked = &call.request;
    let object = |(at, object): (usize, &GateObject)| {
        Some(wire::Object {
            group: object.key.group.clone(),
            resource: object.key.resource.clone(),
            namespace: object.key.namespace.clone(),
            name: object.key.name.clone(),
            uid: object.uid.to_string(),
            generation: object.generation,
            evidence: destinations::evidence(at, &asked.destinations)?,
            combined_status: match &object.shown {
                Shown::CombinedStatus(combined) => wire::CombinedStatus::clone(seen.0.get(combined)?),
                Shown::Destinations { collector, column } => {
                    destinations::counts((at, object), &asked.destinations, (collector, column))?
                }
            },
        })
    };
    let earlier = asked.earlier.iter().map(|verdict| wire::EarlierVerdict {
        name: verdict.name.clone(),
        outcome: outcome(verdict.outcome),
        reason: verdict.reason.as_str().to_owned(),
    });
    Some(wire::Request {
        policy: asked.policy.clone(),
        stage: asked.stage.to_string(),
        attempt: u64::try_from(asked.attempt).unwrap_or_default(),
        now_ms: milliseconds(call.now),
        config: asked.config.clone(),
        objects: asked.objects.iter().enumerate().map(object).collect::<Option<_>>()?,
        destinations: destinations::of(&asked.destinations),
        earlier: earlier.collect(),
    })
}

fn outcome(outcome: Outcome) -> wire::Outcome {
    match outcome {
        Outcome::Pass => wire::Outcome::Pass,
        Outcome::Hold => wire::Outcome::Hold,
        Outcome::Fail => wire::Outcome::Fail,
        Outcome::Unknown => wire::Outcome::Unknown,
    }
}

const fn outcome_of(answer: &GateAnswer) -> Outcome {
    match answer {
        GateAnswer::Pass { .. } => Outcome::Pass,
        GateAnswer::Hold { .. } => Outcome::Hold,
        GateAnswer::Fail { .. } => Outcome::Fail,
        GateAnswer::Unknown { .. } => Outcome::Unknown,
    }
}

fn failed(call: &GateCall, failure: &Failure) -> Called {
    let lasting = if failure.kind.is_lasting() {
        Lasting::Yes
    } else {
        Lasting::No
    };
    Called::Verdict(unknown(call.now, &failure.message), lasting)
}

pub fn unknown(at: Timestamp, message: &str) -> GateVerdict {
    GateVerdict {
        at,
        answer: GateAnswer::Unknown {
            message: message.to_owned(),
        },
        evidence: Vec::new(),
    }
}

fn answered(call: &GateCall, evaluation: Evaluation) -> GateVerdict {
    tell(call, &evaluation.log);
    kept(call.now, &evaluation.verdict)
}

/// What of a verdict is remembered: a guest may say much more than a status can hold.
fn kept(at: Timestamp, verdict: &wire::Verdict) -> GateVerdict {
    let reason_of = |reason: &str| cut(reason, REASON_CHARS_MAX);
    let answer = match &verdict.decision {
        wire::Decision::Pass(pass) => GateAnswer::Pass {
            valid_for_ms: pass.valid_for_ms,
        },
        wire::Decision::Hold(hold) => GateAnswer::Hold {
            reason: reason_of(&hold.reason),
            retry_after_ms: hold.retry_after_ms,
        },
        wire::Decision::Fail(fail) => GateAnswer::Fail {
            reason: reason_of(&fail.reason),
        },
    };
    let pieces = verdict.evidence.iter().take(MAX_PIECES);
    let evidence = pieces.map(|piece| EvidencePiece {
        name: cut(&piece.name, MAX_PIECE_NAME_CHARS),
        value: cut(&piece.value, MAX_PIECE_VALUE_CHARS),
    });
    GateVerdict {
        at,
        answer,
        evidence: evidence.collect(),
    }
}

fn tell(call: &GateCall, log: &[wire::LogLine]) {
    let GateRequest { policy, stage, .. } = &call.request;
    for wire::LogLine { level, message } in log {
        debug!(policy, stage = stage.as_str(), gate = %call.source, ?level, message, "a gate writes");
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use stagegate_decide::checks::GateAnswer;
    use stagegate_evaluate::gate::wire;

    use super::{MAX_PIECE_NAME_CHARS, MAX_PIECE_VALUE_CHARS, MAX_PIECES, REASON_CHARS_MAX, kept};

    #[test]
    fn what_is_remembered_of_a_verdict_is_what_a_status_can_hold() {
        let long = "ä".repeat(4_000);
        let piece = wire::EvidencePiece {
            name: long.clone(),
            value: long.clone(),
        };
        let verdict = wire::Verdict {
            decision: wire::Decision::Fail(wire::Fail { reason: long }),
            evidence: vec![piece; 1_000],
        };
        let kept = kept(Timestamp::UNIX_EPOCH, &verdict);
        assert!(matches!(&kept.answer, GateAnswer::Fail { reason } if reason.chars().count() == REASON_CHARS_MAX));
        assert_eq!(kept.evidence.len(), MAX_PIECES);
        for piece in kept.evidence {
            let chars = (piece.name.chars().count(), piece.value.chars().count());
            assert_eq!(chars, (MAX_PIECE_NAME_CHARS, MAX_PIECE_VALUE_CHARS));
        }
    }
}
