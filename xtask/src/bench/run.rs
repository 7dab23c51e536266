//! One run of one contestant.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow, bail};
use nix::sys::resource::{UsageWho, getrusage};
use serde::Deserialize;

use super::contestants::{Contestant, Program};
use super::figures::Answer;
use super::jobs::{Job, Objects, RunParameters, Scale, Server};
use super::programs::Programs;
use crate::process::{self, Running};

/// The surroundings of a run.
pub(crate) struct Setting<'a> {
    pub(crate) programs: &'a Programs,
    /// The kubeconfig of a real server.
    pub(crate) kubeconfig: Option<&'a Path>,
}

impl Setting<'_> {
    /// Runs the job once. Every problem of the run is an error. So is a wrong count, because a
    /// figure for work that was not done is worth nothing.
    pub(crate) fn run(&self, job: &Job, scale: &Scale, size: u64, contestant: &Contestant) -> Result<Answer> {
        self.answer(job, scale, size, contestant)
            .with_context(|| format!("{} failed in the job {} of size {size}", contestant.name, job.name))
    }

    fn answer(&self, job: &Job, scale: &Scale, size: u64, contestant: &Contestant) -> Result<Answer> {
        let replay = match job.server {
            Server::Replay => Some(Replay::start(self.programs.replay(), size, scale)?),
            Server::None | Server::Real => None,
        };
        let mut command = Command::new(self.programs.path(contestant.program, job));
        let cpu_before = cpu_of_children();
        let mut answer = match (contestant.program, &replay) {
            (Program::Curl, Some(replay)) => {
                command.args(["--silent", "--show-error", "--fail", "--output", "/dev/null", "--write-out"]);
                command.arg("{\"bytes\":%{size_download},\"wall_s\":%{time_total}}\\n");
                command.arg(format!("{}/api/v1/pods", replay.url()));
                Answer::of_download(&output_within(&mut command, job.time_limit)?, size, replay.list_bytes)?
            }
            _ => {
                command.args(contestant.arguments).arg(job.task).args(["--size", &size.to_string()]);
                command.args(["--workers", &job.workers.to_string()]);
                if let Some(replay) = &replay {
                    command.args(["--url", &replay.url()]);
                }
                if scale.events > 0 {
                    command.args(["--events", &scale.events.to_string()]);
                }
                if scale.window > 0 {
                    command.args(["--window", &scale.window.to_string()]);
                }
                if let (Server::Real, Some(file)) = (job.server, self.kubeconfig) {
                    command.arg("--kubeconfig").arg(file);
                }
                // The last thing before the start.
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).context("reading the clock")?;
                command.args(["--started", &now.as_nanos().to_string()]);
                Answer::parse(&output_within(&mut command, job.time_limit)?)?
            }
        };
        // For contestants that do not report it themselves. The replay is not among the children
        // that have ended.
        let cpu = cpu_of_children().saturating_sub(cpu_before);
        answer.figures.entry("cpu_s".to_owned()).or_insert(cpu.as_secs_f64());
        let asked = RunParameters { size, events: scale.events, workers: job.workers };
        (job.check)(&asked, &answer).map_err(|complaint| anyhow!("{complaint}"))?;
        if !answer.figures.contains_key(job.costs[0]) {
            bail!("the figure {} is missing", job.costs[0]);
        }
        Ok(answer)
    }
}

/// The output of `command`. It is killed, with an error, if it takes longer than `limit`. It may
/// read from its standard input to detect the end of this process: nothing is ever written, and the
/// input is closed no sooner than its own output.
fn output_within(command: &mut Command, limit: Duration) -> Result<String> {
    let mut child = Running::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let mut stderr = child.take_stderr().expect("standard error is piped");
    let complaints = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stderr.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let mut stdout = child.take_stdout().expect("standard output is piped");
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let result = stdout.read_to_string(&mut text).map(|_| text);
        // There is no receiver any more after the time limit.
        let _ = send.send(result);
    });
    let text = match receive.recv_timeout(limit) {
        Ok(text) => text.context("reading its output")?,
        Err(RecvTimeoutError::Timeout) => {
            drop(child);
            let complaints = complaints.join().unwrap_or_default();
            bail!("it was not done within {} s\n{}", limit.as_secs(), process::last_lines(&complaints, 20));
        }
        Err(RecvTimeoutError::Disconnected) => bail!("reading its output"),
    };
    let status = child.wait()?;
    if !status.success() {
        let complaints = complaints.join().unwrap_or_default();
        bail!("`{}` failed ({status}):\n{}", process::describe(command), process::last_lines(&complaints, 20));
    }
    Ok(text)
}

/// User and system time of all children that have ended.
fn cpu_of_children() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return Duration::ZERO };
    [usage.user_time(), usage.system_time()]
        .iter()
        .map(|time| Duration::new(time.tv_sec().unsigned_abs(), time.tv_usec().unsigned_abs() as u32 * 1000))
        .sum()
}

/// A running replay. It ends when this is dropped, or when this process ends.
struct Replay {
    _running: Running,
    address: String,
    list_bytes: u64,
}

/// The output of a replay once it serves.
#[derive(Deserialize)]
struct Ready {
    address: String,
    list_bytes: u64,
}

impl Replay {
    fn start(program: &Path, size: u64, scale: &Scale) -> Result<Self> {
        let mut command = Command::new(program);
        let size = size.to_string();
        match scale.objects {
            Objects::Pods => command.args(["--pods", &size]),
            Objects::DiversePods => command.args(["--pods", &size, "--shape", "diverse"]),
            Objects::Small(kinds) => command.args(["--objects", &size, "--kinds", &kinds.to_string()]),
        };
        if scale.events > 0 {
            command.args(["--events", &scale.events.to_string()]);
        }
        if scale.rate > 0 {
            command.args(["--rate", &scale.rate.to_string()]);
        }
        let mut running = Running::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let mut line = String::new();
        let stdout = running.take_stdout().expect("standard output is piped");
        BufReader::new(stdout).read_line(&mut line).context("reading what the replay prints")?;
        let ready: Ready = serde_json::from_str(&line).context("the replay did not say where it serves")?;
        Ok(Self { _running: running, address: ready.address, list_bytes: ready.list_bytes })
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_a_program_prints_is_given() {
        let output = output_within(&mut shell("echo one; echo two"), Duration::from_secs(20));
        assert_eq!(output.expect("the program succeeds"), "one\ntwo\n");
    }

    #[test]
    fn a_program_that_fails_is_an_error_with_its_complaint() {
        let result =
            output_within(&mut shell("echo '{\"count\":1}'; echo broken >&2; exit 4"), Duration::from_secs(20));
        let error = format!("{:#}", result.expect_err("the program fails"));
        assert!(error.contains("broken") && error.contains('4'), "{error}");
    }

    #[test]
    fn a_program_that_takes_too_long_is_ended() {
        let started = std::time::Instant::now();
        let result = output_within(&mut shell("exec sleep 60"), Duration::from_millis(50));
        let error = format!("{:#}", result.expect_err("the program is too slow"));
        assert!(error.contains("not done within"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(30), "the program was waited for");
    }

    #[test]
    fn standard_input_stays_open_while_a_program_runs() {
        // `read` fails at the end of its input, and would otherwise wait until it is killed.
        let result = output_within(&mut shell("read line; echo closed"), Duration::from_millis(500));
        result.expect_err("nothing comes from standard input, not even its end");
    }
}
