//! The servers that are measured: each run starts a new one, and the system measures its cost.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use kube_client::Config;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use steersman_apiserver::ApiServer;
use steersman_testing::RealServer;
use tempfile::TempDir;

use super::client::{Client, Clients};
use crate::contestant::{self, Memory};

/// The server of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// `steersman apiserver`, a process of its own, over TLS
    Steersman,
    /// The same server inside this process, without a socket
    InProcess,
    /// kube-apiserver and etcd, over TLS
    KubeApiserver,
}

/// A server that runs until this is dropped.
pub(super) enum Server {
    Steersman(Steersman),
    InProcess(ApiServer),
    KubeApiserver(Box<RealServer>),
}

/// A running `steersman apiserver`.
pub(super) struct Steersman {
    child: Child,
    folder: TempDir,
    /// Open as long as the server runs: it ends when its output is closed.
    _stdout: BufReader<ChildStdout>,
}

impl Drop for Steersman {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Steersman {
    fn start() -> Result<Self> {
        let program = std::env::current_exe().context("finding this program")?.with_file_name("steersman");
        let folder = tempfile::tempdir().context("creating a folder")?;
        let mut command = Command::new(&program);
        command.arg("apiserver").arg("--kubeconfig").arg(folder.path().join("kubeconfig"));
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let mut stdout = BufReader::new(child.stdout.take().context("the server's output is piped")?);
        let mut line = String::new();
        let read = stdout.read_line(&mut line);
        let started = Self { child, folder, _stdout: stdout };
        read.context("reading what the server prints")?;
        anyhow::ensure!(line.starts_with("ready: "), "the server did not start: {line:?}");
        Ok(started)
    }
}

impl Server {
    /// Starts a server and returns when it responds.
    pub(super) async fn start(kind: Kind) -> Result<Self> {
        Ok(match kind {
            Kind::Steersman => Self::Steersman(Steersman::start()?),
            Kind::InProcess => Self::InProcess(ApiServer::new()),
            Kind::KubeApiserver => {
                let server = RealServer::start().await.context("starting kube-apiserver and etcd")?;
                Self::KubeApiserver(Box::new(server))
            }
        })
    }

    /// A connection to it.
    pub(super) async fn client(&self) -> Result<Client> {
        let path: PathBuf = match self {
            Self::InProcess(server) => return Ok(Client::InProcess(server.clone())),
            Self::Steersman(steersman) => steersman.folder.path().join("kubeconfig"),
            Self::KubeApiserver(server) => server.kubeconfig().to_owned(),
        };
        let kubeconfig = Kubeconfig::read_from(&path).with_context(|| format!("reading {}", path.display()))?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Client::connect(&config).await
    }

    /// This number of connections to it.
    pub(super) async fn clients(&self, count: usize) -> Result<Clients> {
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(self.client().await?);
        }
        Ok(Clients(clients))
    }

    /// Its processes. A server in this process has none of its own.
    fn pids(&self) -> Vec<u32> {
        match self {
            Self::Steersman(steersman) => vec![steersman.child.id()],
            Self::InProcess(_) => Vec::new(),
            Self::KubeApiserver(server) => server.pids(),
        }
    }

    /// User and system time of its processes so far.
    pub(super) fn cpu(&self) -> Result<Duration> {
        if let Self::InProcess(_) = self {
            return Ok(contestant::cpu_time());
        }
        let ticks = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK)?.context("the system counts no ticks")?;
        let mut sum = 0;
        for pid in self.pids() {
            let path = format!("/proc/{pid}/stat");
            let stat = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
            sum += ticks_from(&stat).with_context(|| format!("unexpected content of {path}: {stat:?}"))?;
        }
        Ok(Duration::from_secs_f64(sum as f64 / ticks as f64))
    }

    /// Memory of its processes.
    pub(super) fn memory(&self) -> Result<Memory> {
        if let Self::InProcess(_) = self {
            return Ok(contestant::memory());
        }
        let mut sum = Memory { resident: Some(0), peak: Some(0) };
        for pid in self.pids() {
            let one = contestant::memory_of(&pid.to_string());
            let add = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
            sum = Memory { resident: add(sum.resident, one.resident), peak: add(sum.peak, one.peak) };
        }
        Ok(sum)
    }
}

/// User and system time, in ticks. The name of the program, in parentheses, may hold anything.
fn ticks_from(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_read_past_the_programs_name() {
        let stat = "4711 (a) (b) S 1 2 3 4 -1 5 6 7 8 9 120 34 0 0 20 0 5 0 100 200 300";
        assert_eq!(ticks_from(stat), Some(154));
        assert_eq!(ticks_from("4711 (a) S 1"), None);
    }
}
