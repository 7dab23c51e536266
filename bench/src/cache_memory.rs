//! The job `cache-memory`: the memory of lists and updates. There is no server: lists and events
//! are generated while they are read, so that only the cache holds them.
//!
//! It leaves out handlers, which hold the previous state of undelivered events, and streaming
//! lists. The tests in `crates/steersman-cache/tests/informers/states.rs` have both, and count
//! states instead of bytes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use steersman_cache::{
    Informer, InformerConfig, ListOptions, ListStream, ListerWatcher, ReflectorOptions, StorageOptions, WatchOptions,
    WatchStream,
};
use steersman_client::{Error, ListMeta, ObjectError, RequestInfo, Status, WatchEvent};
use steersman_wire::{RawItem, TypeMeta};
use tokio::sync::{Mutex, mpsc};

use crate::contestant::{Ask, Outcome, Stopwatch, memory, reset_peak};
use crate::pods::{Pods, Shape};

/// How many objects are updated repeatedly.
const UPDATED: u64 = 1_000;
/// After this number, every buffer has its size.
const WARM: u64 = 100_000;
const UPDATES: u64 = 1_000_000;
const LIMIT: Duration = Duration::from_secs(120);
/// How long freed memory may take to return to the system.
const SETTLE: Duration = Duration::from_secs(1);

/// The next action of the simulated server.
enum Command {
    /// Drops all versions, so that the reflector lists again; one object in this number has
    /// changed.
    Relist { changed: u64 },
    /// Sends this number of updates of the first objects, one after the other.
    Update(u64),
}

#[derive(Clone)]
struct Script {
    pods: Arc<Pods>,
    size: u64,
    state: Arc<Mutex<State>>,
}

struct State {
    commands: mpsc::UnboundedReceiver<Command>,
    version: u64,
    /// One object in this number has the newest version.
    changed: u64,
    /// The number of updates to send.
    updates: u64,
}

struct Page {
    script: Script,
    next: u64,
    version: u64,
    changed: u64,
    meta: ListMeta,
}

impl ListerWatcher for Script {
    type List = Page;
    type Watch = Self;

    fn describe(&self) -> String {
        "Pods that are made as they are read".to_owned()
    }

    async fn list(&self, _: &ListOptions) -> Result<Page, Error> {
        let state = self.state.lock().await;
        let type_meta = TypeMeta { api_version: "v1".to_owned(), kind: "PodList".to_owned() };
        let meta = ListMeta { type_meta, resource_version: state.version.to_string(), ..ListMeta::default() };
        Ok(Page { script: self.clone(), next: 0, version: state.version, changed: state.changed, meta })
    }

    async fn watch(&self, _: &WatchOptions) -> Result<Self, Error> {
        Ok(self.clone())
    }
}

impl Script {
    fn pod(&self, index: u64, version: u64) -> Bytes {
        let mut pod = Vec::with_capacity(8 << 10);
        self.pods.write(index, version, &mut pod);
        pod.into()
    }
}

impl ListStream for Page {
    async fn next(&mut self) -> Result<Option<Result<RawItem, ObjectError>>, Error> {
        let index = self.next;
        if index == self.script.size {
            return Ok(None);
        }
        self.next += 1;
        let version = if index.is_multiple_of(self.changed) { self.version } else { 1 };
        Ok(Some(Ok(RawItem::new(usize::try_from(index).unwrap_or(usize::MAX), self.script.pod(index, version)))))
    }

    fn meta(&self) -> &ListMeta {
        &self.meta
    }
}

impl WatchStream for Script {
    async fn next(&mut self) -> Result<Option<Result<WatchEvent, ObjectError>>, Error> {
        let mut state = self.state.lock().await;
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
        let (index, version) = (state.version % UPDATED, state.version);
        Ok(Some(Ok(WatchEvent::Modified(self.pod(index, version).into()))))
    }
}

/// An informer of this number of Pods, and the control of its server.
async fn start(size: u64) -> Result<(Informer<Pod>, mpsc::UnboundedSender<Command>)> {
    let (sender, commands) = mpsc::unbounded_channel();
    let state = Arc::new(Mutex::new(State { commands, version: 1, changed: 1, updates: 0 }));
    let script = Script { pods: Arc::new(Pods::new(Shape::Plain)), size, state };
    let reflector = ReflectorOptions { streaming: false, ..ReflectorOptions::default() };
    let config = InformerConfig {
        kind: "Pod".to_owned(),
        storage: StorageOptions::default(),
        reflector,
        world: steersman_client::World::system(),
    };
    let informer = Informer::new(vec![(None, script)], config);
    informer.start()?;
    informer.wait_for_sync(LIMIT).await?;
    Ok((informer, sender))
}

async fn resident() -> Result<f64> {
    tokio::time::sleep(SETTLE).await;
    Ok(memory().resident.context("the system does not tell how much memory is resident")? as f64)
}

/// The largest size of the process while everything is listed again, relative to its size before.
async fn relist(
    informer: &Informer<Pod>,
    server: &mpsc::UnboundedSender<Command>,
    version: u64,
    changed: u64,
) -> Result<f64> {
    let before = resident().await?;
    reset_peak();
    server.send(Command::Relist { changed })?;
    informer.lister().wait_for_version(&version.to_string(), LIMIT).await?;
    Ok(memory().peak.context("the system does not tell the peak")? as f64 / before)
}

/// Runs the job. Must be called in a runtime.
pub async fn run(ask: &Ask) -> Result<Outcome> {
    let stopwatch = Stopwatch::start();
    let (informer, server) = start(ask.size).await?;
    let few = relist(&informer, &server, 2, 100).await?;
    let all = relist(&informer, &server, 3, 1).await?;
    let count = informer.lister().len() as u64;
    informer.stop().await.unwrap();
    drop((informer, server));

    let (informer, server) = start(UPDATED).await?;
    let update = async |updates: u64, version: u64| -> Result<f64> {
        server.send(Command::Update(updates))?;
        informer.lister().wait_for_version(&version.to_string(), LIMIT).await?;
        resident().await
    };
    let warm = update(WARM, 1 + WARM).await?;
    let end = update(UPDATES, 1 + WARM + UPDATES).await?;
    let held = informer.lister().len() as u64;
    ensure!(held == UPDATED, "the cache holds {held} Pods instead of {UPDATED}");
    let figures = vec![("relist_few_x", few), ("relist_all_x", all), ("updates_x", end / warm)];
    Ok(Outcome { count, cost: stopwatch.cost(), memory: Some(memory()), figures })
}
