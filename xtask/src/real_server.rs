//! A real API server for tasks that need one.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::process::{self, Running};
use crate::servers::{self, Program};
use crate::step::Progress;
use crate::workspace;

/// A kube-apiserver with its etcd. It ends when this is dropped, or when this process ends.
pub(crate) struct RealServer {
    _running: Running,
    kubeconfig: PathBuf,
}

/// The output of the example once the server is ready.
#[derive(Deserialize)]
struct Ready {
    kubeconfig: PathBuf,
}

impl RealServer {
    /// Starts the example of `steersman-testing` that runs a server until its standard input is
    /// closed.
    pub(crate) fn start() -> Result<Self> {
        Self::with_flags(&[])
    }

    /// The same, with further flags for kube-apiserver.
    pub(crate) fn with_flags(flags: &[&str]) -> Result<Self> {
        for program in [Program::Etcd, Program::KubeApiserver] {
            servers::provide(program)?;
        }
        let progress = Progress::start("starting a real API server", None);
        let example = ["--package", "steersman-testing", "--example", "real_server"];
        process::output(workspace::cargo().args(["build", "--quiet"]).args(example))?;
        let program = workspace::metadata()?.target_directory.join("debug/examples/real_server");
        let mut running =
            Running::start(Command::new(program).args(flags).stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let mut line = String::new();
        let stdout = running.take_stdout().expect("standard output is piped");
        BufReader::new(stdout).read_line(&mut line).context("reading what the server's program prints")?;
        let ready: Ready = serde_json::from_str(&line).context("the real API server did not start")?;
        progress.finish();
        Ok(Self { _running: running, kubeconfig: ready.kubeconfig })
    }

    /// Its kubeconfig.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}
