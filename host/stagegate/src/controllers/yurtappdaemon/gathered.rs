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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use serde_json::json;
    use stagegate_api::workloads::NodePool;

    use super::Gathered;
    use crate::controllers::guarded::Guarded;

    type Pool = Arc<Guarded<NodePool>>;

    /// `version` is what the fact about it is made of.
    fn pool(name: &str, version: &str) -> Pool {
        let object = json!({
            "apiVersion": "apps.openyurt.io/v1beta1", "kind": "NodePool",
            "metadata": {"name": name, "resourceVersion": version}, "spec": {},
        });
        Arc::new(Guarded(Ok(Arc::new(serde_json::from_value(object).unwrap()))))
    }

    fn fact(pool: &Guarded<NodePool>) -> (String, String) {
        let metadata = &pool.object().unwrap().metadata;
        let text = |text: &Option<String>| text.clone().unwrap();
        (text(&metadata.name), text(&metadata.resource_version))
    }

    #[test]
    fn facts_are_those_of_the_newest_objects_whatever_has_come_and_gone_since_the_last_time() {
        let (a, b, c) = (pool("a", "1"), pool("b", "1"), pool("c", "1"));
        let table: [(&str, Vec<Pool>, Vec<Pool>); 7] = [
            (
                "nothing has changed",
                vec![a.clone(), b.clone()],
                vec![a.clone(), b.clone()],
            ),
            (
                "one has changed",
                vec![a.clone(), b.clone()],
                vec![a.clone(), pool("b", "2")],
            ),
            (
                "one has gone and another one has come",
                vec![a.clone(), b.clone()],
                vec![b.clone(), c.clone()],
            ),
            ("all have gone and others have come", vec![a.clone()], vec![c.clone()]),
            ("one has come", vec![a.clone()], vec![a.clone(), b.clone()]),
            ("one has gone", vec![a.clone(), b.clone()], vec![b.clone()]),
            ("all have gone", vec![a, b, c], vec![]),
        ];
        for (what, before, now) in table {
            let mut gathered = Gathered::default();
            let first = gathered.of(before, fact, String::eq);
            let kept = (*first).clone();
            let newest: BTreeMap<String, String> = now.iter().map(|pool| fact(pool)).collect();
            let second = gathered.of(now, fact, String::eq);
            assert_eq!(*second, newest, "{what}");
            assert_eq!(*first, kept, "{what}: whoever has the earlier facts keeps them");
            assert_eq!(Arc::ptr_eq(&first, &second), kept == newest, "{what}");
        }
    }
}
