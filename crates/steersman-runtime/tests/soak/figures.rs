//! The resources that the process holds after each round, and whether they stay constant.

use std::fmt::Write;
use std::time::Duration;

use steersman_testing::eventually_within;

use crate::PATIENCE;

/// The first rounds fill caches, pools of connections and the allocator.
const WARM_UP: usize = 2;
/// Tasks and files that come and go: pooled connections, the back-off of a cut watch.
const SLACK: usize = 12;
/// How much more memory there may be at the end than after a quarter of the run.
const GROWTH_MAX: f64 = 1.05;
const GROWTH_BYTES_MAX: u64 = 4 << 20;
/// About this many lines are printed in a run.
const LINE_INTERVAL: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug)]
struct Sample {
    elapsed: Duration,
    resident: u64,
    tasks: usize,
    files: usize,
}

#[derive(Default)]
pub(crate) struct Figures {
    samples: Vec<Sample>,
    printed: Duration,
}

/// The tasks of the runtime that have not ended.
pub(crate) fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

fn files() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("the soak runs on Linux").count()
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the soak runs on Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a process has memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number of kilobytes") << 10
}

fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

impl Figures {
    /// Waits until everything that the round left open is closed: no more than after the first
    /// rounds.
    pub(crate) async fn settle(&self) {
        let most = |figure: fn(&Sample) -> usize| self.samples.iter().take(WARM_UP).map(figure).max();
        let (Some(most_tasks), Some(most_files)) = (most(|sample| sample.tasks), most(|sample| sample.files)) else {
            // The first round: its clients are gone, and the server has to notice.
            let mut before = (usize::MAX, usize::MAX);
            return eventually_within(PATIENCE, "tasks and files stay as they are", || {
                let now = (tasks(), files());
                let unchanged = std::mem::replace(&mut before, now) == now;
                std::future::ready(unchanged.then_some(()))
            })
            .await;
        };
        let what = format!("at most {most_tasks} tasks and {most_files} files, as in the first rounds, are left");
        eventually_within(PATIENCE, &what, || {
            let is_flat = tasks() <= most_tasks + SLACK && files() <= most_files + SLACK;
            std::future::ready(is_flat.then_some(()))
        })
        .await;
    }

    /// Records the figures of a round. Returns `true` if they are to be printed.
    pub(crate) fn push(&mut self, elapsed: Duration) -> bool {
        self.samples.push(Sample { elapsed, resident: resident(), tasks: tasks(), files: files() });
        let is_due = self.samples.len() <= WARM_UP || elapsed >= self.printed + LINE_INTERVAL;
        if is_due {
            self.printed = elapsed;
        }
        is_due
    }

    pub(crate) fn last(&self) -> String {
        let Some(Sample { elapsed, resident, tasks, files }) = self.samples.last() else { return String::new() };
        let (round, elapsed) = (self.samples.len(), elapsed.as_secs());
        format!("soak: round {round:>4}, {elapsed:>4} s: {:>4} MiB, {tasks:>3} tasks, {files:>3} files", mib(*resident))
    }

    /// The median memory of the rounds between these shares of the run.
    fn median(&self, from: f64, to: f64) -> u64 {
        let at = |share: f64| (self.samples.len() as f64 * share) as usize;
        let mut part: Vec<u64> = self.samples[at(from)..at(to)].iter().map(|sample| sample.resident).collect();
        part.sort_unstable();
        part.get(part.len() / 2).copied().unwrap_or_default()
    }

    pub(crate) fn summary(&self) -> String {
        let mut text = format!("soak: {} rounds", self.samples.len());
        let range = |figure: fn(&Sample) -> u64| {
            let after = || self.samples.iter().skip(WARM_UP).map(figure);
            (after().min().unwrap_or_default(), after().max().unwrap_or_default())
        };
        let memory = range(|sample| mib(sample.resident));
        let (tasks, files) = (range(|sample| sample.tasks as u64), range(|sample| sample.files as u64));
        let (quarter, end) = (mib(self.median(0.25, 0.5)), mib(self.median(0.75, 1.0)));
        for (name, (least, most)) in [("MiB", memory), ("tasks", tasks), ("files", files)] {
            let _ = write!(text, ", {least}–{most} {name}");
        }
        let _ = write!(text, "; memory in the second quarter {quarter} MiB, in the last {end} MiB");
        text
    }

    /// Fails when memory has grown. Tasks and files are judged in each round.
    pub(crate) fn judge(&self, memory: bool) {
        let (quarter, end) = (self.median(0.25, 0.5), self.median(0.75, 1.0));
        let allowed = (quarter as f64 * GROWTH_MAX) as u64 + GROWTH_BYTES_MAX;
        assert!(!memory || end <= allowed, "memory grows: {} MiB, then {} MiB", mib(quarter), mib(end));
    }
}
