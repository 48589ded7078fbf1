//! The same cases through the component and the real sandbox, by the `stagegate` program. Must not run anything but
//! that program.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::case::Case;
use crate::gate::evaluate;
use crate::{Error, Gate};

pub(super) struct Sandbox {
    program: PathBuf,
    component: PathBuf,
}

impl Sandbox {
    /// None where the environment names no program.
    pub(super) fn from_environment() -> Result<Option<Self>, Error> {
        let Some(program) = std::env::var_os("STAGEGATE") else {
            return Ok(None);
        };
        let component = match std::env::var_os("STAGEGATE_GATE") {
            Some(component) => PathBuf::from(component),
            None => built()?,
        };
        if component.exists() {
            return Ok(Some(Self {
                program: program.into(),
                component,
            }));
        }
        Err(Error::new(format_args!(
            "there is no {}: build it with `cargo build --target wasm32-wasip2 --profile gate`",
            component.display()
        )))
    }

    /// Compares what the component says with what the same code says natively.
    pub(super) fn agrees_on<G: Gate>(&self, case: &Case) -> Result<(), Error> {
        let request = case.request()?;
        let answer = self.run(&serde_json::to_string(&request)?)?;
        let native = evaluate::<G>(&request);
        let is_equal = match &native {
            Ok(verdict) => answer.get("verdict") == Some(&serde_json::to_value(verdict)?),
            Err(error) => is_said(&answer, error),
        };
        if is_equal {
            return Ok(());
        }
        Err(Error::new(format_args!(
            "natively {native:?}, but in the sandbox {answer}"
        )))
    }

    fn run(&self, request: &str) -> Result<Value, Error> {
        let failed = |error: std::io::Error| Error::new(format_args!("running {}: {error}", self.program.display()));
        let mut child = Command::new(&self.program)
            .args(["gate", "run"])
            .arg(&self.component)
            .args(["--request", "-", "-o", "json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        // The program reads its input to the end before it says anything; when it has ended early, its output says why.
        if let Some(mut input) = child.stdin.take() {
            let _ended_early = input.write_all(request.as_bytes());
        }
        let output = child.wait_with_output().map_err(failed)?;
        serde_json::from_slice(&output.stdout).map_err(|error| {
            let said = String::from_utf8_lossy(&output.stderr);
            Error::new(format_args!(
                "reading what `stagegate gate run` says: {error}; {}: {said}",
                output.status
            ))
        })
    }
}

/// Whether the gate could not judge for this reason: the program cuts what it repeats of it.
fn is_said(answer: &Value, error: &Error) -> bool {
    let failure = |member: &str| answer.pointer(&format!("/failure/{member}")).and_then(Value::as_str);
    let begin: String = error.to_string().chars().take(128).collect();
    failure("kind") == Some("GuestError") && failure("message").is_some_and(|message| message.contains(&begin))
}

/// `target/wasm32-wasip2/gate/<package>.wasm`, from the test at `target/<profile>/deps/<test>`.
fn built() -> Result<PathBuf, Error> {
    let test = std::env::current_exe()?;
    let target = test.ancestors().nth(3).unwrap_or(Path::new("target"));
    let package = std::env::var("CARGO_PKG_NAME").map_err(|_| Error::new("STAGEGATE_GATE names no component"))?;
    Ok(target
        .join("wasm32-wasip2/gate")
        .join(package.replace('-', "_"))
        .with_extension("wasm"))
}
