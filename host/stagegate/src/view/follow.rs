//! Reads the objects of one kind from a cluster into a view until its caller has seen enough.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use kube::ResourceExt as _;
use kube::api::Api;
use kube::core::DeserializeGuard;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};

use super::{Rolled, Rollouts, View};

/// How often the times on a screen move.
const TICK: Duration = Duration::from_millis(100);

/// One that does not decode must not stop the watch of the others.
pub type Guarded<K> = DeserializeGuard<K>;

/// Where the objects come from.
pub struct Source<'a, K> {
    pub api: Api<Guarded<K>>,
    /// Only the object of this name.
    pub name: Option<&'a str>,
    /// What an error of the API server means.
    pub explain: &'a dyn Fn(anyhow::Error) -> anyhow::Error,
}

/// Shows the rollouts until `enough` breaks; it is asked after every change and every tick, unless what is shown may be old.
///
/// # Errors
/// Those of the output. An error of the cluster goes to standard error, and the watch is tried again.
pub async fn follow<K: Rolled, W: Write, B>(
    source: Source<'_, K>,
    view: &mut View<W>,
    mut enough: impl FnMut(&Rollouts) -> ControlFlow<B>,
) -> io::Result<B> {
    let Source { api, name, explain } = source;
    let watching = || format!("watching {}", K::KIND.plural());
    let config = match name {
        Some(name) => watcher::Config::default().fields(&format!("metadata.name={name}")),
        None => watcher::Config::default(),
    };
    let mut events = pin!(watcher::watcher(api, config).default_backoff());
    let mut ticks = tokio::time::interval(TICK);
    let mut seen = Seen::default();
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => seen.take(event, view)?,
                Some(Err(error)) => complain(&explain(error.into()).context(watching())),
                None => complain(&anyhow::anyhow!("{} ended", watching())),
            },
            _ = ticks.tick() => view.tick()?,
        }
        if let Some(rollouts) = seen.current(view.rollouts())
            && let ControlFlow::Break(end) = enough(&rollouts)
        {
            return Ok(end);
        }
    }
}

/// Which of the shown rollouts are as the cluster has them.
#[derive(Default)]
struct Seen {
    /// Those of the list that is under way; `None`: none is.
    listed: Option<BTreeSet<String>>,
    /// Those whose newest state does not decode: an older one is shown.
    unreadable: BTreeSet<String>,
}

impl Seen {
    fn take<K: Rolled, W: Write>(&mut self, event: Event<Guarded<K>>, view: &mut View<W>) -> io::Result<()> {
        match event {
            Event::Init => {
                self.listed = Some(BTreeSet::new());
                Ok(())
            }
            Event::InitApply(object) => {
                self.listed.get_or_insert_default().insert(object.name_any());
                self.show(object, view)
            }
            Event::InitDone => {
                let listed = self.listed.take().unwrap_or_default();
                let shown = view.rollouts().keys();
                let gone: Vec<String> = shown.filter(|name| !listed.contains(*name)).cloned().collect();
                self.unreadable.retain(|name| listed.contains(name));
                gone.iter().try_for_each(|name| view.remove(name))
            }
            Event::Apply(object) => self.show(object, view),
            Event::Delete(object) => {
                self.unreadable.remove(&object.name_any());
                view.remove(&object.name_any())
            }
        }
    }

    fn show<K: Rolled, W: Write>(&mut self, object: Guarded<K>, view: &mut View<W>) -> io::Result<()> {
        match object.0 {
            Ok(object) => {
                self.unreadable.remove(&object.name_any());
                view.show(object.rollout())
            }
            Err(invalid) => {
                let name = invalid.metadata.name.unwrap_or_default();
                complain(&anyhow::anyhow!(
                    "{} {name} cannot be shown: {}",
                    K::KIND.as_str(),
                    invalid.error
                ));
                self.unreadable.insert(name);
                Ok(())
            }
        }
    }

    /// The rollouts as the cluster has them; `None` while a list is under way, when some of them may be old or gone.
    fn current<'r>(&self, rollouts: &'r Rollouts) -> Option<Cow<'r, Rollouts>> {
        if self.listed.is_some() {
            return None;
        }
        if self.unreadable.is_empty() {
            return Some(Cow::Borrowed(rollouts));
        }
        let readable = rollouts.iter().filter(|(name, _)| !self.unreadable.contains(*name));
        Some(Cow::Owned(
            readable
                .map(|(name, rollout)| (name.clone(), rollout.clone()))
                .collect(),
        ))
    }
}

fn complain(error: &anyhow::Error) {
    // Nobody is left to tell when standard error is gone too.
    drop(writeln!(io::stderr(), "{error:#}"));
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use serde_json::json;
    use stagegate_api::StagedBindingPolicy;

    use super::super::{Counting, Mode};
    use super::*;
    use crate::target::Kind;

    fn view() -> View<Vec<u8>> {
        View {
            out: Vec::new(),
            mode: Mode::Lines,
            started: Instant::now(),
            kind: Kind::StagedBindingPolicy,
            counting: Counting::FromRollout,
            rollouts: Rollouts::new(),
        }
    }

    fn policy(name: &str, phase: &str) -> Guarded<StagedBindingPolicy> {
        let spec = json!({"stages": [], "downsync": []});
        let object = json!({
            "apiVersion": "community.kubestellar.io/v1alpha1", "kind": "StagedBindingPolicy",
            "metadata": {"name": name, "generation": 1}, "spec": spec, "status": {"phase": phase, "observedGeneration": 1},
        });
        serde_json::from_value(object).unwrap()
    }

    fn names(seen: &Seen, view: &View<Vec<u8>>) -> Option<Vec<String>> {
        let current = seen.current(view.rollouts())?;
        Some(current.keys().cloned().collect())
    }

    #[test]
    fn while_a_list_is_under_way_nothing_is_current() {
        let (mut seen, mut view) = (Seen::default(), view());
        let mut take = |seen: &mut Seen, event| {
            seen.take(event, &mut view).unwrap();
            names(seen, &view)
        };
        assert_eq!(take(&mut seen, Event::Init), None);
        assert_eq!(take(&mut seen, Event::InitApply(policy("a", "Progressing"))), None);
        assert_eq!(take(&mut seen, Event::InitApply(policy("b", "Completed"))), None);
        let both = Some(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(take(&mut seen, Event::InitDone), both);
        // The watch was lost, and `b` was deleted meanwhile.
        assert_eq!(take(&mut seen, Event::Init), None);
        assert_eq!(take(&mut seen, Event::InitApply(policy("a", "Completed"))), None);
        assert_eq!(take(&mut seen, Event::InitDone), Some(vec!["a".to_owned()]));
    }

    #[test]
    fn a_policy_whose_newest_state_does_not_decode_is_not_current() {
        let (mut seen, mut view) = (Seen::default(), view());
        let mut take = |event| {
            seen.take(event, &mut view).unwrap();
            names(&seen, &view)
        };
        assert_eq!(take(Event::Apply(policy("a", "Completed"))), Some(vec!["a".to_owned()]));
        assert_eq!(take(Event::Apply(policy("a", "Unheard"))), Some(Vec::new()));
        assert_eq!(take(Event::Apply(policy("a", "Completed"))), Some(vec!["a".to_owned()]));
    }
}
