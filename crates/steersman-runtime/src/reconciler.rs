//! What users write: a function that makes the world as an object wants it.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use steersman_cache::{Cached, Lister, Object, ObjectKey};

use crate::caches::Found;
use crate::reads::Reader;
use crate::{CachedClient, Error, Failure};
use jiff::Timestamp;

/// Makes the world as one object wants it, and says when to look again.
///
/// It is called with a key, not with what changed: read the object with [`Context::object`], which gives `None` when it is gone, and
/// compare what should be with what is. It is never called for the same key twice at a time (contract 5). An error, or a
/// panic, has it called again later, after 5 ms, then 10, 20 and so on; see [`Failure::terminal`].
///
/// ```
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// use steersman_runtime::{Action, Context, Failure, ObjectKey, Reconciler};
///
/// struct Print;
///
/// impl Reconciler<ConfigMap> for Print {
///     type Error = Failure;
///
///     async fn reconcile(&self, ctx: &Context<ConfigMap>, key: &ObjectKey) -> Result<Action, Failure> {
///         let Some(map) = ctx.object(key).await? else { return Ok(Action::done()) };
///         println!("{key} has {} entries", map.get()?.data.iter().flatten().count());
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
    /// What can go wrong: [`Failure`], or any error type.
    type Error: Into<Failure> + Send;

    /// Looks at one object and does what is needed.
    fn reconcile(&self, ctx: &Context<K>, key: &ObjectKey) -> impl Future<Output = Result<Action, Self::Error>> + Send;
}

/// When to look at an object again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Action {
    after: Option<Duration>,
}

impl Action {
    /// When something changes.
    pub fn done() -> Self {
        Self { after: None }
    }

    /// After this time, or when something changes before. It is no failure: earlier ones are forgotten. Zero means at once, after the
    /// keys that wait already and without any back-off: to wait for something that takes its time, say how long, or fail.
    pub fn requeue_after(delay: Duration) -> Self {
        Self { after: Some(delay) }
    }

    /// After which time, if not only when something changes.
    pub fn after(&self) -> Option<Duration> {
        self.after
    }
}

/// What a reconciler works with. Clones are cheap.
pub struct Context<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    controller: String,
    client: CachedClient,
    reader: Reader<K>,
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
    pub(crate) fn new(controller: String, client: CachedClient, found: Found<K>) -> Self {
        let reader = client.reader(found);
        Self { shared: Arc::new(Shared { controller, client, reader }) }
    }

    /// The name of the controller.
    pub fn controller(&self) -> &str {
        &self.shared.controller
    }

    /// Reads from the cache, writes to the server.
    pub fn client(&self) -> &CachedClient {
        &self.shared.client
    }

    /// The time, for conditions and deadlines: the wall clock of the manager's world, which tests set.
    pub fn now(&self) -> Timestamp {
        self.shared.client.world().now()
    }

    /// The cached objects of the controller's own kind, as the cache has them at this moment. It never waits, and so it does not promise
    /// to show what this controller has just written: for that there are [`object`](Self::object) and [`client`](Self::client).
    pub fn lister(&self) -> &Lister<K> {
        self.shared.reader.lister()
    }

    /// The object with this key from the cache; `None` when it is gone. It reads your writes, as [`CachedClient`] does: what this
    /// manager's client wrote is seen, or waited for, and after a while [`Error::Stale`] (contract 6, test
    /// `a_reconcile_that_comes_before_its_own_write_has_come_back_sees_it`). A key outside the declared namespaces is
    /// [`Error::NotCached`], and the reconcile is not tried again.
    pub async fn object(&self, key: &ObjectKey) -> Result<Option<Cached<K>>, Error> {
        self.shared.reader.get(key).await
    }
}

/// A reconciler that is a closure. It is given clones of the context and the key, so that it can keep them.
///
/// ```
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use steersman_runtime::{Action, Context, Failure, ObjectKey, Reconciler, reconcile_fn};
/// let print = reconcile_fn(|ctx: Context<ConfigMap>, key: ObjectKey| async move {
///     println!("{key}: {:?}", ctx.object(&key).await?);
///     Ok::<_, Failure>(Action::done())
/// });
/// # fn is_reconciler(_: impl Reconciler<ConfigMap>) {}
/// # is_reconciler(print);
/// ```
pub fn reconcile_fn<K, F, R, E>(function: F) -> ReconcileFn<K, F>
where
    F: Fn(Context<K>, ObjectKey) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action, E>> + Send,
    E: Into<Failure> + Send,
{
    ReconcileFn { function, kind: PhantomData }
}

/// What [`reconcile_fn`] returns.
pub struct ReconcileFn<K, F> {
    function: F,
    kind: PhantomData<fn() -> K>,
}

impl<K, F> fmt::Debug for ReconcileFn<K, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReconcileFn").finish_non_exhaustive()
    }
}

impl<K, F, R, E> Reconciler<K> for ReconcileFn<K, F>
where
    K: Object,
    F: Fn(Context<K>, ObjectKey) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action, E>> + Send,
    E: Into<Failure> + Send,
{
    type Error = E;

    fn reconcile(&self, ctx: &Context<K>, key: &ObjectKey) -> impl Future<Output = Result<Action, E>> + Send {
        (self.function)(ctx.clone(), key.clone())
    }
}

/// The future of one reconcile.
pub type ReconcileFuture<'a> = Pin<Box<dyn Future<Output = Result<Action, Failure>> + Send + 'a>>;

/// A reconciler whose type is not known: what layers are put around.
pub trait DynReconciler<K>: Send + Sync {
    /// As [`Reconciler::reconcile`].
    fn reconcile<'a>(&'a self, ctx: &'a Context<K>, key: &'a ObjectKey) -> ReconcileFuture<'a>;
}

/// The innermost one.
pub(crate) struct Erased<R>(pub(crate) R);

impl<K: Object, R: Reconciler<K>> DynReconciler<K> for Erased<R> {
    fn reconcile<'a>(&'a self, ctx: &'a Context<K>, key: &'a ObjectKey) -> ReconcileFuture<'a> {
        Box::pin(async move { self.0.reconcile(ctx, key).await.map_err(Into::into) })
    }
}
