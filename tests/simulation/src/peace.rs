//! The end of a run: the faults stop, and a person does what status says. Must not know why status says so.

use std::collections::BTreeMap;

use stagegate_api::{BindingPolicy, Stage, StageHealth};
use stagegate_decide::names::{PlacementName, StageName};

use crate::clusters::Member;
use crate::controller::COLLECTOR;
use crate::script::{Action, Edit, PolicyEdit};
use crate::server::{Stored, Workload};
use crate::users::{OBJECTS, STAGES};
use crate::world::{Event, POLICY, World};

impl World {
    /// Everything is well from now on, and no user does anything any more.
    pub fn settle_down(&mut self) {
        self.say(|| "all is well from now on".to_owned());
        let now = self.queue.now();
        for member in self.fleet.members.values_mut() {
            (member.unreachable_until, member.applies_from) = (now, now);
        }
        for process in 0..self.processes.len() {
            let of = &mut self.processes[process];
            (of.late, of.paused_until, of.skew_ms) = (BTreeMap::new(), now, 0);
            self.queue.after(0, Event::Start(process));
        }
        self.queue.after(0, Event::Elect);
        self.queue.after(1_000, Event::Elect);
        self.is_settled = true;
        (self.lose_answer, self.refuse_write, self.reads_from) = (false, false, now);
        self.gates.is_calm = true;
        let count = self.script.setting.objects.len();
        for (position, name) in OBJECTS.iter().enumerate().take(count) {
            let key = format!("default/{name}");
            let live = self.server.workloads.get(&key).cloned();
            let is_labelled = |live: &Workload| {
                live.metadata
                    .labels
                    .as_ref()
                    .and_then(|labels| labels.get("app"))
                    .is_some_and(|app| app == "web")
            };
            match live {
                None => self.make_workload(position),
                Some(live) => {
                    if live.content.crashes {
                        self.edit_workload(position, Edit::Spec);
                    }
                    if !is_labelled(&live) {
                        self.edit_workload(position, Edit::Label);
                    }
                }
            }
        }
        for cluster in 0..self.fleet.members.len() {
            for object in 0..OBJECTS.len() {
                if self.is_sick(cluster, object) {
                    self.sicken(cluster, object, false);
                }
            }
        }
        if self.server.collectors.get(COLLECTOR).is_none() {
            self.make_collector();
        }
        self.release_policy();
        if self.server.policies.get(POLICY).is_none() {
            self.make_policy(POLICY);
        }
    }

    /// A cluster in which the last stage has placed the first object, where a stage like that has to watch its health.
    pub(crate) fn watched_cluster(&self) -> Option<usize> {
        let policy = self.server.policies.get(POLICY)?;
        let last = policy.spec.stages.last()?;
        // An edit of what is only created is not delivered: status calls that overdue, however well the workload runs.
        let is_watched = last.health == StageHealth::Required && last.filter.is_none() && !self.is_create_only();
        let counts = self.script.setting.objects.first()?.counts_replicas();
        let name = PlacementName::of(POLICY, StageName::of(&last.name));
        let binding = self.server.bindings.get(name.as_str())?;
        let key = format!("default/{}", OBJECTS[0]);
        let is_placed = |(cluster, member): &(&String, &Member)| {
            let named = binding.spec.destinations.iter();
            member.running.contains_key(&key) && named.into_iter().any(|one| one.cluster_id == **cluster)
        };
        let position = self.fleet.members.iter().position(|member| is_placed(&member));
        position.filter(|_| is_watched && counts)
    }

    fn is_sick(&mut self, cluster: usize, object: usize) -> bool {
        let key = format!("default/{}", OBJECTS[object]);
        let member = self.member(cluster).map(|(_, member)| member);
        member
            .and_then(|member| member.running.get(&key))
            .is_some_and(|running| running.is_sick)
    }

    /// What a person does when status gives this reason. `false`: status names nothing that a person could do.
    pub fn help(&mut self, reason: &str) -> bool {
        self.say(|| format!("a person sees {reason}"));
        match reason {
            "Paused" => self.edit_policy(PolicyEdit::Resume),
            "GateFailed" | "GateHolds" | "InvalidGateConfig" => self.edit_policy(PolicyEdit::Gates),
            "BindingPolicyNotOwned" => {
                let owned = |object: &BindingPolicy| object.meta().owner_references.is_some();
                let foreign = self.server.placements.all().filter(|(_, object)| !owned(object));
                let names: Vec<String> = foreign.map(|(name, _)| name.clone()).collect();
                for name in names {
                    let _gone = self.server.placements.delete(&mut self.server.counter, (&name, None));
                }
            }
            "NoDestinations" => {
                let names: Vec<String> = self.server.clusters.all().map(|(name, _)| name.clone()).collect();
                for name in names {
                    let home = name.split('-').next().unwrap_or_default().to_owned();
                    self.label_cluster(&name, ("stage", &home));
                }
            }
            "ActiveStageRemoved" => self.remove_left_placements(),
            "InvalidSpec"
            | "ConditionFalse"
            | "FilterMatchedNothing"
            | "FilterError"
            | "ConditionError"
            | "NoStatusForKind"
            | "RowError"
            | "StatusTooLarge"
            | "StatusCollectorMissing" => {
                // Status names the field of the policy that is wrong: a person puts it right.
                let of_collectors = [
                    "ConditionFalse",
                    "ConditionError",
                    "RowError",
                    "StatusTooLarge",
                    "StatusCollectorMissing",
                ];
                let collectors = of_collectors.contains(&reason);
                self.mend_policy(collectors);
            }
            // Status says that updates do not reach the clusters.
            "UpdateAcknowledgementOverdue" | "HealthFailed" | "Unhealthy" | "NotReported" if self.is_create_only() => {
                self.edit_policy(PolicyEdit::CreateOnly);
            }
            "UpdateAcknowledgementOverdue" | "HealthFailed" | "NotReported" => {
                for position in 0..self.script.setting.objects.len() {
                    self.edit_workload(position, Edit::Spec);
                }
            }
            "DestinationsDiffer" if let Some(name) = self.told("delete StatusCollector ", ';') => {
                let _gone = self.server.collectors.delete(&mut self.server.counter, (&name, None));
            }
            // KubeStellar has no reason to write it again, and the rules have no reason to wait for that.
            "CombinedStatusStale" if self.is_evidence_as_it_was() => return false,
            "DestinationsDiffer" | "CombinedStatusStale" => {
                let names: Vec<String> = self.server.combined.all().map(|(name, _)| name.clone()).collect();
                for name in names {
                    let _gone = self.server.combined.delete(&mut self.server.counter, (&name, None));
                }
            }
            "CombinedStatusMissing" => return self.make_placement_anew(),
            "BindingPolicyNotStored" if self.is_create_only() => self.edit_policy(PolicyEdit::CreateOnly),
            "NoObjects" => self.edit_policy(PolicyEdit::Clause),
            _ => return false,
        }
        true
    }

    /// Whether nothing has been done after which reports have to be newer: users have edited workloads and the policy, but
    /// never what is asked about the same clusters.
    fn is_evidence_as_it_was(&self) -> bool {
        let is_harmless = |action: &Action| match action {
            Action::EditWorkload(_, edit) => *edit != Edit::Label,
            Action::EditPolicy(edit) => matches!(
                edit,
                PolicyEdit::Pause
                    | PolicyEdit::Resume
                    | PolicyEdit::Soak
                    | PolicyEdit::Clause
                    | PolicyEdit::Wider
                    | PolicyEdit::Spelling
            ),
            _ => false,
        };
        self.script.actions.iter().all(|(_, action)| is_harmless(action))
    }

    /// Deletes the BindingPolicy that status names, if it does.
    fn make_placement_anew(&mut self) -> bool {
        let Some(name) = self.placement_to_delete() else {
            return false;
        };
        self.server
            .placements
            .delete(&mut self.server.counter, (&name, None))
            .is_ok()
    }

    /// The BindingPolicy that a person shall delete, as status says.
    pub(crate) fn placement_to_delete(&self) -> Option<String> {
        self.told("Delete BindingPolicy ", ';')
    }

    /// What status names between these words and this character.
    fn told(&self, words: &str, end: char) -> Option<String> {
        let status = self.server.policies.get(POLICY)?.status.as_ref()?;
        let conditions = status.conditions.iter();
        let mut said = conditions.filter_map(|condition| condition.message.split_once(words));
        let (_, rest) = said.next()?;
        rest.split(end).next().map(str::to_owned)
    }

    /// Deletes what is placed for stages that the policy has no more, as status says.
    fn remove_left_placements(&mut self) {
        let stages = self
            .server
            .policies
            .get(POLICY)
            .map(|policy| policy.spec.stages.clone());
        let stages = stages.unwrap_or_default();
        let is_stage = |name: &str| {
            let mut names = stages
                .iter()
                .map(|stage| PlacementName::of(POLICY, StageName::of(&stage.name)));
            names.any(|stage| stage.as_str() == name)
        };
        let owned = self
            .server
            .placements
            .all()
            .filter(|(name, _)| name.starts_with(POLICY));
        let left: Vec<String> = owned
            .map(|(name, _)| name.clone())
            .filter(|name| !is_stage(name))
            .collect();
        for name in left {
            let _gone = self.server.placements.delete(&mut self.server.counter, (&name, None));
        }
    }

    fn is_create_only(&self) -> bool {
        let policy = self.server.policies.get(POLICY);
        policy.is_some_and(|policy| policy.spec.downsync.iter().any(|clause| clause.create_only))
    }

    /// Restores the original stages, without conditions and filters: these may be what cannot be evaluated.
    fn mend_policy(&mut self, has_collectors: bool) {
        let stages: Vec<Stage> = (0..self.script.setting.clusters.len())
            .map(|position| Stage {
                condition: None,
                filter: None,
                ..self.stage(STAGES[position])
            })
            .collect();
        let _edited = self
            .server
            .policies
            .update(&mut self.server.counter, (POLICY, None), |policy| {
                policy.spec.stages = stages;
                if has_collectors {
                    policy.spec.downsync[0].status_collectors.clear();
                }
            });
    }
}
