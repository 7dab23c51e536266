//! Runs other programs. An interrupt ends the running program. The task then returns through its
//! ordinary error path, so that incomplete results are removed.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// The programs that run now.
static RUNNING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// Whether an interrupt has arrived.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

fn interrupts() -> SigSet {
    SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM])
}

/// From here on, SIGINT and SIGTERM end the running children instead of this process. Must be
/// called before any thread is started: the signals are blocked in this thread and its children,
/// and one thread of our own receives them.
pub(crate) fn forward_interrupts() {
    let signals = interrupts();
    if signals.thread_block().is_err() {
        return;
    }
    std::thread::spawn(move || {
        while let Ok(signal) = signals.wait() {
            if INTERRUPTED.swap(true, Ordering::SeqCst) {
                std::process::exit(130);
            }
            for pid in RUNNING.lock().expect("no holder of this lock panics").iter() {
                // A child that has ended already is ignored.
                let _ = kill(Pid::from_raw(pid.cast_signed()), signal);
            }
        }
    });
}

/// A child that an interrupt ends.
pub(crate) struct Running(Child);

impl Running {
    /// Starts `command`.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        if interrupted() {
            bail!("interrupted");
        }
        // A child inherits the blocked signals, and must not block them.
        let _ = interrupts().thread_unblock();
        let child = command.spawn();
        let _ = interrupts().thread_block();
        let child = child.with_context(|| format!("cannot start {}", describe(command)))?;
        RUNNING.lock().expect("no holder of this lock panics").push(child.id());
        Ok(Self(child))
    }

    /// Its standard output, when it was piped and not yet taken.
    pub(crate) fn take_stdout(&mut self) -> Option<impl Read + use<>> {
        self.0.stdout.take()
    }

    /// Its standard error, when it was piped and not yet taken.
    pub(crate) fn take_stderr(&mut self) -> Option<impl Read + use<>> {
        self.0.stderr.take()
    }

    /// Asks it to end, as Ctrl-C does.
    pub(crate) fn interrupt(&self) -> Result<()> {
        kill(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGINT).context("sending a signal to a child")
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Result<ExitStatus> {
        let status = self.0.wait().context("waiting for a child")?;
        self.forget();
        if interrupted() {
            bail!("interrupted");
        }
        Ok(status)
    }

    fn forget(&self) {
        RUNNING.lock().expect("no holder of this lock panics").retain(|pid| *pid != self.0.id());
    }
}

impl Drop for Running {
    /// Ends a child that was not waited for.
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
        self.forget();
    }
}

/// The command as a person would type it.
pub(crate) fn describe(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

/// Runs `command` with our own output. Fails if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = Running::start(command)?.wait()?;
    if !status.success() {
        bail!("`{}` failed ({status})", describe(command));
    }
    Ok(())
}

/// Runs `command`, passes on its standard output, and calls `each` with every line.
pub(crate) fn run_and_read(command: &mut Command, mut each: impl FnMut(&str)) -> Result<()> {
    let mut child = Running::start(command.stdout(Stdio::piped()))?;
    let stdout = child.take_stdout().expect("standard output is piped");
    for line in BufReader::new(stdout).lines() {
        let line = line.context("reading a child's output")?;
        println!("{line}");
        each(&line);
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("`{}` failed ({status})", describe(command));
    }
    Ok(())
}

/// Runs `command` silently and returns its output. If it fails, the error has the end of its
/// standard error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let mut child = Running::start(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let mut stderr = child.take_stderr().expect("standard error is piped");
    let complaints = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        text
    });
    let mut text = String::new();
    child
        .take_stdout()
        .expect("standard output is piped")
        .read_to_string(&mut text)
        .context("reading a child's output")?;
    let complaints = complaints.join().expect("the reader does not panic");
    let status = child.wait()?;
    if !status.success() {
        bail!("`{}` failed ({status}):\n{}", describe(command), last_lines(&complaints, 20));
    }
    Ok(text)
}

/// The last `count` lines of `text`.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_hear_signals() {
        forward_interrupts();
        let printed = output(Command::new("sh").args(["-c", "kill -TERM $$; echo deaf"]));
        assert!(!printed.is_ok_and(|printed| printed.contains("deaf")), "the child did not hear the signal");
    }
}
