//! Lists and watches one kind, and writes what it reads into a store.
//!
//! [`Reflector`] is the loop. `lists.rs` reads the objects that exist, `watches.rs` follows their
//! changes, and `retries.rs` decides how long to wait after a failure.

mod backoff;
pub(crate) mod backoff_control;
mod error_hook;
mod item_decoder;
mod list_pipeline;
pub(crate) mod lister_watcher;
mod listing;
mod lists;
mod options;
mod retries;
mod status;
mod store;
mod watches;

use std::convert::Infallible;
use std::sync::Arc;

use steersman_client::Error;
use steersman_wire::ObjectError;
use steersman_world::World;
use tokio::sync::watch;
use tokio::time::Instant;

pub use backoff_control::ShortBackoff;
pub(crate) use error_hook::ErrorHook;
pub use lister_watcher::{ApiListerWatcher, ListOptions, ListStream, ListerWatcher, WatchOptions, WatchStream};
pub use options::ReflectorOptions;
pub(crate) use status::report_decode_error;
pub use status::{Phase, Reason, ReflectorError, ReflectorStatus, StatusReader};
pub use store::ReflectorStore;

use crate::object::cached::{Cached, Object};
use crate::object::storage::Stored;
use crate::{ObjectKey, Storage};
use backoff::Backoff;
use backoff_control::BackoffControl;
use item_decoder::ItemDecoder;
use status::{Progress, report_unreadable};

/// Keeps a [`ReflectorStore`] equal to the server: lists, watches, and lists again when the server
/// no longer has the version.
///
/// **Guarantees.** The tests in `tests/reflector` hold each of them.
///
/// - For each object, the store receives a subsequence of its states at the server, in their order
///   (contract 1).
/// - An object that cannot be read is reported in the status and skipped. No error ends the
///   reflector (contract 9).
/// - If an update cannot be read, the cached version stays. If a deletion cannot be read, the
///   object is removed anyway. The version of a skipped event is reached with the next event that
///   can be read.
/// - The reflector never requests in a busy loop, whatever the server does.
///
/// **Watches without progress.** After five watches in a row that end without an event or a
/// bookmark, the reflector backs off and lists. A proxy that holds back the head of a watch, or a
/// gateway that ignores `watch=true`, therefore delays the cache instead of freezing it (test
/// `five_watches_without_an_event_are_followed_by_a_list`). Refused and reset connections and 429
/// do not count: a list would fail too, or add to the load. A quiet kind on a server without
/// bookmarks is listed once per five watches.
///
/// **Back-off.** 0.8 s, doubled up to 30 s, each with a random factor of 1 to 2;
/// [`ReflectorOptions`] can change both. While a kind is
/// not installed, the reflector lists again after 1.5 to 3 s at most. A Retry-After is the shortest
/// wait, up to 60 s; longer ones count as 60 s.
pub struct Reflector<K, L, S> {
    lister_watcher: L,
    decoder: ItemDecoder<K>,
    store: S,
    options: ReflectorOptions,
    status: watch::Sender<ReflectorStatus>,
    progress: Arc<Progress>,
    /// All events up to this version have been read. Empty before the first list.
    version: String,
    /// Whether the server has rejected that version.
    version_rejected: bool,
    /// Number of consecutive watches that failed, or ended without an event or a bookmark.
    stalled_watches: u32,
    /// Whether the last list found that the kind is not installed.
    not_installed: bool,
    backoff: Backoff,
    backoff_control: Arc<BackoffControl>,
    on_error: ErrorHook,
    world: World,
    /// The failure that was last logged as a warning, and when.
    warned: Option<(Reason, Instant)>,
}

/// What a reflector shares with its informer.
pub(crate) struct ReflectorContext {
    pub(crate) status: watch::Sender<ReflectorStatus>,
    pub(crate) backoff_control: Arc<BackoffControl>,
    pub(crate) on_error: ErrorHook,
    pub(crate) world: World,
}

impl<K, L: ListerWatcher, S> std::fmt::Debug for Reflector<K, L, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reflector").field("status", &*self.status.borrow()).finish_non_exhaustive()
    }
}

impl<K: Object, L: ListerWatcher, S: ReflectorStore<K>> Reflector<K, L, S> {
    /// A reflector that has not started.
    pub fn new(lister_watcher: L, storage: Storage<K>, store: S, options: ReflectorOptions) -> Self {
        let context = ReflectorContext {
            status: watch::Sender::new(ReflectorStatus::new(lister_watcher.describe())),
            backoff_control: Arc::default(),
            on_error: ErrorHook::default(),
            world: World::system(),
        };
        Self::with_context(context, lister_watcher, storage, store, options)
    }

    pub(crate) fn with_context(
        context: ReflectorContext,
        lister_watcher: L,
        storage: Storage<K>,
        store: S,
        options: ReflectorOptions,
    ) -> Self {
        let ReflectorContext { status, backoff_control, on_error, world } = context;
        let backoff = Backoff::new(world.clone(), &options);
        let progress = status.borrow().progress();
        Self {
            lister_watcher,
            decoder: ItemDecoder::new(storage, options.type_meta.clone()),
            store,
            options,
            status,
            progress,
            version: String::new(),
            version_rejected: false,
            stalled_watches: 0,
            not_installed: false,
            backoff,
            backoff_control,
            on_error,
            world,
            warned: None,
        }
    }

    /// Shows the status, also after the reflector has begun to run.
    pub fn status(&self) -> StatusReader {
        StatusReader::new(self.status.subscribe())
    }

    /// Lists and watches forever. Drop the future to end it: every write to the store is complete.
    pub async fn run(mut self) -> Infallible {
        loop {
            match self.list().await {
                Ok(watch) => self.watch(watch).await,
                Err(error) => {
                    self.not_installed = error.is_not_found();
                    self.back_off(&error).await;
                }
            }
        }
    }

    /// Whether the server has rejected the requested version. The newest state is requested next.
    fn rejects_version(&mut self, error: &Error) -> bool {
        let rejected = error.is_expired() || error.is_too_large_resource_version();
        // A request for the newest state has no version to reject: then the error is another one.
        let is_first = rejected && !self.version_rejected;
        self.version_rejected |= is_first;
        is_first
    }

    /// Reports an object that is skipped. Returns its key if that can be read.
    fn report_object(&self, error: ObjectError) -> Option<ObjectKey> {
        let key = error.key.as_ref().and_then(|key| key.parse().ok());
        report_unreadable(&self.status, error);
        key
    }

    /// The object. Reports it if decoding it was required and failed.
    fn reported(&self, stored: Stored<K>) -> Cached<K> {
        if let Some(error) = stored.decode_error {
            report_decode_error(&self.status, *error);
        }
        stored.object
    }

    fn enter(&self, phase: Phase) {
        self.status.send_modify(|status| status.enter(phase));
    }

    fn resource(&self) -> String {
        self.status.borrow().resource.clone()
    }
}

impl<K, L, S> Drop for Reflector<K, L, S> {
    fn drop(&mut self) {
        self.status.send_modify(|status| status.enter(Phase::Stopped));
    }
}
