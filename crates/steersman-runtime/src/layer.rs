//! Layers: code that runs around every reconcile of a controller.
//!
//! [`ControllerBuilder::layer`](crate::ControllerBuilder::layer) adds one. [`layer_fn`] creates a
//! layer from a closure. Every controller has the layers [`Tracing`] and [`PanicGuard`], and
//! [`Timeout`] if it has a [limit](crate::ControllerBuilder::reconcile_timeout).

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use steersman_cache::{Object, ObjectKey};
use steersman_client::Trace;
use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use crate::flight_recorder::log;
use crate::reconciler::DynReconciler;
use crate::{Action, Context, ReconcileError};

/// The future of one reconcile.
pub type ReconcileFuture<'a> = Pin<Box<dyn Future<Output = Result<Action, ReconcileError>> + Send + 'a>>;

/// Runs around every reconcile. A layer can act before it, after it, or instead of it.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use steersman_runtime::Object;
/// use steersman_runtime::layer::{Layer, Next, ReconcileFuture};
///
/// /// Counts the reconciles that fail.
/// struct CountErrors(AtomicU64);
///
/// impl<K: Object> Layer<K> for CountErrors {
///     fn around<'a>(&'a self, next: Next<'a, K>) -> ReconcileFuture<'a> {
///         Box::pin(async move {
///             let result = next.reconcile().await;
///             if result.is_err() {
///                 self.0.fetch_add(1, Ordering::Relaxed);
///             }
///             result
///         })
///     }
/// }
/// ```
pub trait Layer<K>: Send + Sync + 'static {
    /// Runs one reconcile. [`Next::reconcile`] calls the inner layers and the reconciler.
    fn around<'a>(&'a self, next: Next<'a, K>) -> ReconcileFuture<'a>;
}

/// The inner layers and the reconciler, with the arguments of one call.
pub struct Next<'a, K> {
    inner: &'a dyn DynReconciler<K>,
    context: &'a Context<K>,
    key: &'a ObjectKey,
}

impl<'a, K> Next<'a, K> {
    pub(crate) fn new(inner: &'a dyn DynReconciler<K>, context: &'a Context<K>, key: &'a ObjectKey) -> Self {
        Self { inner, context, key }
    }

    /// The context of the reconcile.
    pub fn context(&self) -> &'a Context<K> {
        self.context
    }

    /// The key of the object.
    pub fn key(&self) -> &'a ObjectKey {
        self.key
    }

    /// Calls the inner layers and the reconciler.
    pub fn reconcile(self) -> ReconcileFuture<'a> {
        self.inner.reconcile(self.context, self.key)
    }
}

impl<K> fmt::Debug for Next<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("context", self.context).field("key", self.key).finish_non_exhaustive()
    }
}

/// Creates a layer from a closure.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use steersman_runtime::{Error, Manager, Reconciler, kind};
/// use steersman_runtime::layer::layer_fn;
///
/// # fn example(manager: &Manager, reconciler: impl Reconciler<ConfigMap>) -> Result<(), Error> {
/// manager
///     .controller(kind::<ConfigMap>())
///     .layer(layer_fn(|next| {
///         Box::pin(async move {
///             let key = next.key();
///             let result = next.reconcile().await;
///             println!("{key}: {result:?}");
///             result
///         })
///     }))
///     .complete(reconciler)?;
/// # Ok(())
/// # }
/// ```
pub fn layer_fn<K, F>(function: F) -> impl Layer<K>
where
    K: Object,
    F: for<'a> Fn(Next<'a, K>) -> ReconcileFuture<'a> + Send + Sync + 'static,
{
    LayerFn(function)
}

struct LayerFn<F>(F);

impl<K, F> Layer<K> for LayerFn<F>
where
    K: Object,
    F: for<'a> Fn(Next<'a, K>) -> ReconcileFuture<'a> + Send + Sync + 'static,
{
    fn around<'a>(&'a self, next: Next<'a, K>) -> ReconcileFuture<'a> {
        (self.0)(next)
    }
}

/// A reconciler with a layer around it.
pub(crate) struct Layered<K> {
    pub(crate) layer: Arc<dyn Layer<K>>,
    pub(crate) inner: Arc<dyn DynReconciler<K>>,
}

impl<K: Object> DynReconciler<K> for Layered<K> {
    fn reconcile<'a>(&'a self, ctx: &'a Context<K>, key: &'a ObjectKey) -> ReconcileFuture<'a> {
        self.layer.around(Next::new(&*self.inner, ctx, key))
    }
}

/// Runs each reconcile in a span `reconcile` and logs errors. Its fields are `controller` and
/// `key`, with a [flight recorder](crate::FlightRecorder) also `reconcile_id`, `attempt`, `cause`
/// and `queued`, and `trace_id` if
/// [requests carry it](crate::ManagerBuilder::trace_requests). At the level `debug` it is inside a
/// span `event`, which begins when the first event adds the key.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tracing;

impl<K: Object> Layer<K> for Tracing {
    fn around<'a>(&'a self, next: Next<'a, K>) -> ReconcileFuture<'a> {
        let span = reconcile_span(next.context.controller(), next.key);
        // A subscriber without spans still gets the errors.
        if span.is_disabled() && !tracing::enabled!(tracing::Level::ERROR) {
            return next.reconcile();
        }
        let run = async move {
            let started = Instant::now();
            let result = next.reconcile().await;
            match &result {
                Ok(action) => tracing::debug!(took = ?started.elapsed(), requeue_after = ?action.after(), "reconciled"),
                Err(error) if error.is_terminal() => {
                    tracing::error!(%error, "reconcile failed, will not retry until something changes");
                }
                Err(error) => tracing::warn!(%error, "reconcile failed, will retry"),
            }
            result
        };
        Box::pin(run.instrument(span))
    }
}

/// The span of a reconcile. If there is one of its event, it is inside that.
fn reconcile_span(controller: &str, key: &ObjectKey) -> Span {
    let event = log::with_started(|started| started.causes.span().and_then(Span::id)).flatten();
    macro_rules! span {
        ($($parent:tt)*) => {
            tracing::info_span!(
                $($parent)* "reconcile",
                controller,
                key = key.as_str(),
                reconcile_id = Empty,
                attempt = Empty,
                cause = Empty,
                queued = Empty,
                trace_id = Empty
            )
        };
    }
    let span = match event {
        Some(event) => span!(parent: event,),
        None => span!(),
    };
    if !span.is_disabled() {
        log::with_started(|started| {
            span.record("reconcile_id", started.id).record("attempt", started.attempt);
            if let Some(cause) = started.causes.first() {
                span.record("cause", cause);
            }
            span.record("queued", tracing::field::debug(started.queued));
        });
        if let Some(trace) = Trace::current() {
            span.record("trace_id", trace.id());
        }
    }
    span
}

/// Cancels a reconcile that takes longer than this. It fails with [`TimedOut`], and is retried.
#[derive(Debug, Clone, Copy)]
pub struct Timeout(pub Duration);

impl<K: Object> Layer<K> for Timeout {
    fn around<'a>(&'a self, next: Next<'a, K>) -> ReconcileFuture<'a> {
        Box::pin(async move {
            match tokio::time::timeout(self.0, next.reconcile()).await {
                Ok(result) => result,
                Err(_) => Err(TimedOut(self.0).into()),
            }
        })
    }
}

/// The error of a reconcile that took longer than its [limit](Timeout).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedOut(Duration);

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the reconcile did not end within {:?}", self.0)
    }
}

impl std::error::Error for TimedOut {}

/// Turns a panic of a reconcile into its error, [`Panicked`].
#[derive(Debug, Clone, Copy, Default)]
pub struct PanicGuard;

/// The error of a reconcile that panicked, with the panic message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panicked(String);

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the reconcile panicked: {}", self.0)
    }
}

impl std::error::Error for Panicked {}

impl<K: Object> Layer<K> for PanicGuard {
    fn around<'a>(&'a self, next: Next<'a, K>) -> ReconcileFuture<'a> {
        Box::pin(guarded(next))
    }
}

/// Runs one reconcile and turns a panic into its error.
pub(crate) async fn guarded<K: Object>(next: Next<'_, K>) -> Result<Action, ReconcileError> {
    // Unwind safety of state that calls share is up to the reconciler.
    let caught = AssertUnwindSafe(async { next.reconcile().await }).catch_unwind().await;
    caught.unwrap_or_else(|panic| Err(Panicked(panic_message(&*panic)).into()))
}

/// The message of a panic.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "the panic message is not text".to_owned())
}
