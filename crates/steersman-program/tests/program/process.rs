//! The program of a test as a process of its own: this test binary, started again.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::mpsc;

use crate::guestbook::program;

/// The arguments of the program, one a line.
const ARGUMENTS: &str = "GUESTBOOK_ARGUMENTS";
/// Set if the program develops.
const DEVELOPS: &str = "GUESTBOOK_DEVELOPS";
/// How long a step may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Not a test: the process that the others start.
#[test]
fn a_process_of_another_test() {
    let Ok(arguments) = env::var(ARGUMENTS) else { return };
    let arguments = std::iter::once("guestbook").chain(arguments.lines());
    let program = program();
    let code = if env::var_os(DEVELOPS).is_some() {
        program.develop_from(arguments)
    } else {
        program.try_parse_from(arguments).map(|invocation| program.execute(invocation))
    };
    let code = code.unwrap_or_else(|error| error.exit());
    let known = [0, 1, 2].into_iter().find(|known| ExitCode::from(*known) == code);
    std::process::exit(known.map_or(99, i32::from));
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", "process::a_process_of_another_test", "--nocapture", "--quiet"])
        .env(ARGUMENTS, arguments.join("\n"))
        .env("KUBECONFIG", "/nowhere/in/particular");
    for variable in ["WATCH_NAMESPACE", "RUST_LOG", "KUBERNETES_SERVICE_HOST", "STEERSMAN_DEV_KUBECONFIG"] {
        command.env_remove(variable);
    }
    command
}

/// A subcommand that has ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a subcommand, with these variables.
pub(crate) fn ended(arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
    let Output { status, stdout, stderr } = command(arguments).envs(variables.iter().copied()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

/// A program that runs. It is killed when this is dropped.
pub(crate) struct Running {
    child: Child,
    lines: mpsc::UnboundedReceiver<String>,
    seen: Vec<String>,
}

impl Running {
    /// `kubeconfig` is that of a server which is not the program's own.
    pub(crate) fn start(arguments: &[&str], kubeconfig: Option<&Path>) -> Self {
        let mut command = command(arguments);
        command.env(DEVELOPS, "yes");
        if let Some(path) = kubeconfig {
            command.env("STEERSMAN_DEV_KUBECONFIG", path);
        }
        Self::spawn(command)
    }

    /// The operator itself, which writes its addresses into a file.
    pub(crate) fn operate(arguments: &[&str], addresses: &Path) -> Self {
        let mut command = command(arguments);
        command.env("STEERSMAN_ADDRESSES_FILE", addresses);
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = mpsc::unbounded_channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines, seen: Vec::new() }
    }

    /// Waits for a line that contains all of these.
    pub(crate) async fn until(&mut self, parts: &[&str]) -> String {
        let is_it = |line: &String| parts.iter().all(|part| line.contains(part));
        if let Some(line) = self.seen.iter().find(|line| is_it(line)) {
            return line.clone();
        }
        loop {
            let line = tokio::time::timeout(PATIENCE, self.lines.recv()).await;
            let line = line.unwrap_or_else(|_| panic!("no line has {parts:?}:\n{}", self.seen.join("\n")));
            let Some(line) = line else { panic!("it ended without {parts:?}:\n{}", self.seen.join("\n")) };
            self.seen.push(line.clone());
            if is_it(&line) {
                return line;
            }
        }
    }

    /// What follows `start` in its line.
    pub(crate) async fn after(&mut self, start: &str) -> String {
        self.until(&[start]).await.split_once(start).unwrap().1.to_owned()
    }

    /// Sends a signal, and returns the exit code.
    pub(crate) fn stop(mut self, signal: Signal) -> Option<i32> {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
