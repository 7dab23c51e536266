//! Lists a kind, then watches it, and goes on doing so whatever happens.

pub(crate) mod backoff;
pub(crate) mod haste;
pub(crate) mod lister_watcher;
mod listing;
mod status;
mod storing;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use steersman_client::Error;
use steersman_wire::{ListMeta, ObjectError, TypeMeta, WatchEvent};
use steersman_world::World;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

pub use haste::Hurry;
pub use lister_watcher::{ApiListerWatcher, ListOptions, ListStream, ListerWatcher, WatchOptions, WatchStream};
pub(crate) use status::report_undecoded;
pub use status::{Phase, Reason, ReflectorError, ReflectorStatus};

use crate::object::cached::{Cached, Object};
use crate::object::storage::Kept;
use crate::{ObjectKey, Storage};
use backoff::{Backoff, JITTERED_MAX};
use haste::Haste;
use listing::Listing;
use status::report_unreadable;
use storing::{Raw, Reader, Stored, Storing};

/// Where a [`Reflector`] puts what it reads: usually a [`DeltaFifo`](crate::DeltaFifo).
pub trait ReflectorStore<K>: Send + Sync {
    /// The state of an object that is kept at the moment. A list that brings the same state again, any but the reflector's first,
    /// keeps this one, so that it is not in memory twice.
    fn known(&self, namespace: &str, name: &str) -> Option<Cached<K>>;

    /// An object is there.
    fn add(&self, object: Cached<K>);

    /// An object has changed.
    fn update(&self, object: Cached<K>);

    /// An object is gone; this is its last state.
    fn delete(&self, object: Cached<K>);

    /// An object is gone, and its last state cannot be read: this is the last one that is [`known`](Self::known).
    fn delete_unseen(&self, object: Cached<K>);

    /// Everything up to this version has been put in.
    fn bookmark(&self, resource_version: &str);

    /// These are all objects there are, at this version. Of several states of one object the last counts.
    fn replace(&self, objects: Vec<Cached<K>>, resource_version: &str);

    /// Waits until there is room for more.
    fn room(&self) -> impl Future<Output = ()> + Send;

    /// Waits until everything that was put in can be seen with [`known`](Self::known).
    fn applied(&self) -> impl Future<Output = ()> + Send;
}

/// How a [`Reflector`] asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReflectorOptions {
    /// Whether to try a watch that begins with all objects before a list. A server that cannot do it is listed.
    pub streaming: bool,
    /// How many objects a page of a list has. Pages are read where the newest state is asked for: other lists come from the
    /// server's memory, which gives them whole.
    pub page_size: u32,
    /// The shortest time after which the server is asked to end a watch; the longest is twice that.
    pub watch_timeout: Duration,
    /// How long a streaming list may bring no object before it is given up for a plain one.
    pub streaming_silence: Duration,
    /// What the objects are. Others are reported and passed over.
    pub type_meta: Option<TypeMeta>,
}

impl Default for ReflectorOptions {
    fn default() -> Self {
        Self {
            streaming: true,
            page_size: 500,
            watch_timeout: Duration::from_secs(300),
            streaming_silence: Duration::from_secs(10),
            type_meta: None,
        }
    }
}

/// A watch that ends sooner, and has brought nothing, is a failure.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);
/// After this number of watches in a row that fail or bring nothing, a list is tried.
const WATCH_FAILURES_MAX: u32 = 5;
/// The longest wait for a kind that is not installed. The shortest is half of it.
const MISSING_MAX: Duration = Duration::from_secs(3);
/// The same kind of failure is a warning in the log once in this time; the others are at the level
/// DEBUG.
const WARNING_EVERY: Duration = Duration::from_secs(60);
/// The longest Retry-After that is honoured: as long as the longest back-off.
const RETRY_AFTER_MAX: Duration = JITTERED_MAX;

/// Keeps a [`ReflectorStore`] as the server has it: lists, watches, and lists anew when the server has forgotten the version.
///
/// **What is promised.** What it puts into the store is, for each object, a subsequence of its states at the server, in their
/// order (contract 1). One object that cannot be read is reported in the status and passed over; no error ends the reflector
/// (contract 9). An object whose new state cannot be read keeps its old one; one that cannot be read as it goes is gone all the same. The
/// version of what was passed over is reached with the next event that can be read. Whatever the server does, it is not asked in a busy
/// loop. The tests in `tests/reflector` hold this, each line by a test.
///
/// **Watches without progress.** After five watches in a row that end without an event or a bookmark, the reflector backs off and
/// lists. So a proxy that holds back the head of a watch, or a gateway that ignores `watch=true`, delays the cache instead of
/// freezing it (test `five_watches_without_an_event_are_followed_by_a_list`). Refused and reset connections and 429 do not count:
/// a list would fail too, or add to the load. A quiet kind on a server without bookmarks is listed once per five watches.
///
/// **Back-off.** 0.8 s, doubled up to 30 s, each up to twice as long at random. A list that finds the kind not installed is
/// repeated after 1.5 to 3 s at most. A Retry-After is the shortest wait, up to 60 s; longer ones count as 60 s.
pub struct Reflector<K, L, S> {
    lister_watcher: L,
    reader: Reader<K>,
    store: S,
    options: ReflectorOptions,
    status: watch::Sender<ReflectorStatus>,
    /// Up to where everything has been read; empty before the first list.
    version: String,
    /// Whether the server has refused that version.
    version_refused: bool,
    /// How many watches in a row have failed, or ended without an event or a bookmark.
    watch_failures: u32,
    /// Whether the last list found that the kind is not installed.
    missing: bool,
    backoff: Backoff,
    world: World,
    haste: Arc<Haste>,
    /// The failure that was last logged as a warning, and when.
    warned: Option<(Reason, Instant)>,
}

/// Why a streaming list has not come to its end.
enum Unstreamed {
    /// The server refused, or could not be reached.
    Failed(Error),
    /// It ended or fell silent.
    Unfinished,
    /// The server took it for a plain watch.
    Unsupported,
}

impl From<Error> for Unstreamed {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// What to do after a watch.
enum Next {
    /// Watch again from the last version.
    Watch,
    /// List again.
    List,
}

impl<K, L: ListerWatcher, S> std::fmt::Debug for Reflector<K, L, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reflector").field("status", &*self.status.borrow()).finish_non_exhaustive()
    }
}

impl<K: Object, L: ListerWatcher, S: ReflectorStore<K>> Reflector<K, L, S> {
    /// A reflector that has not begun yet.
    pub fn new(lister_watcher: L, storage: Storage<K>, store: S, options: ReflectorOptions) -> Self {
        let status = watch::Sender::new(ReflectorStatus::new(lister_watcher.describe()));
        Self::reporting_to(status, Arc::default(), World::system(), lister_watcher, storage, store, options)
    }

    /// The same, with a status and a haste that others may know already.
    pub(crate) fn reporting_to(
        status: watch::Sender<ReflectorStatus>,
        haste: Arc<Haste>,
        world: World,
        lister_watcher: L,
        storage: Storage<K>,
        store: S,
        options: ReflectorOptions,
    ) -> Self {
        Self {
            lister_watcher,
            reader: Reader::new(storage, options.type_meta.clone()),
            store,
            options,
            status,
            version: String::new(),
            version_refused: false,
            watch_failures: 0,
            missing: false,
            backoff: Backoff::new(world.clone()),
            world,
            haste,
            warned: None,
        }
    }

    /// What it is doing, now and later.
    pub fn status(&self) -> watch::Receiver<ReflectorStatus> {
        self.status.subscribe()
    }

    /// Lists and watches for ever. Drop the future to end it: nothing is left half done in the store.
    pub async fn run(mut self) -> Infallible {
        loop {
            match self.list().await {
                Ok(watch) => self.watch(watch).await,
                Err(error) => {
                    self.missing = error.is_not_found();
                    self.back_off(&error).await;
                }
            }
        }
    }

    /// Reads all objects, and returns the watch if they came as the beginning of one.
    async fn list(&mut self) -> Result<Option<L::Watch>, Error> {
        self.store.applied().await;
        // A kind that is not installed is looked for often, with one request each time.
        while self.options.streaming && !self.missing {
            self.enter(Phase::Listing);
            match self.stream_list().await {
                Ok(watch) => return Ok(Some(watch)),
                Err(Unstreamed::Failed(error)) if error.is_too_many_requests() || error.is_connection_refused() => {
                    self.back_off(&error).await;
                }
                Err(Unstreamed::Failed(error)) if self.refuses_version(&error) => {}
                Err(Unstreamed::Failed(error)) => {
                    // A server that does not know how to will not learn it while we watch.
                    self.options.streaming = error.status().is_none_or(|status| !matches!(status.code, 400 | 422));
                    tracing::debug!(what = self.what(), %error, "no streaming list; listing");
                    break;
                }
                Err(Unstreamed::Unfinished) => {
                    tracing::debug!(what = self.what(), "the streaming list ended or fell silent; listing");
                    break;
                }
                Err(Unstreamed::Unsupported) => {
                    self.options.streaming = false;
                    tracing::debug!(what = self.what(), "the server has no streaming lists; listing");
                }
            }
        }
        self.enter(Phase::Listing);
        loop {
            match self.plain_list().await {
                Ok(()) => return Ok(None),
                Err(error) if self.refuses_version(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the server has refused the version that was asked for, so that the newest has to be asked for instead.
    fn refuses_version(&mut self, error: &Error) -> bool {
        let refused = error.is_expired() || error.is_too_large_resource_version();
        // The newest state cannot be refused for its version: then something else is wrong.
        let turn = refused && !self.version_refused;
        self.version_refused |= turn;
        turn
    }

    /// Reads the list as the beginning of a watch.
    async fn stream_list(&mut self) -> Result<L::Watch, Unstreamed> {
        let version = if self.version_refused { String::new() } else { self.version.clone() };
        let options = self.watch_options(version, true);
        let mut watch = self.lister_watcher.watch(&options).await?;
        let (mut listing, mut storing) = (Listing::new(), Storing::new(self.reader.clone()));
        let silence = self.options.streaming_silence;
        let mut last = Instant::now();
        loop {
            // The time left rather than a deadline: the longest silence there is has none.
            let left = silence.saturating_sub(last.elapsed());
            let Ok(event) = timeout(left, watch.next()).await else { return Err(Unstreamed::Unfinished) };
            let Some(event) = event? else { return Err(Unstreamed::Unfinished) };
            let raw = match event {
                Ok(WatchEvent::Added(object)) => {
                    // Only these are the list. Where changes alone come, its end does not.
                    last = Instant::now();
                    Raw::Object(object)
                }
                // One that changes meanwhile comes again: the last state counts.
                Ok(WatchEvent::Modified(object)) => Raw::Object(object),
                Ok(WatchEvent::Deleted(object)) => Raw::Gone(object),
                Ok(WatchEvent::Bookmark { resource_version, initial_events_end: true }) => {
                    self.list_rest(storing, &mut listing).await;
                    self.replace(listing, resource_version);
                    return Ok(watch);
                }
                // The first bookmark of a streaming list is its end.
                Ok(WatchEvent::Bookmark { .. }) => return Err(Unstreamed::Unsupported),
                // The client makes an error of it.
                Ok(WatchEvent::Error(_)) => return Err(Unstreamed::Unfinished),
                Err(error) => Raw::Unreadable(error),
            };
            self.list_raw(raw, &mut storing, &mut listing).await;
        }
    }

    /// Reads a list, page by page where it comes in pages.
    async fn plain_list(&mut self) -> Result<(), Error> {
        let version = match &*self.version {
            _ if self.version_refused => String::new(),
            "" => "0".to_owned(),
            version => version.to_owned(),
        };
        let limit = version.is_empty().then_some(self.options.page_size).filter(|size| *size > 0);
        let mut options = ListOptions { resource_version: version, limit, continue_token: None };
        let mut listing = Listing::new();
        loop {
            let meta = match self.read_page(&options, &mut listing).await {
                // The state that the pages are of is forgotten: all at once then.
                Err(error) if error.is_expired() && options.continue_token.is_some() => {
                    listing = Listing::new();
                    options = ListOptions { limit: None, continue_token: None, ..options };
                    continue;
                }
                meta => meta?,
            };
            if meta.continue_token.is_empty() {
                self.replace(listing, meta.resource_version);
                return Ok(());
            }
            options.continue_token = Some(meta.continue_token);
        }
    }

    async fn read_page(&mut self, options: &ListOptions, listing: &mut Listing<K>) -> Result<ListMeta, Error> {
        let mut page = self.lister_watcher.list(options).await?;
        let mut storing = Storing::new(self.reader.clone());
        let mut is_first = true;
        while let Some(item) = page.next().await? {
            let raw = match item {
                Ok(item) => Raw::Item(item),
                Err(error) => Raw::Unreadable(error),
            };
            if std::mem::take(&mut is_first) {
                storing.set_item_type(page.meta().item_type().or_else(|| self.options.type_meta.clone()));
            }
            self.list_raw(raw, &mut storing, listing).await;
        }
        self.list_rest(storing, listing).await;
        Ok(page.meta().clone())
    }

    /// Has the next of a list stored, and lists what is stored by now.
    async fn list_raw(&self, raw: Raw, storing: &mut Storing<K>, listing: &mut Listing<K>) {
        storing.push(raw);
        while let Some(stored) = storing.next_stored().await {
            self.list_stored(stored, listing);
        }
    }

    async fn list_rest(&self, mut storing: Storing<K>, listing: &mut Listing<K>) {
        loop {
            let stored = storing.rest().await;
            if stored.is_empty() {
                return;
            }
            self.list_stored(stored, listing);
        }
    }

    fn list_stored(&self, stored: Vec<Stored<K>>, listing: &mut Listing<K>) {
        for stored in stored {
            match stored {
                Stored::There(Ok(kept)) => {
                    let object = self.reported(kept);
                    self.list_object(object, listing);
                }
                Stored::There(Err(error)) => self.list_unreadable(error, listing),
                Stored::Gone(gone) => {
                    if let Some(key) = gone.map_or_else(|error| self.report_object(error), Some) {
                        listing.remove(key);
                    }
                }
            }
        }
    }

    /// Takes an object into a list: in the state that is kept already, if it is the same.
    fn list_object(&self, object: Cached<K>, listing: &mut Listing<K>) {
        // Before the first list nothing is kept, and not to ask saves a look at the memory of each object.
        if self.version.is_empty() {
            return listing.add(object);
        }
        let known = self.store.known(object.meta().namespace(), object.meta().name());
        listing.add(known.filter(|known| known.is_same_state(&object)).unwrap_or(object));
    }

    /// An object of a list that cannot be read exists all the same.
    fn list_unreadable(&self, error: ObjectError, listing: &mut Listing<K>) {
        if let Some(key) = self.report_object(error) {
            listing.add_unreadable(key);
        }
    }

    fn replace(&mut self, listing: Listing<K>, version: String) {
        let objects = listing.finish(|key| self.store.known(key.namespace().unwrap_or(""), key.name()));
        self.store.replace(objects, &version);
        self.status.send_modify(|status| status.lists += 1);
        self.version = version;
        self.version_refused = false;
        self.watch_failures = 0;
        self.missing = false;
    }

    /// Watches from the last version on, as long as there is no need to list.
    async fn watch(&mut self, mut begun: Option<L::Watch>) {
        loop {
            // Some proxies hold back the head of the answer until there is an event, so the time counts from here.
            let started = Instant::now();
            let next = match begun.take() {
                // The list that it began with is progress.
                Some(watch) => self.follow(watch, started, true).await,
                None => match self.lister_watcher.watch(&self.watch_options(self.version.clone(), false)).await {
                    Ok(watch) => self.follow(watch, started, false).await,
                    Err(error) => self.after(error, false).await,
                },
            };
            match next {
                Next::Watch => {}
                Next::List => return,
            }
        }
    }

    async fn follow(&mut self, mut watch: L::Watch, started: Instant, mut progressed: bool) -> Next {
        self.status.send_modify(|status| {
            status.enter(Phase::Watching);
            status.watches += 1;
        });
        let from = self.version.clone();
        // From such a version on, the server first sends what exists, in any order: the versions of those are no place to go on.
        let mut in_order = !matches!(&*from, "" | "0");
        let error = loop {
            self.store.room().await;
            match watch.next().await {
                Ok(Some(Ok(event))) => {
                    progressed = true;
                    in_order |= !matches!(event, WatchEvent::Added(_));
                    if let Some(key) = self.apply(event, in_order) {
                        self.delete_unread(&key).await;
                    }
                }
                // Without the key of an object it may be no event at all, but the list of a gateway that ignores `watch=true`.
                Ok(Some(Err(error))) => progressed |= self.report_object(error).is_some(),
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        if progressed {
            self.watch_failures = 0;
        }
        let short = started.elapsed() < SHORTEST_WATCH;
        match error {
            Some(error) if error.status().is_some() || short => self.after(error, progressed).await,
            // The connection broke.
            Some(error) => match self.next_after(&error, progressed) {
                Next::List => {
                    self.back_off(&error).await;
                    Next::List
                }
                Next::Watch => {
                    self.report(&error);
                    Next::Watch
                }
            },
            // Not only one without events: one that brings nothing that moves us would be started again and again.
            None if short && self.version == from => {
                self.back_off_from("the watch ended at once, with nothing in it").await;
                if progressed { Next::Watch } else { self.next_after_stall() }
            }
            None if progressed => Next::Watch,
            // The server ends a watch every few minutes.
            None => match self.next_after_stall() {
                Next::List => {
                    self.back_off_from("the last watches ended with nothing in them: listing").await;
                    Next::List
                }
                Next::Watch => Next::Watch,
            },
        }
    }

    /// Waits after a watch that failed, and returns whether a list is needed.
    async fn after(&mut self, error: Error, progressed: bool) -> Next {
        self.back_off(&error).await;
        self.next_after(&error, progressed)
    }

    /// Whether a list is needed after a watch that failed. A list is dear: not where the server is away or has too much to do, and
    /// where it fails in another way, or the watch brings nothing, not at once.
    fn next_after(&mut self, error: &Error, progressed: bool) -> Next {
        if error.is_too_many_requests() || error.is_connection_refused() || is_connection_reset(error) {
            return Next::Watch;
        }
        match error.status() {
            Some(status) if status.code < 500 || error.is_too_large_resource_version() => Next::List,
            None if progressed => Next::Watch,
            _ => self.next_after_stall(),
        }
    }

    /// Counts a watch that brought nothing.
    fn next_after_stall(&mut self) -> Next {
        self.watch_failures = self.watch_failures.saturating_add(1);
        if self.watch_failures < WATCH_FAILURES_MAX { Next::Watch } else { Next::List }
    }

    /// Puts an event into the store. Its version is where to go on, if events come `in_order`. Gives the key of an object that is gone, if
    /// nothing else of it can be read.
    fn apply(&mut self, event: WatchEvent, in_order: bool) -> Option<ObjectKey> {
        let is_gone = matches!(event, WatchEvent::Deleted(_));
        let (object, put): (_, fn(&S, Cached<K>)) = match event {
            WatchEvent::Added(object) => (object, S::add),
            WatchEvent::Modified(object) => (object, S::update),
            WatchEvent::Deleted(object) => (object, S::delete),
            WatchEvent::Bookmark { resource_version, .. } => {
                if !resource_version.is_empty() {
                    self.store.bookmark(&resource_version);
                    self.version = resource_version;
                }
                return None;
            }
            // The client makes an error of it.
            WatchEvent::Error(_) => return None,
        };
        match self.reader.read(&object) {
            Ok(kept) => {
                let object = if is_gone { kept.object } else { self.reported(kept) };
                let version = object.meta().resource_version();
                if in_order && !version.is_empty() {
                    version.clone_into(&mut self.version);
                }
                put(&self.store, object);
                None
            }
            Err(error) => self.report_object(error).filter(|_| is_gone),
        }
    }

    /// Takes an object out that is gone, though its last state cannot be read.
    async fn delete_unread(&self, key: &ObjectKey) {
        // What is on its way into the store may be a later state, or the only one.
        self.store.applied().await;
        if let Some(known) = self.store.known(key.namespace().unwrap_or_default(), key.name()) {
            self.store.delete_unseen(known);
        }
    }

    fn watch_options(&self, resource_version: String, send_initial_events: bool) -> WatchOptions {
        // Saturates, also where the time is the longest there is.
        let timeout_seconds = (self.options.watch_timeout.as_secs_f64() * (1.0 + self.world.random_unit())) as u32;
        WatchOptions { resource_version, send_initial_events, timeout_seconds }
    }

    /// Says that an object is passed over, and returns which one if that is known.
    fn report_object(&self, error: ObjectError) -> Option<ObjectKey> {
        let key = error.key.as_ref().and_then(|key| key.parse().ok());
        report_unreadable(&self.status, error);
        key
    }

    /// The object. If it was to be decoded and could not be, that has been said.
    fn reported(&self, kept: Kept<K>) -> Cached<K> {
        if let Some(error) = kept.undecoded {
            report_undecoded(&self.status, *error);
        }
        kept.object
    }

    fn report(&self, error: &Error) -> ReflectorError {
        let error = {
            let status = self.status.borrow();
            ReflectorError::new(&status.what, status.lists, error)
        };
        self.status.send_modify(|status| status.last_error = Some(error.clone()));
        error
    }

    async fn back_off(&mut self, error: &Error) {
        let delay = self.backoff.next(Instant::now());
        let delay =
            if self.missing { delay.min(MISSING_MAX.mul_f64(0.5 + self.world.random_unit() / 2.0)) } else { delay };
        let reported = self.report(error);
        self.wait(reported, delay, retry_after(error)).await;
    }

    /// Backs off after something that is no error of the client.
    async fn back_off_from(&mut self, problem: &str) {
        let delay = self.backoff.next(Instant::now());
        let message = format!("{}: {problem}", self.what());
        let (reason, cause) = (Reason::Other, problem.to_owned());
        self.wait(ReflectorError { reason, message, cause, at: Instant::now() }, delay, Duration::ZERO).await;
    }

    /// Waits for `delay`, or less if there is a hurry, but at least for `earliest`.
    async fn wait(&mut self, error: ReflectorError, delay: Duration, earliest: Duration) {
        let now = Instant::now();
        let delay = delay.max(earliest);
        let is_repeated = |(reason, at): (Reason, Instant)| reason == error.reason && now - at < WARNING_EVERY;
        if self.warned.is_some_and(is_repeated) {
            tracing::debug!(%error, ?delay, "waiting before it is tried again");
        } else {
            self.warned = Some((error.reason, now));
            tracing::warn!(%error, ?delay, "waiting before it is tried again");
        }
        self.status.send_modify(|status| {
            status.last_error = Some(error);
            status.enter(Phase::BackingOff { until: now + delay });
        });
        let status = &self.status;
        let shortened = |until| {
            status.send_modify(|status| {
                if matches!(status.phase, Phase::BackingOff { .. }) {
                    status.phase = Phase::BackingOff { until };
                }
            });
        };
        self.haste.sleep(now + delay, now + earliest, shortened).await;
        self.backoff.over(Instant::now());
    }

    fn enter(&self, phase: Phase) {
        self.status.send_modify(|status| status.enter(phase));
    }

    fn what(&self) -> String {
        self.status.borrow().what.clone()
    }
}

impl<K, L, S> Drop for Reflector<K, L, S> {
    fn drop(&mut self) {
        self.status.send_modify(|status| status.enter(Phase::Stopped));
    }
}

/// How long the server wants to be left alone.
fn retry_after(error: &Error) -> Duration {
    let details = error.status().and_then(|status| status.details.as_ref());
    let seconds = details.map_or(0, |details| details.retry_after_seconds);
    Duration::from_secs(seconds.into()).min(RETRY_AFTER_MAX)
}

fn is_connection_reset(error: &Error) -> bool {
    matches!(error, Error::Transport { source, .. }
        if source.io().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionReset))
}
