//! A small pool of threads with large stacks, on which everything that recurses over an expression runs.
//!
//! Parser, evaluator and `Drop` recurse once per link of a chain such as `1+1+1+…`, and an overflowed stack aborts the
//! process: it cannot be caught. The longest text that is accepted needs about 20 MiB. A panic, unlike an overflow, is
//! caught here and becomes an error of the one caller. Nothing else of the process may run on these threads.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Reserved, not committed: a thread that never recurses deeply costs a few pages.
const STACK_BYTES: usize = 64 << 20;

/// How long a caller stays awake for its answer, and a worker for its next job, before they sleep. Waking a thread on an
/// idle core takes longer than most evaluations; while both wait they give way to whoever else can run.
const CALLER_AWAKE: Duration = Duration::from_micros(30);
const WORKER_AWAKE: Duration = Duration::from_micros(50);

/// Why a piece of work has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// It panicked.
    Panicked,
    /// The system gave no thread to run it on.
    NoThread,
}

/// Runs `work` on a thread of the pool and waits for its result.
pub(crate) fn run<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Result<R, Lost> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let job = Box::new(move || {
        let result = catch_unwind(AssertUnwindSafe(work)).map_err(|_| Lost::Panicked);
        // The caller waits below, unless it is gone with its own thread: then nobody misses the result.
        drop(sender.send(result));
    });
    POOL.submit(job).map_err(|_| Lost::NoThread)?;
    if let Some(result) = awake(CALLER_AWAKE, || receiver.try_recv().ok()) {
        return result;
    }
    // A worker that dies before it answers drops the sender.
    receiver.recv().unwrap_or(Err(Lost::Panicked))
}

/// Drops `value` on a thread of the pool, without waiting. Where no thread can be had it is leaked: the stack of the
/// caller may be too small to drop it.
pub(crate) fn drop_deep<T: Send + 'static>(value: T) {
    if let Err(job) = POOL.submit(Box::new(move || drop(value))) {
        std::mem::forget(job);
    }
}

/// Looks again and again, for so long.
fn awake<T>(long: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        let found = look();
        if found.is_some() || began.elapsed() > long {
            return found;
        }
        thread::yield_now();
    }
}

type Job = Box<dyn FnOnce() + Send>;

static POOL: LazyLock<Pool> = LazyLock::new(|| Pool {
    state: Mutex::default(),
    work: Condvar::new(),
    most: thread::available_parallelism().map_or(2, usize::from).clamp(2, 8),
});

struct Pool {
    state: Mutex<State>,
    work: Condvar,
    most: usize,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Threads that wait for a job.
    idle: usize,
    /// Threads that exist.
    live: usize,
}

impl Pool {
    /// Queues `job`, and starts a thread if all are busy and there may be more. Hands the job back if nobody would ever
    /// take it.
    fn submit(&'static self, job: Job) -> Result<(), Job> {
        let mut state = self.lock();
        state.jobs.push_back(job);
        if state.jobs.len() <= state.idle {
            drop(state);
            self.work.notify_one();
            return Ok(());
        }
        if state.live < self.most && !self.start(&mut state) && state.live == 0 {
            return match state.jobs.pop_back() {
                Some(job) => Err(job),
                None => Ok(()),
            };
        }
        Ok(())
    }

    fn start(&'static self, state: &mut State) -> bool {
        let started = thread::Builder::new()
            .name("evaluate".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || self.work_forever())
            .is_ok();
        state.live += usize::from(started);
        started
    }

    fn work_forever(&'static self) {
        let _replaced = Replacement(self);
        loop {
            let job = self.next();
            // Only dropping what a caught panic left behind can still panic; the guard above answers for that.
            job();
        }
    }

    fn next(&self) -> Job {
        if let Some(job) = awake(WORKER_AWAKE, || self.lock().jobs.pop_front()) {
            return job;
        }
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return job;
            }
            state.idle += 1;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    /// No code that can panic runs under the lock, so a poisoned state is whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a dying thread out, and starts another for the jobs it leaves behind.
struct Replacement(&'static Pool);

impl Drop for Replacement {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.live -= 1;
        if !state.jobs.is_empty() {
            self.0.start(&mut state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_and_the_pool_goes_on() {
        for _ in 0..20 {
            assert_eq!(run(|| -> u8 { panic!("expected by this test") }), Err(Lost::Panicked));
        }
        assert_eq!(run(|| 7), Ok(7));
    }

    #[test]
    fn a_thread_that_dies_is_replaced() {
        struct PanicsWhenDropped;
        impl Drop for PanicsWhenDropped {
            fn drop(&mut self) {
                panic!("expected by this test")
            }
        }
        for _ in 0..20 {
            drop_deep(PanicsWhenDropped);
        }
        assert_eq!(run(|| 7), Ok(7));
    }

    #[test]
    fn work_runs_on_a_stack_of_its_own_size() {
        fn deep(levels: u32) -> u64 {
            let frame = std::hint::black_box([1u64; 512]);
            if levels == 0 {
                frame[0]
            } else {
                deep(levels - 1) + frame[1]
            }
        }
        // 4 KiB a level: over 24 MiB, which a test thread of 2 MiB does not have.
        assert_eq!(run(|| deep(6000)), Ok(6001));
    }
}
