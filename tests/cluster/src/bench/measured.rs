//! A controller as a process whose use of processor and memory is measured. Must not know which controller it is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::host;
use crate::installation::Installation;
use crate::process::{Process, Signal};
use crate::usage::Usage;

/// A process that used no more than this for so long is quiet.
const QUIET_CPU: Duration = Duration::from_millis(10);
const QUIET_FOR: Duration = Duration::from_millis(1_500);
const QUIET_MAX: Duration = Duration::from_secs(300);

/// How a controller is started.
pub struct Started {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub log: PathBuf,
}

impl Started {
    /// By the rights of the shipped manifests, without `--leader-elect`: a lease would be requests of its own.
    pub fn stagegate(installation: &Installation, folder: &Path) -> Started {
        Started {
            program: host::program(),
            arguments: vec![
                "run".to_owned(),
                "--controllers=staging".to_owned(),
                format!("--kubeconfig={}", installation.kubeconfig().display()),
            ],
            environment: installation.environment().to_vec(),
            log: folder.join("stagegate.log"),
        }
    }
}

pub struct Measured {
    started: Started,
    process: Option<Process>,
}

impl Measured {
    /// One that does not run yet.
    pub fn new(started: Started) -> Measured {
        Measured { started, process: None }
    }

    /// # Errors
    /// A program that cannot be started.
    pub fn start(&mut self) -> anyhow::Result<Instant> {
        let mut command = Command::new(&self.started.program);
        command
            .args(&self.started.arguments)
            .envs(self.started.environment.iter().cloned())
            .env_remove("KUBECONFIG");
        let begun = Instant::now();
        self.process = Some(Process::start("a controller", command, &self.started.log)?);
        Ok(begun)
    }

    /// SIGTERM, and how long it took to exit.
    ///
    /// # Errors
    /// When it does not exit.
    pub fn stop(&mut self) -> anyhow::Result<Duration> {
        let mut process = self.process.take().context("it is not running")?;
        let begun = Instant::now();
        process.signal(Signal::Terminate);
        process.ended(Duration::from_secs(20))?;
        Ok(begun.elapsed())
    }

    /// # Errors
    /// When it is not running.
    pub fn usage(&mut self) -> anyhow::Result<Usage> {
        let process = self.process.as_mut().context("it is not running")?;
        process.check()?;
        Usage::of(process.id())
    }

    /// Waits until it has nothing to do.
    ///
    /// # Errors
    /// When it is still busy after minutes.
    pub async fn quiet(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        let mut before = self.usage()?.cpu;
        while begun.elapsed() < QUIET_MAX {
            tokio::time::sleep(QUIET_FOR).await;
            let now = self.usage()?.cpu;
            if now - before <= QUIET_CPU {
                return Ok(());
            }
            before = now;
        }
        let program = self.started.program.display();
        anyhow::bail!("{program} does not get quiet within {QUIET_MAX:?}")
    }
}
