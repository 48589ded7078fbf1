//! After completion nothing moves any more, but the last stage's health is watched, and updates of its objects are reported.
//! Must not place, remove, or judge a stage again.

use std::collections::BTreeSet;

use stagegate_api::{BoundObject, ObjectStatus, StageStatus};

use super::binding_part::{Placed, destinations_of};
use super::bound;
use super::edits::{Clusters, Edited};
use super::finding::Finding;
use super::healthy::Tally;
use super::judge::{Judging, Subjected, sorted_destinations};
use super::plan::{Event, Question};
use super::reason::Reason;
use super::record::{self, key_of};
use super::rollout::{Draft, Rollout};

impl Rollout<'_> {
    /// What the last stage lacks. `None`: it is healthy, or there is no health to watch.
    pub(super) fn after_completion(&self, draft: &mut Draft, records: &mut [StageStatus]) -> Option<Finding> {
        let last = self.last();
        let own = self.slots[last].open()?;
        let record = &mut records[last];
        record.completed_at.get_or_insert_with(|| record::from(self.facts.now));
        for updated in self.updated_since(record) {
            let text = format!(
                "{} was updated after completion: every cluster of every placed stage receives the update at once, and no \
                 stage judges it first",
                key_of(&updated)
            );
            draft.events.push(Event {
                warning: true,
                reason: Reason::EditedAfterCompletion.as_str().to_owned(),
                message: text.clone(),
            });
            record.message = Some(text);
        }
        let (finding, questions) = watch_health(Subjected {
            facts: self.facts,
            stage: self.stage(last),
            own,
            recorded: Some(record),
            is_handing_over: false,
        })?;
        draft.questions.extend(questions);
        draft.wake(finding.wake_at);
        if finding.reason == Reason::HealthFailed {
            draft.stalled.get_or_insert_with(|| finding.clone());
        }
        (!finding.is_pass()).then_some(finding)
    }

    /// The objects that are of another version now than when status was written.
    fn updated_since(&self, record: &StageStatus) -> Vec<ObjectStatus> {
        let Some(before) = self.recorded(self.last()) else {
            return Vec::new();
        };
        let positions = record::positions(&before.objects);
        let is_updated = |now: &&ObjectStatus| {
            let known = positions.get(&key_of(now)).map(|position| &before.objects[*position]);
            known.is_some_and(|known| {
                (&known.uid, known.generation, &known.mark) != (&now.uid, now.generation, &now.mark)
            })
        };
        record.objects.iter().filter(is_updated).cloned().collect()
    }
}

/// The health of an open placement whose stage is not being judged; `None` if the stage does not require health. Missing
/// evidence is an unknown finding. The finding is preliminary while there are questions.
fn watch_health(subjected: Subjected<'_>) -> Option<(Finding, Vec<Question>)> {
    let Subjected {
        facts,
        stage,
        own,
        recorded,
        ..
    } = subjected;
    if !stage.requires_health() {
        return None;
    }
    let mut record = recorded.cloned().unwrap_or_default();
    let nothing = record.clone();
    let placed = Placed {
        facts,
        stage,
        own,
        record: &nothing,
    };
    let mut judging = Judging::new(subjected);
    let result = placed.binding().and_then(|(_, binding)| {
        let objects = bound::objects(binding);
        judging.ask_about_objects(&objects);
        judging.require_shown(&objects)?;
        let kept = judging.kept(&objects, &mut record)?;
        let destinations = sorted_destinations(&placed);
        if destinations.is_empty() {
            let text = format!("Binding {} names no cluster now", stage.placement);
            return Err(Finding::unknown(Reason::NoDestinations, text));
        }
        judging.require_acknowledged(&placed, &kept)?;
        let mut health = Tally::of_clusters(destinations.len());
        for object in kept {
            let (subject, _) = judging.subject(&placed, object)?;
            health.add(object, subject.reported_rows(&destinations)?);
        }
        Ok(health.finding())
    });
    let finding = match result {
        Ok(finding) | Err(finding) => finding,
    };
    Some((finding, judging.questions))
}

impl Judging<'_> {
    /// Fails while a cluster of the Binding owes an acknowledgement of an update. A cluster that has left the Binding does not count:
    /// no set is accepted after completion, so its entry stays until the spec changes.
    fn require_acknowledged(&self, placed: &Placed<'_>, kept: &[&BoundObject]) -> Result<(), Finding> {
        let bound: BTreeSet<&str> = destinations_of(placed).into_iter().collect();
        let clusters = Clusters::of([], &bound);
        let positions = record::positions(&placed.record.objects);
        for object in kept {
            let (subject, found) = self.subject(placed, object)?;
            let entry = positions.get(&bound::key(object)).map(|at| &placed.record.objects[*at]);
            let edited = Edited::of(&subject, found, &clusters);
            if let Some(missing) = entry.and_then(|entry| edited.missing(entry, self.subjected.stage.unseen_updates)) {
                return Err(missing);
            }
        }
        Ok(())
    }
}
