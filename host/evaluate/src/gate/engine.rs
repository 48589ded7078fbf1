//! The engine that runs gates: what its code may do, its slots, and the clock that ends a call at its deadline, as one value,
//! so that no call can be made without a deadline that somebody keeps. Must not compile.

use std::sync::Arc;

use wasmtime::component::Linker;
use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

use super::failure::{Failure, FailureKind};
use super::imports;
use super::limits::MEMORY_MIB_MAX;
use super::store::{CORE_INSTANCES_MAX, State, TABLE_ELEMENTS_MAX, TABLES_MAX};
use super::ticker::{Call, Ticker};

/// Most calls at once: each slot reserves more than 4 GiB of addresses and keeps up to [`KEEP_RESIDENT_BYTES`].
const SLOTS_MAX: u32 = 64;

/// Memory of a slot that is cleared and kept instead of being given back: page faults cost more than the calls of small
/// gates, and every give-back stops the other threads.
const KEEP_RESIDENT_BYTES: usize = 1 << 20;
const KEEP_RESIDENT_TABLE_BYTES: usize = 16 << 10;

const WASM_STACK_BYTES: usize = 512 << 10;

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
        let parts = Parts {
            linker: imports::linker(&wasm)?,
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
