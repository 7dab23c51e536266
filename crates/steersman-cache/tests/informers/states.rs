//! The number of states in memory during a relist, and while the same objects change repeatedly.
//! `bench` measures bytes; counting states does not depend on the machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use steersman_cache::{
    Event, Informer, InformerConfig, ListOptions, ListStream, ListerWatcher, ReflectorOptions, StorageOptions,
    WatchOptions, WatchStream, handler,
};
use steersman_client::{Error, RequestInfo, Status};
use steersman_wire::{ListMeta, ObjectError, RawItem, TypeMeta, WatchEvent};
use tokio::sync::{Mutex, mpsc};

use crate::common::*;

/// Largest number of states in transit, in addition to those in the cache: in the reflector's
/// batches, in the queue, and in pending events.
const ON_THE_WAY: usize = 3_000;

enum Command {
    /// Expires all versions, so that the reflector lists again. One object in `changed` has
    /// changed.
    Relist { changed: u64 },
    /// Sends this number of updates, of one object after the other.
    Update(u64),
}

/// A server that creates objects as they are read, so that only the cache holds them.
#[derive(Clone)]
struct Server {
    size: u64,
    state: Arc<Mutex<State>>,
    most: Most,
}

struct State {
    commands: mpsc::UnboundedReceiver<Command>,
    version: u64,
    /// One object in this number has the newest version.
    changed: u64,
    updates: u64,
}

/// The largest number of states at a time.
#[derive(Clone, Default)]
struct Most(Arc<(std::sync::OnceLock<Informer<ConfigMap>>, AtomicUsize)>);

impl Most {
    fn look(&self) {
        if let Some(informer) = self.0.0.get() {
            self.0.1.fetch_max(informer.metrics().storage.objects, Ordering::Relaxed);
        }
    }

    /// The largest number since the last call.
    fn take(&self) -> usize {
        self.0.1.swap(0, Ordering::Relaxed)
    }
}

/// A list, or a watch that may begin with one.
struct Feed {
    server: Server,
    /// The next object of the list.
    next: u64,
    version: u64,
    changed: u64,
    meta: ListMeta,
}

impl Server {
    /// The list from the object `next`.
    async fn feed(&self, next: u64) -> Feed {
        let State { version, changed, .. } = *self.state.lock().await;
        let type_meta = TypeMeta { api_version: "v1".to_owned(), kind: "ConfigMapList".to_owned() };
        let meta = ListMeta { type_meta, resource_version: version.to_string(), ..ListMeta::default() };
        Feed { server: self.clone(), next, version, changed, meta }
    }
}

fn object(index: u64, version: u64) -> bytes::Bytes {
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"map-{index}","namespace":"default","uid":"{index}",{}}}"#,
        format_args!(r#""resourceVersion":"{version}"}},"data":{{"value":"{version}"}}"#)
    )
    .into()
}

impl Feed {
    fn listed(&mut self) -> Option<bytes::Bytes> {
        self.server.most.look();
        let index = self.next;
        self.next += 1;
        let version = if index.is_multiple_of(self.changed) { self.version } else { 1 };
        (index < self.server.size).then(|| object(index, version))
    }
}

impl ListerWatcher for Server {
    type List = Feed;
    type Watch = Feed;

    fn describe(&self) -> String {
        "objects that are made as they are read".to_owned()
    }

    async fn list(&self, _: &ListOptions) -> Result<Feed, Error> {
        Ok(self.feed(0).await)
    }

    async fn watch(&self, options: &WatchOptions) -> Result<Feed, Error> {
        Ok(self.feed(if options.send_initial_events { 0 } else { u64::MAX }).await)
    }
}

impl ListStream for Feed {
    async fn next(&mut self) -> Result<Option<Result<RawItem, ObjectError>>, Error> {
        Ok(self.listed().map(|object| Ok(RawItem::new(0, object))))
    }

    fn meta(&self) -> &ListMeta {
        &self.meta
    }
}

impl WatchStream for Feed {
    async fn next(&mut self) -> Result<Option<Result<WatchEvent, ObjectError>>, Error> {
        if self.next <= self.server.size {
            let resource_version = self.version.to_string();
            let end = WatchEvent::Bookmark { resource_version, initial_events_end: true };
            return Ok(Some(Ok(self.listed().map_or(end, |object| WatchEvent::Added(object.into())))));
        }
        self.server.most.look();
        let mut state = self.server.state.lock().await;
        while state.updates == 0 {
            match state.commands.recv().await {
                Some(Command::Update(updates)) => state.updates = updates,
                Some(Command::Relist { changed }) => {
                    state.changed = changed;
                    state.version += 1;
                    let request = RequestInfo { method: Method::GET, url: "a watch".to_owned() };
                    let status = Box::new(Status::failure("too old", "Expired").with_code(410));
                    return Err(Error::Api { request, status });
                }
                None => std::future::pending().await,
            }
        }
        state.updates -= 1;
        state.version += 1;
        let object = object(state.version % self.server.size, state.version);
        Ok(Some(Ok(WatchEvent::Modified(object.into()))))
    }
}

/// An informer of `size` objects with a handler, its server, and the largest number of states.
async fn start(size: u64, streaming: bool) -> (Informer<ConfigMap>, mpsc::UnboundedSender<Command>, Most) {
    let (sender, commands) = mpsc::unbounded_channel();
    let (most, state) = (Most::default(), State { commands, version: 1, changed: 1, updates: 0 });
    let server = Server { size, state: Arc::new(Mutex::new(state)), most: most.clone() };
    let reflector = ReflectorOptions { streaming, ..ReflectorOptions::default() };
    let config = InformerConfig {
        kind: "things".to_owned(),
        storage: StorageOptions::default(),
        reflector,
        world: steersman_client::World::system(),
    };
    let informer = Informer::new(vec![(None, server)], config);
    most.0.0.set(informer.clone()).unwrap();
    let seen = most.clone();
    let handle = informer.add_event_handler(handler(move |_: &Event<ConfigMap>| seen.look())).unwrap();
    informer.start().unwrap();
    handle.wait_for_sync(LONG).await.unwrap();
    (informer, sender, most)
}

async fn reach(informer: &Informer<ConfigMap>, version: u64) {
    informer.lister().wait_for_version(&version.to_string(), LONG).await.unwrap();
    settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_relist_holds_nothing_twice_that_has_not_changed() {
    const SIZE: u64 = 10_000;
    for streaming in [false, true] {
        let (informer, server, most) = start(SIZE, streaming).await;
        let at_first = most.take();
        let (objects, held) = (SIZE as usize, || informer.metrics().storage.objects);
        assert!((objects..objects + ON_THE_WAY).contains(&at_first), "{at_first} states for a first list");
        server.send(Command::Relist { changed: 100 }).unwrap();
        reach(&informer, 2).await;
        let few = most.take();
        assert!((objects..objects + objects / 100 + ON_THE_WAY).contains(&few), "{few} states, 1 in 100 has changed");
        assert_eq!(held(), objects);
        server.send(Command::Relist { changed: 1 }).unwrap();
        reach(&informer, 3).await;
        let all = most.take();
        assert!((2 * objects..2 * objects + ON_THE_WAY).contains(&all), "{all} states, all have changed");
        assert_eq!(held(), objects);
        assert_eq!(informer.status()[0].lists, 3);
        informer.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn however_often_the_same_objects_change_there_are_no_more_states() {
    const SIZE: u64 = 1_000;
    let rounds = if std::env::var_os("STEERSMAN_SOAK").is_some() { 100 } else { 10 };
    let (informer, server, most) = start(SIZE, true).await;
    let (objects, mut version) = (SIZE as usize, 1);
    most.take();
    for round in 0..rounds {
        version += 10 * SIZE;
        server.send(Command::Update(10 * SIZE)).unwrap();
        reach(&informer, version).await;
        let seen = most.take();
        assert!((objects..objects + ON_THE_WAY).contains(&seen), "{seen} states in round {round}");
        let metrics = informer.metrics();
        assert_eq!((metrics.storage.objects, metrics.deltas_pending, metrics.events_pending), (objects, 0, 0));
    }
    informer.stop().await.unwrap();
}
