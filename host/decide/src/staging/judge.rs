//! One placement against its checks: what is missing first, what a check answers, what nobody has asked yet. Must not
//! place or remove anything.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use stagegate_api::{BoundObject, EvidenceRow, ObjectStatus, Outcome, StageState, StageStatus};

use super::binding_part::{Bound, Placed};
use super::edits::{Clusters, Edited};
use super::facts::{Facts, Verdict, VerdictKey};
use super::finding::Finding;
use super::gate_facts::{CombinedRef, EarlierVerdict, GateDestination, GateObject};
use super::healthy::Tally;
use super::plan::{Evidence, Question};
use super::reason::Reason;
use super::record::{self, Note};
use super::rollout::READING_IS_WORTH;
use super::slot::{Own, after};
use super::spec::{CheckedStage, Expression};
use super::{bound, collector, gates, kinds, tracked};
use crate::names::Digest;

/// What is known of the active stage now.
#[derive(Clone, Debug)]
pub struct Judgement {
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
}

/// What to judge.
#[derive(Clone, Copy, Debug)]
pub struct Subjected<'a> {
    pub facts: &'a Facts,
    pub stage: &'a CheckedStage,
    pub own: &'a Own<'a>,
    pub recorded: Option<&'a StageStatus>,
    /// An earlier stage is still placed and is to be removed: the soak starts after that.
    pub is_handing_over: bool,
}

/// Judges an open placement that is at the plan.
pub fn judge(subjected: Subjected<'_>) -> Judgement {
    let Subjected {
        facts,
        stage,
        own,
        recorded,
        ..
    } = subjected;
    let mut record = record::roll(recorded, own, facts.now);
    record.name.clone_from(&stage.name);
    let mut judging = Judging::new(subjected);
    let result = judging.run(&mut record);
    let finding = match result {
        Ok(finding) | Err(finding) => finding,
    };
    // A gate's no outlives the evidence it was said about.
    let finding = gates::failed(&record, stage).unwrap_or(finding);
    if finding.outcome == Outcome::Fail {
        record.state = StageState::Failed;
    }
    if finding.outcome != Outcome::Pass && finding.reason != Reason::Soaking && !finding.is_restart {
        record.passing_since = None;
    }
    Judgement {
        record,
        finding,
        questions: judging.questions,
        ask_again_at: judging.ask_again_at,
        valid_until: judging.valid_until,
        is_reported: judging.is_reported,
    }
}

/// The objects of an open placement that is not judged now, with the edits that their clusters have not answered; `None`
/// where status holds nothing of this placement to go on from.
pub fn follow(subjected: Subjected<'_>) -> Option<(Vec<ObjectStatus>, Vec<Question>)> {
    let Subjected {
        facts,
        stage,
        own,
        recorded,
        ..
    } = subjected;
    let recorded = recorded.filter(|recorded| record::is_of(recorded, own) && !recorded.objects.is_empty())?;
    let placed = Placed {
        facts,
        stage,
        own,
        record: recorded,
    };
    let (_, binding) = placed.binding().ok()?;
    let mut judging = Judging::new(subjected);
    let objects = bound::objects(binding);
    judging.ask_about_objects(&objects);
    let mut record = recorded.clone();
    judging.track(&placed, &objects, &mut record);
    Some((record.objects, judging.questions))
}

pub(super) struct Judging<'a> {
    pub(super) subjected: Subjected<'a>,
    pub(super) questions: Vec<Question>,
    /// How many updated objects have pending updates that status has no room for.
    pub(super) unrecorded: usize,
    ask_again_at: Option<Timestamp>,
    valid_until: Option<Timestamp>,
    is_reported: bool,
}

impl<'a> Judging<'a> {
    pub(super) fn new(subjected: Subjected<'a>) -> Self {
        Self {
            subjected,
            questions: Vec::new(),
            unrecorded: 0,
            ask_again_at: None,
            valid_until: None,
            is_reported: false,
        }
    }

    fn run(&mut self, record: &mut StageStatus) -> Result<Finding, Finding> {
        let Subjected { facts, stage, own, .. } = self.subjected;
        let before = record.clone();
        let placed = Placed {
            facts,
            stage,
            own,
            record: &before,
        };
        let (_, binding) = placed.binding()?;
        let objects = bound::objects(binding);
        self.ask_about_objects(&objects);
        self.track(&placed, &objects, record);
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
        if settled.is_newly_settled || record.objects.iter().any(|object| object.baseline.is_none()) {
            let is_combined = |object: &BoundObject| self.is_combined(&placed, object);
            let accepted = record::Accepted {
                bound: &settled,
                own,
                now: facts.now,
                is_combined: &is_combined,
            };
            record::settle(record, &accepted);
        }
        self.require_shown(&objects)?;
        self.require_recorded(settled.destinations.len())?;
        let finding = if stage.is_judged() {
            self.check(&placed, &settled, record)?
        } else {
            not_judged(stage, &settled, record)
        };
        self.soak(record, finding)
    }

    /// Filter, evidence and condition over all kept objects. What is unknown comes before what is false.
    fn check(
        &mut self,
        placed: &Placed<'_>,
        settled: &Bound<'_>,
        record: &mut StageStatus,
    ) -> Result<Finding, Finding> {
        let facts = self.subjected.facts;
        let note = Note {
            check: None,
            evidence: None,
            now: facts.now,
        };
        if record::is_asked_anew(record, self.subjected.stage) {
            record.passing_since = None;
        }
        let kept = match self.kept(&settled.objects, record) {
            Ok(kept) => kept,
            Err(finding) => {
                record::note_check(record, "filter", &finding, note);
                return Err(finding);
            }
        };
        let destinations = sorted_destinations(placed);
        let evidence =
            collector::require(facts).and_then(|()| self.evidence(placed, (&kept, destinations.as_slice()), record));
        let (digest, health) = match evidence {
            Ok(complete) => complete,
            Err(finding) => {
                if !finding.is_restart {
                    record::note_check(record, "evidence", &finding, note);
                }
                return Err(finding);
            }
        };
        // A filter may leave out objects that are reported on.
        self.is_reported = placed.stage.filter.is_none();
        let text = format!(
            "{} object(s) reported by {} cluster(s)",
            kept.len(),
            settled.destinations.len()
        );
        let before = record::evidence_of_no_soak(record);
        record::note_check(
            record,
            "evidence",
            &Finding::pass(Reason::Complete, text),
            Note {
                evidence: Some(&digest),
                ..note
            },
        );
        let stage = placed.stage;
        record.checks.retain(|check| stage.has_check(&check.name));
        let mut findings = Vec::new();
        let mut said = None;
        if stage.requires_health() {
            let finding = health.finding();
            // No digest: newer evidence alone changes nothing in status, while a new message tells how far the rollout is.
            record::note_check(record, "health", &finding, note);
            findings.push(finding);
        }
        if let Some(condition) = &stage.condition {
            let finding = self.condition(placed, &kept, condition);
            record::note_check(
                record,
                "condition",
                &finding,
                Note {
                    check: Some(&condition.digest),
                    evidence: Some(&digest),
                    ..note
                },
            );
            said = Some(gates::earlier_condition(&finding));
            findings.push(finding);
        }
        if let Some(failed) = gates::failed(record, stage) {
            return Err(failed);
        }
        findings.extend(self.gates(placed, &kept, (said, record))?);
        let judged = worst(findings);
        if judged.is_err() {
            record::keep_evidence(record, before);
        }
        judged
    }

    /// One finding for each gate, in their order.
    fn gates(
        &mut self,
        placed: &Placed<'_>,
        kept: &[&BoundObject],
        (condition, record): (Option<EarlierVerdict>, &mut StageStatus),
    ) -> Result<Vec<Finding>, Finding> {
        let Subjected { facts, stage, own, .. } = self.subjected;
        if stage.gates.is_empty() {
            return Ok(Vec::new());
        }
        if !self.questions.is_empty() {
            return Err(Finding::unknown(
                Reason::GateError,
                "what comes before is not answered yet",
            ));
        }
        let (objects, destinations) = self.shown_to_gates(placed, kept)?;
        let round = gates::Round {
            facts,
            stage,
            own,
            objects,
            destinations,
        };
        let answered = round.ask(condition.into_iter().collect());
        self.questions.extend(answered.question);
        let soonest = |a: Option<Timestamp>, b: Option<Timestamp>| a.into_iter().chain(b).min();
        let timeouts = stage.gates.iter().map(|gate| i64::from(gate.timeout_ms)).sum();
        let reading_ends = after(facts.now, READING_IS_WORTH + SignedDuration::from_millis(timeouts));
        let mut valid_until = reading_ends;
        for told in &answered.gates {
            if told.finding.outcome == Outcome::Pass && !told.goes_on_from(record, facts.now) {
                record.passing_since = None;
            }
            if !told.finding.is_restart {
                record::note_gate(record, told, stage.soak.is_some(), facts.now);
            }
            self.ask_again_at = soonest(self.ask_again_at, told.ask_again_at);
            valid_until = told.valid_until.map_or(valid_until, |until| until.min(valid_until));
        }
        self.valid_until = Some(valid_until);
        if self.questions.is_empty() {
            Ok(answered.gates.into_iter().map(|told| told.finding).collect())
        } else {
            Err(Finding::unknown(Reason::GateError, "not asked yet"))
        }
    }

    /// The kept objects and, for each cluster, what it reported about them.
    fn shown_to_gates(
        &self,
        placed: &Placed<'_>,
        kept: &[&BoundObject],
    ) -> Result<(Vec<GateObject>, Vec<GateDestination>), Finding> {
        let mut objects: Vec<GateObject> = Vec::new();
        let mut rows: Vec<BTreeMap<&str, &EvidenceRow>> = Vec::new();
        for object in kept {
            let (subject, found) = self.subject(placed, object)?;
            let view = subject.combined()?;
            let (namespace, name) = subject.combined_name();
            objects.push(GateObject {
                key: bound::key(object),
                uid: found.uid.clone(),
                generation: found.generation,
                combined: CombinedRef {
                    namespace,
                    name,
                    digest: view.digest.clone(),
                },
            });
            rows.push(subject.rows().iter().map(|row| (row.cluster.as_str(), row)).collect());
        }
        let destinations = super::binding_part::destinations_of(placed);
        let shown = |cluster: &&str| {
            let evidence = objects
                .iter()
                .zip(&rows)
                .map(|(object, rows)| gates::row_of(&object.key, rows.get(cluster).copied(), cluster))
                .collect::<Result<_, _>>()?;
            Ok(GateDestination {
                name: (*cluster).to_owned(),
                evidence,
            })
        };
        let destinations = destinations.iter().map(shown).collect::<Result<_, Finding>>()?;
        Ok((objects, destinations))
    }

    /// The objects that are judged: those the filter keeps, or without one those that can report.
    pub(super) fn kept<'b>(
        &mut self,
        objects: &[&'b BoundObject],
        record: &mut StageStatus,
    ) -> Result<Vec<&'b BoundObject>, Finding> {
        let Subjected { facts, stage, .. } = self.subjected;
        let can_report = |object: &&BoundObject| !kinds::is_never_returned(&object.group, &object.resource);
        let Some(filter) = &stage.filter else {
            let (kept, silent): (Vec<&BoundObject>, Vec<_>) = objects.iter().copied().partition(can_report);
            record.not_judged = record::not_judged(&silent.iter().map(|object| bound::key(object)).collect::<Vec<_>>());
            return if kept.is_empty() {
                Err(Finding::unknown(
                    Reason::NothingKept,
                    "no bound object is of a kind whose status clusters return, so there is nothing to check: bind one, or \
                     give this stage health: Ignored and a soak, without condition and gates",
                ))
            } else {
                Ok(kept)
            };
        };
        record.not_judged.clear();
        let mut kept = Vec::new();
        for object in objects {
            match self.filter_verdict(filter, object) {
                None | Some(Verdict::False) => {}
                Some(Verdict::True) => kept.push(*object),
                Some(Verdict::Unknown { message }) => {
                    return Err(Finding::unknown(
                        Reason::FilterError,
                        format!(
                            "the filter of stage {} failed for {}: {message}",
                            stage.name,
                            bound::key(object)
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
                    bound::key(object)
                ),
            ));
        }
        if kept.is_empty() && self.questions.is_empty() {
            return Err(Finding::unknown(
                Reason::NothingKept,
                format!(
                    "the filter of stage {} is false for every bound object: correct it, or bind what it names",
                    stage.name
                ),
            ));
        }
        let text = format!("keeps {} of {} bound object(s)", kept.len(), objects.len());
        record::note_check(record, "filter", &Finding::pass(Reason::Complete, text), note);
        Ok(kept)
    }

    fn filter_verdict(&mut self, filter: &Expression, object: &BoundObject) -> Option<&'a Verdict> {
        let clause = bound::clause(object);
        let key = VerdictKey {
            check: filter.digest.clone(),
            evidence: Digest::of(&clause),
            attempt: self.subjected.own.attempt,
        };
        self.verdict(key, &filter.text, Evidence::Clause(clause))
    }

    fn verdict(&mut self, key: VerdictKey, text: &str, evidence: Evidence) -> Option<&'a Verdict> {
        let verdict = self.subjected.facts.verdicts.get(&key);
        if verdict.is_none() {
            self.questions.push(Question::Check {
                key,
                text: text.to_owned(),
                evidence,
            });
        }
        verdict
    }

    /// The digest of all evidence, if every kept object's is complete and new enough, and the health that it tells of.
    fn evidence(
        &self,
        placed: &Placed<'_>,
        (kept, destinations): (&[&BoundObject], &[&str]),
        record: &StageStatus,
    ) -> Result<(Digest, Tally), Finding> {
        let stage = self.subjected.stage;
        let accepted: BTreeSet<&str> = destinations.iter().copied().collect();
        let clusters = Clusters::of([], &accepted);
        let positions = record::positions(&record.objects);
        let mut digests = Vec::new();
        let mut health = Tally::of_clusters(destinations.len());
        for object in kept {
            let (subject, found) = self.subject(placed, object)?;
            let position = positions.get(&bound::key(object));
            let entry = position.and_then(|position| record.objects.get(*position));
            let entry = entry.ok_or_else(|| tracked::missing(object))?;
            let view = subject.proven(entry, destinations)?;
            let edited = Edited::of(&subject, found, &clusters);
            if let Some(missing) = edited.missing(entry, stage.unseen_updates) {
                return Err(missing);
            }
            // Rows that moved and moved back leave the results as they were, but not the version.
            digests.push((view.digest.as_str(), view.metadata.resource_version.as_deref()));
            health.add(object, subject.rows());
        }
        Ok((Digest::of(&digests), health))
    }

    /// Whether the object's CombinedStatus has results of exactly the collectors that are bound to it.
    fn is_combined(&self, placed: &Placed<'_>, object: &BoundObject) -> bool {
        let Ok((subject, _)) = self.subject(placed, object) else {
            return false;
        };
        let Ok(view) = subject.combined() else { return false };
        let users = view.collectors.iter().map(|found| &found.name);
        let found: BTreeSet<&String> = users
            .chain(view.evidence.iter().map(|found| &found.collector))
            .collect();
        found == object.status_collectors.iter().collect()
    }

    fn condition(&mut self, placed: &Placed<'_>, kept: &[&BoundObject], condition: &Expression) -> Finding {
        let stage = &placed.stage.name;
        let (mut unknown, mut hold) = (None, None);
        for object in kept {
            let seen = self.subject(placed, object).map(|(subject, _)| subject);
            let (subject, view) = match seen.and_then(|subject| Ok((subject, subject.combined()?))) {
                Ok(seen) => seen,
                Err(finding) => {
                    unknown.get_or_insert(finding);
                    continue;
                }
            };
            let (namespace, name) = subject.combined_name();
            let key = VerdictKey {
                check: condition.digest.clone(),
                evidence: Digest::from_text(view.digest.clone()),
                attempt: placed.own.attempt,
            };
            let object = bound::key(object);
            match self.verdict(key, &condition.text, Evidence::CombinedStatus { namespace, name }) {
                Some(Verdict::True) => {}
                Some(Verdict::False) => {
                    let text = format!(
                        "the condition of stage {stage} is false for {object}: {}",
                        subject.reported()
                    );
                    hold.get_or_insert_with(|| Finding::hold(Reason::ConditionFalse, text));
                }
                Some(Verdict::Unknown { message }) => {
                    let text = format!(
                        "the condition of stage {stage} failed for {object}: {message}; correct \
                        spec.stages[].condition or the StatusCollector it reads"
                    );
                    unknown.get_or_insert_with(|| Finding::unknown(Reason::ConditionError, text));
                }
                None => {
                    unknown.get_or_insert_with(|| Finding::unknown(Reason::ConditionError, "not evaluated yet"));
                }
            }
        }
        unknown
            .or(hold)
            .unwrap_or_else(|| Finding::pass(Reason::ConditionTrue, format!("true for {} object(s)", kept.len())))
    }
}

/// One finding for all: what failed, then what is unknown, then what holds; the first of its kind. That this process is new
/// comes last: it must not hide what another check says.
fn worst(findings: Vec<Finding>) -> Result<Finding, Finding> {
    let rank = |finding: &Finding| match finding.outcome {
        Outcome::Fail => 0,
        Outcome::Unknown if !finding.is_restart => 1,
        Outcome::Hold => 2,
        Outcome::Unknown => 3,
        Outcome::Pass => 4,
    };
    if let Some(worst) = findings
        .iter()
        .filter(|finding| rank(finding) < 4)
        .min_by_key(|finding| rank(finding))
    {
        return Err(worst.clone());
    }
    let last = findings.into_iter().next();
    Ok(last.unwrap_or_else(|| Finding::pass(Reason::Complete, "complete")))
}

/// A stage without checks needs only its Binding.
fn not_judged(stage: &CheckedStage, settled: &Bound<'_>, record: &mut StageStatus) -> Finding {
    record.checks.retain(|check| check.name == "soak");
    record.not_judged.clear();
    Finding::pass(
        Reason::PlacedNotJudged,
        format!(
            "stage {} has health Ignored and neither condition nor gates: {} object(s) placed in {} cluster(s), not judged",
            stage.name,
            settled.objects.len(),
            settled.destinations.len()
        ),
    )
}

/// The clusters of the Binding in the order of evidence rows.
pub(super) fn sorted_destinations<'a>(placed: &Placed<'a>) -> Vec<&'a str> {
    let mut destinations = super::binding_part::destinations_of(placed);
    destinations.sort_unstable();
    destinations.dedup();
    destinations
}
