//! Processes that never outlive `steersman run`.
//!
//! A killed process stops nothing, and `PR_SET_PDEATHSIG` follows a thread rather than a process.
//! So a small shell, the [`Custodian`], holds the reading end of a pipe whose other end only this
//! process holds. When it reads the end of the file, for whatever reason, it stops the process
//! groups that it knows and removes the folder.

use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStderr, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// What the custodian runs. The groups have five seconds to stop. `kill` may return before a
/// process has closed its files, hence the second tries.
const CUSTODY: &str = r#"
trap '' INT TERM HUP
groups=
while read -r word group; do
    case $word in
        add) groups="$groups $group" ;;
        gone) rest=; for one in $groups; do [ "$one" = "$group" ] || rest="$rest $one"; done; groups=$rest ;;
    esac
done
for group in $groups; do kill -TERM "-$group" 2>/dev/null; done
tries=50
for group in $groups; do
    while [ $tries -gt 0 ] && kill -0 "-$group" 2>/dev/null; do sleep 0.1; tries=$((tries - 1)); done
    kill -KILL "-$group" 2>/dev/null
done
for try in 1 2 3 4 5 6 7 8 9 10; do rm -rf "$1" 2>/dev/null && exit 0; sleep 0.1; done
"#;

/// What a process runs first: it becomes the program only after the custodian knows its group.
const GATE: &str = r#"read -r go && exec "$@" </dev/null"#;

/// How long processes that were killed may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Looks after the processes and the folder of this command.
pub(super) struct Custodian {
    folder: PathBuf,
    shell: Mutex<Child>,
    /// One task for each process.
    keepers: Mutex<JoinSet<()>>,
}

impl Custodian {
    /// Takes a new folder, which only its owner can read, into custody.
    pub(super) fn new() -> io::Result<Self> {
        let mode = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("steersman-run-").permissions(mode).tempdir()?;
        let shell = Command::new("/bin/sh")
            .args(["-c", CUSTODY, "sh"])
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .process_group(0)
            .spawn()?;
        Ok(Self { folder: folder.keep(), shell: Mutex::new(shell), keepers: Mutex::new(JoinSet::new()) })
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Waits until the processes have ended whose [`Process`] was dropped.
    pub(super) async fn wait(&self) {
        let mut keepers = std::mem::take(&mut *lock(&self.keepers));
        let ended = async { while keepers.join_next().await.is_some() {} };
        let _ = timeout(END_TIMEOUT, ended).await;
    }

    fn write(&self, word: &str, group: Pid) -> io::Result<()> {
        let shell = lock(&self.shell);
        let Some(mut pipe) = shell.stdin.as_ref() else { return Ok(()) };
        writeln!(pipe, "{word} {group}")
    }

    /// Starts a program in a group of its own, with both outputs as pipes.
    pub(super) async fn start(self: &Arc<Self>, program: Program<'_>) -> io::Result<Process> {
        let mut child = tokio::process::Command::new("/bin/sh")
            .args(["-c", GATE, "sh"])
            .arg(program.path)
            .args(program.arguments)
            .envs(program.environment)
            .current_dir(program.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let gone = || io::Error::other("it ended at once");
        let id = child.id().and_then(|id| id.try_into().ok()).map(Pid::from_raw).ok_or_else(gone)?;
        self.write("add", id)?;
        let group = Group { id, custodian: Arc::clone(self) };
        let mut gate = child.stdin.take().ok_or_else(gone)?;
        gate.write_all(b"go\n").await?;
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let (stops, received) = mpsc::channel(4);
        let (ended, status) = oneshot::channel();
        let mut keepers = lock(&self.keepers);
        // Forgets the processes that have ended.
        while keepers.try_join_next().is_some() {}
        keepers.spawn(async move {
            let status = keep(child, group, received).await;
            let _ = ended.send(status);
        });
        Ok(Process { id, output, errors, stops, status })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Custodian {
    fn drop(&mut self) {
        let mut shell = lock(&self.shell);
        drop(shell.stdin.take());
        let _ = shell.wait();
        // The custodian has done this already, unless it was killed.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The process group of a program. What is left of it is killed when the value is dropped.
struct Group {
    id: Pid,
    custodian: Arc<Custodian>,
}

impl Group {
    fn stop(&self, how: Stop) {
        // It may have ended.
        let _ = match how {
            // The program alone, as Kubernetes does.
            Stop::Terminate => kill(self.id, Signal::SIGTERM),
            Stop::Kill => killpg(self.id, Signal::SIGKILL),
        };
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.stop(Stop::Kill);
        // Without a custodian, no later group of the same number is killed.
        let _ = self.custodian.write("gone", self.id);
    }
}

/// What to run.
pub(super) struct Program<'a> {
    pub(super) path: &'a OsStr,
    pub(super) arguments: Vec<OsString>,
    pub(super) folder: &'a Path,
    pub(super) environment: Vec<(&'static str, OsString)>,
}

/// How to stop a process.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stop {
    /// Asks it to end.
    Terminate,
    /// Ends it and the processes that it has started.
    Kill,
}

/// A process that runs. It is killed, with the processes that it has started, when the value is
/// dropped.
pub(super) struct Process {
    id: Pid,
    pub(super) output: Option<ChildStdout>,
    pub(super) errors: Option<ChildStderr>,
    stops: mpsc::Sender<Stop>,
    status: oneshot::Receiver<io::Result<ExitStatus>>,
}

impl Process {
    pub(super) fn id(&self) -> Pid {
        self.id
    }

    /// Stops the process. It may have ended already.
    pub(super) fn stop(&self, how: Stop) {
        let _ = self.stops.try_send(how);
    }

    /// Waits for the end of the process.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        (&mut self.status).await.unwrap_or_else(|_| Err(io::Error::other("its end is unknown")))
    }
}

/// Waits for the end of a process, also after its [`Process`] was dropped: so that no process is
/// left when this command ends.
async fn keep(
    mut child: tokio::process::Child,
    group: Group,
    mut stops: mpsc::Receiver<Stop>,
) -> io::Result<ExitStatus> {
    loop {
        tokio::select! {
            biased;
            status = child.wait() => return status,
            stop = stops.recv() => match stop {
                Some(how) => group.stop(how),
                None => {
                    group.stop(Stop::Kill);
                    return child.wait().await;
                }
            },
        }
    }
}
