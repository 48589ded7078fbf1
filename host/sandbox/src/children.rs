//! The run children: one for each module, so that no module answers for another; a bounded number, of which the least
//! recently used one makes room. Must not compile, and must not know the cache.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stagegate_api::Digest;
use stagegate_evaluate::gate::{Failure, FailureKind};

use super::backoff::Backoff;
use super::process::{Process, Starter, is_gone};
use super::protocol::{Answer, Encoded, ProtocolError, Said};

/// Beyond a call's own deadline, which the child keeps itself: for the way there and back, on a machine with much else to do.
pub const GRACE: Duration = Duration::from_secs(1);
/// For starting, confining and loading, before the first answer.
const START: Duration = Duration::from_secs(10);
/// For a child that has closed its pipe to end.
pub const ENDING: Duration = Duration::from_millis(200);
/// Most modules whose deaths are remembered.
const BACKOFFS_MAX: usize = 1_024;

#[derive(Debug)]
pub struct Children {
    program: PathBuf,
    most: usize,
    state: Mutex<State>,
    /// A child is free, or there is room for one.
    changed: Condvar,
    starter: Starter,
    kills: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    children: HashMap<Digest, ChildSlot>,
    backoffs: HashMap<Digest, Backoff>,
    /// Counts uses, so that the least recent one is known without a clock.
    uses: u64,
}

#[derive(Debug)]
enum ChildSlot {
    /// In use by a caller, or being started.
    Taken {
        process_id: Option<u32>,
    },
    Free {
        process: Process,
        used: u64,
    },
}

impl Children {
    /// Starts nothing yet. At least one child.
    pub fn new(program: PathBuf, most: usize) -> Self {
        Self {
            program,
            most: most.max(1),
            state: Mutex::default(),
            changed: Condvar::new(),
            starter: Starter::new(),
            kills: AtomicU64::new(0),
        }
    }

    pub fn starter(&self) -> &Starter {
        &self.starter
    }

    /// Asks the module's child, which is started from `artifact` where there is none; `within` begins when the child is
    /// this caller's. Waits while another caller has it, or while all children are in use.
    ///
    /// # Errors
    /// The child's own; `TimedOut` and `SandboxBroken` when it had to be ended, after which it is not started again for a
    /// doubling time; what `artifact` fails with.
    pub fn ask(
        &self,
        module: &Digest,
        question: &Question<'_>,
        artifact: impl FnOnce() -> Result<File, Failure>,
    ) -> Result<Said, Failure> {
        let mut lease = self.take(module)?;
        let mut within = question.within + GRACE;
        let mut process = match lease.process.take() {
            Some(process) => process,
            None => {
                within += START;
                self.starter.start(&self.program, "run", artifact()?).map_err(broken)?
            }
        };
        lease.note(process.id());
        match exchange(&mut process, question.request, within) {
            Ok(Answer { said, is_last }) => {
                lease.process = (!is_last).then_some(process);
                lease.recovered();
                said
            }
            Err(error) => {
                let ending = if is_gone(&error) { ENDING } else { Duration::ZERO };
                let end = process.end(ending);
                lease.broke();
                self.kills.fetch_add(1, Relaxed);
                Err(if error.is_time_out() {
                    let message = format!("no answer within {} ms; its process was ended", within.as_millis());
                    Failure::new(FailureKind::TimedOut, message)
                } else if is_gone(&error) {
                    broken(format_args!("the gate's process ended: {end}"))
                } else {
                    broken(format_args!("the gate's process was ended: {error}"))
                })
            }
        }
    }

    /// Ends the module's child, if it is free: its artifact is no longer used.
    pub fn retire(&self, module: &Digest) {
        let mut state = self.lock();
        let retired = match state.children.get(module) {
            Some(ChildSlot::Free { .. }) => state.children.remove(module),
            Some(ChildSlot::Taken { .. }) | None => None,
        };
        drop(state);
        // Ending waits for the process, and others need not wait with it.
        drop(retired);
        self.changed.notify_all();
    }

    /// Children that did not live to the end of their answer.
    pub fn kills(&self) -> u64 {
        self.kills.load(Relaxed)
    }

    /// The modules that have a child now, and its process id.
    pub fn processes(&self) -> Vec<(Digest, u32)> {
        let state = self.lock();
        let ids = state.children.iter().filter_map(|(module, place)| match place {
            ChildSlot::Taken { process_id } => process_id.map(|id| (module.clone(), id)),
            ChildSlot::Free { process, .. } => Some((module.clone(), process.id())),
        });
        ids.collect()
    }

    fn take(&self, module: &Digest) -> Result<Lease<'_>, Failure> {
        let mut state = self.lock();
        let (process, evicted) = loop {
            match state.children.remove(module) {
                Some(ChildSlot::Free { mut process, .. }) => {
                    // One that was killed between two requests is replaced; that is nobody's failure.
                    break if process.is_alive() {
                        (Some(process), None)
                    } else {
                        (None, None)
                    };
                }
                Some(taken) => {
                    state.children.insert(module.clone(), taken);
                }
                None => {
                    if let Some(left) = state
                        .backoffs
                        .get(module)
                        .and_then(|backoff| backoff.remaining(Instant::now()))
                    {
                        let message = format!(
                            "its process has failed before and is started again in {} s",
                            left.as_secs() + 1
                        );
                        return Err(broken(message));
                    }
                    if state.children.len() < self.most {
                        break (None, None);
                    }
                    if let Some(place) = state.least_recent().and_then(|oldest| state.children.remove(&oldest)) {
                        break (None, Some(place));
                    }
                }
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        state
            .children
            .insert(module.clone(), ChildSlot::Taken { process_id: None });
        drop(state);
        drop(evicted);
        Ok(Lease {
            children: self,
            module: module.clone(),
            process,
        })
    }

    /// No code that can panic runs under the lock, so a poisoned state is whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a child is asked, and how long it may work on it.
pub struct Question<'a> {
    pub request: &'a Encoded,
    pub within: Duration,
}

impl State {
    fn least_recent(&self) -> Option<Digest> {
        let free = self.children.iter().filter_map(|(module, place)| match place {
            ChildSlot::Free { used, .. } => Some((*used, module)),
            ChildSlot::Taken { .. } => None,
        });
        free.min().map(|(_, module)| module.clone())
    }
}

/// A module's place among the children while a caller uses it. Gives it back when dropped, with the child if there is one.
struct Lease<'a> {
    children: &'a Children,
    module: Digest,
    process: Option<Process>,
}

impl Lease<'_> {
    fn note(&self, process_id: u32) {
        let place = ChildSlot::Taken {
            process_id: Some(process_id),
        };
        self.children.lock().children.insert(self.module.clone(), place);
    }

    fn recovered(&self) {
        self.children.lock().backoffs.remove(&self.module);
    }

    fn broke(&self) {
        let mut state = self.children.lock();
        let now = Instant::now();
        let next = match state.backoffs.remove(&self.module) {
            Some(backoff) => backoff.longer(now),
            None => Backoff::first(now),
        };
        if state.backoffs.len() >= BACKOFFS_MAX {
            state.backoffs.retain(|_, backoff| backoff.remaining(now).is_some());
        }
        if state.backoffs.len() < BACKOFFS_MAX {
            state.backoffs.insert(self.module.clone(), next);
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let mut state = self.children.lock();
        state.uses += 1;
        let used = state.uses;
        match self.process.take() {
            Some(process) => state
                .children
                .insert(self.module.clone(), ChildSlot::Free { process, used }),
            None => state.children.remove(&self.module),
        };
        drop(state);
        self.children.changed.notify_all();
    }
}

fn exchange(process: &mut Process, request: &Encoded, within: Duration) -> Result<Answer, ProtocolError> {
    let mut pipe = process.pipe(Instant::now() + within);
    request.send(&mut pipe)?;
    request.answer(&mut pipe)
}

fn broken(cause: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::SandboxBroken, cause)
}
