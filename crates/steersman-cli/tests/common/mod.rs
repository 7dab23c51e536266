//! The command as a process. Each test binary uses its own part of this.
#![allow(dead_code)]

pub(crate) mod http;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// The deadline of each step, even on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) fn steersman() -> Command {
    Command::new(env!("CARGO_BIN_EXE_steersman"))
}

/// The lines that a process prints, each with a deadline.
pub(crate) struct Lines(Receiver<String>);

impl Lines {
    pub(crate) fn of(output: impl Read + Send + 'static) -> Self {
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                // The test may have ended.
                let _ = sender.send(line.unwrap());
            }
        });
        Self(receiver)
    }

    /// The next line, or `None` if the process has ended.
    pub(crate) fn next(&self) -> Option<String> {
        match self.next_or_why() {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("it prints nothing and does not end"),
        }
    }

    /// The next line, or why there is none.
    pub(crate) fn next_or_why(&self) -> Result<String, RecvTimeoutError> {
        self.0.recv_timeout(DEADLINE)
    }
}

/// A running server, killed when a test fails.
pub(crate) struct Running {
    child: Child,
    lines: Lines,
    pub(crate) url: String,
}

impl Running {
    /// Starts a server.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = Lines::of(child.stdout.take().unwrap());
        Self { child, lines, url: String::new() }
    }

    /// Starts a server and waits for its first line.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut running = Self::spawn(command);
        let ready = running.line();
        running.url = ready.strip_prefix("ready: ").unwrap_or_else(|| panic!("no ready line: {ready:?}")).to_owned();
        running
    }

    /// The next line of output.
    pub(crate) fn line(&self) -> String {
        self.lines.next().expect("it ended without another line")
    }

    /// The next line of output, or why there is none.
    pub(crate) fn next_line(&self) -> Result<String, RecvTimeoutError> {
        self.lines.next_or_why()
    }

    /// The process id.
    pub(crate) fn pid(&self) -> nix::unistd::Pid {
        nix::unistd::Pid::from_raw(self.child.id().try_into().unwrap())
    }

    /// Waits for the end of the process.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        while self.lines.next().is_some() {}
        self.child.wait().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
