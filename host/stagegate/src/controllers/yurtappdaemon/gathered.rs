//! Facts of a kind of which there are many, made anew only for the objects that have changed since the last time. Must not judge.
//!
//! An object in a store never changes: another state of it is another object in memory, and what is kept here cannot make room for one at
//! its address.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::controllers::guarded::Guarded;

/// The objects of the last time, and the fact that each became.
#[derive(Debug)]
pub struct Gathered<K, F> {
    of: Vec<Arc<Guarded<K>>>,
    facts: Arc<BTreeMap<String, F>>,
}

impl<K, F> Default for Gathered<K, F> {
    fn default() -> Self {
        Self {
            of: Vec::new(),
            facts: Arc::default(),
        }
    }
}

impl<K, F: Clone> Gathered<K, F> {
    /// The facts of these objects, by name. They are the same map in memory as long as none differs by `is_like`.
    pub fn of(
        &mut self,
        objects: Vec<Arc<Guarded<K>>>,
        named: impl Fn(&Guarded<K>) -> (String, F),
        is_like: impl Fn(&F, &F) -> bool,
    ) -> Arc<BTreeMap<String, F>> {
        let pairs = self.of.iter().zip(&objects);
        let changed = pairs.filter(|(before, now)| !Arc::ptr_eq(before, now));
        let changed: Vec<_> = changed.map(|(before, now)| (named(before).0, named(now))).collect();
        let is_renamed = |(before, (now, _)): &(String, (String, F))| before != now;
        if objects.len() != self.of.len() || changed.iter().any(is_renamed) {
            // One has come or gone.
            self.facts = Arc::new(objects.iter().map(|object| named(object)).collect());
        } else {
            for (_, (name, fact)) in changed {
                if !self.facts.get(&name).is_some_and(|known| is_like(known, &fact)) {
                    Arc::make_mut(&mut self.facts).insert(name, fact);
                }
            }
        }
        self.of = objects;
        self.facts.clone()
    }
}
