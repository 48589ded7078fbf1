//! One child process as the host sees it: started, asked, ended. Must not decide which child runs or why.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::protocol::ProtocolError;

/// The exit code of a Rust program that panicked.
const PANICKED: i32 = 101;
/// Most bytes that are read of what a dead child wrote to standard error.
const LAST_WORDS_BYTES_MAX: u64 = 4 << 10;

/// Starts children on one thread that lives as long as this value: Linux sends a child the death signal when the *thread*
/// that started it ends, and callers' threads come and go.
#[derive(Debug)]
pub struct Starter {
    orders: Mutex<Option<Sender<Order>>>,
}

struct Order {
    command: Command,
    started: Sender<io::Result<Child>>,
}

impl Starter {
    /// Starts no thread yet.
    pub const fn new() -> Self {
        Self {
            orders: Mutex::new(None),
        }
    }

    /// A child of `program` that reads `input`: no environment, no files but its three, no controlling terminal's signals.
    pub fn start(&self, program: &Path, subcommand: &str, input: File) -> io::Result<Process> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new(program);
        command
            .args(["sandbox", subcommand, "--parent", &std::process::id().to_string()])
            .env_clear()
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::from(input))
            .stdout(Stdio::from(OwnedFd::from(theirs)))
            .stderr(Stdio::piped());
        let child = self
            .order(command)
            .map_err(|error| io::Error::new(error.kind(), format!("starting {}: {error}", program.display())))?;
        Ok(Process {
            child,
            host: ours,
            ended: None,
        })
    }

    fn order(&self, command: Command) -> io::Result<Child> {
        let gone = || io::Error::other("the thread that starts children is gone");
        let (started, result) = channel();
        let mut orders = self.orders.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let sender = match orders.take() {
            Some(sender) => sender,
            None => {
                let (sender, received) = channel();
                thread::Builder::new()
                    .name("sandbox".to_owned())
                    .spawn(move || carry_out(&received))?;
                sender
            }
        };
        let sent = sender.send(Order { command, started });
        *orders = Some(sender);
        drop(orders);
        sent.map_err(|_no_receiver| gone())?;
        result.recv().map_err(|_no_sender| gone())?
    }
}

fn carry_out(orders: &Receiver<Order>) {
    for Order { mut command, started } in orders {
        if let Err(unwanted) = started.send(command.spawn()) {
            // Nobody waits for it any more; dropping it would leave it running.
            drop(unwanted.0.map(|child| drop(end(child))));
        }
    }
}

fn end(mut child: Child) -> io::Result<ExitStatus> {
    child.kill()?;
    child.wait()
}

/// A child and the pipe to it. Ended and reaped when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    host: UnixStream,
    /// Once it was waited for.
    ended: Option<ExitStatus>,
}

impl Process {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs; one that does not is reaped.
    pub fn is_alive(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended.is_none()
    }

    /// The pipe, of which each operation fails with `TimedOut` past `until`.
    pub fn pipe(&mut self, until: Instant) -> Pipe<'_> {
        Pipe {
            host: &self.host,
            until,
        }
    }

    /// Ends the child, which has `grace` to do so by itself, and says how it ended: its signal or exit code, its last words.
    pub fn end(mut self, grace: Duration) -> End {
        let until = Instant::now() + grace;
        while self.is_alive() && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        let killed = self.kill();
        let mut words = String::new();
        if let Some(pipe) = self.child.stderr.take() {
            // All writers are gone, so this does not wait.
            let mut bytes = Vec::new();
            drop(pipe.take(LAST_WORDS_BYTES_MAX).read_to_end(&mut bytes));
            words = String::from_utf8_lossy(&bytes).into_owned();
        }
        End {
            status: killed.ok(),
            words,
        }
    }

    fn kill(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.ended {
            return Ok(status);
        }
        self.child.kill()?;
        let status = self.child.wait()?;
        self.ended = Some(status);
        Ok(status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            tracing::warn!(pid = self.child.id(), %error, "a child could not be ended");
        }
    }
}

/// How a child ended.
#[derive(Debug)]
pub struct End {
    status: Option<ExitStatus>,
    words: String,
}

impl End {
    pub fn signal(&self) -> Option<i32> {
        self.status.and_then(|status| status.signal())
    }

    pub fn has_panicked(&self) -> bool {
        self.status.is_some_and(|status| status.code() == Some(PANICKED))
    }

    pub fn words(&self) -> &str {
        &self.words
    }
}

impl std::fmt::Display for End {
    /// `signal 11 (SIGSEGV): thread 'main' panicked at …`, on one line.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.status {
            Some(status) => write!(f, "{status}")?,
            None => f.write_str("no exit status")?,
        }
        match self.words.split_whitespace().collect::<Vec<_>>().join(" ") {
            words if words.is_empty() => Ok(()),
            words => write!(f, ": {words}"),
        }
    }
}

/// Reads and writes until a point in time.
pub struct Pipe<'a> {
    host: &'a UnixStream,
    until: Instant,
}

impl Pipe<'_> {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(Some(left))
    }
}

impl Read for Pipe<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.host.set_read_timeout(self.left()?)?;
        (&mut &*self.host).read(buffer)
    }
}

impl Write for Pipe<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.host.set_write_timeout(self.left()?)?;
        (&mut &*self.host).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether the other side of a conversation is gone, rather than late or confused.
pub fn is_gone(error: &ProtocolError) -> bool {
    match error {
        ProtocolError::Ended => true,
        ProtocolError::Io(error) => matches!(
            error.kind(),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
        ),
        _ => false,
    }
}
