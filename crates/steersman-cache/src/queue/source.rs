//! One list and watch of an informer: the queue between its reflector and the cache.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use tokio::sync::{Notify, watch};

use crate::informer::Inner;
use crate::object::cached::{Cached, Object};
use crate::queue::delta_fifo::{Batch, DeltaFifo};
use crate::reflector::{ReflectorStatus, ReflectorStore};

/// So many deltas may wait; then the reflector does. Each keeps a state in memory, and as it is applied, so does the event that holds
/// the state before; what a burst has once taken, allocators do not give back.
const DELTAS_MAX: usize = 512;
/// So many keys are taken at once.
const KEYS_MAX: usize = 512;

/// The objects of one namespace, or all.
pub(crate) struct Source<K> {
    /// Which namespace; all without.
    pub(crate) namespace: Option<String>,
    /// What its reflector says of itself, and what others say of its objects.
    pub(crate) status: watch::Sender<ReflectorStatus>,
    fifo: Mutex<Fifo<K>>,
    /// A batch has been applied.
    applied: Notify,
}

struct Fifo<K> {
    deltas: DeltaFifo<Cached<K>>,
    /// A batch has been taken out, and is not in the cache yet.
    applying: bool,
}

impl<K: Object> Source<K> {
    /// Of a namespace, or of all; `what` it reads, in words.
    pub(crate) fn new(namespace: Option<String>, what: String) -> Self {
        let fifo = Mutex::new(Fifo { deltas: DeltaFifo::new(), applying: false });
        let status = watch::Sender::new(ReflectorStatus::new(what));
        Self { namespace, status, fifo, applied: Notify::new() }
    }

    fn fifo(&self) -> MutexGuard<'_, Fifo<K>> {
        self.fifo.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, put: impl FnOnce(&mut DeltaFifo<Cached<K>>)) {
        put(&mut self.fifo().deltas);
    }

    /// How many deltas wait to be applied.
    pub(crate) fn pending(&self) -> usize {
        self.fifo().deltas.deltas()
    }

    /// Whether the reflector waits until some of it is applied.
    pub(crate) fn is_full(&self) -> bool {
        self.pending() >= DELTAS_MAX
    }

    /// Waits until there is something to take. Nobody wakes who waits here: it is polled each time after the only one who puts in,
    /// in the same task.
    pub(crate) async fn filled(&self) {
        poll_fn(|_| if self.fifo().deltas.is_empty() { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    /// Takes a batch out, which the caller applies and then says so. With it: whether the first list is out with it.
    pub(crate) fn take(&self) -> Option<(Batch<Cached<K>>, bool)> {
        let mut fifo = self.fifo();
        let batch = fifo.deltas.pop(KEYS_MAX)?;
        fifo.applying = true;
        let synced = fifo.deltas.has_synced();
        Some((batch, synced))
    }

    /// The batch that was taken last is in the cache.
    pub(crate) fn applied(&self) {
        self.fifo().applying = false;
        self.applied.notify_one();
    }

    async fn wait(&self, ready: impl Fn(&Fifo<K>) -> bool) {
        while !ready(&self.fifo()) {
            self.applied.notified().await;
        }
    }
}

/// The end of a source at which its reflector puts in.
pub(crate) struct Intake<K> {
    pub(crate) source: Arc<Source<K>>,
    pub(crate) inner: Arc<Inner<K>>,
}

impl<K: Object> ReflectorStore<K> for Intake<K> {
    fn known(&self, namespace: &str, name: &str) -> Option<Cached<K>> {
        self.inner.indexer().get(namespace, name).cloned()
    }

    fn add(&self, object: Cached<K>) {
        self.source.push(|deltas| deltas.add(object));
    }

    fn update(&self, object: Cached<K>) {
        self.source.push(|deltas| deltas.update(object));
    }

    fn delete(&self, object: Cached<K>) {
        // It may be in a batch that is on its way into the cache. Of one that is not known nobody is told.
        self.source.push(|deltas| deltas.delete(object, true));
    }

    fn delete_unseen(&self, object: Cached<K>) {
        self.source.push(|deltas| deltas.delete_unseen(object, true));
    }

    fn bookmark(&self, resource_version: &str) {
        self.source.push(|deltas| deltas.bookmark(resource_version));
    }

    fn replace(&self, objects: Vec<Cached<K>>, resource_version: &str) {
        self.source.push(|deltas| deltas.replace(objects, resource_version));
    }

    async fn room(&self) {
        self.source.wait(|fifo| fifo.deltas.deltas() < DELTAS_MAX).await;
    }

    async fn applied(&self) {
        self.source.wait(|fifo| fifo.deltas.is_empty() && !fifo.applying).await;
    }
}
