//! Answers to the questions of a decision. Must not judge: an answer is what was read or evaluated, or that it could
//! not be.

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use kube::{Api, Client};
use serde_json::Value;
use stagegate_api::CombinedStatus;
use stagegate_api::combined_status_view::{digest, visible_results};
use stagegate_clock::SharedClock;
use stagegate_decide::checks;
use stagegate_decide::names::PlacementName;
use stagegate_decide::staging::{
    COMBINED_STATUS_BYTES_MAX, CombinedRef, ConditionEvidence, Evidence, Facts, Question, Verdict, VerdictKey,
};
use stagegate_runtime::request::{RequestError, request};

use super::hold_probe::HoldProbe;
use super::memory::Memory;
use super::read::{self, Wanted};
use crate::controllers::checks::CheckMeans;
use crate::controllers::checks::evaluate::{ToShow, Work, Worked, remember};
use crate::controllers::evaluator::Lasting;
use crate::controllers::gates::GateSession;
use crate::controllers::kinds::Guarded;

/// CombinedStatuses read at once: each may be large.
const CONCURRENCY: usize = 4;

/// By what questions are answered.
#[derive(Clone, Copy)]
pub struct Means<'a> {
    pub client: &'a Client,
    pub clock: &'a SharedClock,
    pub checks: CheckMeans<'a>,
    pub probe: &'a HoldProbe,
}

/// Answers all that can be answered; `false`: none could. `talk` lives as long as the conversation.
pub async fn answer(
    means: Means<'_>,
    questions: Vec<Question>,
    (facts, memory): (&mut Facts, &mut Memory),
    talk: &mut GateSession,
) -> Result<bool, RequestError> {
    let Means {
        client,
        clock,
        checks,
        probe,
    } = means;
    let Sorted {
        wanted,
        mut work,
        whole,
        of_checks,
        hold,
    } = sorted(questions, facts);
    let mut answered = false;
    let reads = whole.into_iter().map(|asked| async move {
        let Whole {
            key,
            text,
            place,
            evidence,
        } = asked;
        combined(client, place, (key, evidence)).await.map(|seen| (text, seen))
    });
    let read: Vec<(String, Seen)> = stream::iter(reads).buffer_unordered(CONCURRENCY).try_collect().await?;
    for (text, seen) in read {
        match seen {
            Seen::Value { key, shown } => work.push(Work::Check { key, text, shown }),
            Seen::Unknown { key, message } => {
                let worked = Worked::Verdict(key, Verdict::Unknown { message }, Lasting::Yes);
                remember((facts.answers_mut(), &mut memory.checks), worked);
                answered = true;
            }
            Seen::Gone => {}
        }
    }
    for (key, answer) in read::objects((client, clock), wanted).await? {
        memory.checks.is_to_retry |= answer.refused.is_some();
        memory.note_object(key.clone(), answer.clone());
        facts.objects.insert(key, answer);
        answered = true;
    }
    answered |= checks.evaluate(work, (facts.answers_mut(), &mut memory.checks)).await;
    answered |= checks
        .answer(of_checks, (facts.answers_mut(), &mut memory.checks), talk)
        .await?;
    if let Some((binding, not_before)) = hold {
        facts.hold = Some(probe.ask((client, clock), &binding, not_before).await?);
        answered = true;
    }
    Ok(answered)
}

/// Questions by how they are answered.
#[derive(Default)]
struct Sorted {
    wanted: Vec<Wanted>,
    work: Vec<Work>,
    whole: Vec<Whole>,
    /// Of which nothing is read here.
    of_checks: Vec<checks::Question>,
    /// A held Binding, and how old an answer about holds may be.
    hold: Option<(PlacementName, Timestamp)>,
}

/// A check that needs a CombinedStatus whole, of which the watch has kept too little.
struct Whole {
    key: VerdictKey,
    text: String,
    place: CombinedRef,
    evidence: Box<ConditionEvidence>,
}

fn sorted(questions: Vec<Question>, facts: &Facts) -> Sorted {
    let mut sorted = Sorted::default();
    for question in questions {
        match question {
            Question::Object {
                key,
                version,
                resource_version,
                is_whole,
            } => sorted.wanted.push(Wanted {
                key,
                version,
                resource_version,
                is_whole,
            }),
            // The last one asks for the youngest answer.
            Question::Hold { binding, not_before } => sorted.hold = Some((binding, not_before)),
            Question::OfChecks(question) => sorted.take(question, facts),
            // The reconcile loop reads; it owns the facts that are replaced.
            Question::FreshRead | Question::FreshPlacements => {}
        }
    }
    sorted
}

impl Sorted {
    fn take(&mut self, question: checks::Question, facts: &Facts) {
        match question {
            checks::Question::Check {
                key,
                text,
                evidence: Evidence::Clause(value),
            } => {
                let shown = ToShow::Clause(value);
                self.work.push(Work::Check { key, text, shown });
            }
            checks::Question::Check {
                key,
                text,
                evidence: Evidence::Condition(evidence),
            } => match &evidence.combined {
                None => {
                    let shown = ToShow::Condition(None, evidence);
                    self.work.push(Work::Check { key, text, shown });
                }
                Some(place) => match kept(facts, place) {
                    Some(combined) => {
                        let shown = ToShow::Condition(Some(combined), evidence);
                        self.work.push(Work::Check { key, text, shown });
                    }
                    None => self.whole.push(Whole {
                        key,
                        text,
                        place: place.clone(),
                        evidence,
                    }),
                },
            },
            other => self.of_checks.push(other),
        }
    }
}

/// The CombinedStatus of that digest, where it was short enough to be kept.
fn kept(facts: &Facts, place: &CombinedRef) -> Option<Value> {
    let id = format!("{}/{}", place.namespace, place.name);
    let view = facts.combined.get(&id)?.object()?;
    if view.digest != place.digest {
        return None;
    }
    view.visible()
}

enum Seen {
    /// The key names the evidence that was really read.
    Value {
        key: VerdictKey,
        shown: ToShow,
    },
    Unknown {
        key: VerdictKey,
        message: String,
    },
    Gone,
}

/// Reads a CombinedStatus whole, as only an expression needs it.
async fn combined(
    client: &Client,
    place: CombinedRef,
    (key, evidence): (VerdictKey, Box<ConditionEvidence>),
) -> Result<Seen, RequestError> {
    let CombinedRef { namespace, name, .. } = &place;
    let api: Api<Guarded<CombinedStatus>> = Api::namespaced(client.clone(), namespace);
    let whole = match request(format!("get combinedstatus {namespace}/{name}"), api.get(name)).await {
        Err(error) if error.is_not_found() => return Ok(Seen::Gone),
        answer => answer?,
    };
    let whole = match &whole.0 {
        Ok(whole) => whole,
        Err(invalid) => {
            let message = format!("CombinedStatus {namespace}/{name} cannot be read: {}", invalid.error);
            return Ok(Seen::Unknown {
                key,
                message: stagegate_runtime::request::cut(&message, 256),
            });
        }
    };
    let visible = visible_results(whole);
    let size = json_size(&visible);
    let message = (size > COMBINED_STATUS_BYTES_MAX).then(|| {
        format!("CombinedStatus {namespace}/{name} has {size} bytes; at most {COMBINED_STATUS_BYTES_MAX} are evaluated")
    });
    let evidence = Box::new(ConditionEvidence {
        combined: Some(CombinedRef {
            digest: digest(whole),
            ..place
        }),
        ..*evidence
    });
    let key = VerdictKey {
        evidence: evidence.digest(),
        ..key
    };
    Ok(match message {
        Some(message) => Seen::Unknown { key, message },
        None => Seen::Value {
            key,
            shown: ToShow::Condition(Some(visible), evidence),
        },
    })
}

/// Bytes of the value's JSON text, counted without keeping it.
fn json_size(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting takes everything, and a JSON value has string keys only: this cannot fail, and a failure counts as too large.
    serde_json::to_writer(&mut count, value).map_or(usize::MAX, |()| count.0)
}
