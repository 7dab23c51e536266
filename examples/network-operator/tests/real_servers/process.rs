//! The operator as a process, which can be killed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// The program, started repeatedly with the same flags. It is killed when this is dropped. If the
/// test is killed, it ends by itself after some minutes.
pub(crate) struct Process {
    flags: Vec<String>,
    variables: Vec<(&'static str, String)>,
    log: PathBuf,
    child: Option<Child>,
}

impl Process {
    /// Not started yet. Its output goes to the file `log`.
    pub(crate) fn new(flags: Vec<String>, variables: Vec<(&'static str, String)>, log: PathBuf) -> Self {
        Self { flags, variables, log, child: None }
    }

    pub(crate) fn start(&mut self) {
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_network-operator"))
            .args(&self.flags)
            // Several run on this host, so none has the port of the probes.
            .args(["--duration", "10m", "--health-probe-bind-address", "0"])
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        self.child = Some(child.unwrap());
    }

    /// `SIGKILL`: it cannot clean up.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            assert_eq!(child.try_wait().unwrap(), None, "it has ended by itself: {}", tail(&self.log));
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub(crate) fn log(&self) -> String {
        tail(&self.log)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The last lines of a file.
fn tail(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}
