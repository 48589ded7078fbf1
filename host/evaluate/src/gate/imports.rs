//! What a gate can call: its log, and every interface of WASI 0.2, so that ordinary guests load. Must not give a gate anything
//! by them (see [`super::wasi`]), nor let it wait.

use wasmtime::StoreContextMut;
use wasmtime::component::{HasSelf, Linker, Resource};
use wasmtime_wasi::p2::DynPollable;

use super::convert;
use super::convert::typed_world::stagegate::gate::log;
use super::store::State;

/// What a gate is told when it waits. Waiting would stand still in the host, where no deadline reaches.
const WAITS: &str = "a gate may not wait: it judges its request as it is";

/// Everything that gates may import.
pub(super) fn linker(wasm: &wasmtime::Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(wasm);
    link_wasi(&mut linker)?;
    link_log(&mut linker)?;
    Ok(linker)
}

/// Adds WASI to `linker`.
fn link_wasi(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_sync(linker)?;
    linker.allow_shadowing(true);
    let mut clock = linker.instance("wasi:clocks/monotonic-clock@0.2.12")?;
    for name in ["subscribe-instant", "subscribe-duration"] {
        clock.func_wrap(name, |_: StoreContextMut<'_, State>, (_,): (u64,)| {
            Err::<(Resource<DynPollable>,), _>(wasmtime::Error::msg(WAITS))
        })?;
    }
    linker.allow_shadowing(false);
    Ok(())
}

/// Gives gates their `log`.
fn link_log(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    log::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

impl log::Host for State {
    fn write(&mut self, level: log::Level, message: String) {
        self.log(convert::level(level), message);
    }
}
