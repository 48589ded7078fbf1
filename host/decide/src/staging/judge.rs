//! One placement against its checks: what is missing first, what a check answers, what nobody has asked yet. Must not
//! place or remove anything.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use stagegate_api::{BoundObject, ObjectStatus, Outcome, StageStatus};

use super::binding_part::{Bound, Placed};
use super::edits::Edited;
use super::evidence::Subject;
use super::facts::{Decoded, Facts, ObjectMeta, Verdict, VerdictKey};
use super::finding::Finding;
use super::plan::{Evidence, Question};
use super::reason::Reason;
use super::record::{self, Note, key_of};
use super::slot::{Own, after, later};
use super::spec::{CheckedStage, Expression};
use super::{bound, collector, kinds};
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
    let mut judging = Judging {
        subjected,
        questions: Vec::new(),
    };
    let result = judging.run(&mut record);
    let finding = match result {
        Ok(finding) | Err(finding) => finding,
    };
    if finding.outcome != Outcome::Pass && finding.reason != Reason::Soaking && !finding.is_restart {
        record.passing_since = None;
    }
    Judgement {
        record,
        finding,
        questions: judging.questions,
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
    let mut judging = Judging {
        subjected,
        questions: Vec::new(),
    };
    let objects = bound::objects(binding);
    judging.ask_about_objects(&objects);
    let mut record = recorded.clone();
    judging.track(&placed, &objects, &mut record);
    Some((record.objects, judging.questions))
}

struct Judging<'a> {
    subjected: Subjected<'a>,
    questions: Vec<Question>,
}

impl<'a> Judging<'a> {
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
            record::settle(record, &settled, own, facts.now);
        }
        let finding = if stage.is_judged() {
            self.check(&placed, &settled, record)?
        } else {
            not_judged(stage, &settled, record)
        };
        self.soak(record, finding)
    }

    /// Every bound object is looked at again when its version in the Binding moves: an edit of one that is not judged
    /// restarts the settling all the same.
    fn ask_about_objects(&mut self, objects: &[&BoundObject]) {
        for object in objects {
            let key = bound::key(object);
            let known = self.subjected.facts.objects.get(&key);
            if known.is_none_or(|known| known.asked_for != object.resource_version) {
                self.questions.push(Question::Object {
                    key,
                    version: object.version.clone(),
                    resource_version: object.resource_version.clone(),
                });
            }
        }
    }

    fn found(&self, object: &BoundObject) -> Option<&'a ObjectMeta> {
        self.subjected
            .facts
            .objects
            .get(&bound::key(object))
            .and_then(|known| known.found.as_ref())
    }

    /// Brings the record of each object up to date with its edits and the clusters' answers.
    fn track(&self, placed: &Placed<'_>, objects: &[&BoundObject], record: &mut StageStatus) {
        let facts = self.subjected.facts;
        let destinations = super::binding_part::destinations_of(placed);
        for object in objects.iter().take(stagegate_api::staged_status::MAX_RECORDED) {
            let Some(found) = self.found(object) else { continue };
            let key = bound::key(object);
            let position = record.objects.iter().position(|entry| key_of(entry) == key);
            let old = position.and_then(|position| record.objects.get(position));
            let subject = Subject {
                placed,
                bound: object,
                uid: &found.uid,
            };
            let edited = Edited {
                bound: object,
                found,
                rows: subject.rows(),
                destinations: &destinations,
                now: facts.now,
                settings: facts.settings,
            };
            let is_moved = |old: &ObjectStatus| old.uid != found.uid || old.mark.as_ref() != Some(&found.mark);
            if found.generation.is_none() && old.is_some_and(is_moved) {
                record.unsettled_since = Some(record::from(facts.now));
                record.passing_since = None;
                record.message = Some(format!(
                    "{key} counts no generations: that its last edit arrived in the clusters is unproven"
                ));
            }
            let mut entry = edited.advance(old);
            if old.is_none() {
                self.inherit(edited, &mut entry);
            }
            match position {
                Some(position) => record.objects[position] = entry,
                None => record.objects.push(entry),
            }
        }
    }

    /// First seen here, but placed by another stage, too: what its clusters still owe there, they owe here. Their old
    /// status counts at once under the new placement, so an edit made between the last round and this stage's Binding
    /// would be judged by what came before it.
    fn inherit(&self, edited: Edited<'_>, entry: &mut ObjectStatus) {
        let Subjected { facts, own, .. } = self.subjected;
        let key = key_of(entry);
        for other in facts.policy.object.status.iter().flat_map(|status| &status.stages) {
            let is_placed = other.binding_policy.as_ref().is_some_and(|placement| {
                let live = facts.placements.get(&placement.name).and_then(Decoded::object);
                placement.uid != own.uid()
                    && live.is_some_and(|live| live.metadata.uid.as_deref() == Some(&placement.uid))
            });
            let Some(known) = other.objects.iter().find(|known| is_placed && key_of(known) == key) else {
                continue;
            };
            let is_shared = |cluster: &&str| other.destinations.iter().any(|shared| shared == cluster);
            let shared: Vec<&str> = edited.destinations.iter().copied().filter(is_shared).collect();
            let owed = Edited {
                destinations: &shared,
                ..edited
            }
            .advance(Some(known))
            .updates;
            entry
                .updates
                .retain(|update| owed.iter().all(|other| other.cluster != update.cluster));
            entry.updates.extend(owed);
        }
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
        let kept = match self.kept(&settled.objects, record) {
            Ok(kept) => kept,
            Err(finding) => {
                record::note_check(record, "filter", &finding, note);
                return Err(finding);
            }
        };
        let evidence = collector::require(facts).and_then(|()| self.evidence(placed, &kept, record));
        let digest = match evidence {
            Ok(digest) => digest,
            Err(finding) => {
                if !finding.is_restart {
                    record::note_check(record, "evidence", &finding, note);
                }
                return Err(finding);
            }
        };
        let text = format!(
            "{} object(s) reported by {} cluster(s)",
            kept.len(),
            settled.destinations.len()
        );
        record::note_check(
            record,
            "evidence",
            &Finding::pass(Reason::Complete, text),
            Note {
                evidence: Some(&digest),
                ..note
            },
        );
        let Some(condition) = &placed.stage.condition else {
            return Ok(Finding::pass(Reason::Complete, "complete"));
        };
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
        if finding.outcome == Outcome::Pass {
            Ok(finding)
        } else {
            Err(finding)
        }
    }

    /// The objects that are judged: those the filter keeps, or without one those that can report.
    fn kept<'b>(
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
                    "no bound object is of a kind whose status clusters return, so there is nothing to judge: \
                    bind one, or use soak alone",
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

    /// The digest of all evidence, if every kept object's is complete and new enough.
    fn evidence(&self, placed: &Placed<'_>, kept: &[&BoundObject], record: &StageStatus) -> Result<Digest, Finding> {
        let Subjected { facts, stage, .. } = self.subjected;
        let destinations = super::binding_part::destinations_of(placed);
        let mut digests = Vec::new();
        for object in kept {
            let key = bound::key(object);
            let entry = record.objects.iter().find(|entry| key_of(entry) == key);
            let (Some(found), Some(entry)) = (self.found(object), entry) else {
                return Err(Finding::unknown(
                    Reason::ObjectMissing,
                    format!(
                        "{key} is in the Binding, but not on this control plane: it is being deleted, or was just made"
                    ),
                ));
            };
            let subject = Subject {
                placed,
                bound: object,
                uid: &found.uid,
            };
            let view = subject.proven(entry)?;
            let edited = Edited {
                bound: object,
                found,
                rows: subject.rows(),
                destinations: &destinations,
                now: facts.now,
                settings: facts.settings,
            };
            if let Some(missing) = edited.missing(entry, stage.unseen_updates) {
                return Err(missing);
            }
            // Rows that moved and moved back leave the results as they were, but not the version.
            digests.push((view.digest.as_str(), view.metadata.resource_version.as_deref()));
        }
        Ok(Digest::of(&digests))
    }

    fn condition(&mut self, placed: &Placed<'_>, kept: &[&BoundObject], condition: &Expression) -> Finding {
        let stage = &placed.stage.name;
        let (mut unknown, mut hold) = (None, None);
        for object in kept {
            let Some(found) = self.found(object) else { continue };
            let subject = Subject {
                placed,
                bound: object,
                uid: &found.uid,
            };
            let Ok(view) = subject.combined() else { continue };
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

    /// All has to pass for this long without a break, counted from when the previous stage was removed.
    fn soak(&self, record: &mut StageStatus, passed: Finding) -> Result<Finding, Finding> {
        let Subjected {
            facts,
            stage,
            is_handing_over,
            ..
        } = self.subjected;
        let Some(soak) = stage.soak else {
            record.passing_since.get_or_insert(record::from(facts.now));
            return Ok(passed);
        };
        let note = Note {
            check: None,
            evidence: None,
            now: facts.now,
        };
        if is_handing_over {
            record.passing_since = None;
            let finding = Finding::unknown(
                Reason::Soaking,
                "the soak starts when the previous stage's placement is removed",
            );
            record::note_check(record, "soak", &finding, note);
            return Err(finding);
        }
        if self.may_have_been_broken(record) {
            record.passing_since = None;
        }
        let start = record.unsettled_since.as_ref().map(|time| time.0);
        let since = later(
            start,
            record
                .passing_since
                .as_ref()
                .map_or(record::from(facts.now).0, |time| time.0),
        );
        record.passing_since = Some(Time(since));
        let until = after(since, soak);
        let finding = if facts.now >= until {
            Finding::pass(Reason::Soaked, format!("everything has passed since {since}"))
        } else {
            Finding::unknown(
                Reason::Soaking,
                format!("everything has passed since {since}; it must until {until}"),
            )
            .wake_at(until)
        };
        record::note_check(record, "soak", &finding, note);
        if finding.outcome == Outcome::Pass {
            Ok(passed)
        } else {
            Err(finding)
        }
    }

    /// What was recorded before this process watched counts on only if the evidence is still the same.
    fn may_have_been_broken(&self, record: &StageStatus) -> bool {
        let recorded = self.subjected.recorded;
        let digest = |record: &StageStatus| {
            record
                .checks
                .iter()
                .find(|check| check.name == "evidence")
                .and_then(|check| check.evidence_digest.clone())
        };
        let time = |record: &StageStatus| {
            record
                .checks
                .iter()
                .find(|check| check.name == "evidence")
                .and_then(|check| check.evaluated_at.as_ref())
                .map(|time| time.0)
        };
        match (self.subjected.facts.watching_since, recorded) {
            (Some(watching_since), Some(recorded)) => {
                time(recorded).is_some_and(|time: Timestamp| time < watching_since)
                    && digest(recorded) != digest(record)
            }
            _ => false,
        }
    }
}

/// Without a condition there is nothing to judge: the Binding part is all that is asked for.
fn not_judged(stage: &CheckedStage, settled: &Bound<'_>, record: &mut StageStatus) -> Finding {
    record.checks.retain(|check| check.name == "soak");
    record.not_judged.clear();
    Finding::pass(
        Reason::PlacedNotJudged,
        format!(
            "stage {} has no condition: {} object(s) placed in {} cluster(s), not judged",
            stage.name,
            settled.objects.len(),
            settled.destinations.len()
        ),
    )
}
