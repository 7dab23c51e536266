//! One list and watch of an informer: the lock and the waiting around its [`DeltaFifo`].

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use tokio::sync::{Notify, watch};

use crate::informer::Inner;
use crate::object::cached::{Cached, Object};
use crate::queue::delta_fifo::{Batch, DeltaFifo};
use crate::reflector::{ReflectorStatus, ReflectorStore};

/// Deltas in the queue. Beyond it, the reflector waits. Each delta holds a state in memory, and its
/// event holds the previous state; allocators do not return the memory of a burst.
const DELTAS_MAX: usize = 512;
/// Keys per batch.
const KEYS_MAX: usize = 512;

/// The objects of one namespace, or all.
pub(crate) struct Source<K> {
    /// Its namespace; all without.
    pub(crate) namespace: Option<String>,
    /// The status of its reflector, including the objects that index functions cannot decode.
    pub(crate) status: watch::Sender<ReflectorStatus>,
    queue: Mutex<Queue<K>>,
    /// Notified when a batch has been applied.
    applied: Notify,
}

struct Queue<K> {
    deltas: DeltaFifo<Cached<K>>,
    /// Whether a batch has been popped that is not in the cache yet.
    applying: bool,
}

impl<K: Object> Source<K> {
    /// `resource` is what its reflector lists, for the status.
    pub(crate) fn new(namespace: Option<String>, resource: String) -> Self {
        let queue = Mutex::new(Queue { deltas: DeltaFifo::new(), applying: false });
        let status = watch::Sender::new(ReflectorStatus::new(resource));
        Self { namespace, status, queue, applied: Notify::new() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue<K>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, push: impl FnOnce(&mut DeltaFifo<Cached<K>>)) {
        push(&mut self.queue().deltas);
    }

    /// Number of deltas that are not applied.
    pub(crate) fn pending(&self) -> usize {
        self.queue().deltas.deltas()
    }

    /// Whether the reflector waits for capacity.
    pub(crate) fn is_full(&self) -> bool {
        self.pending() >= DELTAS_MAX
    }

    /// Waits until the queue is not empty.
    ///
    /// Registers no waker: reflector and consumer share one `join!`, so each push is followed by a
    /// poll of this future. [`run_source`](crate::informer::source_task::run_source) is that
    /// `join!`; nothing else may await this.
    pub(crate) async fn non_empty(&self) {
        poll_fn(|_| if self.queue().deltas.is_empty() { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    /// Pops a batch, and whether it completes the first list. The caller applies it and then calls
    /// [`mark_applied`](Self::mark_applied).
    pub(crate) fn pop(&self) -> Option<(Batch<Cached<K>>, bool)> {
        let mut queue = self.queue();
        let batch = queue.deltas.pop(KEYS_MAX)?;
        queue.applying = true;
        let synced = queue.deltas.has_synced();
        Some((batch, synced))
    }

    /// The popped batch is in the cache.
    pub(crate) fn mark_applied(&self) {
        self.queue().applying = false;
        self.applied.notify_one();
    }

    async fn wait_until(&self, ready: impl Fn(&Queue<K>) -> bool) {
        while !ready(&self.queue()) {
            self.applied.notified().await;
        }
    }
}

/// The reflector's end of a source.
pub(crate) struct SourceStore<K> {
    pub(crate) source: Arc<Source<K>>,
    pub(crate) inner: Arc<Inner<K>>,
}

impl<K: Object> ReflectorStore<K> for SourceStore<K> {
    fn get(&self, namespace: &str, name: &str) -> Option<Cached<K>> {
        self.inner.indexer().get(namespace, name).cloned()
    }

    fn add(&self, object: Cached<K>) {
        self.source.push(|deltas| deltas.add(object));
    }

    fn update(&self, object: Cached<K>) {
        self.source.push(|deltas| deltas.update(object));
    }

    fn delete(&self, object: Cached<K>) {
        self.source.push(|deltas| deltas.delete(object));
    }

    fn delete_unseen(&self, object: Cached<K>) {
        self.source.push(|deltas| deltas.delete_unseen(object));
    }

    fn bookmark(&self, resource_version: &str) {
        self.source.push(|deltas| deltas.bookmark(resource_version));
    }

    fn replace(&self, objects: Vec<Cached<K>>, resource_version: &str) {
        self.source.push(|deltas| deltas.replace(objects, resource_version));
    }

    async fn wait_for_capacity(&self) {
        self.source.wait_until(|queue| queue.deltas.deltas() < DELTAS_MAX).await;
    }

    async fn wait_until_applied(&self) {
        self.source.wait_until(|queue| queue.deltas.is_empty() && !queue.applying).await;
    }
}
