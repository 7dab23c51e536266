//! Whether the machine has other work. That affects contestants with several workers more than
//! others.

use std::time::Duration;

/// How long to measure.
const LOOK: Duration = Duration::from_millis(500);
/// The load that an idle machine does not exceed.
const AT_REST: f64 = 0.25;

/// A remark about other work on this machine now, if there is any. Only on Linux.
pub(crate) fn remark() -> Option<String> {
    let before = times()?;
    std::thread::sleep(LOOK);
    let cores = std::thread::available_parallelism().ok()?.get();
    remark_on(busy_share(before, times()?)? * cores as f64, cores)
}

fn remark_on(busy: f64, cores: usize) -> Option<String> {
    (busy > AT_REST).then(|| format!("other work kept {busy:.1} of {cores} cores busy before the first run"))
}

/// Busy and total time of all cores since the start of the machine.
fn times() -> Option<(u64, u64)> {
    times_from(&std::fs::read_to_string("/proc/stat").ok()?)
}

fn times_from(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    // user, nice, system, idle, iowait, irq, softirq, steal; the other columns are included in user
    // and nice.
    let times: Vec<u64> = line.split_whitespace().take(8).map_while(|time| time.parse().ok()).collect();
    let idle = times.get(3)? + times.get(4)?;
    let total: u64 = times.iter().sum();
    Some((total - idle, total))
}

fn busy_share(before: (u64, u64), after: (u64, u64)) -> Option<f64> {
    let (busy, total) = (after.0.checked_sub(before.0)?, after.1.checked_sub(before.1)?);
    (total > 0).then(|| busy as f64 / total as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_time_is_not_busy() {
        let stat = "cpu  10 1 5 100 20 2 3 4 50 60\ncpu0 1 2 3 4\n";
        assert_eq!(times_from(stat), Some((25, 145)));
        assert_eq!(times_from("intr 5\n"), None);
    }

    #[test]
    fn the_share_is_that_of_the_time_between() {
        assert_eq!(busy_share((100, 1000), (150, 1100)), Some(0.5));
        assert_eq!(busy_share((100, 1000), (100, 1000)), None);
    }

    #[test]
    fn only_a_busy_machine_is_worth_a_remark() {
        assert_eq!(remark_on(0.1, 2), None);
        assert_eq!(remark_on(0.98, 2).as_deref(), Some("other work kept 1.0 of 2 cores busy before the first run"),);
    }
}
