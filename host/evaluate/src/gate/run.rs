//! Loads an artifact and calls the gate in it: a fresh instance for every call, and one kind of failure for every way in
//! which a call can end without a verdict. Must not compile.

use std::fs::File;
use std::os::fd::AsRawFd;

use wasmtime::component::{Component, Linker};
use wasmtime::{Store, Trap};
use wasmtime_wasi::I32Exit;

use super::convert::{self, json_world, typed_world};
use super::engine::{Engine, code_config};
use super::failure::{Failure, FailureKind};
use super::limits::Limits;
use super::store::{HANDED_OVER_BYTES_MAX, State, store};
use super::wasi::Moment;
use super::wire::{Description, LogLine, Request, Verdict};
use super::{answer, json};

/// A loaded component, linked and ready to be called from several threads at once. Keeps its engine alive.
pub struct Gate {
    engine: Engine,
    world: World,
}

enum World {
    Typed(typed_world::GateWorldPre<State>),
    Json(json_world::GateJsonWorldPre<State>),
}

/// What a call of `evaluate` brought.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    pub verdict: Verdict,
    /// At most 64 lines of 8 KiB together, each without line breaks.
    pub log: Vec<LogLine>,
}

impl Gate {
    /// Loads what [`super::compile`] wrote, by mapping the whole of `artifact` into memory.
    ///
    /// Its bytes become machine code that runs with the rights of this process, so they must be those that `compile`
    /// returned, and nobody may be able to change them afterwards: a sealed memfd, or a private file whose digest has been
    /// compared. The file is opened anew through `/proc/self/fd`: a process that gives up opening files loads first.
    pub fn load(engine: &Engine, artifact: File) -> Result<Gate, Failure> {
        let component = match deserialize(&engine.parts.wasm, &artifact) {
            Ok(component) => component,
            Err(error) => return Err(not_loaded(&artifact, &error)),
        };
        let world = World::find(&engine.parts.linker, &component)?;
        Ok(Gate {
            engine: engine.clone(),
            world,
        })
    }

    /// What the gate says about itself. The same at every call, so ask once.
    pub fn describe(&self, limits: Limits) -> Result<Description, Failure> {
        let description = match &self.world {
            World::Typed(world) => {
                let call = |store: &mut Store<State>| {
                    let instance = world.instantiate(&mut *store)?;
                    instance.stagegate_gate_gate().call_describe(store)
                };
                convert::description(self.call(limits, Moment::DESCRIBING, call)?.0)
            }
            World::Json(world) => {
                let call = |store: &mut Store<State>| {
                    let instance = world.instantiate(&mut *store)?;
                    instance.stagegate_gate_gate_json().call_describe(store)
                };
                json::description(&self.call(limits, Moment::DESCRIBING, call)?.0)?
            }
        };
        answer::description(description)
    }

    /// Asks the gate. The same request has the same answer. A verdict is within the bounds of the interface: texts of one
    /// line, at most 32 pieces of evidence, a reason wherever it is not a pass.
    pub fn evaluate(&self, request: &Request, limits: Limits) -> Result<Evaluation, Failure> {
        let moment = Moment::of(request);
        let (verdict, log) = match &self.world {
            World::Typed(world) => convert::with_request(request, |request| {
                let call = |store: &mut Store<State>| {
                    let instance = world.instantiate(&mut *store)?;
                    instance.stagegate_gate_gate().call_evaluate(store, request)
                };
                let (answer, log) = self.call(limits, moment, call)?;
                Ok((convert::verdict(answer.map_err(guest_error)?), log))
            })?,
            World::Json(world) => {
                let request = json::request(request)?;
                let call = |store: &mut Store<State>| {
                    let instance = world.instantiate(&mut *store)?;
                    instance.stagegate_gate_gate_json().call_evaluate(store, &request)
                };
                let (answer, log) = self.call(limits, moment, call)?;
                (json::verdict(&answer.map_err(guest_error)?)?, log)
            }
        };
        let verdict = answer::verdict(verdict)?;
        Ok(Evaluation { verdict, log })
    }

    fn call<R>(
        &self,
        limits: Limits,
        moment: Moment,
        call: impl FnOnce(&mut Store<State>) -> wasmtime::Result<R>,
    ) -> Result<(R, Vec<LogLine>), Failure> {
        let _turn = self.engine.parts.turn();
        let mut store = store(&self.engine.parts.wasm, limits, moment);
        match call(&mut store) {
            Ok(answer) => Ok((answer, store.into_data().into_log())),
            Err(error) => Err(failed(&error, store.data(), limits)),
        }
    }
}

impl World {
    fn find(linker: &Linker<State>, component: &Component) -> Result<World, Failure> {
        let other = |error: wasmtime::Error| Failure::new(FailureKind::OtherWorld, format_args!("{error:#}"));
        let pre = linker.instantiate_pre(component).map_err(other)?;
        // By its export, as `inspect` does; the older names of the same minor version count, too.
        if component.get_export_index(None, "stagegate:gate/gate@0.1.0").is_some() {
            typed_world::GateWorldPre::new(pre).map(World::Typed).map_err(other)
        } else {
            json_world::GateJsonWorldPre::new(pre).map(World::Json).map_err(other)
        }
    }
}

fn deserialize(engine: &wasmtime::Engine, artifact: &File) -> wasmtime::Result<Component> {
    let open_files = if cfg!(target_os = "linux") {
        "/proc/self/fd"
    } else {
        "/dev/fd"
    };
    let path = format!("{open_files}/{}", artifact.as_raw_fd());
    #[expect(
        unsafe_code,
        reason = "there is no safe way to machine code; the caller vouches for the file: see `load`"
    )]
    // SAFETY: `load` asks for a file that `compile` wrote and that nobody changes.
    unsafe {
        Component::deserialize_file(engine, path)
    }
}

/// Why an artifact is refused. An engine without slots and their bounds tells apart an artifact that is none from a gate that
/// needs more than a slot has.
fn not_loaded(artifact: &File, error: &wasmtime::Error) -> Failure {
    let without_bounds = wasmtime::Engine::new(&code_config()).and_then(|engine| deserialize(&engine, artifact));
    let kind = match without_bounds {
        Ok(_) => FailureKind::LimitExceeded,
        Err(_) => FailureKind::ArtifactRefused,
    };
    Failure::new(kind, format_args!("{error:#}"))
}

fn guest_error(message: String) -> Failure {
    Failure::new(
        FailureKind::GuestError,
        format_args!("the gate could not judge: {message}"),
    )
}

/// Why a call ended without an answer: the first cause that is known, and else a trap with what the guest said last.
fn failed(error: &wasmtime::Error, state: &State, limits: Limits) -> Failure {
    let root = error.root_cause().to_string();
    if let Some(failure) = deadline_or_stack(error, limits)
        .or_else(|| resources(state, limits))
        .or_else(|| bounds_of_the_engine(&root))
    {
        return failure;
    }
    let words = last_words(&state.last_words());
    let message = match (error.downcast_ref::<I32Exit>(), words.as_str()) {
        (Some(I32Exit(code)), _) => format!("the gate ended itself with exit code {code}"),
        (None, "") => format!("the gate trapped: {root}"),
        (None, words) => format!("the gate trapped: {words} ({root})"),
    };
    Failure::new(FailureKind::Trapped, message)
}

fn deadline_or_stack(error: &wasmtime::Error, limits: Limits) -> Option<Failure> {
    match error.downcast_ref::<Trap>()? {
        Trap::Interrupt => Some(Failure::new(
            FailureKind::TimedOut,
            format_args!("the gate did not answer within {} ms", limits.timeout_ms()),
        )),
        Trap::StackOverflow => Some(Failure::new(
            FailureKind::LimitExceeded,
            "the gate needs more stack than it gets",
        )),
        _ => None,
    }
}

fn resources(state: &State, limits: Limits) -> Option<Failure> {
    let what = state.refused()?;
    let mib = limits.memory_mib();
    Some(Failure::new(
        FailureKind::LimitExceeded,
        format_args!("the gate needs more {what} than it gets (memory: {mib} MiB)"),
    ))
}

/// The engine keeps these bounds itself and says so in words only.
fn bounds_of_the_engine(root: &str) -> Option<Failure> {
    let says = |words| root.contains(words);
    if says("fuel allocated for hostcalls has been exhausted") {
        return Some(Failure::new(
            FailureKind::AnswerTooLarge,
            format_args!("the gate hands over more than {HANDED_OVER_BYTES_MAX} bytes"),
        ));
    }
    (says("handle limit exceeded") || says("resource limit exceeded")).then(|| {
        Failure::new(
            FailureKind::LimitExceeded,
            format_args!("the gate needs too much: {root}"),
        )
    })
}

/// The panic message of a Rust guest, or the last three lines that it wrote.
fn last_words(written: &str) -> String {
    let lines: Vec<_> = written
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("note: run with"))
        .collect();
    let panicked = lines.iter().rposition(|line| line.contains("panicked at"));
    lines[panicked.unwrap_or(lines.len().saturating_sub(3))..].join(" ")
}
