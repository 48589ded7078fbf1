//! The binary: reads the command line, runs the command, turns its end into an exit code. All else is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    stagegate::commands::execute(stagegate::args::Args::of_process())
}
