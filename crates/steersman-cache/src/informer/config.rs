//! The configuration and the metrics of an informer.

use steersman_world::World;

use crate::{ReflectorOptions, StorageMetrics, StorageOptions};

/// Configuration of an [`Informer`](crate::Informer).
#[derive(Debug)]
pub struct InformerConfig<K> {
    /// What the informer is for, in errors and logs: `Pod`.
    pub kind: String,
    /// How objects are stored.
    pub storage: StorageOptions<K>,
    /// How lists and watches are requested.
    pub reflector: ReflectorOptions,
    /// Source of the randomness in back-offs and watch timeouts.
    pub world: World,
}

/// Metrics of an [`Informer`](crate::Informer).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct InformerMetrics {
    /// Number of objects in the cache.
    pub objects: usize,
    /// Number of deltas that are not yet in the cache.
    pub deltas_pending: usize,
    /// Number of events that wait for their handlers, summed over all handlers.
    pub events_pending: usize,
    /// Number of events that were merged into others of the same object, because their handler was
    /// far behind: see [`EventHandler`](crate::EventHandler).
    pub events_merged_total: u64,
    /// Number of resyncs that a handler skipped, because it had not finished the previous one.
    pub resyncs_skipped_total: u64,
    /// Number of panics of index functions. Each leaves one object without values in one index.
    pub index_panics_total: u64,
    /// Metrics of the storage.
    pub storage: StorageMetrics,
}
