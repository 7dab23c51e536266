//! Follows the changes of a kind after a list.

use std::io;
use std::time::Duration;

use steersman_client::Error;
use steersman_wire::WatchEvent;
use tokio::time::Instant;

use super::Reflector;
use super::lister_watcher::{ListerWatcher, WatchOptions, WatchStream};
use super::status::Phase;
use super::store::ReflectorStore;
use crate::ObjectKey;
use crate::object::cached::{Cached, Object};

/// A watch that ends sooner without progress counts as a failure.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);
/// After this number of consecutive watches without progress, the reflector lists.
const STALLED_WATCHES_MAX: u32 = 5;

/// What to do after a watch.
enum Next {
    /// Watch again from the last version.
    Watch,
    /// List again.
    List,
}

impl<K: Object, L: ListerWatcher, S: ReflectorStore<K>> Reflector<K, L, S> {
    /// Watches from the last version, until a list is needed.
    pub(super) async fn watch(&mut self, mut begun: Option<L::Watch>) {
        loop {
            // Some proxies hold back the response head until the first event, so time counts from
            // here.
            let started = Instant::now();
            let next = match begun.take() {
                // The list at its beginning is progress.
                Some(watch) => self.follow(watch, started, true).await,
                None => match self.lister_watcher.watch(&self.watch_options(self.version.clone(), false)).await {
                    Ok(watch) => self.follow(watch, started, false).await,
                    Err(error) => self.after_failure(error, false).await,
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
        // From versions "" and "0", the server first sends existing objects in any order. Their
        // versions are no place to resume from.
        let mut in_order = !matches!(&*from, "" | "0");
        let error = loop {
            self.store.wait_for_capacity().await;
            match watch.next().await {
                Ok(Some(Ok(event))) => {
                    progressed = true;
                    self.progress.record();
                    in_order |= !matches!(event, WatchEvent::Added(_));
                    if let Some(key) = self.apply(event, in_order) {
                        self.delete_unread(&key).await;
                    }
                }
                // Without a key it may be no event at all, but the list of a gateway that ignores
                // `watch=true`.
                Ok(Some(Err(error))) => progressed |= self.report_object(error).is_some(),
                Ok(None) => {
                    self.status.send_modify(|status| status.count_restart(None));
                    break None;
                }
                Err(error) => break Some(error),
            }
        };
        if progressed {
            self.stalled_watches = 0;
        }
        let short = started.elapsed() < SHORTEST_WATCH;
        match error {
            Some(error) if error.status().is_some() || short => self.after_failure(error, progressed).await,
            // The connection broke.
            Some(error) => match self.next_after_failure(&error, progressed) {
                Next::List => {
                    self.back_off(&error).await;
                    Next::List
                }
                Next::Watch => {
                    self.report(&error);
                    Next::Watch
                }
            },
            // Compares versions instead of counting events: a watch whose events do not move the
            // version would be repeated in a busy loop.
            None if short && self.version == from => {
                self.back_off_from("the watch ended at once without events").await;
                if progressed { Next::Watch } else { self.next_after_stall() }
            }
            None if progressed => Next::Watch,
            // The server ends every watch after some minutes.
            None => match self.next_after_stall() {
                Next::List => {
                    self.back_off_from("the last watches ended without events, listing again").await;
                    Next::List
                }
                Next::Watch => Next::Watch,
            },
        }
    }

    /// Backs off after a watch that failed. Returns whether a list is needed.
    async fn after_failure(&mut self, error: Error, progressed: bool) -> Next {
        self.back_off(&error).await;
        self.next_after_failure(&error, progressed)
    }

    /// Whether a list is needed after a watch that failed.
    ///
    /// A list is expensive. It does not help while the server is unreachable or overloaded. After
    /// other transport failures, and after watches without progress, it waits for several of them.
    fn next_after_failure(&mut self, error: &Error, progressed: bool) -> Next {
        if error.is_too_many_requests() || error.is_connection_refused() || is_connection_reset(error) {
            return Next::Watch;
        }
        match error.status() {
            Some(status) if status.code < 500 || error.is_too_large_resource_version() => Next::List,
            None if progressed => Next::Watch,
            _ => self.next_after_stall(),
        }
    }

    /// Counts a watch without progress.
    fn next_after_stall(&mut self) -> Next {
        self.stalled_watches = self.stalled_watches.saturating_add(1);
        if self.stalled_watches < STALLED_WATCHES_MAX { Next::Watch } else { Next::List }
    }

    /// Writes an event into the store. Its version is where the next watch resumes, if events come
    /// `in_order`. Returns the key of a deleted object of which nothing else can be read.
    fn apply(&mut self, event: WatchEvent, in_order: bool) -> Option<ObjectKey> {
        let is_deleted = matches!(event, WatchEvent::Deleted(_));
        let (object, write): (_, fn(&S, Cached<K>)) = match event {
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
            // The client turns ERROR events into errors.
            WatchEvent::Error(_) => return None,
        };
        match self.decoder.decode(&object) {
            Ok(stored) => {
                let object = if is_deleted { stored.object } else { self.reported(stored) };
                let version = object.meta().resource_version();
                if in_order && !version.is_empty() {
                    version.clone_into(&mut self.version);
                }
                write(&self.store, object);
                None
            }
            Err(error) => self.report_object(error).filter(|_| is_deleted),
        }
    }

    /// Deletes an object whose final state cannot be read.
    async fn delete_unread(&self, key: &ObjectKey) {
        // A pending write may hold a later state, or the only one.
        self.store.wait_until_applied().await;
        if let Some(stored) = self.store.get(key.namespace().unwrap_or_default(), key.name()) {
            self.store.delete_unseen(stored);
        }
    }

    pub(super) fn watch_options(&self, resource_version: String, send_initial_events: bool) -> WatchOptions {
        // The cast saturates, also for `Duration::MAX`.
        let timeout_seconds = (self.options.watch_timeout.as_secs_f64() * (1.0 + self.world.random_unit())) as u32;
        WatchOptions { resource_version, send_initial_events, timeout_seconds }
    }
}

fn is_connection_reset(error: &Error) -> bool {
    matches!(error, Error::Transport { source, .. }
        if source.io().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionReset))
}
