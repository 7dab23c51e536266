//! The settings of a manager.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use steersman_cache::ReflectorError;
use steersman_client::{Client, World};
use steersman_manifests::operator::{Access, WatchScope};
use tokio::sync::watch;

use super::election::Election;
use super::endpoints::Endpoints;
use super::running::{Group, Launch, Runnable, RunnableFuture};
use super::{Inner, Life, Manager, State};
use crate::access::Registry;
use crate::caches::{CacheDefaults, Caches, OnWatchError};
use crate::events::Events;
use crate::flight_recorder::{FlightRecorder, Hub};
use crate::leader_election::{LeaderElection, Leadership};
use crate::metrics::{CacheFigures, EventFigures, Lease, Metrics, MetricsServer, Requests};
use crate::probes::Probes;
use crate::stop::Stopper;
use crate::{CachedClient, Error};

/// Settings of a [`Manager`].
#[must_use]
pub struct ManagerBuilder {
    client: Client,
    cache_defaults: CacheDefaults,
    on_watch_error: Option<OnWatchError>,
    grace: Duration,
    sync_timeout: Option<Duration>,
    read_your_writes: Option<Duration>,
    election: Option<LeaderElection>,
    flight_recorder: FlightRecorder,
    trace_requests: bool,
    metrics: Metrics,
    detailed_request_metrics: bool,
    controller_metrics: bool,
    endpoints: Endpoints,
    only_declared_writes: bool,
}

impl fmt::Debug for ManagerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerBuilder").field("cache_defaults", &self.cache_defaults).finish_non_exhaustive()
    }
}

impl ManagerBuilder {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            cache_defaults: CacheDefaults::default(),
            on_watch_error: None,
            grace: Duration::from_secs(30),
            sync_timeout: None,
            read_your_writes: Some(Duration::from_secs(10)),
            election: None,
            flight_recorder: FlightRecorder::default(),
            trace_requests: false,
            metrics: Metrics::new(),
            detailed_request_metrics: false,
            controller_metrics: true,
            endpoints: Endpoints::default(),
            only_declared_writes: false,
        }
    }

    /// The options of all caches, unless a kind is declared otherwise.
    pub fn cache_defaults(mut self, defaults: CacheDefaults) -> Self {
        self.cache_defaults = defaults;
        self
    }

    /// Calls a function with the kind and the failure of each list or watch that fails, before its
    /// cache backs off: to count them, or to end the program when a permission is missing. Failures
    /// are logged in any case. The function has to return soon; a panic of it is logged (test
    /// `a_watch_error_handler_gets_the_kind_and_the_error`).
    ///
    /// ```no_run
    /// # use steersman_runtime::Manager;
    /// # fn example(client: steersman_client::Client) {
    /// let manager = Manager::builder(client)
    ///     .watch_error_handler(|kind, error| eprintln!("{kind}: {error}"))
    ///     .build();
    /// # }
    /// ```
    pub fn watch_error_handler(mut self, function: impl Fn(&str, &ReflectorError) + Send + Sync + 'static) -> Self {
        self.on_watch_error = Some(Box::new(function));
        self
    }

    /// How long controllers, runnables and servers have to stop. Default: 30 s.
    pub fn grace_period(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Fails if the caches have not synced after this time; the error names the kinds. Default: no
    /// limit; the manager waits, and logs which caches are missing.
    pub fn cache_sync_timeout(mut self, limit: Duration) -> Self {
        self.sync_timeout = Some(limit);
        self
    }

    /// How long a cached read waits for an earlier write of this manager's client. `None`: not at
    /// all. Default: 10 s.
    pub fn read_your_writes(mut self, limit: Option<Duration>) -> Self {
        self.read_your_writes = limit;
        self
    }

    /// Lets one replica of the program act at a time: controllers run on the replica that holds the
    /// Lease, unless they [need no leader](crate::ControllerBuilder::on_every_replica). Durations
    /// that allow two leaders are an error.
    pub fn leader_election(mut self, election: LeaderElection) -> Result<Self, Error> {
        self.election = Some(election.prepare(&self.client)?);
        Ok(self)
    }

    /// What is recorded of reconciles: see [`FlightRecorder`].
    pub fn flight_recorder(mut self, recorder: FlightRecorder) -> Self {
        self.flight_recorder = recorder;
        self
    }

    /// Lets the requests of each reconcile carry the W3C header `traceparent`, with a trace of its
    /// own that the span `reconcile` names as `trace_id`. A program that exports its spans uses
    /// [`Client::with_trace_context`](steersman_client::Client::with_trace_context) instead.
    pub fn trace_requests(mut self) -> Self {
        self.trace_requests = true;
        self
    }

    /// Serves the [metrics](crate::metrics). An address that cannot be listened on, or a
    /// certificate that cannot be used, is an error.
    pub fn metrics(mut self, server: MetricsServer) -> Result<Self, Error> {
        self.endpoints.settings.metrics = Some((server.address(), server.is_secure()));
        if !self.client.is_offline() {
            self.endpoints.metrics = Some(server.bind(self.metrics.certificates())?);
        }
        Ok(self)
    }

    /// Adds `rest_client_*` metrics of the duration and the sizes of requests, of waits for the
    /// rate limit, of lookups of the server's name, and of retries.
    pub fn detailed_request_metrics(mut self) -> Self {
        self.detailed_request_metrics = true;
        self
    }

    /// Measures no times of reconciles and counts nothing in queues: the histograms of controllers
    /// and the metrics `workqueue_*` stay 0. The benches measure by it what these metrics cost.
    pub fn without_controller_metrics(mut self) -> Self {
        self.controller_metrics = false;
        self
    }

    /// Serves `/healthz` and `/readyz`. An address that cannot be listened on is an error.
    pub fn probes(mut self, probes: Probes) -> Result<Self, Error> {
        self.endpoints.settings.probes = Some(probes.address());
        if !self.client.is_offline() {
            self.endpoints.probes = Some(probes.bind()?);
        }
        Ok(self)
    }

    /// The clocks and the randomness of the manager, its client and its caches. Default: those of
    /// the client.
    pub fn world(mut self, world: World) -> Self {
        self.client = self.client.with_world(world);
        self
    }

    /// Refuses each write through the manager's client that the manager does not
    /// [declare](crate::Manager::access), before it is sent (contract 13):
    /// [`Error::UndeclaredWrite`] names the declaration to add. This includes
    /// [`CachedClient::live`] and Events. Reads are not checked.
    ///
    /// It is for tests and debug builds, where a missing declaration should show at once. In a
    /// cluster, the role that is derived from the declarations has the same effect. Default: off.
    pub fn only_declared_writes(mut self) -> Self {
        self.only_declared_writes = true;
        self
    }

    /// Builds the manager, without controllers.
    pub fn build(self) -> Manager {
        let (metrics, requests) = (self.metrics, Arc::new(Requests::new(self.detailed_request_metrics)));
        metrics.collect(Arc::clone(&requests));
        let mut client = self.client.with_request_metrics(requests);
        let access = Arc::new(Registry::new(self.cache_defaults.namespaces(), self.only_declared_writes));
        if let Some(election) = &self.election {
            let scope = WatchScope::Namespaces(vec![election.namespace_of_lease().to_owned()]);
            access.add_others(Access::of_lease(election.name()).into_iter().map(|access| access.within(scope.clone())));
        }
        let settings = self.endpoints.settings;
        if settings.metrics.is_some_and(|(_, is_secure)| is_secure) {
            access.add_others(Access::of_metrics_reviews());
        }
        if self.only_declared_writes {
            let access = Arc::clone(&access);
            client = client.with_write_check(move |write| access.check(write));
        }
        let caches = Arc::new(Caches::new(client.clone(), self.cache_defaults, self.on_watch_error, access));
        metrics.collect(CacheFigures::new(&caches));
        let client = CachedClient::new(client, Arc::clone(&caches), self.read_your_writes);
        let live = client.live().clone();
        let events = Events::new(live.world().clone());
        let election = self.election.map(|settings| {
            let leadership = Leadership::new(live.world().clone());
            let (may_release, lost) = (AtomicBool::new(false), Mutex::default());
            Arc::new(Election { settings, leadership, stopping: Stopper::new(), may_release, lost })
        });
        if let Some(election) = &election {
            let (name, leadership) = (election.settings.name().to_owned(), election.leadership.clone());
            metrics.collect(Lease { name, leadership });
        }
        let elector = election.clone().map(|election| Runnable {
            name: "leader election".to_owned(),
            group: Group::Elector,
            run: {
                let events = events.clone();
                Box::new(move |launch: Launch| {
                    Box::pin(async move { election.run(&live, &events, &launch.stop).await }) as RunnableFuture
                })
            },
        });
        let life = Life::New(elector.into_iter().collect());
        let state = Mutex::new(State { controllers: HashMap::new(), life });
        let (grace, sync_timeout) = (self.grace, self.sync_timeout);
        let (ready, starting) = (AtomicBool::new(false), watch::Sender::default());
        let (flight, controllers) = (Hub::new(self.flight_recorder), Mutex::default());
        metrics.collect(EventFigures(events.clone()));
        let (metrics_address, probes_address) = self.endpoints.addresses();
        let manager = Manager {
            inner: Arc::new(Inner {
                client,
                caches,
                grace,
                sync_timeout,
                ready,
                starting,
                election,
                events,
                flight,
                trace_requests: self.trace_requests,
                controller_metrics: self.controller_metrics,
                controllers,
                metrics,
                metrics_address,
                probes_address,
                endpoints: settings,
                state,
            }),
        };
        self.endpoints.add_to(&manager);
        manager
    }
}
