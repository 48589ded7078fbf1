//! What a child takes from itself before it reads anything. Must not be called in the host: none of it can be undone.
//!
//! On Linux: death with the host, limits, and an allow-list of system calls. Elsewhere limits only, and a child that ends
//! when its pipe does.

use std::io;

use rustix::process::{Resource, Rlimit, getppid, setrlimit};

use super::descriptors::Descriptors;
use super::phase::Phase;

/// Which child confines itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Compile,
    Run,
}

/// Processor time of one compilation, in seconds.
pub const COMPILE_CPU_S: u64 = 2;
/// Address space of a compilation, in MiB.
pub const COMPILE_ADDRESS_MIB: u64 = 1_536;
/// Processor time in the life of a run child, in seconds. It is replaced between two requests when it has used
/// [`RUN_CPU_RETIRE_S`], so that the limit meets only one that no longer listens.
pub const RUN_CPU_S: u64 = 120;
/// The longest request takes 5 s, so half leaves room.
pub const RUN_CPU_RETIRE_S: u64 = 60;
/// Private writable memory of a run child, in MiB: a gate's most (256), a request, its copies. An address-space limit
/// would forbid the reservations that make instances cheap.
pub const RUN_DATA_MIB: u64 = 512;

const MIB: u64 = 1 << 20;
const FILES_MAX: u64 = 64;

/// Limits, and death with the parent. Before anything else, and before a thread is started.
///
/// # Errors
/// A limit that cannot be set; a parent that is already gone.
pub fn limit(role: Role, parent: u32) -> io::Result<()> {
    die_with(parent)?;
    let (cpu_s, memory) = match role {
        Role::Compile => (COMPILE_CPU_S, (Resource::As, COMPILE_ADDRESS_MIB * MIB)),
        Role::Run => (RUN_CPU_S, (Resource::Data, RUN_DATA_MIB * MIB)),
    };
    // At the first the process gets a signal that tells its cause, at the second one that cannot be ignored.
    lower(Resource::Cpu, cpu_s, cpu_s + 1)?;
    for (resource, most) in [
        memory,
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        (Resource::Nofile, FILES_MAX),
    ] {
        lower(resource, most, most)?;
    }
    Ok(())
}

/// Never raises: a limit that is already lower, by the host's own, stays.
fn lower(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let maximum = rustix::process::getrlimit(resource).maximum.unwrap_or(hard);
    let limit = Rlimit {
        current: Some(soft.min(maximum)),
        maximum: Some(hard.min(maximum)),
    };
    Ok(setrlimit(resource, limit)?)
}

#[cfg(target_os = "linux")]
fn die_with(parent: u32) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // The parent may have ended before the line above, and then nobody sends the signal.
    is_child_of(parent)
}

#[cfg(not(target_os = "linux"))]
fn die_with(parent: u32) -> io::Result<()> {
    is_child_of(parent)
}

fn is_child_of(parent: u32) -> io::Result<()> {
    let found = getppid().map(|pid| pid.as_raw_nonzero().get());
    if found.is_some_and(|found| u32::try_from(found) == Ok(parent)) {
        Ok(())
    } else {
        Err(io::Error::other("the process that started this one is gone"))
    }
}

/// Forbids all system calls but those that computing needs, to all threads there are: reading and writing only on the child's
/// own files (and standard error), mapping none that were inherited, no opening, no sockets, no processes, no more threads, no other limits. What is forbidden fails with
/// EPERM. A second call can only forbid more.
///
/// # Errors
/// A kernel without seccomp; a processor that the filter is not made for.
#[cfg(target_os = "linux")]
pub fn forbid(phase: Phase, files: &Descriptors<'_>) -> io::Result<()> {
    super::system_calls::forbid(phase, files)
}

/// There is no such thing here.
#[cfg(not(target_os = "linux"))]
pub fn forbid(_phase: Phase, _files: &Descriptors<'_>) -> io::Result<()> {
    Ok(())
}
