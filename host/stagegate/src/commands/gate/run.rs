//! `stagegate gate run`: one evaluation in the sandbox, of a request that a file holds.

use std::io::{self, Read as _, Write as _};
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};
use stagegate_decide::names::Digest;
use stagegate_evaluate::gate::wire::{Decision, Request};
use stagegate_evaluate::gate::{self, Evaluation, Limits};
use stagegate_sandbox::{Sandbox, SandboxOptions};

use super::{Failure, Outcome, Result, advice, file};
use crate::args::{Format, GateRunArgs};

/// Prints the verdict. The request is not evaluated by the gate's schema: what a host would refuse beforehand, the gate is asked.
///
/// # Errors
/// Files that cannot be read, a request that is none. `hold`, `fail` and no verdict at all are answers: [`Outcome::Negative`].
pub fn component(args: &GateRunArgs) -> Result {
    let request = request(&args.request)?;
    let component = file::component(&args.file)?;
    let digest = Digest::of_bytes(&component);
    let timeout_ms = u32::try_from(args.timeout.as_millis()).unwrap_or(u32::MAX);
    let limits = Limits::new(timeout_ms, args.memory);
    let sandbox = Sandbox::new(SandboxOptions::default());
    let evaluated = sandbox
        .load(&digest, &component)
        .and_then(|_description| sandbox.evaluate(&digest, &request, limits));
    match args.output {
        Format::Json => writeln!(io::stdout(), "{}", json(&evaluated))?,
        Format::Text => text(&evaluated)?,
    }
    let passed = evaluated.is_ok_and(|evaluation| matches!(evaluation.verdict.decision, Decision::Pass(_)));
    Ok(if passed { Outcome::Success } else { Outcome::Negative })
}

fn request(path: &Path) -> Result<Request> {
    let is_standard_input = path.as_os_str() == "-";
    let shown = if is_standard_input {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    };
    let mut text = String::new();
    let read = if is_standard_input {
        io::stdin().read_to_string(&mut text).map(drop)
    } else {
        std::fs::read_to_string(path).map(|read| text = read)
    };
    read.with_context(|| format!("reading {shown}"))
        .map_err(Failure::Input)?;
    serde_json::from_str(&text)
        .with_context(|| format!("reading {shown} as a gate's request (its shape: wit/README.md)"))
        .map_err(Failure::Input)
}

type Evaluated = std::result::Result<Evaluation, gate::Failure>;

/// `{"outcome": "pass" | "hold" | "fail", "verdict", "log"}` with the verdict as the JSON twin of the interface has it, or
/// `{"outcome": "unknown", "failure": {"kind", "message"}}`.
fn json(evaluated: &Evaluated) -> Value {
    match evaluated {
        Ok(Evaluation { verdict, log }) => json!({
            "outcome": outcome(&verdict.decision),
            "verdict": verdict,
            "log": log,
        }),
        Err(failure) => json!({
            "outcome": "unknown",
            "failure": {"kind": failure.kind, "message": failure.message},
        }),
    }
}

/// The decision, its reason, its evidence; log lines and failures to standard error.
fn text(evaluated: &Evaluated) -> io::Result<()> {
    let mut out = io::stdout();
    let Evaluation { verdict, log } = match evaluated {
        Ok(evaluation) => evaluation,
        Err(failure) => {
            writeln!(out, "unknown")?;
            writeln!(io::stderr(), "error: {failure}")?;
            return match advice(failure.kind) {
                "" => Ok(()),
                advice => writeln!(io::stderr(), "advice: {advice}"),
            };
        }
    };
    for line in log {
        writeln!(io::stderr(), "{:?}: {}", line.level, line.message)?;
    }
    let word = outcome(&verdict.decision);
    match &verdict.decision {
        Decision::Pass(pass) => match pass.valid_for_ms {
            Some(ms) => writeln!(out, "{word} (for {ms} ms)")?,
            None => writeln!(out, "{word}")?,
        },
        Decision::Hold(hold) => match hold.retry_after_ms {
            Some(ms) => writeln!(out, "{word}: {} (ask again in {ms} ms)", hold.reason)?,
            None => writeln!(out, "{word}: {}", hold.reason)?,
        },
        Decision::Fail(fail) => writeln!(out, "{word}: {}", fail.reason)?,
    }
    for piece in &verdict.evidence {
        writeln!(out, "  {}={}", piece.name, piece.value)?;
    }
    Ok(())
}

const fn outcome(decision: &Decision) -> &'static str {
    match decision {
        Decision::Pass(_) => "pass",
        Decision::Hold(_) => "hold",
        Decision::Fail(_) => "fail",
    }
}
