//! Builds a server from its Go module. The modules beside this crate (`xtask/servers/…`) pin every
//! dependency by checksum, so that the same sources are built everywhere.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::assets::{HELM_VERSION, KUBERNETES_VERSION, Program};
use crate::process::{self, Running};
use crate::step::Progress;
use crate::workspace;

/// Builds `program` to the file `to`.
pub(crate) fn build(program: Program, to: &Path) -> Result<()> {
    let name = program.file_name();
    require_go(name, program.version())?;
    let (module, package, flags) = match program {
        Program::Etcd => ("etcd", "go.etcd.io/etcd/server/v3".to_owned(), "-s -w".to_owned()),
        Program::Helm => ("helm", "helm.sh/helm/v4/cmd/helm".to_owned(), helm_flags()),
        Program::KubeApiserver | Program::Kubectl | Program::KubeControllerManager => {
            ("kubernetes", format!("k8s.io/kubernetes/cmd/{name}"), kubernetes_flags())
        }
    };
    let label = format!("{name} {}", program.version());
    Build { label: &label, module, package: &package, flags: &flags }.run(to)
}

/// A Go package of a module beside this crate.
pub(super) struct Build<'a> {
    /// Its name for the user.
    pub(super) label: &'a str,
    /// The folder of the module.
    pub(super) module: &'a str,
    pub(super) package: &'a str,
    /// The flags of the linker.
    pub(super) flags: &'a str,
}

impl Build<'_> {
    /// Builds it to the file `to`.
    pub(super) fn run(&self, to: &Path) -> Result<()> {
        let Self { label, module, package, flags } = *self;
        let go = |arguments: &[&str]| {
            let mut command = Command::new("go");
            command
                .args(arguments)
                .env("CGO_ENABLED", "0")
                .current_dir(workspace::root().join("xtask/servers").join(module));
            command
        };

        let reading = Progress::start(format!("{label}: fetching its sources"), None);
        let packages = process::output(&mut go(&["list", "-deps", package])).context("reading the sources")?;
        reading.finish();

        let building = Progress::start(format!("{label}: building"), Some(packages.lines().count() as u64));
        let mut command = go(&["build", "-v", "-trimpath", "-ldflags", flags, "-o"]);
        let mut child = Running::start(command.arg(to).arg(package).stdin(Stdio::null()).stderr(Stdio::piped()))?;
        let mut output = Vec::new();
        for line in BufReader::new(child.take_stderr().expect("standard error is piped")).lines() {
            output.push(line.context("reading the compiler's output")?);
            building.set(output.len() as u64);
        }
        let status = child.wait()?;
        if !status.success() {
            bail!("building {label} failed ({status}):\n{}", process::last_lines(&output.join("\n"), 20));
        }
        building.finish();
        Ok(())
    }
}

/// The linker sets the version for `kube-apiserver --version` and `/version`.
fn kubernetes_flags() -> String {
    let mut numbers = KUBERNETES_VERSION.split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let set = |name: &str, value: &str| format!(" -X k8s.io/component-base/version.{name}={value}");
    let version = format!("v{KUBERNETES_VERSION}");
    let of_client = format!(" -X k8s.io/client-go/pkg/version.gitVersion={version}");
    "-s -w".to_owned()
        + &set("gitVersion", &version)
        + &set("gitMajor", major)
        + &set("gitMinor", minor)
        + &set("gitTreeState", "clean")
        + &of_client
}

/// The linker sets the version for `helm version`.
fn helm_flags() -> String {
    format!("-s -w -X helm.sh/helm/v4/internal/version.version=v{HELM_VERSION}")
}

/// Refuses to build without a Go toolchain.
pub(super) fn require_go(name: &str, version: &str) -> Result<()> {
    if process::output(Command::new("go").arg("version")).is_ok() {
        return Ok(());
    }
    bail!(
        "{name} {version} is not in the cache, and there is no Go toolchain to build it with. Two ways to go on:\n\
         1. install Go (1.26 or newer) and run this again, or\n\
         2. set KUBEBUILDER_ASSETS to a folder that holds etcd, kube-apiserver and kubectl (setup-envtest makes one)",
    );
}
