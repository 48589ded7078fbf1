//! The system calls that a child may still make, as a seccomp filter: an allow-list, and EPERM for all else. Linux only, on
//! x86-64 and AArch64.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsRawFd as _;

use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
    apply_filter_all_threads,
};

use super::descriptors::Descriptors;
use super::phase::Phase;

/// Memory, signals to oneself, waiting for threads that are there already, time, the end. None of them makes a descriptor.
const FREE: [i64; 28] = [
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_lseek,
    libc::SYS_madvise,
    // Of AArch64: new code must be seen by all cores.
    libc::SYS_membarrier,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_restart_syscall,
    // A thread that was started before the filter may make its first steps after it.
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_statx,
];

/// Allowed when their first argument is one of the child's own files.
const ON_FILES: [i64; 4] = [libc::SYS_read, libc::SYS_readv, libc::SYS_write, libc::SYS_writev];

/// Panics are told there.
const STANDARD_ERROR: u32 = 2;

/// For all threads of this process, for good.
pub fn forbid(phase: Phase, files: &Descriptors<'_>) -> io::Result<()> {
    let program = program(phase, files).map_err(io::Error::other)?;
    apply_filter_all_threads(&program).map_err(io::Error::other)
}

fn program(phase: Phase, files: &Descriptors<'_>) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = FREE.iter().map(|call| (*call, Vec::new())).collect();
    let numbers = files.own.iter().map(|file| file.as_raw_fd().cast_unsigned());
    let numbers: Vec<u32> = numbers.chain([STANDARD_ERROR]).collect();
    for call in ON_FILES {
        rules.insert(call, first_argument_is_one_of(&numbers)?);
    }
    rules.insert(libc::SYS_mmap, fifth_argument_is_none_of(&files.inherited)?);
    // How a process aborts: a signal to itself.
    rules.insert(libc::SYS_tgkill, first_argument_is_one_of(&[std::process::id()])?);
    if phase == Phase::Loading {
        rules.insert(libc::SYS_openat, vec![for_reading()?]);
        // Installing the next filter.
        rules.insert(libc::SYS_prctl, Vec::new());
        rules.insert(libc::SYS_seccomp, Vec::new());
    }
    let mismatch = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let filter = SeccompFilter::new(
        rules,
        mismatch,
        SeccompAction::Allow,
        TargetArch::try_from(std::env::consts::ARCH)?,
    )?;
    BpfProgram::try_from(filter)
}

fn first_argument_is_one_of(values: &[u32]) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let rule = |value: &u32| {
        let condition = SeccompCondition::new(0, Dword, SeccompCmpOp::Eq, u64::from(*value))?;
        SeccompRule::new(vec![condition])
    };
    values.iter().map(rule).collect()
}

/// No rule at all allows the call with any argument.
fn fifth_argument_is_none_of(values: &[u32]) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let condition = |value: &u32| SeccompCondition::new(4, Dword, SeccompCmpOp::Ne, u64::from(*value));
    let conditions: Vec<SeccompCondition> = values.iter().map(condition).collect::<Result<_, _>>()?;
    if conditions.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![SeccompRule::new(conditions)?])
}

/// The third argument of `openat` has no bit that writes or makes a file.
fn for_reading() -> Result<SeccompRule, seccompiler::BackendError> {
    let bits = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
    let condition = SeccompCondition::new(2, Dword, SeccompCmpOp::MaskedEq(u64::from(bits.cast_unsigned())), 0)?;
    SeccompRule::new(vec![condition])
}
