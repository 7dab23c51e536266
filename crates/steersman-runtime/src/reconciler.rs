//! The reconciler, its context and its result.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use steersman_cache::{Cached, Lister, Object, ObjectKey};

use crate::caches::CacheHandle;
use crate::layer::ReconcileFuture;
use crate::leader_election::{Epoch, Leadership};
use crate::read_your_writes::CacheReader;
use crate::stop::StopSignal;
use crate::{CachedClient, Error, EventRecorder, ReconcileError};

/// Brings the world to the state that an object describes.
///
/// A reconciler receives the key of an object, not the change: it reads the object with
/// [`Context::get`], which returns `None` for a deleted object, and compares the desired state with
/// the actual one. It never runs twice at a time for the same key (contract 5). After an error or a
/// panic it runs again with back-off: after 5 ms, 10 ms, 20 ms and so on.
/// [`ReconcileError::terminal`] is not retried.
///
/// ```
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// use steersman_runtime::{Action, Context, ObjectKey, ReconcileError, Reconciler};
///
/// struct Print;
///
/// impl Reconciler<ConfigMap> for Print {
///     type Error = ReconcileError;
///
///     async fn reconcile(&self, ctx: &Context<ConfigMap>, key: &ObjectKey) -> Result<Action, ReconcileError> {
///         let Some(map) = ctx.get(key).await? else { return Ok(Action::done()) };
///         println!("{key} has {} entries", map.data.iter().flatten().count());
///         Ok(Action::done())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a reconciler of `{K}`",
    label = "implement `Reconciler<{K}>` for it, or give a closure to `reconcile_fn`",
    note = "a reconciler has `async fn reconcile(&self, ctx: &Context<{K}>, key: &ObjectKey) -> Result<Action, Self::Error>`"
)]
pub trait Reconciler<K>: Send + Sync + 'static {
    /// The error of a reconcile: [`ReconcileError`], or any error type.
    type Error: Into<ReconcileError> + Send;

    /// Reconciles one object.
    fn reconcile(&self, ctx: &Context<K>, key: &ObjectKey) -> impl Future<Output = Result<Action, Self::Error>> + Send;
}

/// When an object is reconciled again after a success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Action {
    after: Option<Duration>,
}

impl Action {
    /// Reconciles the object again when something changes.
    pub fn done() -> Self {
        Self { after: None }
    }

    /// Reconciles the object again after this time, or earlier if something changes. This is a
    /// success: it resets the back-off of the key. A delay of zero reconciles it after the keys
    /// that are queued already, without back-off. To poll for something slow, use a delay, or
    /// return an error.
    pub fn requeue_after(delay: Duration) -> Self {
        Self { after: Some(delay) }
    }

    /// The delay of [`requeue_after`](Self::requeue_after).
    pub fn after(&self) -> Option<Duration> {
        self.after
    }
}

/// The arguments of every reconcile: the objects of the controller's kind, the client, the clock
/// and the stop signal. Clones are cheap.
pub struct Context<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    controller: String,
    events: EventRecorder,
    client: CachedClient,
    reader: CacheReader<K>,
    stop: StopSignal,
    /// The term that it belongs to.
    term: Option<(Leadership, Epoch)>,
}

impl<K> Clone for Context<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K> fmt::Debug for Context<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("controller", &self.shared.controller).finish_non_exhaustive()
    }
}

impl<K: Object> Context<K> {
    pub(crate) fn new(
        controller: String,
        client: CachedClient,
        cache: CacheHandle<K>,
        stop: StopSignal,
        term: Option<(Leadership, Epoch)>,
        events: EventRecorder,
    ) -> Self {
        let reader = client.reader(cache);
        Self { shared: Arc::new(Shared { controller, events, client, reader, stop, term }) }
    }

    /// The name of the controller.
    pub fn controller(&self) -> &str {
        &self.shared.controller
    }

    /// Records Events about objects, which `kubectl describe` shows. It never waits for the server:
    /// see [`EventRecorder`].
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use steersman_runtime::Context;
    /// # fn example(ctx: &Context<ConfigMap>, map: &ConfigMap) {
    /// ctx.events().normal(map, "Copied", "Copy", "copied to 3 namespaces");
    /// # }
    /// ```
    pub fn events(&self) -> &EventRecorder {
        &self.shared.events
    }

    /// The client of the manager: it reads from the caches and writes to the server.
    pub fn client(&self) -> &CachedClient {
        &self.shared.client
    }

    /// Reads the object with this key from the cache, and decodes it. Returns `None` if it does not
    /// exist. Use [`object`](Self::object) if the metadata is enough.
    ///
    /// Reads your writes, as [`CachedClient`] does: it returns what this manager's client has
    /// written or a later state, waits if the cache is behind, and fails with [`Error::Stale`]
    /// after a while (contract 6, test
    /// `a_reconcile_that_comes_before_its_own_write_has_come_back_sees_it`). A key outside the
    /// declared namespaces is [`Error::NotCached`], which is not retried.
    pub async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, Error> {
        let object = self.object(key).await?;
        Ok(object.map(|object| object.get()).transpose()?)
    }

    /// As [`get`](Self::get), but decodes the object only when
    /// [`Cached::get`](steersman_cache::Cached::get) is called. Its metadata needs no decoding.
    pub async fn object(&self, key: &ObjectKey) -> Result<Option<Cached<K>>, Error> {
        self.shared.reader.get(key).await
    }

    /// The cached objects of the controller's kind. A lister never waits, and so it may not show
    /// what this controller has just written. [`get`](Self::get), [`object`](Self::object) and
    /// [`client`](Self::client) do.
    pub fn lister(&self) -> &Lister<K> {
        self.shared.reader.lister()
    }

    /// The current time, for conditions and deadlines. It is the wall clock of the manager's
    /// [`World`](steersman_world::World), which tests can set.
    pub fn now(&self) -> Timestamp {
        self.shared.client.world().now()
    }

    /// The term of leadership that this reconcile belongs to. `None` once that term is over, also
    /// if this replica leads again in another one, without leader election, and for controllers
    /// that run on every replica. Systems outside Kubernetes can refuse requests of an earlier
    /// [`Epoch`].
    pub fn epoch(&self) -> Option<Epoch> {
        let (leadership, epoch) = self.shared.term.as_ref()?;
        leadership.is_current(epoch).then(|| epoch.clone())
    }

    /// The signal that the controller stops. A reconcile that takes long ends early if it waits for
    /// this; the manager waits for it no longer than
    /// [the grace period](crate::ManagerBuilder::grace_period).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use steersman_runtime::{Action, Context, ReconcileError};
    /// # async fn copy_large_file() {}
    /// # async fn example(ctx: Context<ConfigMap>) -> Result<Action, ReconcileError> {
    /// tokio::select! {
    ///     biased;
    ///     () = copy_large_file() => Ok(Action::done()),
    ///     () = ctx.stop_signal().stopped() => Err(ReconcileError::message("stopped before the copy was complete")),
    /// }
    /// # }
    /// ```
    pub fn stop_signal(&self) -> &StopSignal {
        &self.shared.stop
    }
}

/// Creates a reconciler from a closure. The closure receives clones of the context and the key, so
/// that its future can own them. Any error type becomes a [`ReconcileError`] with `?`.
///
/// ```
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use steersman_runtime::{Action, Context, ObjectKey, Reconciler, reconcile_fn};
/// let print = reconcile_fn(|ctx: Context<ConfigMap>, key: ObjectKey| async move {
///     println!("{key}: {:?}", ctx.get(&key).await?);
///     Ok(Action::done())
/// });
/// # fn is_reconciler(_: impl Reconciler<ConfigMap>) {}
/// # is_reconciler(print);
/// ```
pub fn reconcile_fn<K, F, R>(function: F) -> impl Reconciler<K>
where
    K: Object,
    F: Fn(Context<K>, ObjectKey) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action, ReconcileError>> + Send,
{
    ReconcileFn { function, kind: PhantomData }
}

struct ReconcileFn<K, F> {
    function: F,
    kind: PhantomData<fn() -> K>,
}

impl<K, F, R> Reconciler<K> for ReconcileFn<K, F>
where
    K: Object,
    F: Fn(Context<K>, ObjectKey) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action, ReconcileError>> + Send,
{
    type Error = ReconcileError;

    fn reconcile(
        &self,
        ctx: &Context<K>,
        key: &ObjectKey,
    ) -> impl Future<Output = Result<Action, ReconcileError>> + Send {
        (self.function)(ctx.clone(), key.clone())
    }
}

/// A reconciler of any type, so that layers can wrap it.
pub(crate) trait DynReconciler<K>: Send + Sync {
    /// As [`Reconciler::reconcile`].
    fn reconcile<'a>(&'a self, ctx: &'a Context<K>, key: &'a ObjectKey) -> ReconcileFuture<'a>;
}

/// The user's reconciler, inside all layers.
pub(crate) struct Erased<R>(pub(crate) R);

impl<K: Object, R: Reconciler<K>> DynReconciler<K> for Erased<R> {
    fn reconcile<'a>(&'a self, ctx: &'a Context<K>, key: &'a ObjectKey) -> ReconcileFuture<'a> {
        Box::pin(async move { self.0.reconcile(ctx, key).await.map_err(Into::into) })
    }
}
