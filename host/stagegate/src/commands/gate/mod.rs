//! `stagegate gate`: try, check and pack a gate's component without a cluster. What a host would do with it is not imitated
//! but done, by the same sandbox.

use super::{Failure, Outcome, Result};
use crate::args::GateCommand;

mod check;
mod configmap;
pub mod file;
mod run;

/// # Errors
/// Files that cannot be read. A component that cannot be used is an answer: [`Outcome::Negative`].
pub fn command(command: &GateCommand) -> Result {
    match command {
        GateCommand::Check(args) => check::component(args),
        GateCommand::Run(args) => run::component(args),
        GateCommand::Configmap(args) => configmap::manifest(args),
    }
}

/// What to do about a component that cannot be used; empty where its message says so.
fn advice(kind: stagegate_evaluate::gate::FailureKind) -> &'static str {
    use stagegate_evaluate::gate::FailureKind as Kind;
    match kind {
        Kind::NotWasm => "give the .wasm file that `cargo build --target wasm32-wasip2` writes",
        Kind::CoreModule => "build it for wasm32-wasip2, whose output is a component",
        Kind::OtherWorld => {
            "export one of the interfaces of wit/gate.wit and import nothing beyond WASI 0.2 and its `log`"
        }
        Kind::OtherVersion => "build it against the version of wit/gate.wit that this host knows",
        Kind::TooLarge => "build it for size: opt-level \"s\", fat LTO, one codegen unit, panic \"abort\", strip",
        Kind::NotCompiled => "look for very large functions; a gate of the SDK compiles within a fifth of the limits",
        Kind::LimitExceeded => "let it start with less memory and smaller tables",
        _ => "",
    }
}
