//! Tries, from inside a run child's confinement, what a module that broke out of its sandbox would try, and prints how it
//! fails. For tests, which can look at a child from outside only.

use std::fs::File;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit};

use super::confine::{self, Role};
use super::descriptors::{self, Descriptors};
use super::phase::Phase;
use super::protocol::ProtocolError;

/// One line for each attempt: its name and the error's number, 0 where it was let through.
pub fn main(parent: u32) -> Result<(), ProtocolError> {
    confine::limit(Role::Run, parent)?;
    // A socket and a file from before, for what needs one.
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let foreign = File::open("/proc/self/exe")?;
    let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let files = Descriptors {
        own: vec![out.as_fd()],
        inherited: descriptors::inherited()?,
    };
    confine::forbid(Phase::Loading, &files)?;
    confine::forbid(Phase::Working, &files)?;
    let raised = Rlimit {
        current: Some(confine::RUN_CPU_S),
        maximum: Some(confine::RUN_CPU_S),
    };
    let host = i32::try_from(parent).ok().and_then(Pid::from_raw);
    let attempts: [(&str, io::Result<()>); 9] = [
        ("open", File::open("/etc/passwd").map(drop)),
        ("create", File::create("/tmp/stagegate-probe").map(drop)),
        ("socket", UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map(drop)),
        ("connect", socket.connect((Ipv4Addr::LOCALHOST, 9))),
        ("execve", Err(Command::new("/bin/true").exec())),
        ("fork", Command::new("/bin/true").spawn().map(drop)),
        ("thread", std::thread::Builder::new().spawn(|| {}).map(drop)),
        (
            "read another file",
            io::Read::read(&mut &foreign, &mut [0; 1]).map(drop),
        ),
        (
            "set a limit",
            rustix::process::setrlimit(Resource::Cpu, raised).map_err(Into::into),
        ),
    ];
    let signalled = host.map_or(Ok(()), |host| {
        rustix::process::test_kill_process(host).map_err(Into::into)
    });
    for (name, result) in attempts.into_iter().chain([("kill", signalled)]) {
        let number = result.map_or_else(|error| error.raw_os_error().unwrap_or(-1), |()| 0);
        writeln!(&out, "{name}: {number}")?;
    }
    Ok(())
}
