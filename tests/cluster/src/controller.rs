//! A controller that is not ours, as a process that says in its log when it works: it can be killed and started again. Must not know
//! which one it is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::process::{Process, Signal};

/// It begins after a few seconds; with others beside it later.
const STARTED_MAX: Duration = Duration::from_secs(90);
const ENDED_MAX: Duration = Duration::from_secs(10);

/// How many requests a second a client of it may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As KubeStellar's chart sets it.
    Shipped,
    /// Its own limits would only slow a test that is about something else.
    Raised,
}

impl Pace {
    /// For the client of this name.
    pub fn flags(self, client: &str) -> [String; 2] {
        let (per_second, burst) = match self {
            Pace::Shipped => (5, 10),
            Pace::Raised => (200, 400),
        };
        [
            format!("--{client}-qps={per_second}"),
            format!("--{client}-burst={burst}"),
        ]
    }
}

/// What is started.
pub struct Program {
    pub name: &'static str,
    pub path: PathBuf,
    pub arguments: Vec<String>,
    /// What it logs when it works, and how often it does so each time that it is started.
    pub at_work: (&'static str, usize),
}

/// A running one, or one that was killed.
pub struct Controller {
    program: Program,
    log: PathBuf,
    process: Option<Process>,
    starts: usize,
}

impl Controller {
    /// Returns when it works; its log is in `folder`.
    ///
    /// # Errors
    /// With the end of its log.
    pub async fn start(program: Program, folder: &Path) -> anyhow::Result<Controller> {
        let mut controller = Controller {
            log: folder.join(format!("{}.log", program.name)),
            program,
            process: None,
            starts: 0,
        };
        controller.start_again().await?;
        Ok(controller)
    }

    /// SIGKILL.
    ///
    /// # Errors
    /// When it was not running.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        match self.end(Signal::Kill)? {
            true => Ok(()),
            false => bail!("{} is not running", self.program.name),
        }
    }

    /// Whether it was running.
    ///
    /// # Errors
    /// When it does not end.
    pub fn end(&mut self, by: Signal) -> anyhow::Result<bool> {
        let Some(mut process) = self.process.take() else {
            return Ok(false);
        };
        process.signal(by);
        process.ended(ENDED_MAX)?;
        Ok(true)
    }

    /// Gives when the first part of it began to work; returns when all do.
    ///
    /// # Errors
    /// With the end of its log.
    pub async fn start_again(&mut self) -> anyhow::Result<Instant> {
        let mut command = Command::new(&self.program.path);
        command.args(&self.program.arguments);
        let mut process = Process::start(self.program.name, command, &self.log)?;
        let begun = Instant::now();
        let (words, parts) = self.program.at_work;
        let (mut first, before) = (None, parts * self.starts);
        self.starts += 1;
        loop {
            let at_work = self.said()?.matches(words).count().saturating_sub(before);
            if at_work > 0 {
                first.get_or_insert_with(Instant::now);
            }
            if at_work >= parts {
                break;
            }
            process.check()?;
            if begun.elapsed() > STARTED_MAX {
                bail!("{} does not get to work:\n{}", self.program.name, process.tail());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.process = Some(process);
        Ok(first.unwrap_or(begun))
    }

    /// # Errors
    /// When it has ended: with the end of its log.
    pub fn check(&mut self) -> anyhow::Result<()> {
        self.process.as_mut().map_or(Ok(()), Process::check)
    }

    /// All that it has logged.
    ///
    /// # Errors
    /// A log that cannot be read.
    pub fn said(&self) -> anyhow::Result<String> {
        let log = std::fs::read(&self.log).with_context(|| format!("reading {}", self.log.display()))?;
        Ok(String::from_utf8_lossy(&log).into_owned())
    }
}
