//! The program under test, as a process. Must not know what it is for.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process::{Process, Signal};

/// SIGTERM to exit, with what it has begun ended.
const STOP_MAX: Duration = Duration::from_secs(15);

/// The binary: `STAGEGATE`, or what was built beside this test.
pub fn program() -> PathBuf {
    let given = std::env::var_os("STAGEGATE").map(PathBuf::from);
    given.unwrap_or_else(|| {
        let test = std::env::current_exe().unwrap_or_default();
        // target/debug/deps/it-…
        let folder = test.parent().and_then(Path::parent).unwrap_or(Path::new("."));
        folder.join("stagegate")
    })
}

/// A running one.
pub struct Host {
    process: Process,
}

impl Host {
    /// # Errors
    /// A binary that is not there.
    pub fn start(arguments: &[String], environment: &[(String, String)], log: &Path) -> anyhow::Result<Host> {
        let mut command = Command::new(program());
        command
            .args(arguments)
            .envs(environment.iter().cloned())
            .env_remove("KUBECONFIG")
            .env("RUST_BACKTRACE", "1");
        let process = Process::start("stagegate", command, log)?;
        Ok(Host { process })
    }

    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// What it has logged so far.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.process.log()).unwrap_or_default()).into_owned()
    }

    /// SIGKILL.
    ///
    /// # Errors
    /// When it does not end even so.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.process.signal(Signal::Kill);
        self.process.ended(STOP_MAX)?;
        Ok(())
    }

    /// SIGTERM; says how long it took.
    ///
    /// # Errors
    /// When it does not end in time, or not with 0.
    pub fn stop(mut self) -> anyhow::Result<Duration> {
        let begun = std::time::Instant::now();
        self.process.signal(Signal::Terminate);
        let status = self.process.ended(STOP_MAX)?;
        let took = begun.elapsed();
        anyhow::ensure!(status.success(), "ended with {status}:\n{}", self.process.tail());
        Ok(took)
    }
}
