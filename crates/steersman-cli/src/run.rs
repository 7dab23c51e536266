//! `steersman run`: a project that is rebuilt and restarted after each change, against an API
//! server that keeps running.
//!
//! `core.rs` decides what follows from each event, and does nothing itself. The loop here carries
//! out its commands: `tasks.rs` has the processes, `apply.rs` the requests, `watch.rs` finds
//! changes, and `live.rs` reads the reconciles. `custodian.rs` leaves no process behind.

mod apply;
mod cargo;
mod core;
mod custodian;
mod documents;
mod lines;
mod live;
mod messages;
mod screen;
mod tasks;
mod watch;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use steersman_apiserver::{ApiServer, Serving};
use steersman_client::{Client, config_from_flags};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::interrupt::Interrupt;
use crate::{apiserver, kubeconfig_file};
use apply::Applier;
use cargo::Project;
use core::{Command, Core, Event, Notice};
use custodian::{Custodian, Stop};
use messages::{Message, Sender};
use screen::{Screen, Source};
use tasks::{Launch, Tasks};
use watch::{Changed, FilesRead, Watcher};

/// How many changed files are named.
const FILES_NAMED_MAX: usize = 3;

const HELP: &str = "\
Run it in the folder of a project that `steersman init` has made.

It builds the operator and starts it against an API server in this process, as `steersman apiserver` runs one. The
server and its objects stay until Ctrl-C. CRDs come from the operator itself (`NAME crd`), samples from samples/*.yaml.
Both are applied by server-side apply: CRDs after each build, a sample when its text has changed.

After each change of src/, samples/, Cargo.toml, Cargo.lock and of the files that the last build has read:
    a build that fails shows the errors of the compiler, and the old operator goes on
    a new operator replaces the old one, which gets SIGTERM and, after the grace period, SIGKILL
    changed samples alone are applied without a build
An operator that ends by itself is started again after the next change. Its reconciles are shown as they end:
    TIME CONTROLLER KEY | TRIGGER | RESULT after DURATION | WRITES

The operator gets these flags, unless ARGS has them: --kubeconfig, --metrics-bind-address, --metrics-secure=false,
--debug-pages and --health-probe-bind-address.";

/// The flags of `steersman run`.
#[derive(Clone, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Use the cluster of this kubeconfig instead of a server in this process. CRDs and samples are
    /// applied there
    #[arg(long, value_name = "FILE", conflicts_with_all = ["current_context", "port"])]
    kubeconfig: Option<PathBuf>,
    /// Use the cluster of the current context instead of a server in this process. CRDs and samples
    /// are applied there
    #[arg(long, conflicts_with = "port")]
    current_context: bool,
    /// Port of the API server; 0 means any free port
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,
    /// Do not apply the objects in samples/
    #[arg(long)]
    no_samples: bool,
    /// How long the operator may take to stop
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    grace_period: u32,
    /// Arguments of the operator
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<OsString>,
}

/// Runs the project until the process is interrupted.
pub(crate) fn run(args: &Args) -> Result<()> {
    let folder = std::env::current_dir().context("cannot read the current folder")?;
    let project = Project::find(&folder)?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    let result = runtime.block_on(develop(args, project));
    // Requests that still run have lost their connections: the process does not wait for them.
    runtime.shutdown_background();
    result
}

async fn develop(args: &Args, project: Project) -> Result<()> {
    // From here on a signal stops everything in order, even during the start.
    let mut interrupt = Interrupt::listen().context("cannot listen for signals")?;
    let custodian =
        Custodian::new().context("cannot start /bin/sh, which ends the operator if this command is killed")?;
    let custodian = Arc::new(custodian);
    let mut screen = screen::stdout(&project.binary);
    let files_read = FilesRead::default();
    // Before the first build, so that no later change is lost.
    let watcher = Watcher::new(&project.folder, files_read.clone());
    // A credential plugin of a kubeconfig blocks its thread.
    let cluster = tokio::spawn(Cluster::start(args.clone(), custodian.folder().to_owned()));
    let cluster = tokio::select! {
        biased;
        () = interrupt.wait() => return Ok(()),
        cluster = cluster => cluster.context("the start failed")??,
    };
    for line in cluster.introduction() {
        screen.line(Source::Run, &line);
    }

    let (sender, received) = messages::channel();
    let changes = sender.clone();
    watcher.spawn(move |changed| report(&changes, &changed)).context("cannot start a thread")?;
    let tasks = Tasks {
        project: Arc::new(project),
        custodian,
        sender,
        applier: Arc::new(Mutex::new(Applier::new(&cluster.client))),
        files_read,
        is_colored: screen.is_colored(),
    };
    let flags = operator_flags(cluster.kubeconfig.as_deref(), &args.args);
    let grace = Duration::from_secs(args.grace_period.into());
    let run = Run {
        tasks,
        screen,
        flags,
        grace,
        has_samples: !args.no_samples,
        starts: 0,
        work: None,
        stops: None,
        deadline: None,
    };
    run.until_end(&mut interrupt, received).await;
    if let Some(serving) = cluster.serving {
        serving.stop().await;
    }
    Ok(())
}

/// Sends a change to the loop, with a line that names the files. Returns `false` at the end.
fn report(messages: &Sender, changed: &Changed) -> bool {
    let mut names: Vec<String> =
        changed.files.iter().take(FILES_NAMED_MAX).map(|file| file.display().to_string()).collect();
    if changed.files.len() > FILES_NAMED_MAX {
        names.push(format!("{} more", changed.files.len() - FILES_NAMED_MAX));
    }
    let line = Message::Line(Source::Run, format!("changed: {}", names.join(", ")));
    let event = Message::Event(Event::Changed { sources: changed.sources, samples: changed.samples });
    messages.send_blocking(line) && messages.send_blocking(event)
}

/// The API server that the operator uses.
struct Cluster {
    client: Client,
    /// For the operator. `None`: that of its environment.
    kubeconfig: Option<PathBuf>,
    /// The server in this process.
    serving: Option<Serving>,
}

impl Cluster {
    async fn start(args: Args, folder: PathBuf) -> Result<Self> {
        let mut cluster = if args.current_context || args.kubeconfig.is_some() {
            let path = args.kubeconfig.as_deref().map(std::path::absolute).transpose();
            let kubeconfig = path.context("cannot use the path of --kubeconfig")?;
            Self { client: client(kubeconfig.as_deref()).await?, kubeconfig, serving: None }
        } else {
            let serving = apiserver::start(ApiServer::new().serve(), args.port).await?;
            let path = folder.join("kubeconfig");
            kubeconfig_file::write(&path, serving.kubeconfig())?;
            Self { client: client(Some(&path)).await?, kubeconfig: Some(path), serving: Some(serving) }
        };
        // An unreachable server is better named before a build of minutes than after it.
        let version = cluster.client.rest().get().abs_path("/version").timeout(Duration::from_secs(15)).send().await;
        version.map_err(|error| anyhow::anyhow!("cannot reach the API server: {error}"))?;
        cluster.client = cluster.client.with_user_agent_suffix("run");
        Ok(cluster)
    }

    fn introduction(&self) -> Vec<String> {
        let url = self.client.server();
        match (&self.serving, &self.kubeconfig) {
            (Some(_), Some(path)) => vec![
                format!("ready: API server {url}; its objects stay until Ctrl-C"),
                format!("for kubectl: export KUBECONFIG={}", apiserver::shell_word(&path.display().to_string())),
            ],
            (_, Some(path)) => vec![format!("ready: cluster {url} of {}", path.display())],
            _ => vec![format!("ready: cluster {url} of the current context")],
        }
    }
}

async fn client(kubeconfig: Option<&Path>) -> Result<Client> {
    let config = config_from_flags(None, kubeconfig).await;
    config.and_then(|config| Client::builder(config).build()).map_err(|error| anyhow::anyhow!("{error}"))
}

/// The arguments of the operator: those of the user, and flags that show its state unless the user
/// has set them.
fn operator_flags(kubeconfig: Option<&Path>, own: &[OsString]) -> Vec<OsString> {
    let is_set = |flag: &str| {
        let is_it = |text: &str| text.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('='));
        own.iter().any(|argument| argument.to_str().is_some_and(is_it))
    };
    let mut flags = Vec::new();
    if let Some(path) = kubeconfig.filter(|_| !is_set("--kubeconfig")) {
        flags.extend(["--kubeconfig".into(), path.as_os_str().to_owned()]);
    }
    let defaults = [
        ("--metrics-bind-address", "--metrics-bind-address=127.0.0.1:0"),
        ("--metrics-secure", "--metrics-secure=false"),
        ("--debug-pages", "--debug-pages"),
        ("--health-probe-bind-address", "--health-probe-bind-address=127.0.0.1:0"),
    ];
    flags.extend(defaults.into_iter().filter(|(flag, _)| !is_set(flag)).map(|(_, argument)| argument.into()));
    flags.extend(own.iter().cloned());
    flags
}

/// Carries out the commands of the core.
struct Run {
    tasks: Tasks,
    screen: Screen<std::io::Stdout>,
    flags: Vec<OsString>,
    grace: Duration,
    has_samples: bool,
    /// How many operators were started.
    starts: u64,
    /// The build or the preparation that runs.
    work: Option<JoinHandle<()>>,
    /// Stops the operator.
    stops: Option<mpsc::Sender<Stop>>,
    /// The end of the grace period.
    deadline: Option<Instant>,
}

impl Run {
    /// Returns when the operator has ended after a signal.
    async fn until_end(mut self, interrupt: &mut Interrupt, mut messages: mpsc::Receiver<Message>) {
        let (mut core, commands) = Core::start();
        let mut is_over = self.perform(commands);
        while !is_over {
            self.show_status(&core);
            let deadline = self.deadline;
            let event = tokio::select! {
                biased;
                () = interrupt.wait() => Event::Interrupted,
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => Event::GraceOver,
                message = messages.recv() => match message {
                    Some(Message::Event(event)) => event,
                    Some(Message::Line(source, text)) => {
                        self.screen.line(source, &text);
                        continue;
                    }
                    None => unreachable!("the tasks hold a sender"),
                },
            };
            match &event {
                Event::GraceOver => self.deadline = None,
                Event::Exited { .. } => (self.stops, self.deadline) = (None, None),
                _ => {}
            }
            is_over = self.perform(core.on(event));
        }
        self.screen.status("");
        if let Some(work) = self.work {
            // It has ended, or ends now.
            let _ = work.await;
        }
        self.tasks.custodian.wait().await;
    }

    /// Returns whether everything has ended.
    fn perform(&mut self, commands: Vec<Command>) -> bool {
        let mut is_over = false;
        for command in commands {
            match command {
                Command::Build => self.work = Some(tokio::spawn(self.tasks.clone().build())),
                Command::Prepare(binary) => {
                    self.work = Some(tokio::spawn(self.tasks.clone().prepare(binary)));
                }
                Command::Abandon => {
                    if let Some(work) = &self.work {
                        work.abort();
                    }
                }
                Command::Start(binary) => self.start(binary),
                Command::Terminate => {
                    self.deadline = Some(Instant::now() + self.grace);
                    self.stop(Stop::Terminate);
                }
                Command::Kill => self.stop(Stop::Kill),
                Command::ApplySamples => self.apply_samples(),
                Command::Say(notice) => self.say(&notice),
                Command::End => is_over = true,
            }
        }
        is_over
    }

    fn start(&mut self, binary: core::Binary) {
        self.starts += 1;
        let addresses = self.tasks.custodian.folder().join(format!("addresses-{}", self.starts));
        let (sender, stops) = mpsc::channel(4);
        self.stops = Some(sender);
        let launch = Launch { binary, arguments: self.flags.clone(), addresses };
        tokio::spawn(self.tasks.clone().operate(launch, stops));
    }

    fn stop(&self, how: Stop) {
        // It may have ended; then its event is on the way.
        let _ = self.stops.as_ref().map(|stops| stops.try_send(how));
    }

    fn apply_samples(&self) {
        let tasks = self.tasks.clone();
        if self.has_samples {
            tokio::spawn(tasks.apply_samples());
        } else {
            tokio::spawn(async move { tasks.sender.event(Event::SamplesApplied).await });
        }
    }

    fn say(&mut self, notice: &Notice) {
        let name = &self.tasks.project.binary;
        let goes_on = |is_running| match is_running {
            true => format!("the old {name} goes on; waiting for a change"),
            false => "waiting for a change".to_owned(),
        };
        let (source, text) = match notice {
            Notice::BuildFailed { is_running } => (Source::Run, goes_on(*is_running)),
            Notice::PrepareFailed { is_running } => (Source::Run, goes_on(*is_running)),
            Notice::Unchanged => (Source::Run, format!("{name} has not changed and goes on")),
            Notice::Exited { how } => (Source::Problem, format!("{name} ended: {how}; waiting for a change")),
            Notice::Stopped { how } => (Source::Run, format!("{name} stopped: {how}")),
            Notice::Killed => {
                let seconds = self.grace.as_secs();
                let text = format!("{name} did not stop within the grace period of {seconds} s: killed with SIGKILL");
                (Source::Problem, text)
            }
            Notice::Stopping => (Source::Run, format!("stopping {name}; Ctrl-C again kills it")),
        };
        self.screen.line(source, &text);
    }

    fn show_status(&mut self, core: &Core) {
        let name = &self.tasks.project.binary;
        let mut parts = Vec::new();
        if core.is_building() {
            parts.push("building".to_owned());
        }
        if core.is_running() {
            parts.push(format!("{name} runs"));
        } else if core.is_stopping() {
            parts.push(format!("{name} stops"));
        } else if !core.is_building() {
            parts.push("waiting for a change".to_owned());
        }
        parts.push("Ctrl-C ends".to_owned());
        self.screen.status(&parts.join(" | "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(kubeconfig: Option<&str>, own: &[&str]) -> Vec<String> {
        let own: Vec<OsString> = own.iter().map(OsString::from).collect();
        let flags = operator_flags(kubeconfig.map(Path::new), &own);
        flags.into_iter().map(|flag| flag.into_string().unwrap()).collect()
    }

    #[test]
    fn the_operator_gets_flags_that_the_user_has_not_set() {
        let expected = [
            "--kubeconfig",
            "/k",
            "--metrics-bind-address=127.0.0.1:0",
            "--metrics-secure=false",
            "--debug-pages",
            "--health-probe-bind-address=127.0.0.1:0",
            "--workers=3",
        ];
        assert_eq!(flags(Some("/k"), &["--workers=3"]), expected);
        let own = ["--kubeconfig=/other", "--metrics-bind-address", ":1", "--metrics-secure", "--debug-pages=false"];
        let expected = [&["--health-probe-bind-address=127.0.0.1:0"], own.as_slice()].concat();
        assert_eq!(flags(Some("/k"), &own), expected);
        let expected = [
            "--metrics-bind-address=127.0.0.1:0",
            "--metrics-secure=false",
            "--debug-pages",
            "--metrics-bind-address-of=1",
        ];
        assert_eq!(flags(None, &["--metrics-bind-address-of=1"])[..3], expected[..3]);
    }
}
