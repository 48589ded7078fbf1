//! The sandbox: compiles and runs gates in child processes that have no credentials, no files and no network, so that what a
//! module does to its process stays there. Blocking; callers that are async hand it to a thread. Must not know Kubernetes.
//!
//! One short-lived child compiles; each module has a run child of its own (`children.rs`), so that none can answer for
//! another. Both are this program under a hidden subcommand ([`child`]) that confines itself (`confine.rs`) before it reads
//! anything. Deadlines are real time, whatever clock the host goes by.

use std::borrow::Cow;
use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;
use stagegate_api::Digest;
use stagegate_evaluate::gate::limits::{COMPONENT_BYTES_MAX, TIMEOUT_MS};
use stagegate_evaluate::gate::{Evaluation, Failure, FailureKind, Limits, wire};

use self::backoff::Backoff;
use self::children::{Children, Question};
use self::process::is_gone;
use self::protocol::{Compiled, Encoded, ProtocolError, Request, Said};

mod backoff;
mod cache;
pub mod child;
mod children;
mod confine;
mod descriptors;
mod directory;
mod packed;
mod phase;
mod probe;
mod process;
mod protocol;
mod sealed;
#[cfg(target_os = "linux")]
mod system_calls;

pub use cache::Cache;
pub use packed::{packed, unpacked};

/// Run children at once, where nothing else is said.
pub const CHILDREN_MAX: usize = 8;
/// Modules of which is remembered what they say of themselves, or why they cannot be used.
const KNOWN_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(255);
/// Longest time of a compilation by the clock on the wall: it has two seconds of processor time, on a machine with much
/// else to do.
const COMPILE_WITHIN: Duration = Duration::from_secs(30);
/// Beyond the gate's own call: reading its schema and the config.
const CHECK_WITHIN: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct SandboxOptions {
    /// The stagegate binary.
    pub program: PathBuf,
    /// `None`: artifacts are kept in memory, 64 MiB of them.
    pub cache: Option<Cache>,
    /// Most run children at once; one that is needed beyond them takes the place of the least recently used.
    pub children_max: usize,
}

impl Default for SandboxOptions {
    /// This very program, no directory, [`CHILDREN_MAX`] children.
    fn default() -> Self {
        Self {
            program: this_program(),
            cache: None,
            children_max: CHILDREN_MAX,
        }
    }
}

/// On Linux the file that this process runs, also when another one has taken its path since.
fn this_program() -> PathBuf {
    if cfg!(target_os = "linux") {
        return PathBuf::from("/proc/self/exe");
    }
    // Without it starting a child fails and says so.
    std::env::current_exe().unwrap_or_else(|_unknown| PathBuf::from("stagegate"))
}

/// See the module. Dropping it ends its children.
#[derive(Debug)]
pub struct Sandbox {
    program: PathBuf,
    children: Children,
    cache: Cache,
    known: Mutex<LruCache<Digest, Known>>,
    /// Modules that are being loaded now.
    loading: Mutex<HashSet<Digest>>,
    loaded: Condvar,
    /// At most one compile child.
    compiling: Mutex<()>,
}

/// What came of loading a module.
#[derive(Clone, Debug)]
enum Known {
    Described(wire::Description),
    /// `None`: the same bytes fail the same way for good.
    Failed(Failure, Option<Backoff>),
}

impl Sandbox {
    /// Starts nothing yet.
    pub fn new(options: SandboxOptions) -> Arc<Self> {
        Arc::new(Self {
            children: Children::new(options.program.clone(), options.children_max),
            program: options.program,
            cache: options.cache.unwrap_or_else(Cache::in_memory),
            known: Mutex::new(LruCache::new(KNOWN_MAX)),
            loading: Mutex::default(),
            loaded: Condvar::new(),
            compiling: Mutex::default(),
        })
    }

    /// Compiles the component unless its artifact is cached, then has it describe itself. Of several callers with the same
    /// digest one does it, and the others wait for its result. A failure is remembered: for good where the same bytes fail
    /// the same way, else for a doubling time of 1 s to 5 min.
    ///
    /// # Errors
    /// Why the module cannot be used, or not now.
    pub fn load(&self, digest: &Digest, component: &[u8]) -> Result<wire::Description, Failure> {
        if Digest::of_bytes(component) != *digest {
            return Err(broken(format_args!("the component is not the one of sha256:{digest}")));
        }
        let _turn = self.turn(digest);
        let before = match self.lock_known().get(digest).cloned() {
            Some(Known::Described(description)) if self.cache.contains(digest) => return Ok(description),
            Some(Known::Failed(failure, None)) => return Err(failure),
            Some(Known::Failed(failure, Some(backoff))) if backoff.remaining(Instant::now()).is_some() => {
                return Err(failure);
            }
            Some(Known::Failed(_, backoff)) => backoff,
            Some(Known::Described(_)) | None => None,
        };
        let loaded = self.compile_and_describe(digest, component);
        let known = match loaded.clone() {
            Ok(description) => Known::Described(description),
            Err(failure) if failure.kind.is_lasting() => Known::Failed(failure, None),
            Err(failure) => {
                let now = Instant::now();
                let backoff = before.map_or_else(|| Backoff::first(now), |before| before.longer(now));
                Known::Failed(failure, Some(backoff))
            }
        };
        self.lock_known().put(digest.clone(), known);
        loaded
    }

    /// Whether a config (JSON text) is one by the schema that the module states. The inner error says where it is not.
    ///
    /// # Errors
    /// `NotLoaded`: the artifact is neither in memory nor on disk (any more), [`Self::load`] it again. Otherwise why the
    /// module could not be asked.
    pub fn check_config(&self, digest: &Digest, config: &str) -> Result<Result<(), String>, Failure> {
        let request = Request::CheckConfig {
            config: Cow::Borrowed(config),
        };
        match self.ask(digest, &request, CHECK_WITHIN)? {
            Said::Config(checked) => Ok(checked),
            other => Err(unasked(&other)),
        }
    }

    /// The module's verdict. Calls of the same module come one after the other; the time that they wait for each other is not
    /// counted.
    ///
    /// # Errors
    /// As of [`Self::check_config`].
    pub fn evaluate(&self, digest: &Digest, request: &wire::Request, limits: Limits) -> Result<Evaluation, Failure> {
        let request = Request::Evaluate {
            request: Cow::Borrowed(request),
            limits,
        };
        match self.ask(digest, &request, milliseconds(limits.timeout_ms()))? {
            Said::Evaluation { verdict, log } => Ok(Evaluation { verdict, log }),
            other => Err(unasked(&other)),
        }
    }

    /// The modules that have a run child now, and its process id.
    pub fn processes(&self) -> Vec<(Digest, u32)> {
        self.children.processes()
    }

    /// Children that were ended, or ended by themselves, in the middle of a conversation.
    pub fn kills(&self) -> u64 {
        self.children.kills()
    }

    fn compile_and_describe(&self, digest: &Digest, component: &[u8]) -> Result<wire::Description, Failure> {
        if self.cache.contains(digest) {
            match self.describe(digest) {
                // The entry was not what it should be, and is gone: it is made anew.
                Err(failure) if failure.kind == FailureKind::NotLoaded => {}
                described => return described,
            }
        }
        let artifact = self.compile(component)?;
        self.cache
            .insert(digest, &artifact)
            .map_err(|error| broken(format_args!("keeping the artifact: {error}")))?;
        self.describe(digest)
    }

    fn describe(&self, digest: &Digest) -> Result<wire::Description, Failure> {
        match self.ask(digest, &Request::Describe, milliseconds(TIMEOUT_MS))? {
            Said::Description(description) => Ok(description),
            other => Err(unasked(&other)),
        }
    }

    fn ask(&self, digest: &Digest, request: &Request<'_>, within: Duration) -> Result<Said, Failure> {
        let request = &Encoded::new(request)?;
        let not_loaded = || Failure::new(FailureKind::NotLoaded, "the module has to be compiled again");
        let artifact = || self.cache.get(digest).ok_or_else(not_loaded);
        let said = self.children.ask(digest, &Question { request, within }, artifact);
        match said {
            Err(failure) if failure.kind == FailureKind::ArtifactRefused => {
                tracing::warn!(module = %digest, %failure, "an artifact was refused and is removed");
                self.cache.remove(digest);
                self.children.retire(digest);
                Err(not_loaded())
            }
            said => said,
        }
    }

    fn compile(&self, component: &[u8]) -> Result<Vec<u8>, Failure> {
        if component.len() > COMPONENT_BYTES_MAX {
            let message = format!("it has {} bytes, {COMPONENT_BYTES_MAX} are allowed", component.len());
            return Err(Failure::new(FailureKind::TooLarge, message));
        }
        let request = Encoded::new(&Request::Compile)?;
        let _one = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        let input = sealed::sealed(component).map_err(broken)?;
        let mut process = self
            .children
            .starter()
            .start(&self.program, "compile", input)
            .map_err(broken)?;
        let mut pipe = process.pipe(Instant::now() + COMPILE_WITHIN);
        let compiled = match request.send(&mut pipe) {
            Ok(()) => request.compiled(&mut pipe),
            Err(error) => Err(error),
        };
        match compiled {
            Ok(Compiled::Artifact(artifact)) => Ok(artifact),
            Ok(Compiled::Failure(failure)) => Err(failure),
            Err(error) => Err(not_compiled(process, &error)),
        }
    }

    /// Waits until nobody else loads this module.
    fn turn(&self, digest: &Digest) -> Turn<'_> {
        let mut loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        while !loading.insert(digest.clone()) {
            loading = self.loaded.wait(loading).unwrap_or_else(PoisonError::into_inner);
        }
        Turn {
            sandbox: self,
            digest: digest.clone(),
        }
    }

    fn lock_known(&self) -> MutexGuard<'_, LruCache<Digest, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One caller's turn to load a module.
struct Turn<'a> {
    sandbox: &'a Sandbox,
    digest: Digest,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut loading = self.sandbox.loading.lock().unwrap_or_else(PoisonError::into_inner);
        loading.remove(&self.digest);
        drop(loading);
        self.sandbox.loaded.notify_all();
    }
}

/// Why a compile child gave no answer. That is for good only if the compiler panicked: with all else the machine may have had
/// a part in it, since even two seconds of processor time are less work where others are busy, too.
fn not_compiled(process: process::Process, error: &ProtocolError) -> Failure {
    if error.is_time_out() {
        drop(process);
        let message = format!("compiling took longer than {} s", COMPILE_WITHIN.as_secs());
        return Failure::new(FailureKind::TimedOut, message);
    }
    let end = process.end(if is_gone(error) {
        children::ENDING
    } else {
        Duration::ZERO
    });
    if end.signal() == Some(rustix::process::Signal::XCPU.as_raw()) {
        let message = format!(
            "compiling took more than {} s of processor time: are there very large functions in it?",
            confine::COMPILE_CPU_S
        );
        return Failure::new(FailureKind::TimedOut, message);
    }
    if end.words().contains("memory allocation of") {
        return broken(format_args!(
            "compiling took more than {} MiB of memory: are there very large functions in it?",
            confine::COMPILE_ADDRESS_MIB
        ));
    }
    if end.has_panicked() {
        return Failure::new(FailureKind::NotCompiled, format_args!("the compiler failed: {end}"));
    }
    broken(format_args!("the compiling process ended: {end}"))
}

fn unasked(_said: &Said) -> Failure {
    broken("the gate's process answered something else than was asked")
}

fn broken(cause: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::SandboxBroken, cause)
}

fn milliseconds(count: u32) -> Duration {
    Duration::from_millis(u64::from(count))
}
