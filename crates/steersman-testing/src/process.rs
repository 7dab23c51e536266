//! Server processes that never outlive the test that started them.
//!
//! A value in a `static` is never dropped, a killed process drops nothing, and `PR_SET_PDEATHSIG`
//! follows a thread rather than a process. So a small shell, the [`Custodian`], holds the reading
//! end of a pipe whose other end only we hold. When it reads the end of the file, for whatever
//! reason, it kills the servers and removes their folder. An orderly drop takes the same way.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Error;
use crate::private;

/// What the custodian runs. `kill -9` may return before a process has closed its files, hence the
/// second tries.
const CUSTODY: &str = r#"
trap '' INT TERM HUP
pids=
while read -r word pid; do
    case $word in
        add) pids="$pids $pid" ;;
        gone) rest=; for one in $pids; do [ "$one" = "$pid" ] || rest="$rest $one"; done; pids=$rest ;;
    esac
done
for pid in $pids; do kill -9 "$pid" 2>/dev/null; done
for try in 1 2 3 4 5 6 7 8 9 10; do rm -rf "$1" 2>/dev/null && exit 0; sleep 0.1; done
"#;

/// What a server's process runs first: it becomes the server only after the custodian knows its
/// process id.
const GATE: &str = r#"read -r go && exec "$@" </dev/null"#;

/// Looks after the processes and the folder of one control plane.
pub(crate) struct Custodian {
    folder: PathBuf,
    shell: Child,
    servers: Mutex<Vec<Server>>,
}

struct Server {
    name: &'static str,
    child: Child,
    /// How it ended, once that is known. Its process id may belong to another process from then on.
    ended: Option<ExitStatus>,
}

impl Custodian {
    /// Takes `folder` into custody.
    pub(crate) fn new(folder: PathBuf) -> Result<Self, Error> {
        let shell = Command::new("/bin/sh")
            .args(["-c", CUSTODY, "sh"])
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .process_group(0)
            .spawn()
            .map_err(Error::io("start /bin/sh"))?;
        Ok(Self { folder, shell, servers: Mutex::new(Vec::new()) })
    }

    /// Starts `program`; what it prints goes to `NAME.log` in the folder.
    pub(crate) fn start(&mut self, name: &'static str, program: &Path, flags: &[OsString]) -> Result<(), Error> {
        let path = self.log_path(name);
        // A server that is started again writes on.
        let log = private::append(&path).map_err(Error::io(format!("create {}", path.display())))?;
        let also_log = log.try_clone().map_err(Error::io(format!("write {}", path.display())))?;
        let mut child = Command::new("/bin/sh")
            .args(["-c", GATE, "sh"])
            .arg(program)
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(log)
            .stderr(also_log)
            .current_dir(&self.folder)
            .process_group(0)
            .spawn()
            .map_err(Error::io(format!("start {}", program.display())))?;
        let gate = child.stdin.take();
        let registered = writeln!(self.shell.stdin.as_ref().expect("open until we are dropped"), "add {}", child.id());
        self.lock().push(Server { name, child, ended: None });
        registered
            .and_then(|()| writeln!(gate.expect("standard input is piped"), "go"))
            .map_err(Error::io(format!("start {}", program.display())))
    }

    /// Kills a server, as a crash would, and forgets it.
    pub(crate) fn kill(&mut self, name: &'static str) -> Result<(), Error> {
        let mut servers = self.lock();
        let Some(index) = servers.iter().position(|server| server.name == name) else { return Ok(()) };
        let mut server = servers.remove(index);
        drop(servers);
        let killed = server.child.kill().and_then(|()| server.child.wait());
        // Without a custodian, no later process of the same number is killed.
        let _ = writeln!(self.shell.stdin.as_ref().expect("open until we are dropped"), "gone {}", server.child.id());
        killed.map(drop).map_err(Error::io(format!("kill {name}")))
    }

    /// The first server that has ended, if one has.
    pub(crate) fn ended(&self) -> Option<(&'static str, ExitStatus)> {
        let mut servers = self.lock();
        for server in servers.iter_mut() {
            if server.ended.is_none()
                && let Ok(Some(status)) = server.child.try_wait()
            {
                server.ended = Some(status);
                let mut pipe = self.shell.stdin.as_ref().expect("open until we are dropped");
                // If the custodian is gone, dropping us still ends the servers.
                let _ = writeln!(pipe, "gone {}", server.child.id());
            }
        }
        servers.iter().find_map(|server| Some((server.name, server.ended?)))
    }

    /// The process ids of the servers that have not ended.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.lock().iter().filter(|server| server.ended.is_none()).map(|server| server.child.id()).collect()
    }

    /// The folder in custody.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The last lines of each server's log.
    pub(crate) fn logs(&self) -> String {
        let names: Vec<_> = self.lock().iter().map(|server| server.name).collect();
        names.into_iter().map(|name| log_tail(name, &self.log_path(name))).collect()
    }

    /// The last lines of one server's log.
    pub(crate) fn log(&self, name: &str) -> String {
        log_tail(name, &self.log_path(name))
    }

    fn log_path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Server>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Custodian {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
        // The custodian has done this already, unless it was killed.
        for server in self.lock().iter_mut().filter(|server| server.ended.is_none()) {
            let _ = server.child.kill();
            let _ = server.child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The last lines of the log at `path`, under a headline.
pub(crate) fn log_tail(name: &str, path: &Path) -> String {
    const LINES: usize = 25;
    let text = std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let tail = &lines[lines.len().saturating_sub(LINES)..];
    format!("--- {name}, the last {} of {} log lines\n{}\n", tail.len(), lines.len(), tail.join("\n"))
}
