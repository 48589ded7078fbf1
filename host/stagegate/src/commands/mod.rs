//! One module per subcommand, and how each end becomes an exit code. Must not hold what a command does.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;

use crate::args::{Args, Command};

mod cel;
mod completions;
pub mod connection;
mod crds;
mod gate;
mod goal;
#[cfg(feature = "playground")]
mod lint;
mod log;
mod lookup;
mod man;
mod outcome;
#[cfg(feature = "playground")]
mod playground;
mod revisions;
mod run;
mod signals;
mod status;
mod version;
mod watch;

pub use self::outcome::{Failure, Outcome, Result};

/// Runs the command; says on standard error why it failed.
pub fn execute(args: Args) -> ExitCode {
    // Whoever asked for a verdict must not take an unfinished rollout for one.
    let has_verdict = has_verdict(&args.command);
    let ended = match args.command {
        #[cfg(feature = "playground")]
        Command::Playground(args) => block_on(playground::play(&args)),
        Command::Run(args) => block_on(run::controllers(&args)),
        Command::Status(args) => block_on(status::rollout(&args)),
        Command::Revisions(args) => block_on(revisions::policy(&args)),
        Command::Watch(args) => block_on(watch::rollouts(&args)),
        Command::Cel(args) => cel::evaluate(&args),
        Command::Gate(command) => gate::command(&command),
        #[cfg(feature = "playground")]
        Command::Lint(args) => lint::check(&args),
        Command::Crds { workloads } => crds::print(workloads),
        Command::Completions { shell } => completions::print(shell),
        Command::Man { directory } => man::write(&directory),
        Command::Version => version::print(),
        Command::Sandbox(child) => return stagegate_sandbox::child::main(child),
    };
    ExitCode::from(match ended {
        Ok(Outcome::Success) => 0,
        Ok(Outcome::Negative) => 1,
        Ok(Outcome::TimedOut | Outcome::Undecided) => 3,
        Err(failure) if reader_went_away(&failure) && !has_verdict => 0,
        Err(failure) => report(&failure),
    })
}

const fn has_verdict(command: &Command) -> bool {
    match command {
        #[cfg(feature = "playground")]
        Command::Playground(_) => true,
        Command::Watch(args) => args.until.is_some(),
        command => matches!(command, Command::Gate(_) | Command::Status(_)),
    }
}

fn block_on(command: impl Future<Output = Result>) -> Result {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime
        .context("starting the runtime")
        .map_err(Failure::Environment)?
        .block_on(command)
}

/// Flags are bounded far below what overflows.
fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn report(failure: &Failure) -> u8 {
    let (error, code) = match failure {
        Failure::Input(error) => (error, 2),
        Failure::Environment(error) => (error, 4),
    };
    // Nobody is left to tell when standard error is gone too.
    drop(writeln!(io::stderr(), "error: {error:#}"));
    code
}

/// `stagegate crds | head` ends early because its reader has had enough: that is no failure.
fn reader_went_away(failure: &Failure) -> bool {
    let Failure::Environment(error) = failure else {
        return false;
    };
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
