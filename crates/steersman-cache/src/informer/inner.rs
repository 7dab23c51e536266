//! What the tasks, listers and subscriptions of an informer share.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

use super::processor::Processor;
use crate::reflector::backoff_control::BackoffControl;
use crate::reflector::{ErrorHook, ShortBackoff};
use crate::store::indexer::Indexer;
use crate::{Error, Storage};

/// What the tasks, listers and subscriptions of an informer share.
pub(crate) struct Inner<K> {
    pub(super) kind: String,
    pub(super) indexer: RwLock<Indexer<K>>,
    pub(super) storage: Storage<K>,
    /// Held while a batch is applied and its events are sent, so that all handlers see one order.
    pub(super) processor: Mutex<Processor<K>>,
    pub(super) progress: watch::Sender<Progress>,
    /// Wakes the resync task.
    pub(super) handlers_changed: Notify,
    pub(super) index_panics: AtomicU64,
    pub(super) backoff_control: Arc<BackoffControl>,
    /// Called with failures of lists and watches.
    pub(super) on_error: ErrorHook,
    /// The message of the panic that ended a task.
    pub(super) failure: OnceLock<String>,
}

/// Progress of an informer, for callers that wait.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    /// Number of applied batches.
    pub(crate) batches: u64,
    /// Number of batches that changed an object.
    pub(crate) changes: u64,
    /// Whether the initial objects are in the cache.
    pub(crate) synced: bool,
    /// Whether the cache no longer changes.
    pub(crate) stopped: bool,
}

impl<K> Inner<K> {
    pub(crate) fn indexer(&self) -> RwLockReadGuard<'_, Indexer<K>> {
        self.indexer.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn processor(&self) -> MutexGuard<'_, Processor<K>> {
        self.processor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error of a call after the end of the informer.
    pub(super) fn stopped(&self) -> Error {
        let kind = self.kind.clone();
        match self.failure.get() {
            Some(panic) => Error::Failed { informer: kind, panic: panic.clone() },
            None => Error::Stopped { kind },
        }
    }

    /// An error if there is no tokio runtime to spawn tasks on.
    pub(super) fn require_runtime(&self) -> Result<(), Error> {
        Handle::try_current().map(drop).map_err(|_| Error::NoRuntime { kind: self.kind.clone() })
    }

    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }

    pub(crate) fn shorten_backoff(&self) -> ShortBackoff {
        self.backoff_control.shorten()
    }

    pub(crate) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }
}
