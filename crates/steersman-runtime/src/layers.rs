//! What is done around every reconcile.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use steersman_cache::{Object, ObjectKey};
use tokio::time::Instant;
use tracing::Instrument;

use crate::reconciler::{DynReconciler, ReconcileFuture};
use crate::{Action, Context, Failure};

/// Something that is done around every reconcile: before it, after it, or instead of it.
///
/// ```
/// # use std::sync::Arc;
/// # use steersman_runtime::{Context, DynReconciler, Layer, Object, ObjectKey, ReconcileFuture};
/// /// Counts how many reconciles fail.
/// struct CountFailures(std::sync::atomic::AtomicU64);
///
/// impl<K: Object> Layer<K> for CountFailures {
///     fn around<'a>(
///         &'a self,
///         inner: &'a dyn DynReconciler<K>,
///         ctx: &'a Context<K>,
///         key: &'a ObjectKey,
///     ) -> ReconcileFuture<'a> {
///         Box::pin(async move {
///             let result = inner.reconcile(ctx, key).await;
///             if result.is_err() {
///                 self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
///             }
///             result
///         })
///     }
/// }
/// ```
pub trait Layer<K>: Send + Sync + 'static {
    /// Calls `inner`, or not.
    fn around<'a>(
        &'a self,
        inner: &'a dyn DynReconciler<K>,
        ctx: &'a Context<K>,
        key: &'a ObjectKey,
    ) -> ReconcileFuture<'a>;
}

/// A reconciler with a layer around it.
pub(crate) struct Layered<K> {
    pub(crate) layer: Arc<dyn Layer<K>>,
    pub(crate) inner: Arc<dyn DynReconciler<K>>,
}

impl<K: Object> DynReconciler<K> for Layered<K> {
    fn reconcile<'a>(&'a self, ctx: &'a Context<K>, key: &'a ObjectKey) -> ReconcileFuture<'a> {
        self.layer.around(&*self.inner, ctx, key)
    }
}

/// Runs each reconcile in a span `reconcile` with the controller's name and the key, and logs failures.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tracing;

impl<K: Object> Layer<K> for Tracing {
    fn around<'a>(
        &'a self,
        inner: &'a dyn DynReconciler<K>,
        ctx: &'a Context<K>,
        key: &'a ObjectKey,
    ) -> ReconcileFuture<'a> {
        let span = tracing::info_span!("reconcile", controller = ctx.controller(), key = key.as_str());
        // Failures are logged also where spans are not wanted.
        if span.is_disabled() && !tracing::enabled!(tracing::Level::ERROR) {
            return inner.reconcile(ctx, key);
        }
        let run = async move {
            let started = Instant::now();
            let result = inner.reconcile(ctx, key).await;
            match &result {
                Ok(action) => tracing::debug!(took = ?started.elapsed(), again_after = ?action.after(), "reconciled"),
                Err(failure) if failure.is_terminal() => {
                    tracing::error!(error = %failure, "failed, not to be tried again");
                }
                Err(failure) => tracing::warn!(error = %failure, "failed, to be tried again"),
            }
            result
        };
        Box::pin(run.instrument(span))
    }
}

/// Ends a reconcile that takes too long, as a failure.
#[derive(Debug, Clone, Copy)]
pub struct Timeout(pub Duration);

impl<K: Object> Layer<K> for Timeout {
    fn around<'a>(
        &'a self,
        inner: &'a dyn DynReconciler<K>,
        ctx: &'a Context<K>,
        key: &'a ObjectKey,
    ) -> ReconcileFuture<'a> {
        Box::pin(async move {
            match tokio::time::timeout(self.0, inner.reconcile(ctx, key)).await {
                Ok(result) => result,
                Err(_) => Err(Failure::message(format!("it took longer than {:?} and was ended", self.0))),
            }
        })
    }
}

/// Makes a failure of a panic.
#[derive(Debug, Clone, Copy, Default)]
pub struct PanicGuard;

/// A reconcile panicked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panicked(String);

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it panicked: {}", self.0)
    }
}

impl std::error::Error for Panicked {}

impl<K: Object> Layer<K> for PanicGuard {
    fn around<'a>(
        &'a self,
        inner: &'a dyn DynReconciler<K>,
        ctx: &'a Context<K>,
        key: &'a ObjectKey,
    ) -> ReconcileFuture<'a> {
        Box::pin(guarded(inner, ctx, key))
    }
}

/// One reconcile, whose panic is its failure.
pub(crate) async fn guarded<K: Object>(
    inner: &dyn DynReconciler<K>,
    ctx: &Context<K>,
    key: &ObjectKey,
) -> Result<Action, Failure> {
    // What a reconciler shares between calls is its own to keep whole.
    let caught = AssertUnwindSafe(async { inner.reconcile(ctx, key).await }).catch_unwind().await;
    caught.unwrap_or_else(|panic| Err(Panicked(words(&*panic)).into()))
}

/// What a panic said.
pub(crate) fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "something that is no text".to_owned())
}
