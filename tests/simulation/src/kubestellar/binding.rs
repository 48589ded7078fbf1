//! BindingPolicies resolved to Bindings: what was seen, and what is written of it. Must not know CombinedStatuses.

use std::collections::{BTreeMap, BTreeSet};

use stagegate_api::{BindingPolicy, BindingPolicySpec, BindingSpec, BoundObject};
use stagegate_decide::binding::{self, Candidate, Clauses, Cluster, Write};
use stagegate_decide::selector::Selector;

use super::{FINALIZER, KubeStellar, Planned, RETRY_MS, Task};
use crate::queue::Millis;
use crate::server::{Server, uid_of};

/// What a BindingPolicy selects, as far as things were seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Resolution {
    pub uid: String,
    /// That was seen last; none since the process began.
    generation: Option<i64>,
    spec: BindingPolicySpec,
    clusters: Vec<Cluster>,
    pub objects: BTreeMap<String, Selected>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Selected {
    pub uid: String,
    pub bound: BoundObject,
    candidate: Candidate,
}

impl Resolution {
    pub fn of(live: &BindingPolicy) -> Self {
        Self {
            uid: uid_of(&live.metadata).to_owned(),
            spec: live.spec.clone(),
            ..Self::default()
        }
    }

    pub fn destinations(&self) -> BTreeSet<String> {
        self.clusters.iter().map(|cluster| cluster.name.clone()).collect()
    }

    /// Whether it selects others now.
    fn select_clusters(&mut self, all: &[Cluster]) -> bool {
        let selectors = self.spec.cluster_selectors.iter();
        let selectors: Vec<Selector> = selectors.filter_map(|one| Selector::try_from(one).ok()).collect();
        let is_selected = |cluster: &&Cluster| selectors.iter().any(|one| one.matches(&cluster.labels));
        let before = self.destinations();
        self.clusters = all.iter().filter(is_selected).cloned().collect();
        self.destinations() != before
    }

    /// Whether the object is selected otherwise than before.
    fn select(&mut self, key: &str, seen: Option<&(String, Candidate)>) -> bool {
        let selected = seen.and_then(|(uid, candidate)| {
            let bound = Clauses::new(&self.spec.downsync).bind(candidate, &BTreeMap::new())?;
            Some(Selected {
                uid: uid.clone(),
                bound,
                candidate: candidate.clone(),
            })
        });
        let is_same = |before: &Selected, after: &Selected| (&before.uid, &before.bound) == (&after.uid, &after.bound);
        match (self.objects.get(key), selected) {
            (None, None) => false,
            (Some(before), Some(after)) if is_same(before, &after) => false,
            (_, Some(after)) => {
                self.objects.insert(key.to_owned(), after);
                true
            }
            (Some(_), None) => self.objects.remove(key).is_some(),
        }
    }
}

impl KubeStellar {
    pub(super) fn see_placement(&mut self, server: &mut Server, name: String, now: Millis) -> Vec<Planned> {
        let Some(live) = server.placements.get(&name).cloned() else {
            self.resolutions.remove(&name);
            return vec![(now, Task::Note(name))];
        };
        let finalizers = live.metadata.finalizers.clone().unwrap_or_default();
        let has_finalizer = finalizers.iter().any(|finalizer| finalizer == FINALIZER);
        let is_leaving = live.metadata.deletion_timestamp.is_some();
        if is_leaving == has_finalizer {
            let _written = server.placements.update(&mut server.counter, (&name, None), |object| {
                let mut finalizers = finalizers;
                finalizers.retain(|finalizer| finalizer != FINALIZER);
                if !is_leaving {
                    finalizers.push(FINALIZER.to_owned());
                }
                object.metadata.finalizers = Some(finalizers).filter(|list| !list.is_empty());
            });
        }
        if is_leaving {
            self.resolutions.remove(&name);
            return vec![(now, Task::Note(name))];
        }
        // Another generation counts even where the spec is what it was, as after a change that was taken back.
        let known = self.resolutions.get(&name);
        let is_news = known
            .is_none_or(|known| known.uid != uid_of(&live.metadata) || known.generation != live.metadata.generation);
        let resolution = self.resolutions.entry(name.clone()).or_default();
        resolution.generation = live.metadata.generation;
        resolution.uid = uid_of(&live.metadata).to_owned();
        resolution.spec = live.spec.clone();
        let has_moved = resolution.select_clusters(&self.clusters);
        let mut is_other = false;
        for (key, seen) in &self.objects {
            is_other |= resolution.select(key, Some(seen));
        }
        if is_news || has_moved || is_other {
            self.plan_sync(name, now).into_iter().collect()
        } else {
            Vec::new()
        }
    }

    pub(super) fn see_object(&mut self, server: &Server, key: String, now: Millis) -> Vec<Planned> {
        match server.workloads.get(&key) {
            Some(object) => {
                let seen = (uid_of(&object.metadata).to_owned(), object.candidate());
                self.objects.insert(key.clone(), seen);
            }
            None => drop(self.objects.remove(&key)),
        }
        let seen = self.objects.get(&key);
        let resolutions = self.resolutions.iter_mut();
        let touched = resolutions.filter_map(|(name, resolution)| resolution.select(&key, seen).then(|| name.clone()));
        let touched: Vec<String> = touched.collect();
        touched
            .into_iter()
            .filter_map(|name| self.plan_sync(name, now))
            .collect()
    }

    pub(super) fn see_inventory(&mut self, server: &Server, now: Millis) -> Vec<Planned> {
        self.clusters = inventory(server);
        let clusters = &self.clusters;
        let resolutions = self.resolutions.iter_mut();
        let moved = resolutions.filter_map(|(name, one)| one.select_clusters(clusters).then(|| name.clone()));
        let moved: Vec<String> = moved.collect();
        moved.into_iter().filter_map(|name| self.plan_sync(name, now)).collect()
    }

    /// Writes the Binding from what has been seen so far, together with the BindingPolicy's generation at that time.
    pub(super) fn sync(&mut self, server: &mut Server, name: &str, now: Millis) -> Vec<Planned> {
        let Some(resolution) = self.resolutions.get(name) else {
            return vec![(now, Task::Note(name.to_owned()))];
        };
        let Some(live) = server.placements.get(name) else {
            return Vec::new();
        };
        let policy = BindingPolicy {
            spec: resolution.spec.clone(),
            ..BindingPolicy::clone(live)
        };
        let objects: Vec<Candidate> = resolution.objects.values().map(|one| one.candidate.clone()).collect();
        let current = server.bindings.get(name).cloned();
        let facts = binding::Facts {
            policy: &policy,
            objects: &objects,
            namespaces: &BTreeMap::new(),
            clusters: &resolution.clusters,
            binding: current.as_deref(),
            adds_finalizer: false,
        };
        let (mut is_refused, mut planned) = (false, Vec::new());
        for write in binding::decide(&facts).writes {
            // If only the owner is out of date, it writes nothing: the Binding is garbage-collected and then recreated.
            if matches!(&write, Write::UpdateBinding { binding, .. } if current.as_ref().is_some_and(|live| live.spec == binding.spec))
            {
                continue;
            }
            let is_binding = matches!(write, Write::CreateBinding(_) | Write::UpdateBinding { .. });
            if !carry_out(server, name, write) {
                is_refused = true;
                break;
            }
            if is_binding {
                planned.push((now, Task::Note(name.to_owned())));
            }
        }
        if !is_refused {
            self.resolved.insert(name.to_owned(), policy.spec);
            for object in server
                .bindings
                .get(name)
                .iter()
                .flat_map(|live| live.spec.workload.objects())
            {
                if let Ok(version) = object.resource_version.parse() {
                    self.named.entry(version).or_insert(now);
                }
            }
        } else if self.to_sync.insert(name.to_owned()) {
            planned.push((now + RETRY_MS, Task::Sync(name.to_owned())));
        }
        planned
    }
}

/// Whether the Binding's set is what the BindingPolicy selects now, whichever spec it was resolved from. For the oracle alone.
pub fn is_what_is_selected(policy: &BindingPolicy, binding: &BindingSpec, server: &Server) -> bool {
    let mut resolution = Resolution::of(policy);
    resolution.select_clusters(&inventory(server));
    for (key, object) in server.workloads.all() {
        resolution.select(key, Some(&(uid_of(&object.metadata).to_owned(), object.candidate())));
    }
    let named = binding.destinations.iter().map(|one| one.cluster_id.clone()).collect();
    // The versions may be older: that is another rule's concern.
    let as_asked = |object: &BoundObject| BoundObject {
        resource_version: String::new(),
        ..object.clone()
    };
    let selected = resolution.objects.values().map(|one| as_asked(&one.bound));
    let bound: Vec<BoundObject> = binding.workload.objects().map(as_asked).collect();
    resolution.destinations() == named
        && selected.len() == bound.len()
        && selected.into_iter().all(|one| bound.contains(&one))
}

fn inventory(server: &Server) -> Vec<Cluster> {
    let clusters = server.clusters.all().map(|(name, cluster)| Cluster {
        name: name.clone(),
        labels: cluster.labels(),
    });
    clusters.collect()
}

/// Whether the server took it.
fn carry_out(server: &mut Server, name: &str, write: Write) -> bool {
    let result = match write {
        Write::CreateBinding(binding) => server.bindings.create(&mut server.counter, binding).map(drop),
        Write::UpdateBinding { precondition, binding } => server
            .bindings
            .update(&mut server.counter, (name, Some(&precondition)), |object| {
                object.spec = binding.spec;
                object.metadata.owner_references = binding.metadata.owner_references;
            })
            .map(drop),
        Write::PolicyStatus {
            precondition, status, ..
        } => server
            .placements
            .update(&mut server.counter, (name, Some(&precondition)), |object| {
                object.status = Some(status);
            })
            .map(drop),
        // Done where the BindingPolicy was seen.
        Write::AddFinalizer { .. } | Write::RemoveFinalizer { .. } => Ok(()),
    };
    result.is_ok()
}
