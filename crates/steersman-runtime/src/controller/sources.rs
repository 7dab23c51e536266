//! The sources of a controller's keys.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use steersman_cache::{HandlerHandle, Informer, Object, ObjectKey, ReflectorStatus};
use steersman_workqueue::{AddOptions, WorkQueue};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Shared;
use super::enqueue::{Enqueue, EnqueueFor};
use crate::caches::{FOREVER, InUse, User};
use crate::flight_recorder::{Causes, Source, SourceInfo};
use crate::kind::Kind;
use crate::{Error, Manager};

/// A source of keys.
pub(crate) trait WatchSource: Send + Sync {
    /// Declares the cache that it needs.
    fn declare(&mut self, manager: &Manager, controller: &str) -> Result<(), Error>;

    /// Starts to add keys to the queue.
    fn attach(&mut self, shared: &Arc<Shared>, attached: &mut Attached) -> Result<(), Error>;

    /// Waits until its cache has synced, for as long as that takes.
    fn synced(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// The reflectors whose first list is missing.
    fn waiting(&self) -> Vec<ReflectorStatus>;
}

/// The sources that add keys to a queue. Dropping it stops them, and the queue accepts no more
/// keys.
pub(crate) struct Attached {
    pub(crate) queue: WorkQueue<ObjectKey, Causes>,
    pub(crate) handles: Vec<HandlerHandle>,
    pub(crate) channels: JoinSet<()>,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.handles.iter().for_each(HandlerHandle::remove);
        self.queue.shut_down();
    }
}

pub(crate) struct Watched<W> {
    pub(crate) kind: Kind<W>,
    pub(crate) informer: Option<Informer<W>>,
    /// Until the handler owns it.
    pub(crate) in_use: Option<InUse>,
    pub(crate) enqueue_for: EnqueueFor<W>,
    pub(crate) source: Source,
}

impl<W: Object> Watched<W> {
    pub(crate) fn listen(&mut self, informer: &Informer<W>, shared: &Arc<Shared>) -> Result<HandlerHandle, Error> {
        let mut conditions = std::mem::take(&mut self.kind.conditions);
        conditions.add(&shared.predicates);
        let handler = Enqueue {
            queue: shared.queue.clone(),
            conditions,
            enqueue_for: self.enqueue_for.clone(),
            kind: self.kind.identity.kind.clone(),
            panics: Arc::clone(&shared.panics),
            source: shared.recorder.is_some().then(|| SourceInfo::new(self.source, &self.kind.identity.kind)),
            _in_use: self.in_use.take(),
        };
        Ok(match self.kind.resync {
            None => informer.add_event_handler(handler)?,
            Some(every) => informer.add_event_handler_with_resync(handler, every)?,
        })
    }
}

impl<W: Object> WatchSource for Watched<W> {
    fn declare(&mut self, manager: &Manager, controller: &str) -> Result<(), Error> {
        let (found, in_use) = manager.declare_for(&mut self.kind, User::Controller(controller))?;
        (self.informer, self.in_use) = (Some(found.informer), in_use);
        Ok(())
    }

    fn attach(&mut self, shared: &Arc<Shared>, attached: &mut Attached) -> Result<(), Error> {
        if let Some(informer) = self.informer.clone() {
            attached.handles.push(self.listen(&informer, shared)?);
        }
        Ok(())
    }

    fn synced(&self) -> BoxFuture<'_, Result<(), Error>> {
        async move {
            match &self.informer {
                Some(informer) => Ok(informer.wait_for_sync(FOREVER).await?),
                None => Ok(()),
            }
        }
        .boxed()
    }

    fn waiting(&self) -> Vec<ReflectorStatus> {
        self.informer.iter().flat_map(Informer::waiting).collect()
    }
}

pub(crate) struct Channel(pub(crate) Option<mpsc::Receiver<ObjectKey>>);

impl WatchSource for Channel {
    fn declare(&mut self, _: &Manager, _: &str) -> Result<(), Error> {
        Ok(())
    }

    fn attach(&mut self, shared: &Arc<Shared>, attached: &mut Attached) -> Result<(), Error> {
        if let Some(mut keys) = self.0.take() {
            let shared = Arc::clone(shared);
            attached.channels.spawn(async move {
                while let Some(key) = keys.recv().await {
                    shared.add(key, AddOptions::new(), Source::Custom);
                }
            });
        }
        Ok(())
    }

    fn synced(&self) -> BoxFuture<'_, Result<(), Error>> {
        std::future::ready(Ok(())).boxed()
    }

    fn waiting(&self) -> Vec<ReflectorStatus> {
        Vec::new()
    }
}
