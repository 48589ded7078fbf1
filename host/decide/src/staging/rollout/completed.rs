//! After completion nothing moves any more, but the last stage's health is watched, and updates of its objects are reported.
//! Must not place, remove, or judge a stage again.

use crate::time::round_up_to_second;
use std::collections::BTreeSet;

use stagegate_api::{BoundObject, ObjectStatus, StageStatus};

use crate::checks::finding::Finding;
use crate::checks::health::Tally;
use crate::checks::reason::Reason;
use crate::names::ClusterName;
use crate::staging::evidence::{Clusters, ObjectTracker, Placed, UpdateTracker, binding::destinations_of};
use crate::staging::input::{
    StageInput, binding_view,
    recorded::{key_of, positions},
};
use crate::staging::plan::Event;
use crate::staging::question::Question;
use crate::staging::rollout::judge::{StageEvaluator, sorted_destinations};
use crate::staging::rollout::{Draft, Rollout};

impl Rollout<'_> {
    /// What the last stage lacks. `None`: it is healthy, or there is no health to watch.
    pub(crate) fn after_completion(&self, draft: &mut Draft, records: &mut [StageStatus]) -> Option<Finding> {
        let last = self.last();
        let own = self.slots[last].open()?;
        let record = &mut records[last];
        record
            .completed_at
            .get_or_insert_with(|| round_up_to_second(self.facts.now));
        let updated = if self.facts.is_staged() {
            // An edit is another revision.
            Vec::new()
        } else {
            self.updated_since(record)
        };
        for updated in updated {
            let text = format!(
                "{} was updated after completion: every cluster of every placed stage receives the update at once, and no \
                 stage judges it first",
                key_of(&updated)
            );
            draft.events.push(Event {
                warning: true,
                reason: Reason::EditedAfterCompletion,
                message: text.clone(),
            });
            record.message = Some(text);
        }
        let HealthNow {
            finding,
            questions,
            clusters,
        } = watch_health(StageInput {
            facts: self.facts,
            stage: self.stage(last),
            own,
            recorded: Some(record),
            is_handing_over: false,
        })?;
        draft.questions.extend(questions);
        draft.clusters = clusters;
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
        let positions = positions(&before.objects);
        let is_updated = |now: &&ObjectStatus| {
            let known = positions.get(&key_of(now)).map(|position| &before.objects[*position]);
            known.is_some_and(|known| {
                (&known.uid, known.generation, &known.metadata_digest)
                    != (&now.uid, now.generation, &now.metadata_digest)
            })
        };
        record.objects.iter().filter(is_updated).cloned().collect()
    }
}

/// What [`watch_health`] finds.
struct HealthNow {
    finding: Finding,
    questions: Vec<Question>,
    /// How many clusters are healthy, and how many there are; `None`: evidence is missing.
    clusters: Option<(usize, usize)>,
}

/// The health of an open placement whose stage is not being judged; `None` if the stage does not require health. Missing
/// evidence is an unknown finding. The finding is preliminary while there are questions.
fn watch_health(input: StageInput<'_>) -> Option<HealthNow> {
    let StageInput { stage, recorded, .. } = input;
    if !stage.requires_health() {
        return None;
    }
    let mut record = recorded.cloned().unwrap_or_default();
    let before = record.clone();
    let placed = Placed::of(input, &before);
    let mut judging = StageEvaluator::new(input);
    let mut clusters = None;
    let result = placed.binding().and_then(|(_, binding)| {
        let objects = binding_view::objects(binding);
        judging.objects.ask_about_objects(&objects);
        judging.objects.require_shown(&objects)?;
        let kept = judging.kept(&objects, &mut record)?;
        let destinations = sorted_destinations(&placed);
        if destinations.is_empty() {
            let text = format!("Binding {} names no cluster now", stage.placement);
            return Err(Finding::unknown(Reason::NoDestinations, text));
        }
        require_acknowledged(&judging.objects, &placed, &kept)?;
        let mut health = Tally::of_clusters(destinations.len());
        for object in kept {
            let (subject, _) = judging.objects.subject(&placed, object)?;
            health.add(&binding_view::counted(object), subject.reported_rows(&destinations)?);
        }
        clusters = Some((health.healthy(), destinations.len()));
        Ok(health.finding())
    });
    let finding = match result {
        Ok(finding) | Err(finding) => finding,
    };
    Some(HealthNow {
        finding,
        questions: judging.objects.questions,
        clusters,
    })
}

/// Fails while a cluster of the Binding has not acknowledged an update. A cluster that has left the Binding does not count: no set
/// is accepted after completion, so its entry stays until the spec changes.
fn require_acknowledged(
    tracker: &ObjectTracker<'_>,
    placed: &Placed<'_>,
    kept: &[&BoundObject],
) -> Result<(), Finding> {
    let bound: BTreeSet<ClusterName<&str>> = destinations_of(placed).into_iter().collect();
    let clusters = Clusters::of([], &bound);
    let positions = positions(&placed.record.objects);
    for object in kept {
        let (subject, found) = tracker.subject(placed, object)?;
        let entry = positions
            .get(&binding_view::key(object))
            .map(|at| &placed.record.objects[*at]);
        let edited = UpdateTracker::of(&subject, found, &clusters);
        if let Some(missing) = entry.and_then(|entry| edited.missing(entry, placed.stage.unacknowledged_updates)) {
            return Err(missing);
        }
    }
    Ok(())
}
