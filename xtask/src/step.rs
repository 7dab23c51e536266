//! The progress of a long step: its name, the elapsed time, and a bar if the size is known.
//!
//! Everything goes to standard error, so that the output for scripts stays clean. A terminal shows
//! one line that is updated; elsewhere (a CI log) a plain line is added now and then.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;

const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);
const LOG_INTERVAL: Duration = Duration::from_secs(30);
const BAR_WIDTH: usize = 24;

/// A quiet step in progress. Dropping it clears its line.
pub(crate) struct Progress {
    name: String,
    started: Instant,
    done: Arc<AtomicU64>,
    ticker: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Starts showing `name`, with a bar when `total` is known.
    pub(crate) fn start(name: impl Into<String>, total: Option<u64>) -> Self {
        let name = name.into();
        let started = Instant::now();
        let done = Arc::new(AtomicU64::new(0));
        let terminal = std::io::stderr().is_terminal();
        let (stop, stopped) = channel();
        let (label, counter) = (name.clone(), Arc::clone(&done));
        let thread = std::thread::spawn(move || {
            let interval = if terminal { TERMINAL_INTERVAL } else { LOG_INTERVAL };
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let line = line(&label, started.elapsed(), counter.load(Ordering::Relaxed), total);
                if terminal {
                    eprint!("\r\x1b[K{line}");
                    let _ = std::io::stderr().flush();
                } else {
                    eprintln!("{line}");
                }
            }
            if terminal {
                eprint!("\r\x1b[K");
            }
        });
        Self { name, started, done, ticker: Some((stop, thread)) }
    }

    /// Sets how much of the total is done.
    pub(crate) fn set(&self, done: u64) {
        self.done.store(done, Ordering::Relaxed);
    }

    /// Ends the step with a line that has its duration.
    pub(crate) fn finish(mut self) {
        self.stop();
        eprintln!("{}: {}", self.name, seconds(self.started.elapsed()));
    }

    fn stop(&mut self) {
        if let Some((stop, thread)) = self.ticker.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.stop();
    }
}

fn line(name: &str, elapsed: Duration, done: u64, total: Option<u64>) -> String {
    let elapsed = seconds(elapsed);
    match total {
        Some(total) if total > 0 => {
            let filled = (done.min(total) as usize * BAR_WIDTH) / total as usize;
            format!("{name} [{:<BAR_WIDTH$}] {done}/{total}, {elapsed}", "#".repeat(filled))
        }
        _ => format!("{name} … {elapsed}"),
    }
}

/// A duration in a readable form.
pub(crate) fn seconds(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else {
        format!("{}m{:02}s", seconds as u64 / 60, seconds as u64 % 60)
    }
}

/// A sequence of steps whose own output is worth seeing (mostly cargo's): a headline before, the
/// time after, and a summary at the end.
pub(crate) struct Steps {
    started: Instant,
    times: Vec<(String, Duration)>,
}

impl Steps {
    /// No step has run yet.
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), times: Vec::new() }
    }

    /// Runs one step under its name.
    pub(crate) fn run<T>(&mut self, name: &str, step: impl FnOnce() -> Result<T>) -> Result<T> {
        eprintln!("\n==> {name}");
        let started = Instant::now();
        let result = step();
        let elapsed = started.elapsed();
        match &result {
            Ok(_) => eprintln!("==> {name}: ok, {}", seconds(elapsed)),
            Err(_) => eprintln!("==> {name}: FAILED after {}", seconds(elapsed)),
        }
        self.times.push((name.to_owned(), elapsed));
        result
    }

    /// Prints the duration of each step.
    pub(crate) fn summary(&self) {
        eprintln!();
        for (name, elapsed) in &self.times {
            eprintln!("{:>9}  {name}", seconds(*elapsed));
        }
        eprintln!("{:>9}  in all", seconds(self.started.elapsed()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_the_share_that_is_done() {
        assert_eq!(line("build", Duration::from_secs(2), 1, Some(2)), "build [############            ] 1/2, 2.0 s",);
    }

    #[test]
    fn without_a_size_there_is_no_bar() {
        assert_eq!(line("build", Duration::from_secs(75), 0, None), "build … 1m15s");
    }
}
