//! The processes of `steersman run`: cargo, the new binary that prints its CRDs, and the operator.
//!
//! Each task sends what it has to show, and at its end one event.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use tokio::io::AsyncReadExt;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::apply::Applier;
use super::cargo::{Messages, Project, cargo, files_read};
use super::core::{Binary, Event};
use super::custodian::{Custodian, Process, Program, Stop};
use super::documents;
use super::lines::Lines;
use super::live::{self, ADDRESSES_FILE};
use super::messages::Sender;
use super::screen::Source;
use super::watch::FilesRead;
use crate::reconcile_text::seconds;

/// How long the new binary may take to print its CRDs.
const CRD_TIMEOUT: Duration = Duration::from_secs(60);
/// The limit of what it prints.
const CRD_BYTES_MAX: u64 = 64 << 20;
/// How long to read on after the end of a process: another process may hold its output.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// What all tasks need.
#[derive(Clone)]
pub(super) struct Tasks {
    pub(super) project: Arc<Project>,
    pub(super) custodian: Arc<Custodian>,
    pub(super) sender: Sender,
    pub(super) applier: Arc<Mutex<Applier>>,
    pub(super) files_read: FilesRead,
    pub(super) is_colored: bool,
}

impl Tasks {
    /// Builds the operator.
    pub(super) async fn build(self) {
        self.sender.line(Source::Run, format!("building {}", self.project.binary)).await;
        let started = Instant::now();
        let built = match self.run_cargo().await {
            Ok(binary) => {
                let took = seconds(started.elapsed().as_secs_f64());
                self.sender.line(Source::Run, format!("built {} in {took}", self.project.binary)).await;
                self.files_read.set(files_read(&binary.path));
                Some(binary)
            }
            Err(error) => {
                self.sender.line(Source::Problem, format!("{error:#}")).await;
                None
            }
        };
        self.sender.event(Event::Built(built)).await;
    }

    async fn run_cargo(&self) -> Result<Binary> {
        let path = cargo();
        let mut process = self.start(&path, self.project.build_arguments(self.is_colored), Vec::new()).await?;
        let errors = self.sender.show(Source::Cargo, process.errors.take());
        let mut messages = Messages::default();
        if let Some(output) = process.output.take() {
            let mut lines = Lines::new(output);
            while let Some(line) = lines.next().await {
                if let Some(other) = messages.read(line, &self.project.binary) {
                    self.sender.line(Source::Cargo, other).await;
                }
            }
        }
        let status = process.wait().await?;
        drain([errors]).await;
        ensure!(status.success(), "the build failed: cargo ended with {status}");
        messages.binary().map_err(|problem| anyhow!("the build failed: {problem}"))
    }

    async fn start(
        &self,
        path: &OsStr,
        arguments: Vec<OsString>,
        environment: Vec<(&'static str, OsString)>,
    ) -> Result<Process> {
        let program = Program { path, arguments, folder: &self.project.folder, environment };
        let started = self.custodian.start(program).await;
        started.with_context(|| format!("cannot start {}", Path::new(path).display()))
    }

    /// Applies the CRDs of a new binary.
    pub(super) async fn prepare(self, binary: Binary) {
        let result = self.apply_crds(&binary).await;
        if let Err(error) = &result {
            self.sender.line(Source::Problem, format!("{error:#}")).await;
        }
        self.sender.event(Event::Prepared { is_ok: result.is_ok() }).await;
    }

    async fn apply_crds(&self, binary: &Binary) -> Result<()> {
        let command = format!("{} crd", self.project.binary);
        let yaml = match timeout(CRD_TIMEOUT, self.print_crds(binary)).await {
            Ok(printed) => printed.with_context(|| format!("`{command}` failed"))?,
            Err(_) => bail!("`{command}` did not end within {} s", CRD_TIMEOUT.as_secs()),
        };
        for name in self.applier.lock().await.crds(&yaml).await? {
            self.sender.line(Source::Run, format!("applied CustomResourceDefinition {name}")).await;
        }
        Ok(())
    }

    async fn print_crds(&self, binary: &Binary) -> Result<String> {
        let mut process = self.start(binary.path.as_os_str(), vec!["crd".into()], Vec::new()).await?;
        let errors = self.sender.show(Source::Operator, process.errors.take());
        let mut yaml = String::new();
        if let Some(output) = process.output.take() {
            output.take(CRD_BYTES_MAX).read_to_string(&mut yaml).await.context("cannot read its output")?;
        }
        let status = process.wait().await?;
        drain([errors]).await;
        ensure!(status.success(), "it ended with {status}");
        Ok(yaml)
    }

    /// Applies the samples that have changed.
    pub(super) async fn apply_samples(self) {
        let samples = documents::samples(&self.project.folder);
        for result in self.applier.lock().await.samples(samples).await {
            match result {
                Ok(text) => self.sender.line(Source::Run, text).await,
                Err(text) => self.sender.line(Source::Problem, text).await,
            }
        }
        self.sender.event(Event::SamplesApplied).await;
    }

    /// Runs the operator until its end.
    pub(super) async fn operate(self, launch: Launch, mut stops: mpsc::Receiver<Stop>) {
        let how = match self.run_operator(launch, &mut stops).await {
            Ok(status) => status.to_string(),
            Err(error) => format!("{error:#}"),
        };
        self.sender.event(Event::Exited { how }).await;
    }

    async fn run_operator(&self, launch: Launch, stops: &mut mpsc::Receiver<Stop>) -> Result<ExitStatus> {
        let Launch { binary, arguments, addresses } = launch;
        let environment = vec![(ADDRESSES_FILE, addresses.clone().into())];
        let mut process = self.start(binary.path.as_os_str(), arguments, environment).await?;
        self.sender.line(Source::Run, format!("started {}, process {}", self.project.binary, process.id())).await;
        let output = [
            self.sender.show(Source::Operator, process.output.take()),
            self.sender.show(Source::Operator, process.errors.take()),
        ];
        // It ends early if the operator shows no state.
        let reconciles = async {
            live::follow(&addresses, &self.sender).await;
            std::future::pending::<()>().await;
        };
        let mut reconciles = pin!(reconciles);
        let status = loop {
            tokio::select! {
                biased;
                Some(how) = stops.recv() => process.stop(how),
                status = process.wait() => break status?,
                () = &mut reconciles => {}
            }
        };
        drain(output).await;
        Ok(status)
    }
}

/// How to run the operator.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) binary: Binary,
    pub(super) arguments: Vec<OsString>,
    /// The file that it writes its addresses to.
    pub(super) addresses: PathBuf,
}

/// Waits for the rest of an output.
async fn drain<const N: usize>(output: [JoinHandle<()>; N]) {
    for output in output {
        let _ = timeout(OUTPUT_TIMEOUT, output).await;
    }
}
