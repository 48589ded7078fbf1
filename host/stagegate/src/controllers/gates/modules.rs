//! Which component a ConfigMap holds, and that it loads: found out once for all policies that name it. Must not hold a
//! component longer than loading takes; the sandbox keeps what it made of it.

use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use stagegate_clock::SharedClock;
use stagegate_decide::checks::{ConfigAnswer, ConfigKey, Module, SourceEntry};
use stagegate_decide::names::Digest;
use stagegate_evaluate::gate::{Failure, FailureKind};
use stagegate_runtime::bounded::BoundedMap;
use stagegate_runtime::request::{RequestError, cut, request};
use stagegate_sandbox::Sandbox;
use tokio::sync::Semaphore;
use tracing::debug;

use super::sources;
use super::unpack::{self, Unusable};

/// Versions of ConfigMap entries, and pairs of component and config, of which the answer is remembered.
const KNOWN_MAX: usize = 1024;
/// Components in memory at a time, packed and unpacked.
const LOADS_MAX: usize = 2;
/// Calls under way at once, of all policies: the others are not kept from the processor by a gate that loops.
const CALLS_MAX: usize = 2;
/// First pause after a failure that may pass; doubled by each further one.
const BACK_OFF_FIRST: Duration = Duration::from_secs(1);
const BACK_OFF_MAX: Duration = Duration::from_secs(300);
/// Longest refusal or failure that status can hold.
const MESSAGE_CHARS_MAX: usize = 256;

/// Shared by all policies of a process.
pub struct Modules {
    client: Client,
    clock: SharedClock,
    sandbox: Arc<Sandbox>,
    loads: Semaphore,
    calls: Semaphore,
    modules: Answers<(SourceEntry, String), Module>,
    configs: Answers<ConfigKey, ConfigAnswer>,
}

/// Answers by question; whoever asks while another finds out waits for that answer.
struct Answers<K, A>(Mutex<BoundedMap<K, Slot<A>>>);

type Slot<A> = Arc<tokio::sync::Mutex<Answer<A>>>;

struct Answer<A> {
    known: Option<A>,
    /// Failures in a row.
    failures: u32,
}

/// What finding out came to.
enum Found<A> {
    Lasting(A),
    /// Not for good: why.
    Failed(String),
    /// The ConfigMap is not that version any more: no answer to the question.
    Outdated,
}

impl Modules {
    pub fn new(client: Client, clock: SharedClock, sandbox: Arc<Sandbox>) -> Self {
        Self {
            client,
            clock,
            sandbox,
            loads: Semaphore::new(LOADS_MAX),
            calls: Semaphore::new(CALLS_MAX),
            modules: Answers::new(),
            configs: Answers::new(),
        }
    }

    /// The component in this version of the entry. `None`: the ConfigMap has moved on, and its watch says so.
    pub async fn module(&self, source: &SourceEntry, version: &str) -> Option<Module> {
        let slot = self.modules.slot((source.clone(), version.to_owned()));
        let mut answer = slot.lock().await;
        match &answer.known {
            Some(Module::Failed { retry_at, .. }) if *retry_at <= self.clock.now() => {}
            Some(known) => return Some(known.clone()),
            None => {}
        }
        let found = self.find(source, Wanted::Version(version)).await;
        answer.take(found, &self.clock, |message, retry_at| Module::Failed {
            message,
            retry_at,
        })
    }

    /// Whether the component's own schema takes the config (JSON text).
    pub async fn config(&self, key: &ConfigKey, source: &SourceEntry, config: &str) -> Option<ConfigAnswer> {
        let slot = self.configs.slot(key.clone());
        let mut answer = slot.lock().await;
        match &answer.known {
            Some(ConfigAnswer::Failed { retry_at, .. }) if *retry_at <= self.clock.now() => {}
            Some(known) => return Some(known.clone()),
            None => {}
        }
        let (digest, config) = (key.module.clone(), Arc::<str>::from(config));
        let check = move |sandbox: &Sandbox| sandbox.check_config(&digest, &config);
        let found = match self.with_loaded((source, &key.module), check).await {
            Err(Unloaded::Outdated) => Found::Outdated,
            Err(Unloaded::Failed(message)) => Found::Failed(message),
            Ok(Ok(Ok(()))) => Found::Lasting(ConfigAnswer::Fits),
            Ok(Ok(Err(message))) => Found::Lasting(config_refused(&message)),
            Ok(Err(failure)) if failure.kind.is_lasting() => Found::Lasting(config_refused(&failure.message)),
            Ok(Err(failure)) => Found::Failed(failure.message),
        };
        answer.take(found, &self.clock, |message, retry_at| ConfigAnswer::Failed {
            message,
            retry_at,
        })
    }

    /// Calls the sandbox, on a thread where blocking is allowed; when it has let go of the component meanwhile, loads
    /// that again from its ConfigMap and calls once more.
    pub async fn with_loaded<T, F>(
        &self,
        (source, digest): (&SourceEntry, &Digest),
        call: F,
    ) -> Result<Result<T, Failure>, Unloaded>
    where
        T: Send + 'static,
        F: Fn(&Sandbox) -> Result<T, Failure> + Clone + Send + 'static,
    {
        let answer = self.call(call.clone()).await;
        if !matches!(&answer, Err(failure) if failure.kind == FailureKind::NotLoaded) {
            return Ok(answer);
        }
        debug!(%source, %digest, "the sandbox has let go of a component; loading it again");
        match self.find(source, Wanted::Digest(digest)).await {
            Found::Lasting(Module::Loaded { .. }) => Ok(self.call(call).await),
            Found::Lasting(Module::Refused { message }) | Found::Failed(message) => Err(Unloaded::Failed(message)),
            Found::Lasting(_) | Found::Outdated => Err(Unloaded::Outdated),
        }
    }

    /// The permit is for the call alone: a component that is read and compiled anew keeps no other from being called.
    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Sandbox) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        // Never closed, so a permit always comes; without one there would only be less of a bound.
        let _permit = self.calls.acquire().await;
        self.blocking(call).await
    }

    /// Reads the entry and has the sandbox load it.
    async fn find(&self, source: &SourceEntry, wanted: Wanted<'_>) -> Found<Module> {
        // Never closed, so a permit always comes; without one there would only be less of a bound.
        let _permit = self.loads.acquire().await;
        let config_map = match self.read(source).await {
            Ok(config_map) => config_map,
            Err(error) if error.is_not_found() => return Found::Outdated,
            Err(error) => return Found::Failed(cut(&error.chain(), MESSAGE_CHARS_MAX)),
        };
        if matches!(wanted, Wanted::Version(version) if sources::version(&config_map.metadata) != version) {
            return Found::Outdated;
        }
        let bytes = match unpack::component(config_map, source) {
            Ok(bytes) => bytes,
            Err(Unusable::KeyMissing) => return Found::Lasting(Module::KeyMissing),
            Err(Unusable::Refused(message)) => return Found::Lasting(refused(&message)),
        };
        let digest = Digest::of_bytes(&bytes);
        if matches!(wanted, Wanted::Digest(wanted) if *wanted != digest) {
            return Found::Outdated;
        }
        let of = digest.clone();
        match self.blocking(move |sandbox| sandbox.load(&of, &bytes)).await {
            Ok(description) => {
                debug!(%source, %digest, gate = description.name, version = description.version, "a gate is loaded");
                Found::Lasting(Module::Loaded { digest })
            }
            Err(failure) if failure.kind.is_lasting() => Found::Lasting(refused(&failure.message)),
            Err(failure) => Found::Failed(failure.message),
        }
    }

    async fn read(&self, source: &SourceEntry) -> Result<ConfigMap, RequestError> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &source.namespace);
        request(format!("get configmaps {}", source.config_map()), api.get(&source.name)).await
    }

    /// Under paused time, tokio's clock stands still meanwhile.
    async fn blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Sandbox) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let sandbox = self.sandbox.clone();
        let called = tokio::task::spawn_blocking(move || call(&sandbox)).await;
        called.unwrap_or_else(|error| {
            let message = format!("calling the sandbox broke off: {error}");
            Err(Failure::new(FailureKind::SandboxBroken, message))
        })
    }
}

/// Which contents of the entry count.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    /// Those of this version of the ConfigMap.
    Version(&'a str),
    /// This component, whatever else has changed.
    Digest(&'a Digest),
}

/// Why a component that was loaded before is so no more.
#[derive(Debug)]
pub enum Unloaded {
    /// Its ConfigMap holds another one or is gone.
    Outdated,
    Failed(String),
}

fn refused(message: &str) -> Module {
    Module::Refused {
        message: cut(message, MESSAGE_CHARS_MAX),
    }
}

fn config_refused(message: &str) -> ConfigAnswer {
    ConfigAnswer::Refused {
        message: cut(message, MESSAGE_CHARS_MAX),
    }
}

impl<K: Clone + Eq + Hash, A> Answers<K, A> {
    fn new() -> Self {
        Self(Mutex::new(BoundedMap::new(KNOWN_MAX)))
    }

    fn slot(&self, key: K) -> Slot<A> {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(&key) {
            return slot.clone();
        }
        let slot: Slot<A> = Arc::new(tokio::sync::Mutex::new(Answer {
            known: None,
            failures: 0,
        }));
        slots.insert(key, slot.clone());
        slot
    }
}

impl<A: Clone> Answer<A> {
    fn take(&mut self, found: Found<A>, clock: &SharedClock, failed: impl FnOnce(String, Timestamp) -> A) -> Option<A> {
        match found {
            Found::Outdated => return None,
            Found::Lasting(answer) => {
                *self = Answer {
                    known: Some(answer),
                    failures: 0,
                }
            }
            Found::Failed(message) => {
                self.failures = self.failures.saturating_add(1);
                let pause = SignedDuration::try_from(back_off(self.failures)).unwrap_or(SignedDuration::ZERO);
                let retry_at = clock.now().checked_add(pause).unwrap_or(Timestamp::MAX);
                self.known = Some(failed(cut(&message, MESSAGE_CHARS_MAX), retry_at));
            }
        }
        self.known.clone()
    }
}

fn back_off(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    (BACK_OFF_FIRST * 2u32.pow(doublings)).min(BACK_OFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::{BACK_OFF_MAX, back_off};

    #[test]
    fn the_pause_doubles_up_to_five_minutes() {
        let pauses: Vec<u64> = (1..=4).map(|failures| back_off(failures).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8]);
        assert_eq!(back_off(u32::MAX), BACK_OFF_MAX);
    }
}
