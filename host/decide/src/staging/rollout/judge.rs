//! One placement against its checks: what is missing first, what a check answers, what nobody has asked yet. Must not
//! place or remove anything.

use crate::staging::evidence::{
    Bound, Clusters, ObjectTracker, Placed, Subject, UpdateTracker, binding::destinations_of, collector, delivery,
    kinds, objects, ready_clusters,
};
use crate::staging::input::{
    CheckedStage, StageInput, binding_view,
    recorded::{is_unbound, positions},
};
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use stagegate_api::{BoundObject, EvidenceRow, ObjectStatus, Outcome, StageState, StageStatus};

use crate::checks::check::Check;
use crate::checks::evaluate::{self, Evaluator};
use crate::checks::finding::Finding;
use crate::checks::gate_call::{CombinedRef, GateDestination, GateObject, Shown};
use crate::checks::gates;
use crate::checks::health::Tally;
use crate::checks::question::Evidence;
use crate::checks::reason::Reason;
use crate::checks::record::{Note, Progress, note_check};
use crate::checks::soak::Soak;
use crate::checks::spec::Expression;
use crate::checks::stage::{Given, StageChecks};
use crate::checks::variables::{ObjectReports, Seen};
use crate::checks::verdict::Verdict;
use crate::counted::counted;
use crate::names::{ClusterName, Digest};
use crate::staging::question::Question;
use crate::staging::status::stage;

/// What is known of the active stage now.
#[derive(Clone, Debug)]
pub struct StageResult {
    /// For status.
    pub record: StageStatus,
    /// The first thing in the way, or that all passes.
    pub finding: Finding,
    /// Unless empty, the rest is preliminary: have these answered first.
    pub questions: Vec<Question>,
    /// When a gate is asked again though nothing has changed.
    pub ask_again_at: Option<Timestamp>,
    /// Until when what the gates have said may be acted on; `None`: there are none.
    pub valid_until: Option<Timestamp>,
    /// Each bound object of a kind that is returned has been found reported by every cluster.
    pub is_reported: bool,
    /// In how many clusters nothing is missing, and how many there are; `None`: they were not looked at.
    pub clusters: Option<(usize, usize)>,
}

/// Judges an open placement that is at the revision.
pub fn judge(input: StageInput<'_>) -> StageResult {
    let StageInput {
        facts,
        stage,
        own,
        recorded,
        ..
    } = input;
    let mut record = stage::start_attempt(recorded, own, facts.now);
    record.name = stage.name.to_string();
    let mut judging = StageEvaluator::new(input);
    let result = judging.run(&mut record);
    let finding = match result {
        Ok(finding) | Err(finding) => finding,
    };
    // A gate's no outlives the evidence it was said about.
    let finding = gates::failed(&record.checks, &stage.gates).unwrap_or(finding);
    if finding.outcome == Outcome::Fail {
        record.state = StageState::Failed;
    }
    if finding.outcome != Outcome::Pass && finding.reason != Reason::Soaking && !finding.is_restart {
        record.passing_since = None;
    }
    StageResult {
        record,
        finding,
        questions: judging.objects.questions,
        ask_again_at: judging.ask_again_at,
        valid_until: judging.valid_until,
        is_reported: judging.is_reported,
        clusters: judging.clusters,
    }
}

/// The record of an open placement that is not evaluated now, with the updates that its clusters have not acknowledged; `None`
/// where status holds nothing of this placement to go on from.
pub fn follow(input: StageInput<'_>) -> Option<(StageStatus, Vec<Question>)> {
    let is_of_it = |recorded: &&StageStatus| stage::is_of(recorded, input.own) && !recorded.objects.is_empty();
    let recorded = input.recorded.filter(is_of_it)?;
    let placed = Placed::of(input, recorded);
    let (_, binding) = placed.binding().ok()?;
    let mut tracker = ObjectTracker::new(input);
    let objects = binding_view::objects(binding);
    tracker.ask_about_objects(&objects);
    let mut record = recorded.clone();
    tracker.track(&placed, &objects, &mut record);
    Some((record, tracker.questions))
}

/// A stage while it is judged.
pub(crate) struct StageEvaluator<'a> {
    pub(crate) objects: ObjectTracker<'a>,
    ask_again_at: Option<Timestamp>,
    valid_until: Option<Timestamp>,
    is_reported: bool,
    pub(crate) clusters: Option<(usize, usize)>,
}

impl<'a> StageEvaluator<'a> {
    pub(crate) const fn new(input: StageInput<'a>) -> Self {
        Self {
            objects: ObjectTracker::new(input),
            ask_again_at: None,
            valid_until: None,
            is_reported: false,
            clusters: None,
        }
    }

    fn run(&mut self, record: &mut StageStatus) -> Result<Finding, Finding> {
        let StageInput { facts, stage, own, .. } = self.objects.input;
        stage::follow_filter(record, stage);
        let before = record.clone();
        let placed = Placed::of(self.objects.input, &before);
        let (_, binding) = placed.binding()?;
        let objects = binding_view::objects(binding);
        self.objects.ask_about_objects(&objects);
        let delivery = delivery::note(self.objects.input, record);
        self.objects.questions.extend(delivery.questions);
        self.objects.track(&placed, &objects, record);
        // An edit that was just seen counts at once: it may restart the settling.
        let tracked = record.clone();
        let placed = Placed {
            record: &tracked,
            ..placed
        };
        let is_edited = record.objects != before.objects;
        let settled = placed.complete().map_err(|finding| Finding {
            is_restart: finding.is_restart && !is_edited,
            ..finding
        })?;
        if settled.is_newly_settled || record.objects.iter().any(is_unsettled) {
            let is_combined = |object: &BoundObject| self.is_combined(&placed, object);
            let accepted = stage::Accepted {
                bound: &settled,
                own,
                now: facts.now,
                is_combined: &is_combined,
            };
            stage::settle(record, &accepted);
        }
        self.objects.require_shown(&objects)?;
        self.objects.require_recorded(settled.destinations.len())?;
        let finding = if stage.is_judged() {
            self.check(&placed, &settled, record)?
        } else {
            not_evaluated(stage, &settled, record)
        };
        let soak = Soak {
            answers: facts.answers(),
            length: stage.soak,
            waits_for: (self.objects.input.is_handing_over)
                .then_some("the soak starts when the previous stage's placement is removed"),
            recorded: self.objects.input.recorded.map(|recorded| recorded.checks.as_slice()),
        };
        let progress = Progress {
            unsettled_since: record.unsettled_since.as_ref().map(|time| time.0),
            checks: &mut record.checks,
            passing_since: &mut record.passing_since,
        };
        soak.finding(progress, finding)
    }

    /// Filter, evidence and condition over all kept objects. What is unknown comes before what is false.
    fn check(
        &mut self,
        placed: &Placed<'_>,
        settled: &Bound<'_>,
        record: &mut StageStatus,
    ) -> Result<Finding, Finding> {
        let facts = self.objects.input.facts;
        let note = Note {
            check: None,
            evidence: None,
            now: facts.now,
        };
        if stage::is_asked_anew(record, self.objects.input.stage) {
            record.passing_since = None;
        }
        let kept = match self.kept(&settled.objects, record) {
            Ok(kept) => kept,
            Err(finding) => {
                let of_filter = Note {
                    check: self.objects.input.stage.filter.as_ref().map(|filter| &filter.digest),
                    ..note
                };
                note_check(&mut record.checks, Check::Filter, &finding, of_filter);
                return Err(finding);
            }
        };
        let destinations = sorted_destinations(placed);
        let evidence =
            collector::require(facts).and_then(|()| self.evidence(placed, (&kept, destinations.as_slice()), record));
        self.count_clusters(placed, (&kept, &destinations), (&evidence, record));
        let (digest, health) = match evidence {
            Ok(complete) => complete,
            Err(finding) => {
                if !finding.is_restart {
                    note_check(&mut record.checks, Check::Evidence, &finding, note);
                }
                return Err(finding);
            }
        };
        // A filter may leave out objects that are reported on.
        self.is_reported = placed.stage.filter.is_none();
        record.checks.retain(|check| placed.stage.has_check(&check.name));
        let counts = (kept.len(), settled.destinations.len());
        self.evaluate((placed, &kept), ((digest, health), complete(counts)), record)
    }

    /// Health, condition and gates over evidence that is complete.
    fn evaluate(
        &mut self,
        (placed, kept): (&Placed<'_>, &[&BoundObject]),
        ((digest, health), complete): ((Digest, Tally), Finding),
        record: &mut StageStatus,
    ) -> Result<Finding, Finding> {
        let StageInput { facts, stage, own, .. } = self.objects.input;
        let mut questions = std::mem::take(&mut self.objects.questions);
        let checks = StageChecks {
            answers: facts.answers(),
            subject: gates::Subject {
                policy: facts.policy.object.metadata.name.as_deref().unwrap_or_default(),
                stage: stage.name.borrowed(),
                placement: own.uid(),
                attempt: own.attempt,
                edits: "this policy, the stage's clusterSelectors or spec.downsync",
            },
            condition: stage.condition.as_ref(),
            remedy: "correct spec.stages[].condition or the StatusCollector it reads",
            gates: &stage.gates,
            has_soak: stage.soak.is_some(),
        };
        let given = Given {
            digest,
            about: None,
            complete,
            health: stage.requires_health().then(|| health.finding()),
            values: match stage.condition {
                Some(_) => self.values(placed, kept),
                None => Vec::new(),
            },
            all: counted(kept.len(), "object"),
            shown: Box::new(|| self.shown_to_gates(placed, kept)),
        };
        let mut progress = Progress {
            unsettled_since: None,
            checks: &mut record.checks,
            passing_since: &mut record.passing_since,
        };
        let evaluated = checks.evaluate(given, &mut progress, &mut questions);
        self.objects.questions = questions;
        self.ask_again_at = evaluated.ask_again_at;
        self.valid_until = evaluated.valid_until;
        evaluated.finding
    }

    /// For people: in how many clusters nothing is missing. Counted one by one only where something is missing in others.
    pub(crate) fn count_clusters(
        &mut self,
        placed: &Placed<'_>,
        (kept, destinations): (&[&BoundObject], &[ClusterName<&str>]),
        (evidence, record): (&Result<(Digest, Tally), Finding>, &StageStatus),
    ) {
        let ready = match evidence {
            Ok((_, health)) if placed.stage.requires_health() => health.healthy(),
            Ok(_) => destinations.len(),
            // What another collector, or another version of it, reports is not known to be what ours would.
            Err(_) if collector::require(self.objects.input.facts).is_err() => 0,
            Err(_) => {
                let positions = positions(&record.objects);
                let entry = |object| record.objects.get(*positions.get(&binding_view::key(object))?);
                let kept: Option<Vec<_>> = kept.iter().map(|object| Some((*object, entry(object)?))).collect();
                kept.map_or(0, |kept| {
                    ready_clusters::count(&self.objects, placed, (&kept, destinations), record)
                })
            }
        };
        self.clusters = Some((ready, destinations.len()));
    }

    /// The kept objects and, for each cluster, what it reported about them.
    fn shown_to_gates(
        &self,
        placed: &Placed<'_>,
        kept: &[&BoundObject],
    ) -> Result<(Vec<GateObject>, Vec<GateDestination>), Finding> {
        let mut objects: Vec<GateObject> = Vec::new();
        let mut rows: Vec<BTreeMap<ClusterName<&str>, &EvidenceRow>> = Vec::new();
        for object in kept {
            let (subject, found) = self.objects.subject(placed, object)?;
            objects.push(GateObject {
                key: binding_view::key(object),
                uid: found.uid.clone(),
                generation: found.generation,
                shown: Shown::CombinedStatus(combined_ref(&subject)?),
            });
            rows.push(subject.rows().iter().map(|row| (row.cluster.borrowed(), row)).collect());
        }
        let destinations = destinations_of(placed);
        let shown = |cluster: &ClusterName<&str>| {
            let evidence = objects
                .iter()
                .zip(&rows)
                .map(|(object, rows)| gates::row_of(&object.key, rows.get(cluster).copied(), *cluster))
                .collect::<Result<_, _>>()?;
            Ok(GateDestination {
                name: cluster.to_string(),
                labels: None,
                evidence,
            })
        };
        let destinations = destinations.iter().map(shown).collect::<Result<_, Finding>>()?;
        Ok((objects, destinations))
    }

    /// The objects that are judged: those the filter keeps, or without one those that can report.
    pub(crate) fn kept<'b>(
        &mut self,
        objects: &[&'b BoundObject],
        record: &mut StageStatus,
    ) -> Result<Vec<&'b BoundObject>, Finding> {
        let StageInput { facts, stage, .. } = self.objects.input;
        let can_report = |object: &&BoundObject| !kinds::is_never_returned(&object.group, &object.resource);
        let Some(filter) = &stage.filter else {
            let (kept, silent): (Vec<&BoundObject>, Vec<_>) = objects.iter().copied().partition(can_report);
            record.not_evaluated = stage::not_evaluated(
                &silent
                    .iter()
                    .map(|object| binding_view::key(object))
                    .collect::<Vec<_>>(),
            );
            return if kept.is_empty() {
                Err(Finding::unknown(
                    Reason::NoStatusForKind,
                    "no bound object is of a kind whose status clusters return, so there is nothing to check: bind one, or \
                     give this stage health: Ignored and a soak, without condition and gates",
                ))
            } else {
                Ok(kept)
            };
        };
        record.not_evaluated.clear();
        let mut kept = Vec::new();
        for object in objects {
            match self.filter_verdict(filter, object) {
                None | Some(Verdict::False { .. }) => {}
                Some(Verdict::True) => kept.push(*object),
                Some(Verdict::Unknown { message }) => {
                    return Err(Finding::unknown(
                        Reason::FilterError,
                        format!(
                            "the filter of stage {} failed for {}: {message}",
                            stage.name,
                            binding_view::key(object)
                        ),
                    ));
                }
            }
        }
        let note = Note {
            check: Some(&filter.digest),
            evidence: None,
            now: facts.now,
        };
        if let Some(object) = kept.iter().find(|object| !can_report(object)) {
            return Err(Finding::unknown(
                Reason::NoStatusForKind,
                format!(
                    "the filter of stage {} keeps {}, but no cluster ever returns a status of that kind: exclude it in the filter",
                    stage.name,
                    binding_view::key(object)
                ),
            ));
        }
        if kept.is_empty() && self.objects.questions.is_empty() {
            return Err(Finding::unknown(
                Reason::FilterMatchedNothing,
                format!(
                    "the filter of stage {} is false for every bound object: correct it, or bind what it names",
                    stage.name
                ),
            ));
        }
        let text = format!("keeps {} of {}", kept.len(), counted(objects.len(), "bound object"));
        note_check(
            &mut record.checks,
            Check::Filter,
            &Finding::pass(Reason::Complete, text),
            note,
        );
        Ok(kept)
    }

    fn filter_verdict(&mut self, filter: &Expression, object: &BoundObject) -> Option<&'a Verdict> {
        let clause = binding_view::clause(object);
        let digest = Digest::of(&clause);
        self.evaluator().verdict(filter, digest, || Evidence::Clause(clause))
    }

    /// The digest of all evidence, if every kept object's is complete and new enough, and the health that it tells of.
    fn evidence(
        &self,
        placed: &Placed<'_>,
        (kept, destinations): (&[&BoundObject], &[ClusterName<&str>]),
        record: &StageStatus,
    ) -> Result<(Digest, Tally), Finding> {
        let stage = self.objects.input.stage;
        let accepted: BTreeSet<ClusterName<&str>> = destinations.iter().copied().collect();
        let clusters = Clusters::of([], &accepted);
        let positions = positions(&record.objects);
        let mut digests = Vec::new();
        let mut health = Tally::of_clusters(destinations.len());
        for object in kept {
            let (subject, found) = self.objects.subject(placed, object)?;
            let position = positions.get(&binding_view::key(object));
            let entry = position.and_then(|position| record.objects.get(*position));
            let entry = entry.ok_or_else(|| objects::missing(object))?;
            let view = subject.proven(entry, destinations)?;
            let edited = UpdateTracker::of(&subject, found, &clusters).of_record(record);
            if let Some(missing) = edited.missing(entry, stage.unacknowledged_updates) {
                return Err(missing);
            }
            // Rows that moved and moved back leave the results as they were, but not the version.
            digests.push((view.digest.as_str(), view.metadata.resource_version.as_deref()));
            health.add(&binding_view::counted(object), subject.rows());
        }
        Ok((Digest::of(&digests), health))
    }

    /// Whether the object's CombinedStatus has results of exactly the collectors that are bound to it.
    fn is_combined(&self, placed: &Placed<'_>, object: &BoundObject) -> bool {
        let Ok((subject, _)) = self.objects.subject(placed, object) else {
            return false;
        };
        let Ok(view) = subject.combined() else { return false };
        let users = view.collectors.iter().map(|found| &found.name);
        let found: BTreeSet<&String> = users
            .chain(view.evidence.iter().map(|found| &found.collector))
            .collect();
        found == object.status_collectors.iter().collect()
    }

    /// The values that the condition must be true for: one for each kept object.
    fn values<'v>(&self, placed: &'v Placed<'v>, kept: &[&'v BoundObject]) -> Vec<Result<evaluate::Value<'v>, Finding>>
    where
        'a: 'v,
    {
        let value = |object: &&'v BoundObject| {
            let (subject, found) = self.objects.subject(placed, object)?;
            let key = binding_view::key(object);
            Ok(evaluate::Value {
                name: key.to_string(),
                seen: Seen::Object(Box::new(ObjectReports {
                    combined: combined_ref(&subject)?,
                    version: subject.combined()?.metadata.resource_version.as_deref(),
                    rows: subject.rows(),
                    object: binding_view::judged(object, found.generation),
                    key,
                })),
                reported: Box::new(move || subject.reported()),
            })
        };
        kept.iter().map(value).collect()
    }

    fn evaluator(&mut self) -> Evaluator<'_, 'a, Question> {
        let StageInput { facts, own, .. } = self.objects.input;
        Evaluator {
            answers: facts.answers(),
            attempt: own.attempt,
            questions: &mut self.objects.questions,
        }
    }
}

/// Where the results about the object are, and their digest.
fn combined_ref(subject: &Subject<'_>) -> Result<CombinedRef, Finding> {
    let view = subject.combined()?;
    let (namespace, name) = subject.combined_name();
    Ok(CombinedRef {
        namespace,
        name,
        digest: view.digest.clone(),
    })
}

/// Whether an object of the Binding has not been accepted yet.
fn is_unsettled(object: &ObjectStatus) -> bool {
    object.baseline.is_none() && !is_unbound(object)
}

fn complete((objects, clusters): (usize, usize)) -> Finding {
    let (objects, clusters) = (counted(objects, "object"), counted(clusters, "cluster"));
    Finding::pass(Reason::Complete, format!("{objects} reported by {clusters}"))
}

/// A stage without checks needs only its Binding.
fn not_evaluated(stage: &CheckedStage, settled: &Bound<'_>, record: &mut StageStatus) -> Finding {
    record.checks.retain(|check| Check::Soak.is_of(check));
    record.not_evaluated.clear();
    Finding::pass(
        Reason::PlacedNotEvaluated,
        format!(
            "stage {} has health Ignored and neither condition nor gates: {} placed in {}, not evaluated",
            stage.name,
            counted(settled.objects.len(), "object"),
            counted(settled.destinations.len(), "cluster")
        ),
    )
}

/// The clusters of the Binding in the order of evidence rows.
pub(crate) fn sorted_destinations<'a>(placed: &Placed<'a>) -> Vec<ClusterName<&'a str>> {
    let mut destinations = destinations_of(placed);
    destinations.sort_unstable();
    destinations.dedup();
    destinations
}
