//! What people do to evidence, to its StatusCollectors and to placements. Must not judge what comes of it.

use stagegate_api::{BindingPolicy, CombinedStatus, StatusCollector, evidence, label};

use crate::controller::COLLECTOR;
use crate::kubestellar::{AVAILABLE, DESIRED};
use crate::script::Action;
use crate::server::version_of;
use crate::world::World;

impl World {
    pub(crate) fn tamper(&mut self, action: Action) {
        match action {
            Action::TwistEvidence => self.twist_evidence(),
            Action::ChangeQuestion => self.change_question(),
            Action::RestoreCombined => self.restore_combined(),
            Action::PutBackPlacement(position) => self.put_back_placement(position),
            other => self.fail(other),
        }
    }

    /// All numbers of our collector become the one that is wanted.
    fn twist_evidence(&mut self) {
        let twist = |collector: &mut StatusCollector| {
            let select = &mut collector.spec.select;
            let wanted = select.iter().find(|column| column.name == "desired");
            let Some(wanted) = wanted.map(|column| column.def.clone()) else {
                return;
            };
            let numbers = ["ready", "available", "total", "updated"];
            for column in select
                .iter_mut()
                .filter(|column| numbers.contains(&column.name.as_str()))
            {
                column.def.clone_from(&wanted);
            }
        };
        let name = evidence::collector_name();
        let _edited = self
            .server
            .collectors
            .update(&mut self.server.counter, (&name, None), twist);
    }

    fn change_question(&mut self) {
        let change = |collector: &mut StatusCollector| {
            for column in &mut collector.spec.select {
                let other = match column.def.as_str() {
                    AVAILABLE => DESIRED,
                    DESIRED => AVAILABLE,
                    _ => continue,
                };
                column.def = other.to_owned();
            }
        };
        let _edited = self
            .server
            .collectors
            .update(&mut self.server.counter, (COLLECTOR, None), change);
    }

    /// The newest content of each CombinedStatus by which all clusters were well, with no label but the placement's.
    fn restore_combined(&mut self) {
        let names: Vec<String> = self.server.combined.all().map(|(name, _)| name.clone()).collect();
        for name in names {
            let basis = &self.kubestellar.basis;
            let is_well = |stored: &&CombinedStatus| {
                let truths = basis.get(version_of(&stored.metadata));
                truths.is_some_and(|truths| !truths.is_empty() && truths.values().all(|truth| truth.is_well))
            };
            let log = self.server.combined.log().iter().rev();
            let mut stored = log
                .filter(|entry| entry.key == name)
                .filter_map(|entry| entry.after.as_deref());
            let Some(older) = stored.find(is_well).cloned() else {
                continue;
            };
            let restore = |object: &mut CombinedStatus| {
                object.results = older.results;
                let labels = object.metadata.labels.get_or_insert_default();
                labels.retain(|name, _| name == label::BINDING_POLICY);
            };
            let _restored = self
                .server
                .combined
                .update(&mut self.server.counter, (&name, None), restore);
        }
    }

    /// As `kubectl create` does with what `kubectl get` had given before.
    fn put_back_placement(&mut self, position: usize) {
        let name = self.placement_name(position);
        let log = self.server.placements.log().iter().rev();
        let mut stored = log
            .filter(|entry| entry.key == name)
            .filter_map(|entry| entry.after.as_deref());
        let whole = |stored: &&BindingPolicy| stored.metadata.deletion_timestamp.is_none();
        let Some(older) = stored.find(whole) else { return };
        let mut object = BindingPolicy::new(&name, older.spec.clone());
        object.metadata.annotations.clone_from(&older.metadata.annotations);
        object
            .metadata
            .owner_references
            .clone_from(&older.metadata.owner_references);
        let _made = self.server.placements.create(&mut self.server.counter, object);
    }
}
