//! Many controllers in one process.

mod access;
mod add;
mod builder;
mod debug;
mod election;
mod endpoints;
mod running;
mod signals;
mod start;
mod waiting;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use steersman_cache::{InformerMetrics, Lister, Object, ReflectorStatus};
use steersman_client::Client;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::caches::{CacheHandle, Caches, InUse, User};
use crate::controller::Shared;
use crate::events::Events;
use crate::flight_recorder::{DebugQuery, DebugState, Hub};
use crate::kind::Kind;
use crate::leader_election::Leadership;
use crate::metrics::Metrics;
use crate::{CachedClient, ControllerBuilder, Error, EventMetrics, EventRecorder};
use steersman_client::World;

use election::Election;
use endpoints::EndpointSettings;
use running::{Group, Runnable};

pub use builder::ManagerBuilder;
pub use signals::shutdown_signal;

pub(crate) use running::Launch;
pub(crate) use waiting::wait_with_reminders;

/// Runs controllers, which share its client and one cache for each kind. Clones are the same
/// manager.
///
/// **Contract** (the tests are in `tests/manager`).
/// - [Servers](Self::add_server) start first and run while caches wait
///   (`a_server_runs_while_caches_wait_and_stops_last`).
/// - A controller starts when its own caches have synced, however long others wait
///   (`a_kind_that_is_not_installed_holds_up_its_own_controllers_only`,
///   `a_kind_that_is_forbidden_holds_up_its_own_controllers_and_the_runnables`). A kind that the
///   server does not serve yet is looked for every few seconds
///   (`a_kind_that_is_installed_while_the_manager_waits_is_noticed_within_five_seconds`).
/// - [Runnables](Self::add) start when all caches have synced, except those of kinds that the
///   server does not serve.
/// - The log shows what the manager waits for and why: after three seconds, and then every ten
///   (`what_the_manager_waits_for_is_logged_within_seconds_and_then_every_ten`).
/// - It stops in reverse order: controllers finish their running reconciles, within the grace
///   period; then runnables; then the caches; then servers (contract 10, `it_stops_in_reverse`).
///   Events are written while servers stop (`events_are_written_while_servers_stop`). The servers
///   of metrics and probes stop last. Their clients have at most 5 s, and cutting them off is no
///   error (`a_slow_client_is_cut_off_and_the_stop_is_in_order`).
///   Nothing is aborted that could have finished
///   (`two_controllers_and_fifty_runnables_stop_cleanly_while_reconciles_are_in_flight`). Whatever
///   has not ended by then is aborted and named in the error
///   (`what_overstays_the_grace_period_is_cut_off_and_named`).
/// - A runnable that fails or panics stops the manager, and the error names it
///   (`a_runnable_that_fails_stops_all_and_is_named`). So does an informer that panics, and reads
///   of its cache are errors
///   (`an_informer_that_panics_while_the_manager_runs_stops_all_and_its_reads_are_errors`).
/// - Dropping the future of [`start`](Self::start) aborts everything at once
///   (`dropping_the_start_future_ends_everything`).
/// - Once it declares its requests, it makes no other by itself (contract 13,
///   `an_operator_runs_under_the_roles_that_are_derived_from_its_declarations`): see
///   [`access`](Self::access).
#[derive(Clone)]
pub struct Manager {
    inner: Arc<Inner>,
}

/// A weak handle of the manager, for its own runnables: they do not keep it alive.
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
    /// The controllers that have been added and have not started yet.
    starting: watch::Sender<BTreeSet<String>>,
    election: Option<Arc<Election>>,
    events: Events,
    flight: Arc<Hub>,
    trace_requests: bool,
    controller_metrics: bool,
    /// The controllers, for `/debug`.
    controllers: Mutex<Vec<Weak<crate::controller::Shared>>>,
    metrics: Metrics,
    metrics_address: Option<SocketAddr>,
    probes_address: Option<SocketAddr>,
    endpoints: EndpointSettings,
    state: Mutex<State>,
}

struct State {
    /// By their names.
    controllers: HashMap<String, Arc<Shared>>,
    life: Life,
}

enum Life {
    /// What the manager starts.
    New(Vec<Runnable>),
    /// Sends runnables that are added while the manager runs.
    Running(mpsc::UnboundedSender<Runnable>),
    Ended,
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager").field("caches", &self.inner.caches).finish_non_exhaustive()
    }
}

impl Manager {
    /// Creates a manager with the default settings.
    pub fn new(client: Client) -> Self {
        Self::builder(client).build()
    }

    /// Creates a manager with other settings.
    pub fn builder(client: Client) -> ManagerBuilder {
        ManagerBuilder::new(client)
    }

    /// The client of the manager: it reads from the caches and writes to the server.
    pub fn client(&self) -> &CachedClient {
        &self.inner.client
    }

    /// The clocks and the randomness of the manager.
    pub fn world(&self) -> &World {
        self.inner.client.world()
    }

    /// Shows whether this replica leads. `None` without
    /// [leader election](ManagerBuilder::leader_election).
    pub fn leadership(&self) -> Option<&Leadership> {
        self.inner.election.as_ref().map(|election| &election.leadership)
    }

    /// A recorder of Events for code outside of reconciles, which have
    /// [their own](crate::Context::events). `controller` is the name that the Events report. An
    /// error if it is not a qualified name: `name` or `prefix/name`. The call also declares that
    /// the manager records Events: see [`access`](Self::access).
    pub fn events(&self, controller: &str) -> Result<EventRecorder, Error> {
        let recorder = self.recorder(controller)?;
        self.access_registry().add_events(controller, None);
        Ok(recorder)
    }

    /// A recorder, without a declaration.
    pub(crate) fn recorder(&self, controller: &str) -> Result<EventRecorder, Error> {
        self.inner.events.recorder(controller)
    }

    /// What became of the Events that all its recorders have recorded.
    pub fn event_metrics(&self) -> EventMetrics {
        self.inner.events.metrics()
    }

    /// The metrics of this manager. A program can add its own.
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// Where the metrics are served. `None` without [`ManagerBuilder::metrics`].
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.inner.metrics_address
    }

    /// Where the probes are served. `None` without [`ManagerBuilder::probes`].
    pub fn probes_address(&self) -> Option<SocketAddr> {
        self.inner.probes_address
    }

    #[cfg(test)]
    pub(crate) fn caches(&self) -> &Arc<Caches> {
        &self.inner.caches
    }

    pub(crate) fn sync_timeout(&self) -> Option<Duration> {
        self.inner.sync_timeout
    }

    /// Returns `true` once all caches have synced and all controllers and runnables have started.
    /// It stays `true` until the manager stops, whatever is added later.
    pub fn is_ready(&self) -> bool {
        self.inner.ready.load(Ordering::Acquire)
    }

    /// Returns `true` if no controller has a key that waits for a worker or is being reconciled.
    /// Keys that wait for their time, because of a retry or
    /// [`Action::requeue_after`](crate::Action::requeue_after), do not count. For tests: an event
    /// that has not arrived yet makes it `false` a moment later.
    pub fn is_idle(&self) -> bool {
        self.state().controllers.values().all(|controller| controller.is_idle())
    }

    /// The state of the caches: the kinds they hold, and their last errors.
    pub fn status(&self) -> Vec<ReflectorStatus> {
        self.inner.caches.status()
    }

    /// The metrics of all informers, each with its name: `/api/v1/pods`, or
    /// `/api/v1/pods in a, b where app=web`. Typed, dynamic and metadata-only informers of the same
    /// objects have the same name.
    pub fn informer_metrics(&self) -> Vec<(String, InformerMetrics)> {
        self.inner.caches.metrics()
    }

    /// Starts the declaration of a controller that reconciles objects of this kind.
    pub fn controller<K: Object>(&self, primary: Kind<K>) -> ControllerBuilder<K> {
        ControllerBuilder::new(self, primary)
    }

    /// Declares that the manager caches a kind, so that the client can read it: with the indexes
    /// and the selection of objects that the [`Kind`] has. Controllers declare the kinds they
    /// watch; a declaration here holds for all of them. While the manager runs, the cache starts at
    /// once and syncs a little later.
    ///
    /// Returns the lister of that cache, for functions that cannot wait. An example is a map
    /// function that finds the objects to reconcile by an index (test
    /// `a_map_function_looks_into_a_cache`).
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
    /// An object that the cache does not have yet when the function reads it arrives later, and is
    /// then reconciled as a new object. The lister may not show the last writes of the client.
    pub fn declare<K: Object>(&self, mut kind: Kind<K>) -> Result<Lister<K>, Error> {
        Ok(self.declare_for(&mut kind, User::Manager)?.0.informer.lister())
    }

    /// Declares a kind, and starts its cache if the manager runs. Index functions run without any
    /// lock held.
    pub(crate) fn declare_for<K: Object>(
        &self,
        kind: &mut Kind<K>,
        user: User<'_>,
    ) -> Result<(CacheHandle<K>, Option<InUse>), Error> {
        self.with_caches(|caches| caches.declare(kind, user))?.finish()
    }

    /// Stops and removes the cache of a kind that no controller watches any more, such as one whose
    /// last [run-time watch](crate::Controller::watch) was removed. Reading the kind is then an
    /// error, as before its declaration. Declaring or watching it again begins with a new cache.
    /// Only the kind itself counts, not its indexes or its selection. Listers of the old cache show
    /// its last content.
    ///
    /// Waits until the cache has stopped, for at most the grace period of the manager and 30 s. An
    /// index function or a transform that never returns causes [`Error::NotStopped`]. The cache is
    /// removed in either case.
    pub async fn undeclare<K: Object>(&self, kind: Kind<K>) -> Result<(), Error> {
        let informer = self.inner.caches.remove::<K>(&kind.identity)?;
        let waited = self.inner.grace;
        let not_stopped = |waited| Error::NotStopped { what: format!("the cache of {}", kind.identity.kind), waited };
        match timeout(waited, informer.stop()).await {
            Ok(Err(steersman_cache::Error::StopTimeout { waited, .. })) => Err(not_stopped(waited)),
            Ok(stopped) => Ok(stopped?),
            Err(_) => Err(not_stopped(waited)),
        }
    }

    /// Runs `work`, which may declare caches, and starts those if the manager runs.
    pub(crate) fn with_caches<T>(&self, work: impl FnOnce(&Caches) -> Result<T, Error>) -> Result<T, Error> {
        // Under the lock, so that the manager cannot start or stop at the same time.
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
