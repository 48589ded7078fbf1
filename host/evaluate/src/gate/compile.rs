//! From a component to an artifact that [`super::Engine`] runs, and what can be said about one without compiling. Must not
//! run anything. [`compile`] may need minutes and gigabytes: it belongs into a process of its own.

use std::fmt;
use std::hash::{Hash, Hasher};

use sha2::{Digest, Sha256};
use wasmparser::{Parser, Payload};

use super::engine::code_config;
use super::failure::{Failure, FailureKind};
use super::limits::COMPONENT_BYTES_MAX;

/// The interfaces that a gate may export, the better one first, and the version of both that this host knows.
const INTERFACES: [(&str, Interface); 2] = [
    ("stagegate:gate/gate", Interface::Typed),
    ("stagegate:gate/gate-json", Interface::Json),
];
const VERSION_MINOR: &str = "0.1.";

/// The packages of WASI 0.2 that are there, though they give nothing.
const WASI: [&str; 6] = ["cli", "clocks", "filesystem", "io", "random", "sockets"];
const WASI_MINOR: &str = "0.2.";

/// How a gate wants to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// By typed, columnar records.
    Typed,
    /// By JSON texts.
    Json,
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Typed => "gate",
            Self::Json => "gate-json",
        })
    }
}

/// What tells artifacts of compilers apart that are not for the same engine: 64 hexadecimal digits. Starts no engine.
pub fn compatibility() -> String {
    let digest = match wasmtime::Engine::new(&code_config()) {
        Ok(engine) => {
            let mut hasher = Collecting(Sha256::new());
            engine.precompile_compatibility_hash().hash(&mut hasher);
            hasher.0.finalize()
        }
        // Nothing compiles here then, so nothing is ever stored under it.
        Err(error) => Sha256::digest(format!("{error:#}")),
    };
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads the outside of a component: whether it is one, its size, what it exports and wants. Cheap; what is inside is not
/// looked at, so [`compile`] or loading may still refuse it.
pub fn inspect(component: &[u8]) -> Result<Interface, Failure> {
    let size = component.len();
    if size > COMPONENT_BYTES_MAX {
        return Err(Failure::new(
            FailureKind::TooLarge,
            format_args!("it has {size} bytes, {COMPONENT_BYTES_MAX} are allowed"),
        ));
    }
    if Parser::is_core_wasm(component) {
        return Err(Failure::new(
            FailureKind::CoreModule,
            "it is a core module, a gate is a component: build it for wasm32-wasip2",
        ));
    }
    if !Parser::is_component(component) {
        return Err(Failure::new(FailureKind::NotWasm, "it is not WebAssembly"));
    }
    let outside = Outside::read(component)
        .map_err(|error| Failure::new(FailureKind::NotWasm, format_args!("reading it failed: {error}")))?;
    let interface = outside.interface()?;
    match outside.imports.into_iter().find(|name| !is_given(name)) {
        None => Ok(interface),
        Some(name) => Err(Failure::new(
            FailureKind::OtherWorld,
            format_args!("it wants {name}, which no gate gets"),
        )),
    }
}

/// Compiles a component for [`super::Gate::load`].
pub fn compile(component: &[u8]) -> Result<Vec<u8>, Failure> {
    inspect(component)?;
    wasmtime::Engine::new(&code_config())
        .and_then(|engine| engine.precompile_component(component))
        .map_err(|error| Failure::new(FailureKind::NotCompiled, format_args!("compiling it failed: {error:#}")))
}

/// The names that a component imports and exports.
struct Outside<'a> {
    imports: Vec<&'a str>,
    exports: Vec<&'a str>,
}

impl<'a> Outside<'a> {
    fn read(component: &'a [u8]) -> wasmparser::Result<Self> {
        let (mut imports, mut exports) = (Vec::new(), Vec::new());
        // How many components deep the payload is: those inside have imports and exports of their own.
        let mut depth = 0_u32;
        for payload in Parser::new(0).parse_all(component) {
            match payload? {
                Payload::Version { .. } => depth += 1,
                Payload::End(_) => depth -= 1,
                Payload::ComponentImportSection(section) if depth == 1 => {
                    for import in section {
                        imports.push(import?.name.name);
                    }
                }
                Payload::ComponentExportSection(section) if depth == 1 => {
                    for export in section {
                        exports.push(export?.name.name);
                    }
                }
                _ => {}
            }
        }
        Ok(Self { imports, exports })
    }

    fn interface(&self) -> Result<Interface, Failure> {
        let versions = |interface: &str| {
            let of = self
                .exports
                .iter()
                .filter_map(move |name| name.strip_prefix(interface)?.strip_prefix('@'));
            of.collect::<Vec<_>>()
        };
        let mut others = Vec::new();
        for (name, interface) in INTERFACES {
            for version in versions(name) {
                if is_of(version, VERSION_MINOR) {
                    return Ok(interface);
                }
                others.push(format!("{name}@{version}"));
            }
        }
        Err(match others.first() {
            Some(other) => Failure::new(
                FailureKind::OtherVersion,
                format_args!("it is a gate of another version: it exports {other}, this host knows {VERSION_MINOR}x"),
            ),
            None => Failure::new(
                FailureKind::OtherWorld,
                format_args!(
                    "it exports no gate: not {}, but {}",
                    INTERFACES[0].0,
                    if self.exports.is_empty() {
                        "nothing".to_owned()
                    } else {
                        self.exports.join(", ")
                    }
                ),
            ),
        })
    }
}

fn is_given(import: &str) -> bool {
    let Some((interface, version)) = import.split_once('@') else {
        return false;
    };
    match interface.split_once('/') {
        Some(("stagegate:gate", "types" | "log")) => is_of(version, VERSION_MINOR),
        Some((package, _)) => {
            package
                .strip_prefix("wasi:")
                .is_some_and(|package| WASI.contains(&package))
                && is_of(version, WASI_MINOR)
        }
        None => false,
    }
}

/// Whether `version` is a release of `minor`, which ends with its dot.
fn is_of(version: &str, minor: &str) -> bool {
    version
        .strip_prefix(minor)
        .is_some_and(|patch| patch.parse::<u32>().is_ok())
}

/// A hasher whose result does not depend on the standard library's.
struct Collecting(Sha256);

impl Hasher for Collecting {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Not asked for: the digest is.
    fn finish(&self) -> u64 {
        0
    }
}
