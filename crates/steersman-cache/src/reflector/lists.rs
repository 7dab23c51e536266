//! Reads all objects of a kind, as a streaming list or as a plain list.

use steersman_client::Error;
use steersman_wire::{ListMeta, ObjectError, WatchEvent};
use tokio::time::{Instant, timeout};

use super::Reflector;
use super::list_pipeline::{DecodedEntry, ListPipeline, RawEntry};
use super::lister_watcher::{ListOptions, ListStream, ListerWatcher, WatchStream};
use super::listing::Listing;
use super::status::Phase;
use super::store::ReflectorStore;
use crate::object::cached::{Cached, Object};

/// Why a streaming list did not complete.
enum WatchListError {
    /// The request failed.
    Failed(Error),
    /// The stream ended, or brought no object for too long.
    Incomplete,
    /// The server treated the request as a plain watch.
    Unsupported,
}

impl From<Error> for WatchListError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl<K: Object, L: ListerWatcher, S: ReflectorStore<K>> Reflector<K, L, S> {
    /// Reads all objects. Returns the watch if they came as the beginning of one.
    pub(super) async fn list(&mut self) -> Result<Option<L::Watch>, Error> {
        self.store.wait_until_applied().await;
        // A kind that is not installed is requested often, so one request per attempt is enough.
        while self.options.streaming && !self.not_installed {
            self.enter(Phase::Listing);
            match self.streaming_list().await {
                Ok(watch) => return Ok(Some(watch)),
                Err(WatchListError::Failed(error)) if error.is_too_many_requests() || error.is_connection_refused() => {
                    self.back_off(&error).await;
                }
                Err(WatchListError::Failed(error)) if self.rejects_version(&error) => {}
                Err(WatchListError::Failed(error)) => {
                    // 400 and 422 mean that the server does not support it at all.
                    self.options.streaming = error.status().is_none_or(|status| !matches!(status.code, 400 | 422));
                    tracing::debug!(resource = self.resource(), %error, "streaming list failed, using a plain list");
                    break;
                }
                Err(WatchListError::Incomplete) => {
                    tracing::debug!(resource = self.resource(), "streaming list incomplete, using a plain list");
                    break;
                }
                Err(WatchListError::Unsupported) => {
                    self.options.streaming = false;
                    tracing::debug!(resource = self.resource(), "streaming list not supported, using a plain list");
                }
            }
        }
        self.enter(Phase::Listing);
        loop {
            match self.plain_list().await {
                Ok(()) => return Ok(None),
                Err(error) if self.rejects_version(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads the list as the beginning of a watch.
    async fn streaming_list(&mut self) -> Result<L::Watch, WatchListError> {
        let version = if self.version_rejected { String::new() } else { self.version.clone() };
        let options = self.watch_options(version, true);
        let mut watch = self.lister_watcher.watch(&options).await?;
        let (mut listing, mut pipeline) = (Listing::new(), ListPipeline::new(self.decoder.clone()));
        let silence = self.options.streaming_silence;
        let mut last = Instant::now();
        loop {
            // A remaining time instead of a deadline: `Duration::MAX` from now has no `Instant`.
            let left = silence.saturating_sub(last.elapsed());
            let Ok(event) = timeout(left, watch.next()).await else { return Err(WatchListError::Incomplete) };
            let Some(event) = event? else { return Err(WatchListError::Incomplete) };
            let entry = match event {
                Ok(WatchEvent::Added(object)) => {
                    // Only additions are the list. A stream of other events may never complete it.
                    last = Instant::now();
                    RawEntry::Object(object)
                }
                // An object that changes during the list comes again: the last state counts.
                Ok(WatchEvent::Modified(object)) => RawEntry::Object(object),
                Ok(WatchEvent::Deleted(object)) => RawEntry::Deleted(object),
                Ok(WatchEvent::Bookmark { resource_version, initial_events_end: true }) => {
                    self.list_rest(pipeline, &mut listing).await;
                    self.replace(listing, resource_version);
                    return Ok(watch);
                }
                // The first bookmark of a streaming list marks its end.
                Ok(WatchEvent::Bookmark { .. }) => return Err(WatchListError::Unsupported),
                // The client turns ERROR events into errors.
                Ok(WatchEvent::Error(_)) => return Err(WatchListError::Incomplete),
                Err(error) => RawEntry::Unreadable(error),
            };
            self.list_entry(entry, &mut pipeline, &mut listing).await;
        }
    }

    /// Reads a list, in pages if the server returns pages.
    async fn plain_list(&mut self) -> Result<(), Error> {
        let version = match &*self.version {
            _ if self.version_rejected => String::new(),
            "" => "0".to_owned(),
            version => version.to_owned(),
        };
        let limit = version.is_empty().then_some(self.options.page_size).filter(|size| *size > 0);
        let mut options = ListOptions { resource_version: version, limit, continue_token: None };
        let mut listing = Listing::new();
        loop {
            let meta = match self.read_page(&options, &mut listing).await {
                // The server has compacted the version of the pages: request the whole list.
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
        let mut pipeline = ListPipeline::new(self.decoder.clone());
        let mut is_first = true;
        while let Some(item) = page.next().await? {
            let entry = match item {
                Ok(item) => RawEntry::Item(item),
                Err(error) => RawEntry::Unreadable(error),
            };
            if std::mem::take(&mut is_first) {
                pipeline.set_item_type(page.meta().item_type().or_else(|| self.options.type_meta.clone()));
            }
            self.list_entry(entry, &mut pipeline, listing).await;
        }
        self.list_rest(pipeline, listing).await;
        Ok(page.meta().clone())
    }

    /// Pushes an entry into the pipeline, and lists the entries that have left it.
    async fn list_entry(&self, entry: RawEntry, pipeline: &mut ListPipeline<K>, listing: &mut Listing<K>) {
        pipeline.push(entry);
        while let Some(decoded) = pipeline.next_decoded().await {
            self.list_decoded(decoded, listing);
        }
    }

    async fn list_rest(&self, mut pipeline: ListPipeline<K>, listing: &mut Listing<K>) {
        loop {
            let decoded = pipeline.rest().await;
            if decoded.is_empty() {
                return;
            }
            self.list_decoded(decoded, listing);
        }
    }

    fn list_decoded(&self, decoded: Vec<DecodedEntry<K>>, listing: &mut Listing<K>) {
        for entry in decoded {
            match entry {
                DecodedEntry::Present(Ok(stored)) => {
                    let object = self.reported(stored);
                    self.list_object(object, listing);
                }
                DecodedEntry::Present(Err(error)) => self.list_unreadable(error, listing),
                DecodedEntry::Deleted(key) => {
                    if let Some(key) = key.map_or_else(|error| self.report_object(error), Some) {
                        listing.remove(key);
                    }
                }
            }
        }
    }

    /// Adds an object to a list: the stored state, if it is the same one.
    fn list_object(&self, object: Cached<K>, listing: &mut Listing<K>) {
        // Before the first list the store is empty. Not looking saves a cache miss per object.
        if self.version.is_empty() {
            return listing.add(object);
        }
        let stored = self.store.get(object.meta().namespace(), object.meta().name());
        listing.add(stored.filter(|stored| stored.is_same_state(&object)).unwrap_or(object));
    }

    /// An object of a list that cannot be read exists, so it is not deleted from the store.
    fn list_unreadable(&self, error: ObjectError, listing: &mut Listing<K>) {
        if let Some(key) = self.report_object(error) {
            listing.add_unreadable(key);
        }
    }

    fn replace(&mut self, listing: Listing<K>, version: String) {
        let objects = listing.finish(|key| self.store.get(key.namespace().unwrap_or(""), key.name()));
        self.store.replace(objects, &version);
        self.progress.record();
        self.status.send_modify(|status| status.lists += 1);
        self.version = version;
        self.version_rejected = false;
        self.stalled_watches = 0;
        self.not_installed = false;
    }
}
