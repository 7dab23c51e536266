//! Many controllers in one process.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt;
use steersman_cache::{InformerMetrics, Lister, Object, ReflectorStatus};
use steersman_client::Client;
use tokio::sync::mpsc;
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::caches::{Caches, Found, InUse, User};
use crate::kind::Kind;
use crate::layers::words;
use crate::stop::{Stop, Stopper};
use crate::{CachedClient, ControllerBuilder, Error, Failure};

/// How often somebody is told what the manager waits for.
const REMINDER: Duration = Duration::from_secs(10);
/// What those have who are told to stop when the grace period is over already: enough to hear it.
const LAST_MOMENT: Duration = Duration::from_millis(100);
/// Longer than any process runs.
const FOR_EVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// Runs controllers, which share its client and one cache for each kind. Clones are the same manager.
///
/// **What is promised** (the tests of these names are in `tests/manager`).
/// - It starts the caches and waits until they are filled, then other runnables, then controllers
///   (`caches_are_filled_before_runnables_start_and_runnables_start_before_controllers`). A kind that the server does not serve yet
///   holds it up, is named in the log every ten seconds, and no longer holds it up once it is there
///   (`a_kind_that_is_not_installed_is_named_and_waited_for`).
/// - It stops in reverse: controllers finish what they are doing, within the grace period; then runnables; then the caches
///   (contract 10, `it_stops_in_reverse`). None is cut off that could have finished
///   (`two_controllers_and_fifty_runnables_stop_cleanly_while_reconciles_are_in_flight`); what has not ended by then is cut off and
///   named in the error (`what_overstays_the_grace_period_is_cut_off_and_named`).
/// - A part that fails, or panics, stops all, and the error names it (`a_part_that_fails_stops_all_and_is_named`).
/// - Dropping the future of [`start`](Self::start) cuts everything off at once
///   (`dropping_the_start_future_ends_everything`).
#[derive(Clone)]
pub struct Manager {
    inner: Arc<Inner>,
}

/// A manager as its own parts know it, which do not keep it alive.
pub(crate) struct WeakManager(Weak<Inner>);

impl WeakManager {
    pub(crate) fn upgrade(&self) -> Result<Manager, Error> {
        self.0.upgrade().map(|inner| Manager { inner }).ok_or(Error::Stopped)
    }
}

struct Inner {
    client: CachedClient,
    caches: Arc<Caches>,
    grace: Duration,
    sync_timeout: Option<Duration>,
    ready: AtomicBool,
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

    /// Fails when the caches are not filled after this time; the error names the kinds. Without it the manager waits, and says for
    /// what.
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
        let ready = AtomicBool::new(false);
        Manager { inner: Arc::new(Inner { client, caches, grace, sync_timeout, ready, state }) }
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

    #[cfg(test)]
    pub(crate) fn caches(&self) -> &Arc<Caches> {
        &self.inner.caches
    }

    pub(crate) fn sync_timeout(&self) -> Option<Duration> {
        self.inner.sync_timeout
    }

    /// Whether its caches are filled and its parts started. It is not when it stops.
    pub fn is_ready(&self) -> bool {
        self.inner.ready.load(Ordering::Acquire)
    }

    /// What the caches are doing: which kinds they are for, and what went wrong last.
    pub fn status(&self) -> Vec<ReflectorStatus> {
        self.inner.caches.status()
    }

    /// The figures of all informers, each with what it is for: `/api/v1/pods`, `/api/v1/pods in a, b where app=web`. Typed, dynamic and
    /// metadata-only informers of the same objects have the same name.
    pub fn informer_metrics(&self) -> Vec<(String, InformerMetrics)> {
        self.inner.caches.metrics()
    }

    /// Says what a new controller reconciles; the builder says the rest.
    pub fn controller<K: Object>(&self, primary: Kind<K>) -> ControllerBuilder<K> {
        ControllerBuilder::new(self, primary)
    }

    /// Declares that objects of a kind are to be kept, so that the client can read them: with the indexes and the choice of objects
    /// that the kind has. Controllers declare what they watch themselves; what is said here is for all of them (see [`Kind`]). While
    /// the manager runs, the cache is started at once, and is filled a little later.
    ///
    /// It gives the raw lister of that cache, for functions that cannot wait: which objects a change of another kind concerns, for
    /// instance, found by an index (test `a_map_function_looks_into_a_cache`).
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::{Pod, Secret};
    /// # use steersman_runtime::{Error, Index, Manager, Reconciler, kind};
    /// # fn example(manager: &Manager, reconciler: impl Reconciler<Pod>) -> Result<(), Error> {
    /// /// The Secrets that a Pod refers to, each as `namespace/name`.
    /// fn secrets_of(pod: &Pod) -> Vec<String> {
    ///     let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    ///     let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    ///     let names = volumes.filter_map(|volume| volume.secret.as_ref()?.secret_name.as_deref());
    ///     names.map(|name| format!("{namespace}/{name}")).collect()
    /// }
    ///
    /// let pods = manager.declare(kind::<Pod>().index("secret", Index::function(secrets_of)))?;
    /// manager
    ///     .controller(kind::<Pod>())
    ///     // A Secret changes: all Pods that refer to it are reconciled.
    ///     .watches(kind::<Secret>(), move |secret| pods.index_keys("secret", secret.key().as_str()).unwrap_or_default())
    ///     .complete(reconciler)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// What is not in that cache yet when the function looks comes later, and is then reconciled as the new object that it is. What the
    /// client has just written may not show in it.
    pub fn declare<K: Object>(&self, mut kind: Kind<K>) -> Result<Lister<K>, Error> {
        Ok(self.declare_for(&mut kind, User::Manager)?.0.informer.lister())
    }

    /// Declares a kind, and starts its cache if the manager runs. Functions of indexes run with nothing locked.
    pub(crate) fn declare_for<K: Object>(
        &self,
        kind: &mut Kind<K>,
        user: User<'_>,
    ) -> Result<(Found<K>, Option<InUse>), Error> {
        self.with_caches(|caches| caches.declare(kind, user))?.finish()
    }

    /// Stops and forgets the cache of a kind that no controller watches any more, such as one whose last
    /// [run-time watch](crate::Controller::watch) was removed. Reading the kind is then an error, as it was before; declaring or
    /// watching it again begins with a new cache. Only the kind itself counts: not its indexes, nor which objects it chooses. Listers
    /// of the old cache show what was in it at the end.
    pub async fn undeclare<K: Object>(&self, kind: Kind<K>) -> Result<(), Error> {
        let informer = self.inner.caches.remove::<K>(&kind.identity)?;
        informer.stop().await;
        Ok(())
    }

    /// Does something with the caches that may declare some, and starts those if the manager runs.
    pub(crate) fn with_caches<T>(&self, work: impl FnOnce(&Caches) -> Result<T, Error>) -> Result<T, Error> {
        // Under the lock, so that it cannot start or end meanwhile.
        let state = self.state();
        if matches!(state.life, Life::Ended) {
            return Err(Error::Stopped);
        }
        let done = work(&self.inner.caches)?;
        if matches!(state.life, Life::Running(_)) {
            self.inner.caches.start()?;
        }
        Ok(done)
    }

    pub(crate) fn downgrade(&self) -> WeakManager {
        WeakManager(Arc::downgrade(&self.inner))
    }

    /// Adds something else that is to run: it is started when the caches are filled, and told when to stop. If it ends without an
    /// error before, that is fine. While the manager runs, it is started at once.
    pub fn add<F, R, E>(&self, name: &str, run: F) -> Result<(), Error>
    where
        F: FnOnce(Stop) -> R + Send + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure>,
    {
        let run = move |stop: Stop| -> PartFuture { Box::pin(async move { run(stop).await.map_err(Into::into) }) };
        let part = Part { name: name.to_owned(), group: Group::Runnables, run: Box::new(run) };
        self.add_part(&mut self.state(), part)
    }

    /// Whether a controller can have this name.
    pub(crate) fn check_name(&self, name: &str) -> Result<(), Error> {
        self.state().check_name(name)
    }

    pub(crate) fn add_controller<F, R>(&self, name: &str, run: F) -> Result<(), Error>
    where
        F: FnOnce(Stop) -> R + Send + 'static,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let run = move |stop: Stop| -> PartFuture { Box::pin(run(stop)) };
        let part = Part { name: format!("controller {name}"), group: Group::Controllers, run: Box::new(run) };
        let mut state = self.state();
        state.check_name(name)?;
        self.add_part(&mut state, part)?;
        state.names.insert(name.to_owned());
        Ok(())
    }

    fn add_part(&self, state: &mut State, part: Part) -> Result<(), Error> {
        match &mut state.life {
            Life::New(parts) => {
                parts.push(part);
                Ok(())
            }
            Life::Running(sender) => {
                self.inner.caches.start()?;
                sender.send(part).map_err(|_| Error::Stopped)
            }
            Life::Ended => Err(Error::Stopped),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs everything until `shutdown` ends, or a part fails. A manager can be started once.
    pub async fn start(&self, shutdown: impl Future<Output = ()> + Send) -> Result<(), Error> {
        let (sender, added) = mpsc::unbounded_channel();
        let parts = self.begin(sender)?;
        let end = End(self);
        let mut running = Running::new();
        let ended = self.run(parts, added, &mut running, shutdown).await;
        end.nothing_more();
        let deadline = after(self.inner.grace);
        let cut_off = running.stop(deadline).await;
        // It has ended with the first poll; only handlers that take their time are waited for.
        let _ = timeout_at(at_least_a_moment(deadline), self.inner.caches.shutdown()).await;
        if cut_off.is_empty() {
            return ended;
        }
        let late = Error::Grace { waited: self.inner.grace, parts: cut_off };
        if ended.is_err() {
            tracing::error!(error = %late, "parts did not stop after another had failed");
        }
        ended.and(Err(late))
    }

    /// From now on parts are started as they are added.
    fn begin(&self, sender: mpsc::UnboundedSender<Part>) -> Result<Vec<Part>, Error> {
        let mut state = self.state();
        let Life::New(parts) = &mut state.life else { return Err(Error::StartedTwice) };
        let parts = std::mem::take(parts);
        state.life = Life::Running(sender);
        Ok(parts)
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
        let synced = patiently("the manager", self.inner.sync_timeout, |limit| self.inner.caches.wait_for_sync(limit));
        tokio::select! {
            // Signals are listened to from the first poll on.
            biased;
            () = &mut shutdown => return Ok(()),
            error = self.inner.caches.failed() => return Err(error),
            synced = synced => synced?,
        }
        parts.sort_by_key(|part| part.group);
        parts.into_iter().for_each(|part| running.start(part));
        self.inner.ready.store(true, Ordering::Release);
        loop {
            tokio::select! {
                () = &mut shutdown => return Ok(()),
                error = self.inner.caches.failed() => return Err(error),
                Some(part) = added.recv() => running.start(part),
                ended = running.ended() => ended?,
            }
        }
    }
}

impl State {
    fn check_name(&self, name: &str) -> Result<(), Error> {
        if self.names.contains(name) { Err(Error::DuplicateName { name: name.to_owned() }) } else { Ok(()) }
    }
}

/// Ends the life of a manager, also when whoever started it does not wait for the end.
struct End<'a>(&'a Manager);

impl End<'_> {
    /// Lets nothing be added any more.
    fn nothing_more(&self) {
        self.0.inner.ready.store(false, Ordering::Release);
        self.0.state().life = Life::Ended;
    }
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.nothing_more();
        // The caches end with the first poll.
        let _ = self.0.inner.caches.shutdown().now_or_never();
    }
}

/// When this time has passed.
fn after(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or_else(|| now + FOR_EVER)
}

/// This time, or a moment from now if it has passed.
fn at_least_a_moment(deadline: Instant) -> Instant {
    deadline.max(Instant::now() + LAST_MOMENT)
}

/// Waits until caches are filled, for ever unless there is a limit, and says in the log what is waited for. `wait` does so for the
/// time that it is given.
pub(crate) async fn patiently<R>(who: &str, limit: Option<Duration>, wait: impl Fn(Duration) -> R) -> Result<(), Error>
where
    R: Future<Output = Result<(), Error>>,
{
    let started = Instant::now();
    loop {
        let left = limit.map_or(REMINDER, |limit| limit.saturating_sub(started.elapsed()).min(REMINDER));
        let reminder = Instant::now() + left;
        let Err(error) = wait(left).await else { return Ok(()) };
        // A cache that has ended says so at once.
        sleep_until(reminder).await;
        let error = with_time(error, started.elapsed());
        if limit.is_some_and(|limit| started.elapsed() >= limit) {
            return Err(error);
        }
        tracing::warn!(%error, "{who} waits for its caches");
    }
}

/// The error with the whole time that was waited, instead of the time since the last reminder.
fn with_time(error: Error, waited: Duration) -> Error {
    match error {
        Error::Cache(steersman_cache::Error::NotSynced { waiting, .. }) => {
            steersman_cache::Error::NotSynced { waited, waiting }.into()
        }
        other => other,
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
    async fn stop(mut self, deadline: Instant) -> Vec<String> {
        for (group, stopper) in self.stoppers.clone() {
            stopper.stop();
            let deadline = at_least_a_moment(deadline);
            while self.names.values().any(|(other, _)| *other == group) {
                match timeout_at(deadline, self.ended()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::error!(%error, "a part failed while the manager stopped"),
                    Err(_) => break,
                }
            }
        }
        let Self { mut tasks, names, .. } = self;
        tasks.abort_all();
        // One that never waits for anything cannot be cut off, and is not waited for either.
        let _ = timeout(LAST_MOMENT, async { while tasks.join_next().await.is_some() {} }).await;
        let mut late: Vec<_> = names.into_values().map(|(_, name)| name).collect();
        late.sort();
        late
    }
}
