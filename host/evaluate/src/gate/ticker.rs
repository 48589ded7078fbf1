//! The clock that ends calls at their deadline: it moves an engine's epoch on while a call is under way, and lets only so many
//! calls be under way at once. Must not know what is called.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A deadline is kept to one or two of these.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// Moves the engine's epoch on every [`TICK`] while a call is under way, and sleeps otherwise.
pub(super) struct Ticker {
    shared: Arc<Shared>,
    slots: u32,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    pub(super) fn start(wasm: wasmtime::Engine, slots: u32) -> std::io::Result<Ticker> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("gate-clock".to_owned())
            .spawn(move || of_thread.tick(&wasm))?;
        Ok(Ticker {
            shared,
            slots,
            thread: Some(thread),
        })
    }

    pub(super) fn call(&self) -> Call<'_> {
        let mut calls = self.shared.lock();
        while calls.under_way == self.slots {
            calls.waiting += 1;
            calls = self.shared.ended.wait(calls).unwrap_or_else(PoisonError::into_inner);
            calls.waiting -= 1;
        }
        calls.under_way += 1;
        if calls.clock_sleeps {
            self.shared.started.notify_one();
        }
        Call(&self.shared)
    }
}

impl Drop for Ticker {
    /// Takes one tick at most: the thread waits for nothing else.
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.started.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the clock is of no interest to who is done with it.
            drop(thread.join());
        }
    }
}

/// A call that is under way, until dropped.
pub(super) struct Call<'a>(&'a Shared);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let mut calls = self.0.lock();
        calls.under_way -= 1;
        if calls.waiting > 0 {
            self.0.ended.notify_one();
        }
    }
}

#[derive(Default)]
struct Shared {
    calls: Mutex<Calls>,
    /// Work for the clock: a first call, or the end.
    started: Condvar,
    /// A slot is free.
    ended: Condvar,
}

#[derive(Default)]
struct Calls {
    under_way: u32,
    waiting: u32,
    clock_sleeps: bool,
    stopped: bool,
}

impl Shared {
    /// No code that can panic runs under the lock, so a poisoned state is whole.
    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tick(&self, wasm: &wasmtime::Engine) {
        loop {
            let mut calls = self.lock();
            while calls.under_way == 0 && !calls.stopped {
                calls.clock_sleeps = true;
                calls = self.started.wait(calls).unwrap_or_else(PoisonError::into_inner);
                calls.clock_sleeps = false;
            }
            if calls.stopped {
                return;
            }
            drop(calls);
            // A sleep, and not a timer that catches up: a machine that stood still must not end every call at once.
            thread::sleep(TICK);
            wasm.increment_epoch();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn the_clock_sleeps_while_no_call_is_under_way() {
        let wasm = wasmtime::Engine::default();
        let ticker = Ticker::start(wasm, 1).unwrap();
        let sleeps = |expected: bool| {
            let began = Instant::now();
            while ticker.shared.lock().clock_sleeps != expected {
                assert!(began.elapsed() < Duration::from_secs(10), "expected {expected}");
                thread::sleep(TICK / 10);
            }
        };
        sleeps(true);
        let call = ticker.call();
        sleeps(false);
        drop(call);
        sleeps(true);
    }
}
