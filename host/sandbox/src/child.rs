//! The children's side: the hidden subcommands that the host starts from its own binary. Before they read anything they
//! confine themselves; no runtime, no log, no environment. Nothing here runs in the host.
//!
//! Standard input is the component or the artifact, standard output one end of a socket pair on which frames go both ways,
//! standard error a pipe whose end the host keeps for the cause of a death.

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::os::fd::AsFd as _;
use std::process::ExitCode;

use rustix::time::{ClockId, clock_gettime};
use stagegate_evaluate::gate::limits::COMPONENT_BYTES_MAX;
use stagegate_evaluate::gate::{self, Engine, Failure, FailureKind, Gate, Limits};

use super::confine::{self, Role};
use super::descriptors::{self, Descriptors};
use super::phase::Phase;
use super::protocol::{self, Answer, Compiled, Nonce, ProtocolError, Request, Said};

/// Which child to be.
#[derive(Clone, Copy, Debug, clap::Subcommand)]
pub enum Child {
    /// Compile the component on standard input, once
    Compile(Parent),
    /// Answer for the artifact on standard input until the pipe ends
    Run(Parent),
    /// Confine as the run child does, then try what is forbidden, and print how each attempt fails
    Probe(Parent),
}

#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Parent {
    /// The process that started this one and dies with it
    #[arg(long, value_name = "PID")]
    parent: u32,
}

/// To the end of the child. The exit code says nothing: a host that got no answer knows enough.
pub fn main(child: Child) -> ExitCode {
    let ended = match child {
        Child::Compile(Parent { parent }) => compile(parent),
        Child::Run(Parent { parent }) => run(parent),
        Child::Probe(Parent { parent }) => super::probe::main(parent),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write as _;
            // Nobody is left to tell when standard error is gone too.
            drop(writeln!(io::stderr(), "{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// The files that a child was started with.
struct Files {
    input: File,
    /// A file and no socket: `read` and `write` are all it needs.
    host: File,
    inherited: Vec<u32>,
}

impl Files {
    fn take() -> io::Result<Self> {
        Ok(Self {
            inherited: descriptors::inherited()?,
            input: File::from(io::stdin().as_fd().try_clone_to_owned()?),
            host: File::from(io::stdout().as_fd().try_clone_to_owned()?),
        })
    }

    fn forbid_others(&self, phase: Phase) -> io::Result<()> {
        let files = Descriptors {
            own: vec![self.input.as_fd(), self.host.as_fd()],
            inherited: self.inherited.clone(),
        };
        confine::forbid(phase, &files)
    }
}

fn compile(parent: u32) -> Result<(), ProtocolError> {
    confine::limit(Role::Compile, parent)?;
    let files = Files::take()?;
    files.forbid_others(Phase::Working)?;
    let Files {
        mut input, mut host, ..
    } = files;
    let (nonce, request) = protocol::receive(&mut host)?;
    let compiled = match request {
        Request::Compile => {
            let mut component = Vec::new();
            // One byte more than allowed, so that what is too large is seen to be.
            let most = COMPONENT_BYTES_MAX as u64 + 1;
            input.by_ref().take(most).read_to_end(&mut component)?;
            match gate::compile(&component) {
                Ok(artifact) => Compiled::Artifact(artifact),
                Err(failure) => Compiled::Failure(failure),
            }
        }
        other => Compiled::Failure(unfit(&other)),
    };
    protocol::reply_compiled(&mut host, nonce, &compiled)
}

fn run(parent: u32) -> Result<(), ProtocolError> {
    confine::limit(Role::Run, parent)?;
    let files = Files::take()?;
    // Its thread has to be started before threads are forbidden. One call at a time, so one slot.
    let engine = Engine::new(1);
    let artifact = files.input.try_clone()?;
    files.forbid_others(Phase::Loading)?;
    let loaded = engine.and_then(|engine| Gate::load(&engine, artifact));
    files.forbid_others(Phase::Working)?;
    let mut from = BufReader::new(&files.host);
    loop {
        let (nonce, request) = match protocol::receive(&mut from) {
            Ok(received) => received,
            Err(ProtocolError::Ended) => return Ok(()),
            Err(error) => return Err(error),
        };
        let said = match &loaded {
            Ok(gate) => answer(gate, &request),
            Err(failure) => Err(failure.clone()),
        };
        send(&files.host, nonce, said)?;
    }
}

fn answer(gate: &Gate, request: &Request<'_>) -> Result<Said, Failure> {
    match request {
        Request::Describe => Ok(Said::Description(gate.describe(Limits::default())?)),
        Request::CheckConfig { config } => {
            let schema = gate.describe(Limits::default())?.config_schema;
            Ok(Said::Config(gate::check_config(&schema, config)))
        }
        Request::Evaluate { request, limits } => {
            let evaluation = gate.evaluate(request, *limits)?;
            let (verdict, log) = (evaluation.verdict, evaluation.log);
            Ok(Said::Evaluation { verdict, log })
        }
        Request::Compile => Err(unfit(request)),
    }
}

fn send(mut host: &File, nonce: Nonce, said: Result<Said, Failure>) -> Result<(), ProtocolError> {
    let used = clock_gettime(ClockId::ProcessCPUTime).tv_sec;
    let is_last = used >= confine::RUN_CPU_RETIRE_S.cast_signed();
    protocol::reply(&mut host, nonce, &Answer { said, is_last })
}

fn unfit(request: &Request<'_>) -> Failure {
    let name = match request {
        Request::Compile => "compile",
        Request::Describe => "describe",
        Request::CheckConfig { .. } => "check a config",
        Request::Evaluate { .. } => "evaluate",
    };
    Failure::new(FailureKind::SandboxBroken, format_args!("this child does not {name}"))
}
