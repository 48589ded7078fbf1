//! What another process has used, as Linux tells: processor time and memory. Must not influence it.

use std::time::Duration;

use anyhow::Context as _;

/// The unit of times in `/proc`: USER_HZ, which the kernel promises to programs as 100 a second.
const TICK: Duration = Duration::from_millis(10);
/// Places of `utime` and `stime` after the command's name; see proc_pid_stat(5).
const UTIME: usize = 11;

/// One process at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// User and system time of all its threads.
    pub cpu: Duration,
    pub resident_mib: f64,
    /// The most that was ever resident.
    pub peak_mib: f64,
}

impl Usage {
    /// # Errors
    /// A process that has ended.
    pub fn of(pid: u32) -> anyhow::Result<Usage> {
        let read = |file: &str| {
            let path = format!("/proc/{pid}/{file}");
            std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))
        };
        let (stat, status) = (read("stat")?, read("status")?);
        Ok(Usage {
            cpu: cpu(&stat).context("the times in stat")?,
            resident_mib: mebibytes(&status, "VmRSS:").context("VmRSS in status")?,
            peak_mib: mebibytes(&status, "VmHWM:").context("VmHWM in status")?,
        })
    }
}

/// The command's name may hold anything, but no line of `stat` has a parenthesis after it.
fn cpu(stat: &str) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut times = rest.split_whitespace().skip(UTIME);
    let ticks: u32 = times.next()?.parse::<u32>().ok()? + times.next()?.parse::<u32>().ok()?;
    Some(TICK * ticks)
}

/// `VmRSS:     12345 kB`
fn mebibytes(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u32 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(f64::from(kibibytes) / 1024.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{cpu, mebibytes};

    #[test]
    fn times_and_memory_are_read_whatever_the_program_is_called() {
        let stat = "7 (a) (b c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 4 0 9 1 2 3";
        assert_eq!(cpu(stat), Some(Duration::from_secs(3)));
        assert_eq!(mebibytes("VmPeak:\t 1 kB\nVmRSS:\t   2560 kB\n", "VmRSS:"), Some(2.5));
        assert_eq!(mebibytes("VmPeak:\t 1 kB\n", "VmRSS:"), None);
    }
}
