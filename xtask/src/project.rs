//! Makes a project with `steersman init` and `steersman create api`, as a newcomer does: in a
//! folder of its own, outside the workspace. Runs its tests and its program, and deletes its kinds
//! again.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::process::Running;
use crate::step::seconds;
use crate::test::{Counts, count};
use crate::{process, workspace};

const NAME: &str = "shop-operator";
/// The kinds, each with its flags. The names are of different lengths: lines wrap at other places.
const KINDS: [(&str, &[&str]); 2] = [
    ("CronJob", &["--group", "batch", "--version", "v1"]),
    ("HorizontalRunnerAutoscaler", &["--group", "scaling", "--version", "v1beta2", "--namespaced", "false"]),
];
/// What `cargo run` shows, in this order.
const SHOWN: [&str; 6] = [
    "API server: https://127.0.0.1:",
    "Live page:  http://127.0.0.1:",
    "applied    CronJob default/cronjob-sample",
    "applied    HorizontalRunnerAutoscaler horizontalrunnerautoscaler-sample",
    "cronjob default/cronjob-sample reconciled",
    "horizontalrunnerautoscaler horizontalrunnerautoscaler-sample reconciled",
];
/// How long `cargo run` may take to show it, once it is built.
const SHOWN_WITHIN: Duration = Duration::from_secs(60);

/// Makes the project with the crates of this checkout.
pub(crate) fn run() -> Result<()> {
    let target_directory = workspace::metadata()?.target_directory;
    check(&Crates::Checkout, &target_directory).map(drop)
}

/// Where the command and the crates of the project come from.
pub(crate) enum Crates {
    /// From this checkout.
    Checkout,
    /// From a registry: the command from there, and Cargo's settings for it.
    Registry { steersman: PathBuf, settings: Vec<String> },
}

/// Makes the project, uses it as its author would, and returns the counts of its tests.
pub(crate) fn check(crates: &Crates, target_directory: &Path) -> Result<Counts> {
    let (steersman, settings, path) = match crates {
        Crates::Checkout => (build(target_directory)?, Vec::new(), Some(workspace::root())),
        Crates::Registry { steersman, settings } => (steersman.clone(), settings.clone(), None),
    };
    let folder = tempfile::Builder::new().prefix("steersman-project-").tempdir().context("creating a folder")?;
    let project = Project { folder, steersman, settings, target_directory: target_directory.to_owned() };
    let started = Instant::now();
    project.init(path)?;
    let before = project.files()?;
    for (kind, flags) in KINDS {
        project.steersman(project.root(), &[&["create", "api", "--kind", kind], flags].concat())?;
    }
    eprintln!("made by steersman in {}", seconds(started.elapsed()));

    project.cargo(&["fmt", "--all", "--check"])?;
    let mut counts = count(&mut project.command(&["test", "--offline", "--workspace"]))?;
    ensure!(counts.passed > 0, "the project has no test");
    project.develop()?;
    // The manifests, which the project's own test compares then.
    project.cargo(&["run", "--quiet", "--offline", "--package", NAME, "--", "manifests", "--out", "deploy"])?;
    counts += count(&mut project.command(&["test", "--offline", "--package", NAME, "--test", "manifests"]))?;
    fs::remove_dir_all(project.root().join("deploy")).context("removing the manifests")?;

    for (kind, _) in KINDS {
        project.steersman(project.root(), &["delete", "api", "--kind", kind])?;
    }
    compare(&before, &project.files()?)?;
    // A project without kinds compiles, too.
    counts += count(&mut project.command(&["test", "--offline", "--workspace"]))?;
    Ok(counts)
}

/// Builds the command with the features of the whole workspace, so that no dependency is built
/// again.
fn build(target_directory: &Path) -> Result<PathBuf> {
    process::run(workspace::cargo().args(["build", "--workspace", "--bin", "steersman"]))?;
    Ok(target_directory.join("debug/steersman"))
}

/// A project in a temporary folder, which is removed with this value.
struct Project {
    folder: TempDir,
    steersman: PathBuf,
    settings: Vec<String>,
    target_directory: PathBuf,
}

impl Project {
    fn root(&self) -> PathBuf {
        self.folder.path().join(NAME)
    }

    fn init(&self, checkout: Option<&Path>) -> Result<()> {
        let mut arguments: Vec<&OsStr> = ["init", NAME, "--domain", "example.com"].map(OsStr::new).into();
        if let Some(checkout) = checkout {
            arguments.extend([OsStr::new("--steersman-path"), checkout.as_os_str()]);
        }
        self.steersman(self.folder.path().to_owned(), &arguments)?;
        // The versions of the workspace, so that nothing is downloaded.
        let lock = workspace::root().join("Cargo.lock");
        fs::copy(lock, self.root().join("Cargo.lock")).context("copying Cargo.lock")?;
        Ok(())
    }

    /// Runs `steersman` without a terminal, and prints what it lists.
    fn steersman(&self, folder: PathBuf, arguments: &[impl AsRef<OsStr>]) -> Result<()> {
        let mut command = Command::new(&self.steersman);
        command.args(arguments).current_dir(folder);
        eprint!("{}", process::output(&mut command)?);
        Ok(())
    }

    /// A command of Cargo in the project.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = workspace::cargo_outside(&self.root(), &self.target_directory);
        for setting in &self.settings {
            command.args(["--config", setting]);
        }
        command.args(arguments);
        command
    }

    fn cargo(&self, arguments: &[&str]) -> Result<()> {
        process::run(&mut self.command(arguments))
    }

    /// `cargo run` shows what it should, and ends by a signal.
    fn develop(&self) -> Result<()> {
        self.cargo(&["build", "--offline", "--workspace"])?;
        let mut command = self.command(&["run", "--quiet", "--offline"]);
        let mut child = Running::start(command.stdin(Stdio::null()).stdout(Stdio::piped()))?;
        let stdout = child.take_stdout().context("standard output is not piped")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                println!("{line}");
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let deadline = Instant::now() + SHOWN_WITHIN;
        let mut missing = SHOWN.to_vec();
        while !missing.is_empty() {
            match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => missing.retain(|expected| !line.contains(expected)),
                Err(RecvTimeoutError::Timeout) => {
                    bail!("`cargo run` does not show within {SHOWN_WITHIN:?}: {missing:?}")
                }
                Err(RecvTimeoutError::Disconnected) => bail!("`cargo run` ended before it has shown: {missing:?}"),
            }
        }
        child.interrupt()?;
        // The output is read to its end, so that the program is not stopped by a full pipe.
        while lines.recv_timeout(SHOWN_WITHIN).is_ok() {}
        let status = child.wait()?;
        ensure!(status.success(), "`cargo run` ended with {status} after an interrupt");
        Ok(())
    }

    /// Every file of the project and every folder, with the bytes of the files.
    fn files(&self) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.root()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
                let path = entry?.path();
                let bytes = if path.is_dir() {
                    folders.push(path.clone());
                    Vec::new()
                } else {
                    fs::read(&path).with_context(|| format!("reading {}", path.display()))?
                };
                found.insert(path, bytes);
            }
        }
        // Cargo removes what the project does not need.
        found.retain(|path, _| !path.ends_with("Cargo.lock"));
        Ok(found)
    }
}

/// Fails if a file was added, removed or changed.
fn compare(before: &BTreeMap<PathBuf, Vec<u8>>, after: &BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    let paths = before.keys().chain(after.keys().filter(|path| !before.contains_key(*path)));
    let differing: Vec<String> =
        paths.filter(|path| before.get(*path) != after.get(*path)).map(|path| path.display().to_string()).collect();
    ensure!(differing.is_empty(), "`delete api` has left traces: {}", differing.join(", "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_found() {
        let tree = |files: &[(&str, &str)]| -> BTreeMap<PathBuf, Vec<u8>> {
            files.iter().map(|(path, text)| (path.into(), text.as_bytes().to_vec())).collect()
        };
        let before = tree(&[("a", "1"), ("b", "2")]);
        assert!(compare(&before, &before).is_ok());
        for after in [tree(&[("a", "1")]), tree(&[("a", "1"), ("b", "3")]), tree(&[("a", "1"), ("b", "2"), ("c", "")])]
        {
            assert!(compare(&before, &after).is_err());
        }
    }
}
