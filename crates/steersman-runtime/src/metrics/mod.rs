//! Metrics with controller-runtime's names, labels and types, so that its dashboards work.
//!
//! Every manager has a registry of its own: [`Manager::metrics`](crate::Manager::metrics). Workers
//! and queues count with atomics, and a scrape reads them.
//! [`ManagerBuilder::metrics`](crate::ManagerBuilder::metrics) serves them at `/metrics`.
//!
//! | names | of |
//! |---|---|
//! | `controller_runtime_*`, `workqueue_*`, `reconcile_*` | controllers and their queues |
//! | `rest_client_*` | requests of the manager's client |
//! | `cache_*`, `informer_*`, `watch_restarts_total` | caches and watches |
//! | `event_recorder_*` | recorded Events |
//! | `leader_election_*` | the Lease |
//! | `certwatcher_*` | certificates of servers |
//! | `process_*` | the process, on Linux |
//!
//! The format is Prometheus' text format 0.0.4, as controller-runtime's.

mod authorization;
mod caches;
mod controllers;
mod events;
mod families;
mod histogram;
mod lease;
mod loopback;
mod process;
mod requests;
mod server;
mod text;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;
use steersman_http::CertificateMetrics;

pub use prometheus_client;
pub use server::MetricsServer;

pub(crate) use authorization::Authorization;
pub(crate) use caches::CacheFigures;
pub(crate) use controllers::{ControllerFigures, Controllers, CountQueue, Moment, ReadMoment};
pub(crate) use events::EventFigures;
pub(crate) use lease::Lease;
pub(crate) use loopback::LoopbackOnly;
pub(crate) use requests::Requests;
pub(crate) use server::BoundMetrics;

use families::Families;

/// The metrics of a manager. Clones are the same.
///
/// ```
/// # use steersman_runtime::Manager;
/// use steersman_runtime::metrics::prometheus_client::metrics::counter::Counter;
///
/// # fn example(manager: &Manager) {
/// let networks = Counter::<u64>::default();
/// // Shown as `networks_created_total`.
/// manager.metrics().register(|registry| {
///     registry.register("networks_created", "Networks created in Neutron", networks.clone());
/// });
/// networks.inc();
/// # }
/// ```
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    controllers: Arc<Controllers>,
    certificates: CertificateMetrics,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("controllers", &self.controllers).finish_non_exhaustive()
    }
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let (controllers, certificates) = (Arc::new(Controllers::default()), CertificateMetrics::default());
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Arc::clone(&controllers)));
        registry.register_collector(Box::new(Certificates(certificates.clone())));
        registry.register_collector(Box::new(process::Process));
        Self { registry: Arc::new(Mutex::new(registry)), controllers, certificates }
    }

    /// Adds metrics to the registry.
    pub fn register<T>(&self, register: impl FnOnce(&mut Registry) -> T) -> T {
        register(&mut self.registry.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// All metrics in Prometheus' text format.
    pub fn encode(&self) -> String {
        let mut open_metrics = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        // Fails only if a collector of the program does: the rest is shown.
        if prometheus_client::encoding::text::encode_registry(&mut open_metrics, &registry).is_err() {
            tracing::error!("a collector of metrics failed");
        }
        drop(registry);
        text::from_open_metrics(&open_metrics)
    }

    pub(crate) fn collect(&self, collector: impl Collector) {
        self.register(|registry| registry.register_collector(Box::new(collector)));
    }

    pub(crate) fn controllers(&self) -> &Controllers {
        &self.controllers
    }

    pub(crate) fn certificates(&self) -> &CertificateMetrics {
        &self.certificates
    }
}

/// How often certificates were read.
#[derive(Debug)]
struct Certificates(CertificateMetrics);

impl Collector for Certificates {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        const NO_LABELS: [(&str, &str); 0] = [];
        let mut families = Families(encoder);
        families.counter(
            "certwatcher_read_certificate",
            "Total number of certificate reads.",
            [(NO_LABELS, self.0.reads_total())],
        )?;
        families.counter(
            "certwatcher_read_certificate_errors",
            "Total number of certificate read errors.",
            [(NO_LABELS, self.0.errors_total())],
        )
    }
}
