//! What one call has: its limits, its log, its WASI. A store cannot be had without [`Limits`].

use wasmtime::component::ResourceTable;
use wasmtime::{ResourceLimiter, Store, StoreLimits, StoreLimitsBuilder};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::answer::Log;
use super::limits::Limits;
use super::ticker::TICK;
use super::wasi::{self, Moment, Tail};
use super::wire::{Level, LogLine};

/// Bounds that are the same for all gates.
pub(super) const CORE_INSTANCES_MAX: u32 = 16;
pub(super) const TABLES_MAX: u32 = 16;
pub(super) const TABLE_ELEMENTS_MAX: usize = 10_000;
const HANDLES_MAX: usize = 256;
/// What a gate may hand to the host at once, answer included.
pub(super) const HANDED_OVER_BYTES_MAX: usize = 1 << 20;

/// A store for one call. Its deadline runs from now, so it is made right before the call.
pub(super) fn store(wasm: &wasmtime::Engine, limits: Limits, moment: Moment) -> Store<State> {
    let state = State {
        limiter: Limiter {
            limits: StoreLimitsBuilder::new()
                .memory_size((limits.memory_mib() as usize) << 20)
                .memories(1)
                .instances(CORE_INSTANCES_MAX as usize)
                .tables(TABLES_MAX as usize)
                .table_elements(TABLE_ELEMENTS_MAX)
                .build(),
            refused: None,
        },
        resources: ResourceTable::new(),
        moment,
        wasi: None,
        output: Tail::default(),
        log: Log::default(),
    };
    let mut store = Store::new(wasm, state);
    store.limiter(|state| &mut state.limiter);
    store.set_hostcall_fuel(HANDED_OVER_BYTES_MAX);
    store.set_max_component_handles(HANDLES_MAX);
    // The tick that is under way counts for nothing, so one more: never early, at most two ticks late.
    store.set_epoch_deadline(u64::from(limits.timeout_ms()).div_ceil(TICK.as_millis() as u64) + 1);
    store
}

pub(super) struct State {
    limiter: Limiter,
    resources: ResourceTable,
    moment: Moment,
    /// Most calls never ask for it.
    wasi: Option<WasiCtx>,
    output: Tail,
    log: Log,
}

impl State {
    /// The limit that was in the gate's way, if one was.
    pub(super) fn refused(&self) -> Option<&'static str> {
        self.limiter.refused
    }

    /// The last that it wrote to its standard output and error, as text.
    pub(super) fn last_words(&self) -> String {
        self.output.text()
    }

    pub(super) fn log(&mut self, level: Level, message: String) {
        self.log.push(level, &message);
    }

    pub(super) fn into_log(self) -> Vec<LogLine> {
        self.log.into_lines()
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: self.wasi.get_or_insert_with(|| wasi::denied(self.moment, &self.output)),
            table: &mut self.resources,
        }
    }
}

/// Remembers what it refused: a guest that is refused memory says so by stopping itself in some way of its own.
struct Limiter {
    limits: StoreLimits,
    refused: Option<&'static str>,
}

impl Limiter {
    fn note(&mut self, what: &'static str, granted: wasmtime::Result<bool>) -> wasmtime::Result<bool> {
        if !matches!(granted, Ok(true)) {
            self.refused = Some(what);
        }
        granted
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, most: Option<usize>) -> wasmtime::Result<bool> {
        let granted = self.limits.memory_growing(current, desired, most);
        self.note("memory", granted)
    }

    fn table_growing(&mut self, current: usize, desired: usize, most: Option<usize>) -> wasmtime::Result<bool> {
        let granted = self.limits.table_growing(current, desired, most);
        self.note("table elements", granted)
    }

    fn instances(&self) -> usize {
        self.limits.instances()
    }

    fn tables(&self) -> usize {
        self.limits.tables()
    }

    fn memories(&self) -> usize {
        self.limits.memories()
    }
}
