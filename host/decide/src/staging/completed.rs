//! After completion: nothing moves any more, but the last stage is looked at, and what is updated then is reported. Must not
//! place, remove or judge again.

use stagegate_api::{ObjectStatus, StageStatus};

use super::finding::Finding;
use super::judge::{Subjected, watch_health};
use super::plan::Event;
use super::reason::Reason;
use super::record::{self, key_of};
use super::rollout::{Draft, Rollout};

impl Rollout<'_> {
    /// What the last stage lacks; `None`: it is as healthy as it was when it passed.
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

    /// The objects of which status knows another version than the one that is there now.
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
