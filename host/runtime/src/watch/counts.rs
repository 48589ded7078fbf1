//! How often each kind was listed and watched. Must not know what is listed, nor what else is counted.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

type CounterByKind = Family<[(&'static str, &'static str); 1], Counter>;

/// Clones count together.
#[derive(Clone, Debug, Default)]
pub struct WatchCounts {
    lists: CounterByKind,
    watches_begun: CounterByKind,
}

impl WatchCounts {
    /// With name and help.
    pub fn register(&self, registry: &mut Registry) {
        let help = "Lists begun for a watch: at the start, and when one could not go on";
        registry.register("watch_lists", help, self.lists.clone());
        let help = "Watches begun; the server ends each after five minutes at the latest";
        registry.register("watches", help, self.watches_begun.clone());
    }

    /// One more list of the kind was begun.
    pub fn list(&self, kind: &'static str) {
        self.lists.get_or_create(&[("kind", kind)]).inc();
    }

    /// One more watch of the kind was begun.
    pub fn watch(&self, kind: &'static str) {
        self.watches_begun.get_or_create(&[("kind", kind)]).inc();
    }

    /// `None`: the kind was never listed.
    pub fn lists_of(&self, kind: &'static str) -> Option<u64> {
        Some(self.lists.get(&[("kind", kind)])?.get())
    }
}
