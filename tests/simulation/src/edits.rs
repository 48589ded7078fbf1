//! What users change in workloads and policies.

use stagegate_api::{PreviousStages, Stage, StageHealth};

use crate::controller::COLLECTOR;
use crate::extras::edit_gates;
use crate::script::{Edit, PolicyEdit};
use crate::server::{Content, Resource};
use crate::users::{BROKEN_FILTER, CONDITION, FILTER, MISSPELT, OBJECTS, STAGES, selector};
use crate::world::{POLICY, World};

impl World {
    pub(crate) fn edit_workload(&mut self, position: usize, edit: Edit) {
        let position = position % self.script.setting.objects.len();
        let name = OBJECTS[position];
        // What a Job runs cannot be changed.
        if self.script.setting.objects[position] == Resource::Job && edit != Edit::Metadata {
            return;
        }
        let parts = (&self.kubestellar, &self.fleet, &self.server);
        self.oracle
            .before_update(self.server.policies.get(POLICY).map(AsRef::as_ref), parts);
        let content = self.content(2);
        let time = self.server.counter.time().0;
        let _edited =
            self.server
                .workloads
                .update(&mut self.server.counter, (&format!("default/{name}"), None), |object| {
                    let labels = object.metadata.labels.get_or_insert_default();
                    let content = Content {
                        replaced: Some(object.content.made_at),
                        ..content
                    };
                    match edit {
                        Edit::Spec => {
                            object.content = Content {
                                replicas: object.content.replicas,
                                ..content
                            }
                        }
                        Edit::Removal => {
                            object.content = Content {
                                replicas: object.content.replicas,
                                is_untimed: true,
                                ..content
                            };
                            return;
                        }
                        Edit::Broken => {
                            object.content = Content {
                                crashes: true,
                                is_blocked: content.id.is_multiple_of(2),
                                replicas: object.content.replicas,
                                ..content
                            }
                        }
                        Edit::Replicas => {
                            object.content = Content {
                                replicas: 1 + object.content.replicas % 3,
                                ..content
                            };
                        }
                        Edit::Metadata => {
                            labels.insert("touched".to_owned(), content.id.to_string());
                            // Whoever owns metadata alone is no editor.
                            return;
                        }
                        Edit::Label => {
                            let is_in = labels.get("app").is_some_and(|app| app == "web");
                            labels.insert("app".to_owned(), if is_in { "none" } else { "web" }.to_owned());
                            return;
                        }
                    }
                    object.edited_at = Some(time);
                });
    }

    pub(crate) fn edit_policy(&mut self, edit: PolicyEdit) {
        let (late, second) = (self.stage(STAGES[3]), self.chance.below(3));
        let _edited = self
            .server
            .policies
            .update(&mut self.server.counter, (POLICY, None), |policy| {
                let spec = &mut policy.spec;
                let count = spec.stages.len().max(1);
                let position = second % count;
                match edit {
                    PolicyEdit::Pause => spec.paused = true,
                    PolicyEdit::Resume => spec.paused = false,
                    PolicyEdit::Previous => {
                        spec.previous_stages = match spec.previous_stages {
                            PreviousStages::Keep => PreviousStages::Remove,
                            PreviousStages::Remove => PreviousStages::Keep,
                        }
                    }
                    PolicyEdit::CreateOnly => toggle(&mut spec.downsync[0].create_only),
                    PolicyEdit::Clause => {
                        let names = &mut spec.downsync[0].object_names;
                        *names = names.take().map_or(Some(OBJECTS.map(str::to_owned).to_vec()), |_| None);
                    }
                    PolicyEdit::Collectors => {
                        let named = &mut spec.downsync[0].status_collectors;
                        if named.is_empty() {
                            named.push(COLLECTOR.to_owned())
                        } else {
                            named.clear()
                        }
                    }
                    PolicyEdit::AddStage if count < 4 => {
                        let late = Stage {
                            cluster_selectors: spec.stages[count - 1].cluster_selectors.clone(),
                            ..late
                        };
                        if !spec.stages.iter().any(|stage| stage.name == late.name) {
                            spec.stages.insert(position, late);
                        }
                    }
                    PolicyEdit::Wider => {
                        let second = selector(("stage", STAGES[1]));
                        let selectors = &mut spec.stages[0].cluster_selectors;
                        match selectors.iter().position(|known| *known == second) {
                            Some(position) => drop(selectors.remove(position)),
                            None => selectors.push(second),
                        }
                    }
                    PolicyEdit::Spelling => spec.downsync[0].status_collectors.retain(|name| name != MISSPELT),
                    PolicyEdit::RemoveStage if count > 1 => drop(spec.stages.remove(position)),
                    PolicyEdit::RemoveFirstStage if count > 1 => drop(spec.stages.remove(0)),
                    PolicyEdit::Reorder => spec.stages.rotate_left(1),
                    PolicyEdit::Append if !spec.stages.iter().any(|stage| stage.name == late.name) => {
                        let cluster_selectors = spec.stages[position].cluster_selectors.clone();
                        spec.stages.push(Stage {
                            cluster_selectors,
                            ..late
                        });
                    }
                    PolicyEdit::Gates => edit_gates(&mut spec.stages),
                    other => edit_stage(&mut spec.stages[position], other),
                }
            });
    }
}

fn edit_stage(stage: &mut Stage, edit: PolicyEdit) {
    match edit {
        PolicyEdit::Soak => stage.soak = stage.soak.take().map_or(Some("20s".to_owned()), |_| None),
        PolicyEdit::Condition => {
            stage.condition = stage.condition.take().map_or(Some(CONDITION.to_owned()), |_| None);
        }
        PolicyEdit::Filter => {
            stage.filter = match stage.filter.as_deref() {
                None => Some(FILTER.to_owned()),
                Some(FILTER) => Some(BROKEN_FILTER.to_owned()),
                Some(_) => None,
            }
        }
        PolicyEdit::Health => {
            // Something has to hold the stage.
            stage.soak.get_or_insert_with(|| "10s".to_owned());
            stage.health = match stage.health {
                StageHealth::Required => StageHealth::Ignored,
                StageHealth::Ignored => StageHealth::Required,
            };
        }
        PolicyEdit::Selectors => {
            let extra = selector(("stage", STAGES[0]));
            match stage.cluster_selectors.iter().position(|known| *known == extra) {
                Some(position) if stage.cluster_selectors.len() > 2 => drop(stage.cluster_selectors.remove(position)),
                _ => stage.cluster_selectors.push(extra),
            }
        }
        _ => {}
    }
}

fn toggle(flag: &mut bool) {
    *flag = !*flag;
}
