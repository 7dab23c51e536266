//! The figures of the process, with the names of Prometheus' client libraries.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

#[derive(Debug)]
pub(crate) struct Process;

impl Collector for Process {
    #[cfg(not(target_os = "linux"))]
    fn encode(&self, _: DescriptorEncoder<'_>) -> fmt::Result {
        Ok(())
    }

    #[cfg(target_os = "linux")]
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        use procfs::process::LimitValue;

        use super::families::Families;

        const NO_LABELS: [(&str, &str); 0] = [];
        let mut families = Families(encoder);
        // A sandbox may hide the files; what cannot be read is left out.
        let Ok(process) = procfs::process::Process::myself() else { return Ok(()) };
        if let Ok(stat) = process.stat() {
            let ticks = procfs::ticks_per_second() as f64;
            let seconds = (stat.utime + stat.stime) as f64 / ticks;
            families.counter(
                "process_cpu_seconds",
                "Total user and system CPU time spent in seconds.",
                [(NO_LABELS, seconds)],
            )?;
            families.gauge(
                "process_resident_memory_bytes",
                "Resident memory size in bytes.",
                [(NO_LABELS, stat.rss.saturating_mul(procfs::page_size()))],
            )?;
            families.gauge(
                "process_virtual_memory_bytes",
                "Virtual memory size in bytes.",
                [(NO_LABELS, stat.vsize)],
            )?;
            families.gauge("process_threads", "Number of threads.", [(NO_LABELS, stat.num_threads)])?;
            if let Ok(boot) = procfs::boot_time_secs() {
                let started = boot as f64 + stat.starttime as f64 / ticks;
                families.gauge(
                    "process_start_time_seconds",
                    "Start time of the process since unix epoch in seconds.",
                    [(NO_LABELS, started)],
                )?;
            }
        }
        if let Ok(open) = process.fd_count() {
            families.gauge("process_open_fds", "Number of open file descriptors.", [(NO_LABELS, open as u64)])?;
        }
        if let Ok(limits) = process.limits() {
            let max = match limits.max_open_files.soft_limit {
                LimitValue::Value(max) => max as f64,
                LimitValue::Unlimited => f64::INFINITY,
            };
            families.gauge("process_max_fds", "Maximum number of open file descriptors.", [(NO_LABELS, max)])?;
        }
        Ok(())
    }
}
