//! The figures of caches and of their watches.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tokio::time::Instant;

use super::families::Families;
use crate::caches::Caches;

/// Reads the figures at each scrape.
pub(crate) struct CacheFigures(Weak<Caches>);

impl CacheFigures {
    pub(crate) fn new(caches: &Arc<Caches>) -> Self {
        Self(Arc::downgrade(caches))
    }
}

impl fmt::Debug for CacheFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CacheFigures")
    }
}

/// The sums over the caches of one name.
#[derive(Default)]
struct Cache {
    objects: u64,
    bytes: u64,
    decodes: u64,
    pending: u64,
}

impl Collector for CacheFigures {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(caches) = self.0.upgrade() else { return Ok(()) };
        let mut families = Families(encoder);
        // Several caches may hold the same objects in different forms.
        let mut by_resource: BTreeMap<String, Cache> = BTreeMap::new();
        for (resource, metrics) in caches.metrics() {
            let cache = by_resource.entry(resource).or_default();
            cache.objects += metrics.objects as u64;
            cache.bytes += metrics.storage.body_bytes as u64;
            cache.decodes += metrics.storage.decodes_total;
            cache.pending += metrics.events_pending as u64;
        }
        let each = || by_resource.iter().map(|(resource, cache)| ([("resource", &**resource)], cache));
        families.gauge(
            "cache_objects",
            "Number of objects in the cache.",
            each().map(|(labels, cache)| (labels, cache.objects)),
        )?;
        families.gauge(
            "cache_bytes",
            "Size of the stored bodies of the cache in bytes.",
            each().map(|(labels, cache)| (labels, cache.bytes)),
        )?;
        families.counter(
            "cache_decodes",
            "Number of times that a whole object of the cache was decoded.",
            each().map(|(labels, cache)| (labels, cache.decodes)),
        )?;
        families.gauge(
            "informer_handler_backlog",
            "Number of events that wait for handlers.",
            each().map(|(labels, cache)| (labels, cache.pending)),
        )?;

        let now = Instant::now().into_std();
        let (mut lag, mut restarts) = (BTreeMap::<String, f64>::new(), BTreeMap::<(String, &str), u64>::new());
        for status in caches.status() {
            if let Some(at) = status.last_progress() {
                let age = now.saturating_duration_since(at).as_secs_f64();
                // Of several watches of a resource, the one that is behind counts.
                let lag = lag.entry(status.resource.clone()).or_default();
                *lag = lag.max(age);
            }
            for (reason, count) in status.watch_restarts() {
                *restarts.entry((status.resource.clone(), reason)).or_default() += count;
            }
        }
        families.gauge(
            "informer_lag_seconds",
            "Seconds since the server last confirmed the version of the cache by an event or a bookmark.",
            lag.iter().map(|(resource, age)| ([("resource", &**resource)], *age)),
        )?;
        families.counter(
            "watch_restarts",
            "Number of watches that ended or failed, by reason.",
            restarts
                .iter()
                .map(|((resource, reason), count)| ([("resource", &**resource), ("reason", *reason)], *count)),
        )
    }
}
