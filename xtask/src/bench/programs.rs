//! The paths of the programs, and their builds.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::contestants::Program;
use super::jobs::{Job, Server};
use super::plan::Plan;
use crate::step::Progress;
use crate::{process, servers, workspace};

/// The programs of a plan, ready to run.
pub(crate) struct Programs {
    contestants: BTreeMap<Program, PathBuf>,
    /// Our own program in the jobs of the API server.
    apiserver: PathBuf,
    replay: PathBuf,
}

impl Programs {
    /// Builds what the plan needs.
    pub(crate) fn build(plan: &Plan) -> Result<Self> {
        let needed = plan.programs();
        // Reports a missing tool now instead of after minutes of building.
        for (program, names) in &needed {
            let others = needed.iter().filter(|(other, _)| other != program).flat_map(|(_, names)| names);
            require(*program, names, &others.copied().collect::<Vec<_>>())?;
        }
        let release = workspace::metadata()?.target_directory.join("release");
        if plan.needs(Server::Replay) || needed.iter().any(|(program, _)| *program == Program::Steersman) {
            let mut command = workspace::cargo();
            command.args(["build", "--release", "--package", "steersman-bench", "--package", "steersman-cli"]);
            build("steersman-bench", &mut command)?;
        }
        if needed.iter().any(|(_, names)| names.contains(&"kube-apiserver")) {
            for program in [servers::Program::Etcd, servers::Program::KubeApiserver] {
                servers::provide(program)?;
            }
        }
        let mut contestants = BTreeMap::new();
        for (program, _) in needed {
            let path = match program {
                Program::Steersman => release.join("steersman-contestant"),
                Program::Go => build_go()?,
                Program::KubeRs => build_kube_rs()?,
                Program::Curl => "curl".into(),
            };
            contestants.insert(program, path);
        }
        Ok(Self { contestants, apiserver: release.join("apiserver-contestant"), replay: release.join("replay") })
    }

    /// The path of a contestant's program for a job.
    pub(crate) fn path(&self, program: Program, job: &Job) -> &Path {
        let is_apiserver = program == Program::Steersman && job.task.starts_with("apiserver");
        if is_apiserver { &self.apiserver } else { &self.contestants[&program] }
    }

    /// Where the replay is.
    pub(crate) fn replay(&self) -> &Path {
        &self.replay
    }
}

/// Runs a build, which prints nothing unless it fails.
fn build(name: &str, command: &mut Command) -> Result<()> {
    let progress = Progress::start(format!("building {name}"), None);
    process::output(command).with_context(|| format!("building {name}"))?;
    progress.finish();
    Ok(())
}

fn build_go() -> Result<PathBuf> {
    let folder = workspace::root().join("bench");
    let path = folder.join("bin").join("go-contestants");
    let mut command = Command::new("go");
    build("the Go contestants", command.current_dir(folder.join("go")).arg("build").arg("-o").arg(&path).arg("."))?;
    Ok(path)
}

fn build_kube_rs() -> Result<PathBuf> {
    let folder = workspace::root().join("bench").join("kube-rs");
    let target = folder.join("target");
    let mut command = workspace::cargo();
    command.args(["build", "--release", "--locked", "--manifest-path"]).arg(folder.join("Cargo.toml"));
    build("the kube-rs contestant", command.arg("--target-dir").arg(&target))?;
    Ok(target.join("release").join("kube-rs-contestant"))
}

/// Fails if the tool that `program` needs is not installed.
fn require(program: Program, names: &[&str], others: &[&str]) -> Result<()> {
    let (tool, argument, advice) = match program {
        Program::Steersman | Program::KubeRs => return Ok(()),
        Program::Go => ("go", "version", "Install Go 1.26 or newer (https://go.dev/dl)"),
        Program::Curl => ("curl", "--version", "Install curl (https://curl.se)"),
    };
    let found = Command::new(tool).arg(argument).output();
    if matches!(&found, Err(error) if error.kind() == ErrorKind::NotFound) {
        bail!("{}", missing(tool, advice, names, others));
    }
    found.with_context(|| format!("asking {tool} for its version"))?;
    Ok(())
}

fn missing(tool: &str, advice: &str, names: &[&str], others: &[&str]) -> String {
    let way_out = if others.is_empty() {
        "choose other jobs: no other program takes part in these".to_owned()
    } else {
        format!("measure without: --contestant {}", others.join(" "))
    };
    format!("{tool} was not found; {} cannot be measured without it. {advice}, or {way_out}", names.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_named_with_both_ways_out() {
        assert_eq!(
            missing("go", "Install Go", &["client-go", "controller-runtime"], &["kube-rs", "curl"]),
            "go was not found; client-go and controller-runtime cannot be measured without it. \
             Install Go, or measure without: --contestant kube-rs curl",
        );
    }

    #[test]
    fn without_anyone_else_other_jobs_are_the_way_out() {
        let text = missing("go", "Install Go", &["client-go"], &[]);
        assert!(text.ends_with("or choose other jobs: no other program takes part in these"), "{text}");
    }
}
