//! Declares what a controller watches and how it runs.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt};
use steersman_cache::{Cached, Object, ObjectKey};
use steersman_workqueue::{Core, RateLimiter, WorkQueue};

use super::async_map::AsyncMap;
use super::enqueue::{EnqueueFor, Panics, owners};
use super::failing::FailingKeys;
use super::sources::{Channel, Custom, KeySender, WatchSource, Watched};
use super::worker::Run;
use super::{Controller, Shared};
use crate::access::{KindAccess, Target, Use, What};
use crate::caches::User;
use crate::flight_recorder::Source;
use crate::kind::Kind;
use crate::layer::{Layer, Layered, PanicGuard, Timeout, Tracing};
use crate::metrics::{ControllerFigures, CountQueue};
use crate::predicate::Predicate;
use crate::reconciler::{DynReconciler, Erased};
use crate::scope::OwnerScope;
use crate::stop::{StopSignal, Stopper};
use crate::{AccessReason, CachedClient, Error, Manager, ReconcileError, Reconciler, Verb};

/// Declares what a controller watches and how it runs. Created by [`Manager::controller`].
///
/// ```no_run
/// # use k8s_openapi::api::apps::v1::Deployment;
/// # use k8s_openapi::api::core::v1::{ConfigMap, Pod};
/// # use steersman_runtime::{Error, Manager, ObjectKey, Reconciler, kind, predicate::GenerationChanged};
/// # fn example(manager: &Manager, reconciler: impl Reconciler<Deployment>) -> Result<(), Error> {
/// manager
///     .controller(kind::<Deployment>().predicate(GenerationChanged))
///     .owns(kind::<Pod>())
///     .watches(kind::<ConfigMap>(), |map| {
///         map.meta().label("deployment").map(|name| ObjectKey::new(map.meta().namespace(), name))
///     })
///     .max_concurrent(4)
///     .complete(reconciler)?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a controller is not there before complete(…)"]
pub struct ControllerBuilder<K> {
    manager: Manager,
    primary: Kind<K>,
    name: Option<String>,
    sources: Vec<Box<dyn WatchSource>>,
    /// The scope of the owners, if the controller owns anything.
    owner_scope: Option<OwnerScope>,
    predicates: Vec<Arc<dyn Predicate>>,
    max_concurrent: usize,
    limiter: Option<Box<dyn RateLimiter<ObjectKey>>>,
    timeout: Option<Duration>,
    on_every_replica: bool,
    layers: Vec<Arc<dyn Layer<K>>>,
    /// Declares what the controller does with kinds that it does not watch.
    uses: Vec<Box<DeclareUse>>,
    records_events: bool,
}

type DeclareUse = dyn FnOnce(&Manager, &str) -> Result<(), Error> + Send + Sync;

impl<K> fmt::Debug for ControllerBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerBuilder")
            .field("primary", &self.primary)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<K: Object> ControllerBuilder<K> {
    pub(crate) fn new(manager: &Manager, primary: Kind<K>) -> Self {
        Self {
            manager: manager.clone(),
            primary,
            name: None,
            sources: Vec::new(),
            owner_scope: None,
            predicates: Vec::new(),
            max_concurrent: 1,
            limiter: None,
            timeout: None,
            on_every_replica: false,
            layers: Vec::new(),
            uses: Vec::new(),
            records_events: false,
        }
    }

    /// Its name in logs, metrics, errors and Events. Default: the kind in small letters. Names are
    /// unique within a manager, and consist of at most 63 letters, digits, `-`, `_` and `.`, with a
    /// letter or digit at both ends. A DNS subdomain and a slash can stand before.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Watches objects that belong to objects of the controller's own kind. A change of one
    /// reconciles its owner, also if it was deleted while the controller was not running. The owner
    /// is the one that controls the object, or [every owner](Kind::every_owner) of the kind.
    ///
    /// For owners of a dynamic kind, discovery shows whether they are namespaced. The controller
    /// reads it before it starts, unless [`cluster_scoped`](Kind::cluster_scoped) was called.
    pub fn owns<W: Object>(mut self, kind: Kind<W>) -> Self {
        let scope = self.owner_scope.get_or_insert_with(|| OwnerScope::of(&self.primary.identity));
        let enqueue_for = EnqueueFor::Mapped(Arc::new(owners(scope.clone(), kind.owner_match)));
        self.sources.push(Box::new(Watched { kind, informer: None, in_use: None, enqueue_for, source: Source::Owned }));
        self
    }

    /// Watches objects of another kind. `map` returns the keys to reconcile for an object. For an
    /// update it is called with both states, so that a key that only the old state names is
    /// reconciled, too. It may read the cache of another kind: see [`Manager::declare`].
    pub fn watches<W, I>(mut self, kind: Kind<W>, map: impl Fn(&Cached<W>) -> I + Send + Sync + 'static) -> Self
    where
        W: Object,
        I: IntoIterator<Item = ObjectKey>,
    {
        let enqueue_for = EnqueueFor::mapped(map);
        self.sources.push(Box::new(Watched {
            kind,
            informer: None,
            in_use: None,
            enqueue_for,
            source: Source::Mapped,
        }));
        self
    }

    /// As [`watches`](Self::watches), with a map function that waits: it is given the client of the
    /// manager and may read other caches or the server (test
    /// `an_async_map_function_reads_with_the_client`). A function that fails is called again with
    /// back-off, 100 ms to 30 s, which holds up neither other objects nor other states of the
    /// object. Up to 16 calls run at a time. Changes of an object that wait for one are merged: the
    /// function sees each state, up to 8. Of more states it sees the first and the last 7, so keys
    /// that only the others concern are not enqueued. A function that panics counts in
    /// [`source_panics_total`](crate::ControllerMetrics::source_panics_total) and is not retried.
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # use steersman_runtime::{CachedClient, Cached, Error, ListQuery, Manager, Reconciler, kind};
    /// # fn example(manager: &Manager, reconciler: impl Reconciler<ConfigMap>) -> Result<(), Error> {
    /// manager
    ///     .controller(kind::<ConfigMap>())
    ///     // Every ConfigMap in the namespace of the Secret.
    ///     .watches_async(kind::<Secret>(), |client: CachedClient, secret: Cached<Secret>| async move {
    ///         let query = ListQuery::all().namespace(secret.meta().namespace());
    ///         let maps = client.objects::<ConfigMap>().list(&query).await?;
    ///         Ok(maps.iter().map(Cached::key).collect::<Vec<_>>())
    ///     })
    ///     .complete(reconciler)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn watches_async<W, I, F, R>(mut self, kind: Kind<W>, map: F) -> Self
    where
        W: Object,
        I: IntoIterator<Item = ObjectKey>,
        F: Fn(CachedClient, Cached<W>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<I, ReconcileError>> + Send + 'static,
    {
        let client = self.manager.client().clone();
        let map = move |object| {
            let keys = map(client.clone(), object);
            async move { Ok(keys.await?.into_iter().collect()) }.boxed()
        };
        let enqueue_for = EnqueueFor::MappedLater(Arc::new(AsyncMap::new(Arc::new(map))));
        let source = Source::Mapped;
        self.sources.push(Box::new(Watched { kind, informer: None, in_use: None, enqueue_for, source }));
        self
    }

    /// Reconciles the keys that a stream gives, such as the receiver of a `futures` channel:
    /// whatever happens outside of Kubernetes. The stream may end, and is dropped when the
    /// controller stops.
    pub fn channel(mut self, keys: impl Stream<Item = ObjectKey> + Send + 'static) -> Self {
        self.sources.push(Box::new(Channel(Mutex::new(Some(keys.boxed())))));
        self
    }

    /// Adds a source of keys. `run` starts when the caches of the controller have synced, and runs
    /// until its [`StopSignal`] shows that the controller stops; it may end before. If it fails or
    /// panics, the controller fails, and the error of the manager names the source (test
    /// `a_source_that_fails_is_named`).
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use steersman_runtime::{Error, Manager, ObjectKey, ReconcileError, Reconciler, kind};
    /// # async fn next_message() -> Result<String, std::io::Error> { Ok(String::new()) }
    /// # fn example(manager: &Manager, reconciler: impl Reconciler<ConfigMap>) -> Result<(), Error> {
    /// manager
    ///     .controller(kind::<ConfigMap>())
    ///     .source("messages", |keys, stop| async move {
    ///         loop {
    ///             tokio::select! {
    ///                 biased;
    ///                 () = stop.stopped() => return Ok(()),
    ///                 name = next_message() => keys.send(ObjectKey::new("default", &name?)),
    ///             }
    ///         }
    ///     })
    ///     .complete(reconciler)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn source<F, R>(mut self, name: impl Into<String>, run: F) -> Self
    where
        F: FnOnce(KeySender, StopSignal) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), ReconcileError>> + Send + 'static,
    {
        let run = move |keys, stop| run(keys, stop).boxed();
        self.sources.push(Box::new(Custom { name: name.into(), run: Some(Box::new(run)) }));
        self
    }

    /// Reconciles only after changes that `predicate` accepts, from every watched kind. It does not
    /// apply to keys from channels.
    pub fn predicate(mut self, predicate: impl Predicate) -> Self {
        self.predicates.push(Arc::new(predicate));
        self
    }

    /// How many keys are reconciled at the same time. The same key is never reconciled twice at a
    /// time. Default: 1.
    pub fn max_concurrent(mut self, workers: usize) -> Self {
        self.max_concurrent = workers.max(1);
        self
    }

    /// How long a key waits after a failure. Default: 5 ms, doubled each time up to 1000 s.
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<ObjectKey> + 'static) -> Self {
        self.limiter = Some(Box::new(limiter));
        self
    }

    /// Cancels a reconcile that takes longer, which is a failure. Default: no limit.
    pub fn reconcile_timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Runs the controller on every replica. Default: with
    /// [leader election](crate::ManagerBuilder::leader_election), it runs on the leader alone.
    pub fn on_every_replica(mut self) -> Self {
        self.on_every_replica = true;
        self
    }

    /// Adds a layer around every reconcile. The first is the outermost. All are inside tracing and
    /// outside the timeout and the panic guard (test `layers_are_in_this_order`). A layer that
    /// panics fails the reconcile.
    pub fn layer(mut self, layer: impl Layer<K>) -> Self {
        self.layers.push(Arc::new(layer));
        self
    }

    /// Declares what the controller does with a kind that it does not watch, without a cache: see
    /// [`Kind::writes`] and [`Kind::live`].
    pub fn uses<W: Object>(mut self, kind: Kind<W>) -> Self {
        self.uses.push(Box::new(move |manager, name| manager.declare_use(&kind, User::Controller(name))));
        self
    }

    /// Declares that the controller records [Events](crate::Context::events). The declaration is
    /// for [roles](Manager::access), and for a manager that permits [only declared
    /// writes](crate::ManagerBuilder::only_declared_writes). Any other manager writes the Events in
    /// any case.
    pub fn records_events(mut self) -> Self {
        self.records_events = true;
        self
    }

    /// Adds the controller to the manager, which starts it.
    pub fn complete(mut self, reconciler: impl Reconciler<K>) -> Result<Controller, Error> {
        let name = self.name.take().unwrap_or_else(|| self.primary.identity.kind.to_lowercase());
        // Before it declares any cache.
        self.manager.check_name(&name)?;
        let events = self.manager.recorder(&name)?;
        let (found, in_use) = self.manager.declare_for(&mut self.primary, User::Controller(&name))?;
        let primary = self.manager.target(&self.primary);
        for source in &mut self.sources {
            source.declare(&self.manager, &name)?;
        }
        for declare in self.uses {
            declare(&self.manager, &name)?;
        }
        if self.sources.iter().any(|source| source.may_set_owners()) {
            self.manager.access_registry().add([blocks_owners(&primary, &name)]);
        }
        if self.records_events {
            self.manager.access_registry().add_events(&name, Some(&primary));
        }
        let mut innermost: Arc<dyn DynReconciler<K>> = Arc::new(Erased(reconciler));
        let mut wrap = |layer: Arc<dyn Layer<K>>| {
            innermost = Arc::new(Layered { layer, inner: Arc::clone(&innermost) });
        };
        wrap(Arc::new(PanicGuard));
        if let Some(limit) = self.timeout {
            wrap(Arc::new(Timeout(limit)));
        }
        if !self.layers.is_empty() {
            self.layers.into_iter().rev().for_each(&mut wrap);
            // Layers may panic as well, and such a panic is logged.
            wrap(Arc::new(PanicGuard));
        }
        wrap(Arc::new(Tracing));

        let limiter = self.limiter.unwrap_or_else(|| Box::new(steersman_workqueue::controller_runtime_default()));
        let mut core = Core::with_payloads(limiter);
        let ended = Stopper::new();
        let (recorder, is_counted) = (self.manager.flight_hub().controller(&name), self.manager.counts_controllers());
        let figures = ControllerFigures::new(&name, self.max_concurrent, is_counted);
        if recorder.is_some() {
            core.set_timed();
        }
        if is_counted {
            core.set_metrics(CountQueue(Arc::clone(&figures)));
        }
        let shared = Arc::new(Shared {
            name: name.clone(),
            kind: self.primary.identity.kind.clone(),
            queue: WorkQueue::from_core(core),
            is_timed: is_counted || recorder.is_some(),
            recorder,
            traces: self.manager.traces_requests(),
            failing: FailingKeys::default(),
            figures: Arc::clone(&figures),
            predicates: self.predicates,
            panics: Arc::new(Panics { controller: name.clone(), total: AtomicU64::new(0) }),
            ending: AtomicBool::new(false),
            removal: Stopper::new(),
            ended: ended.signal(),
            manager: self.manager.downgrade(),
        });
        let informer = found.informer.clone();
        let leadership = self.manager.leadership().filter(|_| !self.on_every_replica).cloned();
        let client = self.manager.client().clone();
        let primary = Watched {
            kind: self.primary,
            informer: Some(informer),
            in_use,
            enqueue_for: EnqueueFor::Itself,
            source: Source::Primary,
        };
        let mut sources: Vec<Box<dyn WatchSource>> = vec![Box::new(primary)];
        sources.extend(self.sources);
        let run = Run {
            shared: Arc::clone(&shared),
            client,
            cache: found,
            reconciler: innermost,
            sources,
            owner_scope: self.owner_scope,
            workers: self.max_concurrent,
            leadership,
            events,
            sync_timeout: self.manager.sync_timeout(),
            _ended: ended,
        };
        self.manager.add_controller(&shared, move |launch| run.run(launch))?;
        self.manager.show_controller(&shared);
        self.manager.metrics().controllers().add(figures, shared.read_moment());
        Ok(Controller { shared })
    }
}

/// What the admission plugin OwnerReferencesPermissionEnforcement asks for when an object gets an
/// owner reference that blocks the deletion of the owner.
fn blocks_owners(owner: &Target, controller: &str) -> Use {
    let what = What::Requests(KindAccess::new(Some("finalizers"), [Verb::Update], AccessReason::OwnerReferences));
    Use { target: owner.clone(), by: Some(controller.to_owned()), what }
}
