//! A child process with a log of its own, which ends when its value is dropped, and also when this process is killed. Must not know
//! what it runs.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::assets::Assets;

/// How often an end is looked for.
const LOOK: Duration = Duration::from_millis(2);

pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

/// What a process is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Terminate,
    /// A Go program writes the stacks of its goroutines into its log and ends.
    Quit,
    Kill,
    Stop,
    Continue,
}

impl Process {
    /// Standard output and error go to the end of `log`.
    ///
    /// # Errors
    /// A log that cannot be written; a program that cannot be started.
    pub fn start(name: &str, mut command: Command, log: &Path) -> anyhow::Result<Process> {
        let file = File::options().create(true).append(true).open(log);
        let file = file.with_context(|| format!("opening {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("starting {name}"))?;
        mourn_for(child.id(), true);
        Ok(Process {
            name: name.to_owned(),
            child,
            log: log.to_owned(),
        })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The last lines of the log.
    pub fn tail(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(25)..].join("\n")
    }

    /// # Errors
    /// When the process has ended: with the end of its log.
    pub fn check(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait().context("looking after a child process")? {
            None => Ok(()),
            Some(status) => anyhow::bail!("{} has ended with {status}:\n{}", self.name, self.tail()),
        }
    }

    /// Sends a signal; a process that has ended is left in peace.
    pub fn signal(&mut self, signal: Signal) {
        let name = match signal {
            Signal::Terminate => "-TERM",
            Signal::Quit => "-QUIT",
            Signal::Kill => "-KILL",
            Signal::Stop => "-STOP",
            Signal::Continue => "-CONT",
        };
        if matches!(self.child.try_wait(), Ok(None)) {
            let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status();
            assert!(
                sent.is_ok_and(|status| status.success()),
                "kill {name} of {}",
                self.name
            );
        }
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it has not ended within `limit`.
    pub fn ended(&mut self, limit: Duration) -> anyhow::Result<ExitStatus> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().context("waiting for a child process")? {
                mourn_for(self.child.id(), false);
                return Ok(status);
            }
            anyhow::ensure!(begun.elapsed() < limit, "{} has not ended within {limit:?}", self.name);
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that it has ended already.
        drop(self.child.kill().and_then(|()| self.child.wait()));
        mourn_for(self.child.id(), false);
    }
}

/// Puts a process on the list of those that are killed when this one is gone, or takes it off.
fn mourn_for(pid: u32, alive: bool) {
    static LIST: OnceLock<Option<Mutex<ChildStdin>>> = OnceLock::new();
    let list = LIST.get_or_init(|| {
        let assets = Assets::get().ok()?;
        let mut command = Command::new(&assets.kubernetes);
        // In a group of its own: what ends the tests' group, as Ctrl-C does, must not end it before it has killed the others.
        command
            .process_group(0)
            .arg("mourn")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let input = command.spawn().ok()?.stdin.take();
        input.map(Mutex::new)
    });
    if let Some(list) = list {
        let mut input = list.lock().unwrap_or_else(PoisonError::into_inner);
        let sign = if alive { '+' } else { '-' };
        // If it is gone, the processes are still ended by their values.
        drop(writeln!(input, "{sign}{pid}"));
    }
}
