//! The engine that runs gates: what its code may do, its slots, and the clock that ends a call at its deadline, as one value,
//! so that no call can be made without a deadline that somebody keeps. Must not compile.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wasmtime::component::Linker;
use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

use super::failure::{Failure, FailureKind};
use super::limits::MEMORY_MIB_MAX;
use super::store::{CORE_INSTANCES_MAX, State, TABLE_ELEMENTS_MAX, TABLES_MAX};
use super::wasi;

/// Most calls at once: each slot reserves more than 4 GiB of addresses and keeps up to [`KEEP_RESIDENT_BYTES`].
const SLOTS_MAX: u32 = 64;

/// Memory of a slot that is cleared and kept instead of being given back: page faults cost more than the calls of small
/// gates, and every give-back stops the other threads.
const KEEP_RESIDENT_BYTES: usize = 1 << 20;
const KEEP_RESIDENT_TABLE_BYTES: usize = 16 << 10;

const WASM_STACK_BYTES: usize = 512 << 10;

/// A deadline is kept to one or two of these.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// Runs gates. Holds addresses for its slots, no compiler's output and no instance; a thread that sleeps while no call is
/// under way. Clones share everything.
#[derive(Clone)]
pub struct Engine {
    pub(super) parts: Arc<Parts>,
}

impl Engine {
    /// An engine for at most `slots` calls at a time (1 to 64; more calls wait). Fails where the addresses cannot be had.
    pub fn new(slots: u32) -> Result<Engine, Failure> {
        let slots = slots.clamp(1, SLOTS_MAX);
        let mut config = code_config();
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(slots)));
        Engine::with(&config, slots).map_err(|error| {
            Failure::new(
                FailureKind::SandboxBroken,
                format_args!("starting the engine failed: {error:#}"),
            )
        })
    }

    fn with(config: &Config, slots: u32) -> wasmtime::Result<Engine> {
        let wasm = wasmtime::Engine::new(config)?;
        let mut linker = Linker::new(&wasm);
        wasi::link(&mut linker)?;
        super::run::link_log(&mut linker)?;
        let parts = Parts {
            linker,
            ticker: Ticker::start(wasm.clone(), slots)?,
            runtime: Some(tokio::runtime::Builder::new_current_thread().build()?),
            wasm,
        };
        Ok(Engine { parts: Arc::new(parts) })
    }
}

/// What decides how code is compiled, and so which artifacts an engine takes: the same for compiling and running.
pub(super) fn code_config() -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .consume_fuel(false)
        .max_wasm_stack(WASM_STACK_BYTES)
        // Only a NaN's bits could differ between machines.
        .cranelift_nan_canonicalization(true)
        .wasm_relaxed_simd(false)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        // Neither backtraces nor a debugger ask for them.
        .generate_address_map(false)
        .native_unwind_info(false);
    config
}

fn pool(slots: u32) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(slots)
        .total_core_instances(slots * CORE_INSTANCES_MAX)
        .max_core_instances_per_component(CORE_INSTANCES_MAX)
        .total_memories(slots)
        .max_memories_per_component(1)
        .total_tables(slots * TABLES_MAX)
        .max_tables_per_component(TABLES_MAX)
        .max_tables_per_module(TABLES_MAX)
        .table_elements(TABLE_ELEMENTS_MAX)
        .total_stacks(0)
        .max_memory_size((MEMORY_MIB_MAX as usize) << 20)
        .max_unused_warm_slots(slots)
        .linear_memory_keep_resident(KEEP_RESIDENT_BYTES)
        .table_keep_resident(KEEP_RESIDENT_TABLE_BYTES)
        // It has let an instance see what the one before it in the slot had left. Memory protection keys, which have, too,
        // are not compiled in.
        .pagemap_scan(Enabled::No);
    pool
}

pub(super) struct Parts {
    pub(super) wasm: wasmtime::Engine,
    pub(super) linker: Linker<State>,
    ticker: Ticker,
    /// WASI's streams need a runtime at hand and would else start one with threads. This one has none: it drives nothing.
    runtime: Option<tokio::runtime::Runtime>,
}

impl Parts {
    /// Waits for a slot and holds it, while the clock ticks.
    pub(super) fn turn(&self) -> Turn<'_> {
        Turn {
            _runtime: self.runtime.as_ref().map(tokio::runtime::Runtime::enter),
            _call: self.ticker.call(),
        }
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Else it would wait for its blocking threads, which is forbidden within another runtime.
            runtime.shutdown_background();
        }
    }
}

/// One slot of the engine, for one call.
pub(super) struct Turn<'a> {
    _runtime: Option<tokio::runtime::EnterGuard<'a>>,
    _call: Call<'a>,
}

/// Moves the engine's epoch on every [`TICK`] while a call is under way, and sleeps otherwise.
struct Ticker {
    shared: Arc<Shared>,
    slots: u32,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    fn start(wasm: wasmtime::Engine, slots: u32) -> std::io::Result<Ticker> {
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

    fn call(&self) -> Call<'_> {
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
struct Call<'a>(&'a Shared);

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
        let wasm = wasmtime::Engine::new(&code_config()).unwrap();
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
