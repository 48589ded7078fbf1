//! Cargo and the tests that it builds: what does not compile is told apart from what fails. Must not know of defects.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::defect::Tests;

/// A test that has not ended by then never will.
const LONGEST: Duration = Duration::from_secs(900);
/// Of the compiler's: enough for the first of its errors.
const ERROR_LINES: usize = 12;
/// These crates need little: alone they are built in seconds, with the workspace and its features in minutes.
const BUILT_ALONE: [&str; 2] = ["host/decide", SIMULATION];
/// Its tests try as many seeds as a time allows.
pub const SIMULATION: &str = "tests/simulation";

/// What the tests said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestResult {
    Green,
    /// Names of tests that failed, each with the first lines of why.
    Red(Vec<(String, Vec<String>)>),
    DoesNotCompile(String),
    /// No test failed, and yet it did not end well.
    Broke(String),
}

/// Where what is built and run.
#[derive(Clone, Debug)]
pub struct Build {
    pub tree: PathBuf,
    pub target: PathBuf,
}

impl Build {
    /// Builds what the tests need and runs them.
    ///
    /// # Errors
    /// Where cargo or a test's program cannot be started, or there is no such crate.
    pub fn run(&self, tests: &Tests) -> Result<TestResult> {
        let programs = match self.programs(tests)? {
            Ok(programs) => programs,
            Err(errors) => return Ok(TestResult::DoesNotCompile(errors)),
        };
        let program = programs
            .get(&tests.of)
            .with_context(|| format!("{} has no such tests", tests.of.display()))?;
        let mut child = Command::new(program)
            .arg(&tests.filter)
            .current_dir(self.tree.join(&tests.of))
            .env("RUST_BACKTRACE", "0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("running {}", program.display()))?;
        let mut stdout = child.stdout.take().context("the output of a test is piped")?;
        let reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            stdout.read_to_end(&mut text).map(|_| text)
        });
        let end = Instant::now() + LONGEST;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if Instant::now() >= end {
                child.kill()?;
                child.wait()?;
                return Ok(TestResult::Broke(format!("no end within {} s", LONGEST.as_secs())));
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let read = reader
            .join()
            .map_err(|_| anyhow::anyhow!("reading a test's output broke off"))??;
        let output = String::from_utf8_lossy(&read);
        ensure!(
            !output.contains("running 0 tests"),
            "no test of {} has {:?} in its name",
            tests.of.display(),
            tests.filter
        );
        let failed = failed(&output);
        Ok(match (status.success(), failed.is_empty()) {
            (true, true) => TestResult::Green,
            (_, false) => TestResult::Red(failed),
            (false, true) => TestResult::Broke(format!("ended with {status}, and no test failed")),
        })
    }

    /// The test programs by their crate's folder, or the compiler's errors.
    fn programs(&self, tests: &Tests) -> Result<Result<BTreeMap<PathBuf, PathBuf>, String>> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["test", "--no-run", "--message-format", "json-render-diagnostics"]);
        if tests.is_unit {
            cargo.arg("--lib");
        } else {
            cargo.args(["--test", "it"]);
        }
        if tests.of == Path::new(SIMULATION) {
            // It has to be fast, but it is built a hundred times.
            cargo
                .arg("--release")
                .env("CARGO_PROFILE_RELEASE_LTO", "off")
                .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        }
        if BUILT_ALONE.iter().any(|alone| tests.of == Path::new(alone)) {
            cargo
                .arg("--manifest-path")
                .arg(self.tree.join(&tests.of).join("Cargo.toml"));
        } else {
            cargo.args(["--workspace", "--all-features"]);
        }
        let output = cargo
            .current_dir(&self.tree)
            .env("CARGO_TARGET_DIR", &self.target)
            // One crate differs from the build before.
            .env("CARGO_INCREMENTAL", "1")
            .output()
            .context("running cargo")?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            let first = errors.lines().skip_while(|line| !line.starts_with("error"));
            return Ok(Err(first.take(ERROR_LINES).collect::<Vec<_>>().join("\n")));
        }
        let messages = String::from_utf8_lossy(&output.stdout);
        let built = messages
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let programs = built.filter_map(|message| {
            let manifest = Path::new(message["manifest_path"].as_str()?).parent()?;
            let folder = manifest.strip_prefix(&self.tree).ok()?;
            let is_test = message["target"]["kind"][0] == if tests.is_unit { "lib" } else { "test" };
            let program = message["executable"].as_str().filter(|_| is_test)?;
            Some((folder.to_owned(), PathBuf::from(program)))
        });
        Ok(Ok(programs.collect()))
    }
}

/// Reads what libtest prints: `test <name> ... FAILED`, and later `---- <name> stdout ----` with the panic below it.
fn failed(output: &str) -> Vec<(String, Vec<String>)> {
    const LINES: usize = 3;
    let names = output.lines().filter_map(|line| {
        let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
        Some(name.trim_end_matches(" - should panic"))
    });
    names
        .map(|name| {
            let begins = format!("---- {name} stdout ----");
            let said = output.lines().skip_while(|line| **line != begins).skip(1);
            let panic = said.skip_while(|line| !line.contains("panicked at")).skip(1);
            let why = panic
                .take_while(|line| {
                    !["----", "note: run with", "failures:"]
                        .iter()
                        .any(|end| line.starts_with(end))
                })
                .filter(|line| !line.trim().is_empty())
                .take(LINES)
                .map(str::to_owned);
            (name.to_owned(), why.collect())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::failed;

    #[test]
    fn failing_tests_are_read_with_the_first_lines_of_why() {
        let output = "\
running 2 tests
test a::holds ... ok
test b::fails ... FAILED

failures:

---- b::fails stdout ----

thread 'b::fails' (7) panicked at tests/it/b.rs:3:5:
2 failures in 9 cases:
one-case: it moved
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace


failures:
    b::fails

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";
        let why = vec!["2 failures in 9 cases:".to_owned(), "one-case: it moved".to_owned()];
        assert_eq!(failed(output), [("b::fails".to_owned(), why)]);
        assert_eq!(failed("running 1 test\ntest a ... ok\n"), []);
    }
}
