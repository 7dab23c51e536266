//! Lookups of host names, measured.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::{fmt, io};

use hyper_util::client::legacy::connect::dns::{GaiAddrs, GaiResolver, Name};
use tokio::time::Instant;
use tower::Service;

use crate::layers::observe::RequestMetrics;

/// The metrics of all handles of a client: they share its connections, and so the lookups.
#[derive(Clone, Default)]
pub(crate) struct Lookups(Arc<Mutex<Vec<Weak<dyn RequestMetrics>>>>);

impl fmt::Debug for Lookups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookups").finish_non_exhaustive()
    }
}

impl Lookups {
    /// Reports to these metrics, as long as a handle of the client has them.
    pub(crate) fn add(&self, metrics: &Arc<dyn RequestMetrics>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|metrics| metrics.strong_count() > 0);
        let metrics = Arc::downgrade(metrics);
        if !all.iter().any(|known| known.ptr_eq(&metrics)) {
            all.push(metrics);
        }
    }

    fn observers(&self) -> Vec<Arc<dyn RequestMetrics>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect()
    }
}

/// The resolver of the system, with a report for each lookup.
#[derive(Clone)]
pub(super) struct Resolver {
    system: GaiResolver,
    lookups: Lookups,
}

impl Resolver {
    pub(super) fn new(lookups: &Lookups) -> Self {
        Self { system: GaiResolver::new(), lookups: lookups.clone() }
    }
}

impl Service<Name> for Resolver {
    type Response = GaiAddrs;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<GaiAddrs>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.system.poll_ready(context)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (host, lookups, started) = (name.as_str().to_owned(), self.lookups.clone(), Instant::now());
        let resolving = self.system.call(name);
        Box::pin(async move {
            let resolved = resolving.await;
            let duration = started.elapsed();
            lookups.observers().iter().for_each(|metrics| metrics.resolved(&host, duration));
            resolved
        })
    }
}
