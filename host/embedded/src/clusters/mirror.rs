//! From a watch to single changes by name, re-lists included. Must not keep objects.

use std::collections::BTreeSet;

use kube::ResourceExt;
use kube::runtime::watcher::Event;

/// What an object is called among those of its kind: `name`, or `namespace/name`.
pub(super) fn key<K: ResourceExt>(object: &K) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

/// The names that a watch has shown.
#[derive(Default)]
pub(super) struct Mirror {
    known: BTreeSet<String>,
    /// During a re-list: the names not yet seen again.
    missing: Option<BTreeSet<String>>,
}

pub(super) enum Seen<K> {
    Set(K),
    Gone(String),
}

impl Mirror {
    pub(super) fn changes<K: ResourceExt>(&mut self, event: Event<K>) -> Vec<Seen<K>> {
        match event {
            Event::Init => {
                self.missing = Some(self.known.clone());
                Vec::new()
            }
            Event::InitApply(object) | Event::Apply(object) => {
                let name = key(&object);
                if let Some(missing) = &mut self.missing {
                    missing.remove(&name);
                }
                self.known.insert(name);
                vec![Seen::Set(object)]
            }
            Event::Delete(object) => {
                let name = key(&object);
                self.known.remove(&name);
                vec![Seen::Gone(name)]
            }
            Event::InitDone => {
                let missing = self.missing.take().unwrap_or_default();
                self.known.retain(|name| !missing.contains(name));
                missing.into_iter().map(Seen::Gone).collect()
            }
        }
    }
}
