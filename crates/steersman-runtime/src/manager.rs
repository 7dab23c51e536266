//! Many controllers in one process.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use steersman_cache::{Object, ReflectorStatus};
use steersman_client::Client;
use tokio::sync::mpsc;
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, timeout_at};

use crate::caches::Caches;
use crate::kind::Kind;
use crate::layers::words;
use crate::stop::{Stop, Stopper};
use crate::{CachedClient, ControllerBuilder, Error, Failure};

/// How often somebody is told what the manager waits for.
const REMINDER: Duration = Duration::from_secs(10);

/// Runs controllers, which share its client and one cache for each kind. Clones are the same manager.
///
/// **What is promised.**
/// - It starts the caches and waits until they are filled, then other runnables, then controllers. A kind that the server does not
///   serve yet holds it up, is named in the log every ten seconds, and no longer holds it up once it is there.
/// - It stops in reverse: controllers finish what they are doing, within the grace period; then runnables; then the caches
///   (contract 10). Whatever has not ended by then is cut off and named in the error.
/// - A part that fails, or panics, stops all, and the error names it.
#[derive(Clone)]
pub struct Manager {
    inner: Arc<Inner>,
}

struct Inner {
    client: CachedClient,
    caches: Arc<Caches>,
    grace: Duration,
    sync_timeout: Option<Duration>,
    state: Mutex<State>,
}

struct State {
    names: HashSet<String>,
    life: Life,
}

enum Life {
    /// What is to be started.
    New(Vec<Part>),
    /// Where to send what is to be started as well.
    Running(mpsc::UnboundedSender<Part>),
    Ended,
}

type PartFuture = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

struct Part {
    name: String,
    group: Group,
    run: Box<dyn FnOnce(Stop) -> PartFuture + Send>,
}

/// Parts of a group start and stop together; they stop in the reverse order of this list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Runnables,
    Controllers,
}

/// Settings of a [`Manager`].
#[derive(Debug)]
#[must_use]
pub struct ManagerBuilder {
    client: Client,
    grace: Duration,
    sync_timeout: Option<Duration>,
    read_your_writes: Option<Duration>,
}

impl ManagerBuilder {
    /// How long parts have to stop: 30 s unless said otherwise.
    pub fn grace_period(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Fails when the caches are not filled after this time. Without it the manager waits, and says for what.
    pub fn cache_sync_timeout(mut self, limit: Duration) -> Self {
        self.sync_timeout = Some(limit);
        self
    }

    /// How long a read from the cache waits for what this manager's client wrote before: 10 s unless said otherwise; `None` for not at
    /// all.
    pub fn read_your_writes(mut self, limit: Option<Duration>) -> Self {
        self.read_your_writes = limit;
        self
    }

    /// The manager, without any controller yet.
    pub fn build(self) -> Manager {
        let caches = Arc::new(Caches::new(self.client.clone()));
        let client = CachedClient::new(self.client, Arc::clone(&caches), self.read_your_writes);
        let state = Mutex::new(State { names: HashSet::new(), life: Life::New(Vec::new()) });
        let (grace, sync_timeout) = (self.grace, self.sync_timeout);
        Manager { inner: Arc::new(Inner { client, caches, grace, sync_timeout, state }) }
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager").field("caches", &self.inner.caches).finish_non_exhaustive()
    }
}

impl Manager {
    /// A manager with the usual settings.
    pub fn new(client: Client) -> Self {
        Self::builder(client).build()
    }

    /// A manager with other settings.
    pub fn builder(client: Client) -> ManagerBuilder {
        ManagerBuilder {
            client,
            grace: Duration::from_secs(30),
            sync_timeout: None,
            read_your_writes: Some(Duration::from_secs(10)),
        }
    }

    /// Reads from the caches, writes to the server.
    pub fn client(&self) -> &CachedClient {
        &self.inner.client
    }

    pub(crate) fn caches(&self) -> &Arc<Caches> {
        &self.inner.caches
    }

    /// What the caches are doing.
    pub fn status(&self) -> Vec<ReflectorStatus> {
        self.inner.caches.status()
    }

    /// Says what a new controller reconciles; the builder says the rest.
    pub fn controller<K: Object>(&self, primary: Kind<K>) -> ControllerBuilder<K> {
        ControllerBuilder::new(self, primary)
    }

    /// Declares that objects of a kind are to be kept, so that the client can read them: with the indexes and the choice of objects
    /// that the kind has. Controllers declare what they watch themselves.
    pub fn declare<K: Object>(&self, mut kind: Kind<K>) -> Result<(), Error> {
        self.inner.caches.declare(&mut kind)?;
        if matches!(self.state().life, Life::Running(_)) {
            self.inner.caches.start()?;
        }
        Ok(())
    }

    /// Adds something else that is to run: it is started when the caches are filled, and told when to stop. If it ends without an
    /// error before, that is fine.
    pub fn add<F, R, E>(&self, name: &str, run: F) -> Result<(), Error>
    where
        F: FnOnce(Stop) -> R + Send + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure>,
    {
        let run = move |stop: Stop| -> PartFuture { Box::pin(async move { run(stop).await.map_err(Into::into) }) };
        self.add_part(Part { name: name.to_owned(), group: Group::Runnables, run: Box::new(run) })
    }

    pub(crate) fn add_controller<F, R>(&self, name: &str, run: F) -> Result<(), Error>
    where
        F: FnOnce(Stop) -> R + Send + 'static,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        if !self.state().names.insert(name.to_owned()) {
            return Err(Error::DuplicateName { name: name.to_owned() });
        }
        let run = move |stop: Stop| -> PartFuture { Box::pin(run(stop)) };
        self.add_part(Part { name: format!("controller {name}"), group: Group::Controllers, run: Box::new(run) })
    }

    fn add_part(&self, part: Part) -> Result<(), Error> {
        match &mut self.state().life {
            Life::New(parts) => {
                parts.push(part);
                Ok(())
            }
            Life::Running(sender) => {
                let _ = sender.send(part);
                self.inner.caches.start()
            }
            Life::Ended => Err(Error::StartedTwice),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs everything until `shutdown` ends, or a part fails. A manager can be started once.
    pub async fn start(&self, shutdown: impl Future<Output = ()> + Send) -> Result<(), Error> {
        let (sender, added) = mpsc::unbounded_channel();
        let parts = match std::mem::replace(&mut self.state().life, Life::Running(sender)) {
            Life::New(parts) => parts,
            running => {
                self.state().life = running;
                return Err(Error::StartedTwice);
            }
        };
        let mut running = Running::new();
        let ended = self.run(parts, added, &mut running, shutdown).await;
        self.state().life = Life::Ended;
        let cut_off = running.stop(self.inner.grace).await;
        self.inner.caches.shutdown().await;
        ended?;
        if cut_off.is_empty() { Ok(()) } else { Err(Error::Grace { waited: self.inner.grace, parts: cut_off }) }
    }

    async fn run(
        &self,
        mut parts: Vec<Part>,
        mut added: mpsc::UnboundedReceiver<Part>,
        running: &mut Running,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), Error> {
        let mut shutdown = std::pin::pin!(shutdown);
        self.inner.caches.start()?;
        tokio::select! {
            () = &mut shutdown => return Ok(()),
            synced = self.synced() => synced?,
        }
        parts.sort_by_key(|part| part.group);
        parts.into_iter().for_each(|part| running.start(part));
        loop {
            tokio::select! {
                () = &mut shutdown => return Ok(()),
                Some(part) = added.recv() => running.start(part),
                ended = running.ended() => ended?,
            }
        }
    }

    /// Waits until all caches are filled, and says what it waits for.
    async fn synced(&self) -> Result<(), Error> {
        let deadline = self.inner.sync_timeout.map(|limit| Instant::now() + limit);
        loop {
            let left =
                deadline.map_or(REMINDER, |deadline| deadline.saturating_duration_since(Instant::now()).min(REMINDER));
            match self.inner.caches.wait_for_sync(left).await {
                Ok(()) => return Ok(()),
                Err(error) if deadline.is_some_and(|deadline| Instant::now() >= deadline) => return Err(error),
                Err(error) => tracing::warn!(%error, "the manager waits for its caches"),
            }
        }
    }
}

/// The parts that run.
struct Running {
    tasks: JoinSet<Result<(), Failure>>,
    names: HashMap<Id, (Group, String)>,
    stoppers: [(Group, Stopper); 2],
}

impl Running {
    fn new() -> Self {
        let stoppers = [(Group::Controllers, Stopper::new()), (Group::Runnables, Stopper::new())];
        Self { tasks: JoinSet::new(), names: HashMap::new(), stoppers }
    }

    fn start(&mut self, part: Part) {
        let stop = self.stoppers.iter().find(|(group, _)| *group == part.group).map(|(_, stopper)| stopper.token());
        let Some(stop) = stop else { return };
        let id = self.tasks.spawn((part.run)(stop)).id();
        self.names.insert(id, (part.group, part.name));
    }

    /// Waits for a part to end; for ever if there is none. An error names the part that failed.
    async fn ended(&mut self) -> Result<(), Error> {
        let Some(ended) = self.tasks.join_next_with_id().await else { return std::future::pending().await };
        let (id, problem) = match ended {
            Ok((id, Ok(()))) => (id, None),
            Ok((id, Err(failure))) => (id, Some(failure.to_string())),
            Err(error) => {
                let id = error.id();
                (id, error.try_into_panic().ok().map(|panic| format!("it panicked: {}", words(&*panic))))
            }
        };
        let part = self.names.remove(&id).map_or_else(String::new, |(_, name)| name);
        problem.map_or(Ok(()), |problem| Err(Error::Part { part, problem }))
    }

    /// Stops group after group, and gives the names of those who did not end in time.
    async fn stop(mut self, grace: Duration) -> Vec<String> {
        let deadline = Instant::now() + grace;
        for (group, stopper) in self.stoppers.clone() {
            stopper.stop();
            while self.names.values().any(|(other, _)| *other == group) {
                match timeout_at(deadline, self.ended()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::error!(%error, "a part failed while the manager stopped"),
                    Err(_) => break,
                }
            }
        }
        let mut late: Vec<_> = self.names.into_values().map(|(_, name)| name).collect();
        late.sort();
        self.tasks.shutdown().await;
        late
    }
}

/// Ends when the process is asked to stop: `SIGTERM`, or Ctrl-C. A second time, the process exits at once.
pub async fn shutdown_signal() {
    signal().await;
    tracing::info!("asked to stop; a second time ends the process at once");
    tokio::spawn(async {
        signal().await;
        std::process::exit(1);
    });
}

#[cfg(unix)]
async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

#[cfg(not(unix))]
async fn signal() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
