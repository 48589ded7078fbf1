//! The process as its system sees it, under the names that Prometheus' own libraries use. Must not fail where a system does
//! not tell: what is not known is left out.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use rustix::time::{ClockId, clock_gettime};

/// This process.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    started_at: SystemTime,
}

impl Process {
    pub fn started_now() -> Self {
        Self {
            started_at: SystemTime::now(),
        }
    }

    /// Appends its numbers as OpenMetrics text, without its end mark.
    pub fn encode(self, text: &mut String) -> fmt::Result {
        let mut registry = Registry::with_prefix("process");
        registry.register_collector(Box::new(self));
        text::encode_registry(text, &registry)
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let used = Duration::try_from(used).unwrap_or_default().as_secs_f64();
        let cpu = encoder.encode_descriptor("cpu_seconds", "Processor time used", None, MetricType::Counter)?;
        ConstCounter::new(used).encode(cpu)?;
        let started = self
            .started_at
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs_f64();
        let gauges = [
            ("start_time_seconds", "When it was started, since 1970", Some(started)),
            ("resident_memory_bytes", "Memory in use", resident_bytes()),
            ("open_fds", "File descriptors in use", open_files()),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
                ConstGauge::new(value).encode(gauge)?;
            }
        }
        Ok(())
    }
}

/// `VmRSS:     12345 kB`, see proc_pid_status(5).
fn resident_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u32 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(f64::from(kibibytes) * 1024.0)
}

fn open_files() -> Option<f64> {
    let files = std::fs::read_dir("/proc/self/fd").ok()?.count();
    // The directory that is being read is one of them.
    u32::try_from(files.saturating_sub(1)).ok().map(f64::from)
}
